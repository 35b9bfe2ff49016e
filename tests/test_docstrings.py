"""The examples of docstrings, as a reader pastes them: into a session that has no names yet."""

import ast
import doctest
import importlib
import inspect
import itertools
import pkgutil
import re

import pytest
from gymnasium.error import DependencyNotInstalled

from mtwrappers.metaworld.agent_view import UPSTREAM
from mtwrappers.metaworld.env import MetaWorldMTEnv
from mtwrappers.metaworld.make import EXECUTOR, KEYWORDS, VECTOR_SETTINGS, parameters_of
from mtwrappers.metaworld.tasks import OPTIONS
from mtwrappers.vector.make import EXECUTOR_OPTIONS
from tests.fakes import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "mtwrappers").rglob("*.py")
    if ">>> " in path.read_text()
)


class Runner(doctest.DocTestRunner):
    """Skips what needs a library that is not installed."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if isinstance(exc_info[1], DependencyNotInstalled):
            pytest.skip(str(exc_info[1]))
        super().report_unexpected_exception(out, test, example, exc_info)


# Its example starts workers many times over.
SLOW = ("mtwrappers.testing.check",)


def of_attributes(module):
    """The docstrings of a module's attributes, by their names: those below an assignment."""
    body = ast.parse(inspect.getsource(module)).body
    for one, below in itertools.pairwise(body):
        if isinstance(one, ast.Assign) and isinstance(below, ast.Expr):
            yield one.targets[0].id, ast.literal_eval(below.value)


def examples(module):
    found = doctest.DocTestFinder().find(module, globs={})
    parse = doctest.DocTestParser().get_doctest
    texts = of_attributes(module)
    found += [parse(inspect.cleandoc(text), {}, name, None, None) for name, text in texts]
    return [one for one in found if one.examples]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODULES]
)
def test_each_example_runs_in_an_empty_namespace(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    runner, failures = Runner(verbose=False), []
    found = examples(module)
    assert found
    for one in found:
        runner.run(one, out=failures.append)
    assert not failures, "".join(failures)


PAGES = "\n".join(page.read_text() for page in sorted((ROOT / "docs/api").glob("*.md")))
ENTRIES = re.findall(
    r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?$", PAGES, re.MULTILINE
)
# An error is raised, and of these an example would say no more than that of another name: the
# classes that others derive from, the fields of batches, what `make_class_env`
# makes, and what needs a Ray cluster, LeRobot or vla-eval.
WITHOUT = {
    "mtwrappers.EnvUpdate",
    "mtwrappers.TaskSampler",
    "mtwrappers.adapters.lerobot.MTWrappersEnv",
    "mtwrappers.adapters.lerobot_envs.LeRobotEnv",
    "mtwrappers.adapters.vla_eval.MetaWorldBenchmark",
    "mtwrappers.core.task_list.TaskSetMTEnv",
    "mtwrappers.processors.baselines.LinearBaseline",
    "mtwrappers.processors.batches.DiceMetaSamplesData",
    "mtwrappers.processors.batches.DiceSamplesData",
    "mtwrappers.processors.batches.MetaSamplesData",
    "mtwrappers.processors.batches.SamplesData",
    "mtwrappers.vector.make.Executor",
    "mtwrappers.vector.make.MetaRayEnvExecutor",
}


def names_of(entry, members):
    """An entry of the reference and its object, or the names of a module's and theirs."""
    found = pkgutil.resolve_name(entry)
    if not inspect.ismodule(found):
        return {entry: found}
    own = [name for name in vars(found) if not name.startswith("_")]
    of_module = {name: getattr(found, name) for name in (members.split(", ") if members else own)}
    return {
        f"{entry}.{name}": one
        for name, one in of_module.items()
        if getattr(one, "__module__", None) == entry and callable(one)
    }


def docstrings_of(name, found):
    if isinstance(found, type):
        methods = (one for one in vars(found).values() if inspect.isroutine(one))
        return [found.__doc__, *(one.__doc__ for one in methods)]
    if callable(found):
        return [found.__doc__]
    home = importlib.import_module(type(found).__module__)
    return [dict(of_attributes(home))[name.rpartition(".")[2]]]


@pytest.mark.parametrize(("entry", "members"), ENTRIES)
def test_each_name_of_the_reference_has_an_example(entry, members):
    try:
        names = names_of(entry, members)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    errors = {n for n, one in names.items() if inspect.isclass(one) and issubclass(one, Exception)}
    without = {
        name
        for name, one in names.items()
        if not any(">>> " in (text or "") for text in docstrings_of(name, one))
    }
    assert without - errors == WITHOUT & names.keys()


def test_the_names_without_an_example_are_in_the_reference():
    entries = {entry for entry, _ in ENTRIES}
    assert {name for name in WITHOUT if not {name, name.rpartition(".")[0]} & entries} == set()


# Phrases for which a reader has to look elsewhere before knowing what an argument is.
ELSEWHERE = re.compile(
    r"arguments are those of|^ +\S+: (?:As (?:in|for|there)|See there|Those of|The arguments of)",
    re.MULTILINE,
)


@pytest.mark.parametrize(("entry", "members"), ENTRIES)
def test_the_arguments_are_described_where_a_reader_looks_for_them(entry, members):
    try:
        names = names_of(entry, members)
    except DependencyNotInstalled as error:
        pytest.skip(str(error))
    texts = [text or "" for name, one in names.items() for text in docstrings_of(name, one)]
    assert [found for text in texts for found in ELSEWHERE.findall(text)] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vector.make.Executor", EXECUTOR_OPTIONS - {"execution"}),
        ("vector.settings.Settings", EXECUTOR_OPTIONS - {"execution"}),
        ("vector.make.make_executor", EXECUTOR_OPTIONS),
        ("as_vector", EXECUTOR_OPTIONS),
        ("envs.multi_env.make_vec_env", EXECUTOR_OPTIONS),
        ("MetaSampler", EXECUTOR_OPTIONS - {"autoreset_mode"}),
        ("metaworld.make.make_env", parameters_of(MetaWorldMTEnv) | KEYWORDS),
        ("metaworld.make.make_vec_env", {*VECTOR_SETTINGS, *EXECUTOR, *OPTIONS}),
    ],
)
def test_arguments_that_are_described_elsewhere_are_named(name, arguments):
    found = pkgutil.resolve_name(f"mtwrappers.{name}").__doc__
    named = {*re.findall(r"``(\w+)", found), *re.findall(r"^ +\**(\w+): ", found, re.MULTILINE)}
    assert arguments - {"benchmark", "kind", *UPSTREAM} - named == set()
