"""What type checkers see of the package."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys

import pytest

import mtwrappers
from mtwrappers.continual import continual_world
from mtwrappers.metaworld import keywords
from mtwrappers.metaworld.env import MetaWorldMTEnv
from mtwrappers.metaworld.make import SETTINGS, VECTOR_SETTINGS
from mtwrappers.metaworld.upstream_names import UPSTREAM_NAMES
from mtwrappers.metaworld.wrapper_settings import WRAPPER_SETTINGS
from mtwrappers.vector.make import ExecutorOptions, SamplerOptions, VectorOptions
from mtwrappers.vector.settings import ExecutorSettings, Settings
from tests.fakes import ROOT

CODE = """\
import gymnasium
import mtwrappers
from mtwrappers import MultEnvWrapper
from mtwrappers import MultiEnvWrapper, as_sb3_vec_env, as_torchrl_env

def use(env: mtwrappers.MTEnv) -> None:
    mtwrappers.testing.check_mtenv(env)
    mtwrappers.Nothing
    as_sb3_vec_env(gymnasium.make_vec("mtwrappers/MT10-v0"))
    as_torchrl_env(gymnasium.make_vec("mtwrappers/MT10-v0"), device="cpu")
    MultiEnvWrapper([], initial_task_state=0).num_tasks
    MultiEnvWrapper([], initial_task=0)
    mtwrappers.protocols["rlinf"].evaluate(print).scores
    import logging
    mtwrappers.SampleProcessor(mtwrappers.ZeroBaseline(), log_sink=logging.getLogger())
    mtwrappers.DiceSampleProcessor(mtwrappers.ZeroBaseline(), 9, log_sink=logging.getLogger())
"""


KEYWORDS = """\
from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers import MetaSampler, PointGoalEnv, as_vector
from mtwrappers.continual import continual_world
from mtwrappers.envs import multi_env, point_goal
from mtwrappers.metaworld import make as metaworld
from mtwrappers.vector.make import make_executor

