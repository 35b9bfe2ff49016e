import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gymnasium
import pytest
from gymnasium.error import DependencyNotInstalled

import mtwrappers
from mtwrappers.common import registration
from mtwrappers.common.extras import import_extra
from tests.fakes import ROOT, run_python

PACKAGE = ROOT / "mtwrappers"
HEAVY = ("metaworld", "mujoco", "matplotlib", "scipy", "imageio", "rich", "torch")

# The public surface.


def test_all_is_sorted_and_every_name_resolves_to_an_object_of_that_name():
    assert mtwrappers.__all__ == sorted(set(mtwrappers.__all__))
    for name in mtwrappers.__all__:
        value = getattr(mtwrappers, name)
        assert getattr(value, "__name__", name) == name  # protocols are a mapping


def test_the_names_of_what_is_replaced_are_public():
    expected = """
        ConstructEnvsSampler DiceMetaSampleProcessor DiceSampleProcessor EnvPoolSampler EnvUpdate
        ExistingEnvUpdate LinearFeatureBaseline LinearTimeBaseline MTEnv MetaIterativeEnvExecutor
        MetaParallelEnvExecutor MetaSampleProcessor MetaSampler MetaWorldSetTaskEnv
        MetaWorldTaskSampler MultiEnvWrapper NewEnvUpdate SampleProcessor Sampler SeedNotSetError
        SetTaskSampler SetTaskUpdate TaskNameWrapper TaskOnehotWrapper TaskSampler ZeroBaseline
    """
    assert set(expected.split()) <= set(mtwrappers.__all__)


def test_the_names_are_listed_before_they_were_used_and_a_star_import_brings_them():
    code = """
import mtwrappers
listed = set(dir(mtwrappers))
print(mtwrappers.testing.check_mtenv.__name__, set(mtwrappers.__all__) <= listed)
from mtwrappers import *
print(set(mtwrappers.__all__) <= set(globals()))
"""
    assert run_python(code).split() == ["check_mtenv", "True", "True"]


def test_the_version_is_that_of_the_distribution():
    assert mtwrappers.__version__ == importlib.metadata.version("mtwrappers")


# What an import costs.


@pytest.mark.parametrize(
    ("then", "may_import"), [("", []), ("[getattr(m, name) for name in m.__all__]", ["scipy"])]
)
def test_importing_the_package_and_all_names_is_silent_and_imports_nothing_heavy(then, may_import):
    code = f"import sys, mtwrappers as m\n{then}\nprint(sorted(set({HEAVY}) & set(sys.modules)))"
    assert ast.literal_eval(run_python(code, "-W", "error")) == may_import


PROCESS = """
import multiprocessing, os, random, signal, sys, threading, warnings
import gymnasium, numpy

def state():
    return {
        "signal handlers": [signal.getsignal(one) for one in sorted(signal.valid_signals())],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "paths": [*sys.path],
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook),
        "warnings": [*warnings.filters],
        "random numbers": (random.getstate(), str(numpy.random.get_state())),
        "threads": threading.active_count(),
        "start method": multiprocessing.get_start_method(allow_none=True),
    }

sys.argv[0] = "mtwrappers"  # as in the command
before = state()
import mtwrappers, mtwrappers.cli.main
after = state()
print([name for name in before if before[name] != after[name]])
"""


def test_importing_the_package_and_its_command_changes_nothing_of_the_process():
    assert run_python(PROCESS) == "[]"


# The registered ids.


def test_an_id_that_names_its_module_needs_no_import():
    code = (
        "import gymnasium; env = gymnasium.make('mtwrappers:mtwrappers/MultiEnv-v0'); "
        "print(env.reset(seed=0)[0].shape)"
    )
    assert run_python(code, "-W", "error") == "(8,)"


def test_registering_again_changes_nothing_not_even_an_id_that_another_took(monkeypatch):
    monkeypatch.setitem(registration.TABLE, "tests/Short-v0", ("other", {}, None))
    before = dict(gymnasium.registry)
    registration.register_all()
    assert dict(gymnasium.registry) == before


