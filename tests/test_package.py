import ast
import importlib.metadata
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled

import mtwrappers
from mtwrappers import registration
from mtwrappers._extras import import_extra
from tests.fakes import ROOT, run_python

PACKAGE = ROOT / "mtwrappers"
HEAVY = ("metaworld", "mujoco", "matplotlib", "scipy", "imageio", "rich")
PRINT_HEAVY = f"import sys; print(sorted(set({HEAVY}) & set(sys.modules)))"

# The public surface.


def test_all_is_sorted_and_without_repeats():
    assert mtwrappers.__all__ == sorted(set(mtwrappers.__all__))


def test_every_public_name_resolves_to_an_object_of_that_name():
    for name in mtwrappers.__all__:
        assert getattr(mtwrappers, name).__name__ == name


def test_the_names_of_what_is_replaced_are_public():
    expected = {
        *("MTEnv", "MultiEnvWrapper"),
        *("TaskOnehotWrapper", "TaskNameWrapper", "MetaWorldSetTaskEnv"),
        *("TaskSampler", "ConstructEnvsSampler", "EnvPoolSampler", "SetTaskSampler"),
        *("MetaWorldTaskSampler", "EnvUpdate", "NewEnvUpdate", "SetTaskUpdate"),
        *("ExistingEnvUpdate", "Sampler", "MetaSampler", "SampleProcessor"),
        *("MetaSampleProcessor", "DiceSampleProcessor", "DiceMetaSampleProcessor"),
        *("MetaIterativeEnvExecutor", "MetaParallelEnvExecutor"),
        *("ZeroBaseline", "LinearFeatureBaseline", "LinearTimeBaseline"),
        *("SeedNotSetError", "WorkerDiedError", "EnvToMTEnv", "FlattenMTEnv"),
    }
    assert expected <= set(mtwrappers.__all__)


def test_dir_lists_the_public_names_before_they_were_used():
    code = "import mtwrappers; print(set(mtwrappers.__all__) <= set(dir(mtwrappers)))"
    assert run_python(code) == "True"


def test_a_star_import_brings_every_public_name():
    namespace: dict[str, object] = {}
    exec("from mtwrappers import *", namespace)
    assert set(mtwrappers.__all__) <= set(namespace)


def test_the_checkers_need_no_import_of_their_own():
    code = "import mtwrappers; print(mtwrappers.testing.check_mtenv.__name__)"
    assert run_python(code) == "check_mtenv"


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'mtwrappers' has no attribute 'Nothing'"):
        mtwrappers.Nothing  # noqa: B018


def test_the_version_is_that_of_the_distribution():
    assert mtwrappers.__version__ == importlib.metadata.version("mtwrappers")


# What an import costs.


@pytest.mark.parametrize("flags", [[], ["-W", "error"], ["-O"]])
def test_importing_the_package_is_silent_and_imports_nothing_heavy(flags):
    assert run_python(f"import mtwrappers; {PRINT_HEAVY}", *flags) == "[]"


def test_resolving_every_public_name_needs_no_optional_dependency():
    code = "import mtwrappers as m; [getattr(m, name) for name in m.__all__]; import sys; "
    optional = tuple(name for name in HEAVY if name != "scipy")
    code += f"print(sorted(set({optional}) & set(sys.modules)))"
    assert run_python(code, "-W", "error") == "[]"


@pytest.mark.parametrize("first", ["gymnasium", "mtwrappers"])
def test_gymnasium_and_the_package_import_in_either_order(first):
    second = {"gymnasium": "mtwrappers", "mtwrappers": "gymnasium"}[first]
    code = f"import {first}, {second}, gymnasium; print('mtwrappers/MT10-v0' in gymnasium.registry)"
    assert run_python(code, "-W", "error") == "True"


# The registered ids.


def test_an_id_that_names_its_module_needs_no_import():
    code = (
        "import gymnasium; env = gymnasium.make('mtwrappers:mtwrappers/MultiEnv-v0'); "
        "print(env.reset(seed=0)[0].shape)"
    )
    assert run_python(code, "-W", "error") == "(8,)"


def test_the_table_holds_every_id():
    names = ["MT1", "MT10", "MT25", "MT50", "MultiEnv"]
    for name in ("ML1", "ML10", "ML25", "ML45"):
        names += [f"{name}-train", f"{name}-test"]
    assert {f"mtwrappers/{name}-v0" for name in names} <= set(registration.TABLE)


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    registration.register_all()
    assert dict(gymnasium.registry) == before


def test_registering_keeps_an_id_that_is_already_there(monkeypatch):
    monkeypatch.setitem(registration.TABLE, "tests/Taken-v0", ("other", {}, None))
    gymnasium.register("tests/Taken-v0", "tests.fakes:CountingEnv")
    try:
        registration.register_all()
        assert gymnasium.spec("tests/Taken-v0").entry_point == "tests.fakes:CountingEnv"
    finally:
        del gymnasium.registry["tests/Taken-v0"]


@pytest.mark.parametrize("env_id", registration.TABLE)
def test_every_registered_spec_survives_json(env_id):
    spec = gymnasium.spec(env_id)
    assert EnvSpec.from_json(spec.to_json()) == spec


def test_an_episode_of_meta_world_has_500_steps():
    specs = [gymnasium.spec(env_id) for env_id in registration.TABLE]
    steps = [spec.max_episode_steps for spec in specs if ".metaworld." in spec.entry_point]
    assert len(steps) >= 12
    assert set(steps) == {500}


def test_an_episode_of_many_environments_is_as_long_as_they_say():
    assert gymnasium.spec("mtwrappers/MultiEnv-v0").max_episode_steps is None


# Optional dependencies.


def test_an_extra_that_is_installed_is_imported():
    assert import_extra("json.decoder", "cli").__name__ == "json.decoder"


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


# Who imports whom.

# The floors of the house: a module imports from its own and from those before it.
FLOORS = (
    {"_extras", "checks", "errors", "registration", "seeding", "spaces", "state"},
    {"core", "history", "selection", "task_list"},
    {"vector"},
    {"wrappers"},
    {"envs", "metaworld"},
    {"tasks"},
    {"samplers"},
    {"processors"},
    {"evaluation"},
    {"adapters", "testing"},
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
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            called = called.id if isinstance(called, ast.Name) else called
            if called in ("import_extra", "import_module", "__import__"):
                yield str(node.args[0].value)


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


def test_no_file_is_longer_than_300_lines():
    lengths = {module: len(path.read_text().splitlines()) for module, path in MODULES.items()}
    assert {module: n for module, n in lengths.items() if n > 300} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", ["a.b"]),
        ("import a, b as c", ["a", "b"]),
        ("from a.b import c, d", ["a.b.c", "a.b.d"]),
        ("def f():\n    from a import b", ["a.b"]),
        ("import_extra('metaworld', 'metaworld')", ["metaworld"]),
        ("importlib.import_module('mujoco')", ["mujoco"]),
        ("print('metaworld')", []),
    ],
)
def test_every_kind_of_import_is_read(source, expected):
    assert list(imports_of(source)) == expected
