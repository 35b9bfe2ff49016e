"""The words of the tables of odd calls, and how a line of such a table is checked.

A line is ``call -> Error: message``. The message begins so; ``...`` stands for any text.
"""

import re
import threading
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import ClipReward

import mtwrappers.testing
from mtwrappers.common.errors import full_message
from mtwrappers.evaluation import Episode, EvaluationResult
from mtwrappers.processors.returns import discounted_sums
from mtwrappers.wrappers.action_repeat import ActionRepeat
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers
from tests.mixed_envs import ARMS

NAN, INF = float("nan"), float("inf")
PATH = {"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1)), "rewards": np.ones(3)}
PATH["terminated"] = PATH["truncated"] = np.zeros(3, bool)


class Odd(CountingEnv):
    """A `CountingEnv` whose steps are changed: ``Odd(reward="a")`` rewards with "a"."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes
        self.observation_space = changes.get("space", self.observation_space)

    def _obs(self):
        return self.changes.get("obs", super()._obs())

    def _info(self):
        return self.changes.get("info", super()._info())

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, self.changes.get("reward", reward), *rest


class Uncopyable(CountingEnv):
    def __deepcopy__(self, memo):
        raise RuntimeError("it holds a socket")


def do(thing, *calls):
    """Makes calls of a thing, one after another."""
    for call in calls:
        eval(f"thing.{call}", {**globals(), **NAMES, "thing": thing})


def processed(*changes):
    paths = [{**PATH, **change} for change in changes]
    return mtwrappers.SampleProcessor(mtwrappers.ZeroBaseline()).process_samples(paths)


def sampler(env=mtwrappers.PointGoalEnv, policy=np.negative, **given):
    sizes = {"rollouts_per_meta_task": 2, "meta_batch_size": 2, "max_path_length": 5}
    return mtwrappers.MetaSampler(env, policy, **{**sizes, **given})


def judged(env):
    """Evaluates on one environment of counting kind."""
    envs = mtwrappers.MetaIterativeEnvExecutor(env, 1)
    return mtwrappers.evaluate(lambda obs: np.zeros(1, int), envs, 1)


RESULT = EvaluationResult([Episode("a", 0, 1.0, 3)])
NAMES = {
    **{name: getattr(mtwrappers, name) for name in mtwrappers.__all__},
    **vars(mtwrappers.testing),
    **{c.__name__: c for c in (Box, ClipReward, Dict, Discrete, SyncVectorEnv, threading)},
    **{c.__name__: c for c in (ActionRepeat, MetaVectorWrapper, TerminateOnSuccess)},
    "discounted_sums": discounted_sums,
    "CountingSetTaskEnv": CountingSetTaskEnv,
    **{"TWO": ("MT10", "--task", "push-v3"), "THIS": __file__},
    "adapts": SimpleNamespace(adapt=print, get_actions=print),
    "begins": SimpleNamespace(begin_trial=print, get_actions=print),
    "drawing": lambda to=0: mtwrappers.MultiEnvWrapper(
        counting_makers(2), select=lambda *_: to, sample_tasks_on_reset=True
    ),
    "point_disabled": lambda: NAMES["make_vec"]("PointGoal", autoreset_mode="Disabled"),
    "arms": lambda: mtwrappers.MultiEnvWrapper(
        ARMS, unify={"observation_size": 4, "action_size": 3}
    ),
    "UNEQUAL": ["tests/Short-v0", "tests/Long-v0"],
    "BEGUN": ("reset()", "step(0)"),
    "BOX": Box(0, 1, (1,)),
    "bytes_and": lambda space: mtwrappers.EnvToMTEnv(
        CountingEnv(dtype=np.uint8, high=9), [0], print, task_obs=int, task_observation_space=space
    ),
    "of_task": lambda task: mtwrappers.TaskNameWrapper(CountingEnv(), task_id=task),
    "counting": counting_makers,
    "goals": partial(mtwrappers.EnvToMTEnv, mtwrappers.PointGoalEnv()),
    "multi": partial(mtwrappers.MultiEnvWrapper, counting_makers(2)),
    "differing": lambda: mtwrappers.MultiEnvWrapper(
        [CountingEnv, partial(CountingEnv, num_actions=3)]
    ),
    "images": partial(Odd, space=Box(0, 255, (56, 56, 3), np.uint8)),
    "three": partial(mtwrappers.MetaIterativeEnvExecutor, counting_makers(3), 3),
    "dict_actions": lambda: gymnasium.wrappers.TransformAction(
        CountingEnv(), dict, gymnasium.spaces.Dict({"a": Discrete(2)})
    ),
    "closed": lambda: (envs := NAMES["three"](), envs.close())[0],
    "pool": lambda: mtwrappers.EnvPoolSampler([CountingEnv()]),
    "make": lambda name, **given: gymnasium.make(f"mtwrappers/{name}-v0", **given),
    "make_vec": lambda name, **given: gymnasium.make_vec(f"mtwrappers/{name}-v0", **given),
}


def lines(table):
    return pytest.mark.parametrize("line", [line for line in table.splitlines() if line])


def check(line, **names):
    call, says = line.split(" -> ")
    raised = None
    try:
        eval(call, {**globals(), **NAMES, **names})
    except Exception as exc:
        raised = exc
    said = f"{type(raised).__name__}: {full_message(raised)}"
    assert re.match(re.escape(says).replace(re.escape("..."), ".*"), said, re.DOTALL), said