def test_every_id_of_meta_world_has_episodes_of_500_steps():
    names = {"MT1", "MT10", "MT25", "MT50"}
    names |= {
        f"{ml}-{kind}" for ml in ("ML1", "ML10", "ML25", "ML45") for kind in ("train", "test")
    }
    for name in names:
        assert gymnasium.spec(f"mtwrappers/{name}-v0").max_episode_steps == 500
    assert gymnasium.spec("mtwrappers/MultiEnv-v0").max_episode_steps is None


# Optional dependencies.


@pytest.mark.parametrize("module", ["no_such_module", "no_such_module.part"])
def test_a_missing_extra_says_how_to_install_it(module):
    expected = rf"'{module}' is not installed; .*pip install '\.\[cli\]' in a clone"
    with pytest.raises(DependencyNotInstalled, match=expected):
        import_extra(module, "cli")


def test_an_extra_that_misses_a_module_of_its_own_says_which(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        import_extra("half_installed", "cli")


# The project's files.

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_package_that_is_imported_is_declared():
    """Each of them has the name of its distribution, but for hyphens and the end of PufferLib's."""
    extras = PROJECT["optional-dependencies"].values()
    required = [*PROJECT["dependencies"], *(name for extra in extras for name in extra)]
    names = {re.match(r"[\w-]+", name)[0].replace("-", "_") for name in required}
    declared = {name.removesuffix("_core") for name in names}
    imported = {
        name.split(".")[0] for path in MODULES.values() for name in imports_of(path.read_text())
    }
    assert {"cloudpickle", "imageio_ffmpeg", "numpy", "ray"} <= imported
    assert imported - set(sys.stdlib_module_names) <= declared | {"mtwrappers"}


# Who imports whom.

# The floors of the house: a module imports from its own and from those before it.
FLOORS = (
    {"common"},
    {"state"},
    {"core"},
    {"vector"},
    {"wrappers"},
    {"envs", "metaworld"},
    {"tasks"},
    {"samplers"},
    {"processors"},
    {"evaluation"},
    {"continual"},
    {"adapters", "testing"},
    {"export"},
    {"cli"},
    {"__main__"},
)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(source: str) -> Iterator[str]:
    """Every module that a source file imports, at its top, in a function, or by its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_extra", "import_module", "__import__"):
                yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


def graph() -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports."""
    arrows = {}
    for module, path in MODULES.items():
        # `from package.module import name` is an arrow to the module.
        named = (n if n in MODULES else n.rpartition(".")[0] for n in imports_of(path.read_text()))
        arrows[module] = {name for name in named if name in MODULES} - {module, "mtwrappers"}
    return arrows


def floor(module: str) -> int:
    [found] = [i for i, names in enumerate(FLOORS) if module.split(".")[1] in names]
    return found


def test_every_import_goes_down_the_floors():
    arrows = graph()
    del arrows["mtwrappers"]  # it offers the names of all the others
    up = [f"{a} imports {b}" for a, own in arrows.items() for b in own if floor(b) > floor(a)]
    assert up == []


def test_no_imports_go_round_in_a_circle():
    try:
        assert len(list(TopologicalSorter(graph()).static_order())) == len(MODULES)
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def test_meta_world_is_imported_in_its_own_folder_alone():
    found = {
        module
        for module, path in MODULES.items()
        for name in imports_of(path.read_text())
        if name.split(".")[0] in ("metaworld", "mujoco")
    }
    assert found
    assert all(module.startswith("mtwrappers.metaworld.") for module in found)


def test_seeds_and_checkers_do_not_depend_on_asserts_which_optimised_python_leaves_out():
    for module, path in MODULES.items():
        if module == "mtwrappers.core.mtenv" or module.startswith("mtwrappers.testing"):
            nodes = ast.walk(ast.parse(path.read_text()))
            assert not any(isinstance(node, ast.Assert) for node in nodes), module
