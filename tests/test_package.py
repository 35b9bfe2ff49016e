"""The package as a whole: names, what an import costs and changes, ids, who imports whom."""

import ast
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


# What an import costs, and that it changes nothing of the process.

IMPORT = f"""
import multiprocessing, os, random, signal, sys, threading, warnings
import gymnasium, numpy

def state():
    return {{
        "signal handlers": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "paths": [*sys.path],
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook),
        "warnings": [*warnings.filters],
        "random numbers": (random.getstate(), str(numpy.random.get_state())),
        "threads": threading.active_count(),
        "start method": multiprocessing.get_start_method(allow_none=True),
    }}

def heavy():
    return sorted(set({HEAVY}) & set(sys.modules))

state_before = state()
import mtwrappers
report = [heavy(), set(mtwrappers.__all__) <= set(dir(mtwrappers))]
report.append(mtwrappers.testing.check_mtenv.__name__)
sys.argv[0] = "mtwrappers"  # as in the command
import mtwrappers.cli.main
state_after = state()
report.append([name for name in state_before if state_before[name] != state_after[name]])
from mtwrappers import *
print([*report, set(mtwrappers.__all__) <= set(globals()), heavy()])
"""


def test_an_import_lists_all_names_is_silent_imports_nothing_heavy_and_changes_nothing():
    report = ast.literal_eval(run_python(IMPORT, "-W", "error"))
    assert report == [[], True, "check_mtenv", [], True, ["scipy"]]


# The registered ids.


def test_an_id_that_names_its_module_needs_no_import():
    code = (
        "import gymnasium; env = gymnasium.make('mtwrappers:mtwrappers/MultiEnv-v0'); "
        "print(env.reset(seed=0)[0].shape)"
    )
    assert run_python(code, "-W", "error") == "(8,)"


def test_registering_again_changes_nothing_not_even_an_id_that_another_took(monkeypatch):
    monkeypatch.setitem(registration.TABLE, "tests/Short-v0", ("other", {}, None))
    registry = dict(gymnasium.registry)
    registration.register_all()
    assert dict(gymnasium.registry) == registry


# Optional dependencies.


@pytest.mark.parametrize("module", ["no_such_module", "no_such_module.part"])
def test_a_missing_extra_says_how_to_install_it(module):
    expected = r"'no_such_module' is not installed; .*pip install '\.\[cli\]' in a clone"
    with pytest.raises(DependencyNotInstalled, match=expected):
        import_extra(module, "cli")


def test_an_extra_that_misses_a_module_of_its_own_says_which(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        import_extra("half_installed", "cli")


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
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


TREES = {module_name(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def list_imports(tree: ast.AST) -> Iterator[str]:
    """Every module that a source file imports, at its top, in a function, or by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_extra", "import_module", "__import__"):
                yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


@pytest.fixture(scope="module")
def imports() -> dict[str, list[str]]:
    return {module: [*list_imports(tree)] for module, tree in TREES.items()}


@pytest.fixture(scope="module")
def graph(imports: dict[str, list[str]]) -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports."""
    arrows = {}
    for module, names in imports.items():
        # `from package.module import name` is an arrow to the module.
        named = (name if name in TREES else name.rpartition(".")[0] for name in names)
        arrows[module] = {name for name in named if name in TREES} - {module, "mtwrappers"}
    return arrows


def floor(module: str) -> int:
    [index] = [i for i, names in enumerate(FLOORS) if module.split(".")[1] in names]
    return index


def test_every_import_goes_down_the_floors(graph):
    arrows = [(a, b) for a, imported in graph.items() if a != "mtwrappers" for b in imported]
    assert [f"{a} imports {b}" for a, b in arrows if floor(b) > floor(a)] == []


# `Protocol.evaluate` returns a result, and a result has a protocol.
METHODS_IMPORT = {
    "mtwrappers.evaluation.protocol": {
        "mtwrappers.evaluation.evaluating",  # in the method
        "mtwrappers.evaluation.result",  # for the checker of types
    },
    "mtwrappers.evaluation.protocol_text": {
        "mtwrappers.evaluation.protocol",  # for the checker of types
    },
}


def test_no_imports_go_round_in_a_circle(graph):
    arrows = {module: names - METHODS_IMPORT.get(module, set()) for module, names in graph.items()}
    try:
        assert len(list(TopologicalSorter(arrows).static_order())) == len(TREES)
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def test_seeds_and_checkers_do_not_depend_on_asserts_which_optimised_python_leaves_out():
    for module, tree in TREES.items():
        if module == "mtwrappers.core.mtenv" or module.startswith("mtwrappers.testing"):
            assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), module