MetaSampler(PointGoalEnv, max, 1, 1, 1, workers=2, timeout=None)
MetaSampler(PointGoalEnv, max, 1, 1, 1, worker=2)
MetaSampler(PointGoalEnv, max, 1, 1, 1, timeout="5")
make_executor(PointGoalEnv, 2, workers=2, timeout=5, autoreset_mode="NextStep", journal=None)
make_executor(PointGoalEnv, 2, time_out=5)
make_executor(PointGoalEnv, 2, autoreset_mode="nextstep")
MetaParallelEnvExecutor(PointGoalEnv, 2, timeout=5.0, on_worker_failure="recover")
MetaParallelEnvExecutor(PointGoalEnv, 2, timout=5.0)
MetaIterativeEnvExecutor(PointGoalEnv, 2, on_worker_failure="retry")
as_vector("CartPole-v1", 4, workers=2, execution="parallel", timeout=5)
as_vector("CartPole-v1", 4, worker=2)
as_vector("CartPole-v1", 4, journal="yes")
metaworld.make_vec_env("MT10", render_mode="rgb_array", timeout=5, use_one_hot=True)
metaworld.make_vec_env("MT10", terminate_on_sucess=True)
metaworld.make_vec_env("MT10", unify="pad")
metaworld.make_vec_env("MT10", timeout="5")
metaworld.make_env("MT10", workers=2)
multi_env.make_vec_env(2, timeout=5, unify="pad")
multi_env.make_vec_env(2, timeouts=5)
point_goal.make_vec_env(2, execution="parallel", timeout="5")
continual_world.make_vec_env("CW10", steps_per_task=100, timeout=5)
continual_world.make_vec_env("CW10", step_per_task=100)
"""


def _mypy_errors(path, code):
    """The line and the beginning of each error that mypy finds in the code."""
    pytest.importorskip("mypy")
    path.write_text(code)
    # With the cache of the last `mypy` over the package, after which this takes a second.
    command = [sys.executable, "-m", "mypy", str(path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = re.findall(r"use\.py:(\d+): error: (.*?)(?:;|  \[)", process.stdout)
    return errors, process.stdout + process.stderr


@pytest.mark.slow
def test_mypy_finds_wrong_names_and_accepts_what_the_readme_does(tmp_path):
    errors, output = _mypy_errors(tmp_path / "use.py", CODE)
    assert errors == [
        ("3", 'Module "mtwrappers" has no attribute "MultEnvWrapper"'),
        ("8", 'Module has no attribute "Nothing"'),
        ("12", 'Unexpected keyword argument "initial_task" for "MultiEnvWrapper"'),
        ("13", '"EvaluationResult" has no attribute "scores"'),
    ], output


@pytest.mark.slow
def test_mypy_finds_misspelt_and_wrongly_typed_keywords(tmp_path):
    errors, output = _mypy_errors(tmp_path / "use.py", KEYWORDS)
    unexpected = r'Unexpected keyword argument "(\w+)" for "(\w+)"'
    misspelt = [(line, *re.findall(unexpected, text)[0]) for line, text in errors if "Unex" in text]
    wrong = r'Argument "(\w+)" to "(\w+)" has incompatible type'
    wrongly_typed = [(line, *re.findall(wrong, text)[0]) for line, text in errors if "Arg" in text]
    assert misspelt == [
        ("9", "worker", "MetaSampler"),
        ("12", "time_out", "make_executor"),
        ("15", "timout", "MetaParallelEnvExecutor"),
        ("18", "worker", "as_vector"),
        ("21", "terminate_on_sucess", "make_vec_env"),
        ("22", "unify", "make_vec_env"),
        ("24", "workers", "make_env"),
        ("26", "timeouts", "make_vec_env"),
        ("29", "step_per_task", "make_vec_env"),
    ], output
    assert wrongly_typed == [
        ("10", "timeout", "MetaSampler"),
        ("13", "autoreset_mode", "make_executor"),
        ("16", "on_worker_failure", "MetaIterativeEnvExecutor"),
        ("19", "journal", "as_vector"),
        ("23", "timeout", "make_vec_env"),
        ("27", "timeout", "make_vec_env"),
    ], output
    assert len(errors) == len(misspelt) + len(wrongly_typed)


def _keys(typed_dict):
    return set(typed_dict.__optional_keys__)


def test_typed_keywords_of_executors_are_the_settings():
    sizes = {"meta_batch_size", "envs_per_task", "max_path_length"}
    settings = {field.name for field in dataclasses.fields(Settings)} - sizes
    assert _keys(ExecutorSettings) == _keys(ExecutorOptions) == settings
    assert _keys(SamplerOptions) == settings - {"autoreset_mode"}
    assert _keys(VectorOptions) == settings - {"unify"} | {"execution"}


def test_typed_keywords_of_metaworld_are_the_arguments_that_its_classes_take():
    assert _keys(keywords.ClassKeywords) == set(SETTINGS)
    assert _keys(keywords.ObservationKeywords) == set(WRAPPER_SETTINGS)
    assert _keys(keywords.UpstreamKeywords) == set(UPSTREAM_NAMES)
    of_env = set(inspect.signature(MetaWorldMTEnv).parameters) - {"benchmark", "options"}
    assert of_env <= _keys(keywords.EnvKeywords)
    assert set(VECTOR_SETTINGS) <= _keys(keywords.VectorKeywords)
    of_stream = set(inspect.signature(continual_world.make_env).parameters)
    of_vector = set(inspect.signature(continual_world.make_vec_env).parameters)
    assert of_stream - of_vector <= _keys(continual_world.VectorKeywords)


def test_the_stub_offers_every_name_that_it_imports():
    """Type checkers hide what is not imported under its own name."""
    stub = ast.parse((ROOT / "mtwrappers" / "__init__.pyi").read_text())
    aliases = [a for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert sorted(a.name for a in aliases) == sorted([*mtwrappers.__all__, "testing"])
    assert [a.name for a in aliases if a.asname != a.name] == []
