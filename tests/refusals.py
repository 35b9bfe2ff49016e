"""Calls that are refused, with what the error says, and small environments that provoke errors.

`refusal` makes a case of `pytest.mark.parametrize`, and `assert_refused` checks it.
"""

import re
from functools import partial

import gymnasium
import pytest
from gymnasium.spaces import Discrete

import mtwrappers
from mtwrappers.common.errors import full_message
from tests.fakes import CountingEnv, counting_makers

NAN, INF = float("nan"), float("inf")


def refusal(call, error, message):
    """A case with the id of its message.

    Args:
        call: The call, as a function of what `assert_refused` passes on.
        error: The type of the error.
        message: The beginning of its message, with its notes; ``...`` stands for any text.
    """
    return pytest.param(call, error, message, id=message)


def refusals(*cases):
    """Parametrizes a test over cases of `refusal`."""
    return pytest.mark.parametrize(("call", "error", "message"), cases)


def assert_refused(call, error, message, *arguments):
    """Checks that a call raises this error and no other."""
    pattern = re.escape(message).replace(re.escape("..."), ".*")
    with pytest.raises(error) as caught:
        call(*arguments)
    assert caught.type is error
    actual = full_message(caught.value)
    assert re.match(pattern, actual, re.DOTALL), f"expected {message!r}, got {actual!r}"


def begin_episode(env):
    """The environment after a reset."""
    env.reset()
    return env


def closed(resource):
    """What is closed, such as an environment."""
    resource.close()
    return resource


def make(name, **kwargs):
    """``gymnasium.make`` of an id of this package, such as "MT1"."""
    return gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)


def make_vec(name, **kwargs):
    """``gymnasium.make_vec`` of an id of this package, such as "MT1"."""
    return gymnasium.make_vec(f"mtwrappers/{name}-v0", **kwargs)


class ChangedEnv(CountingEnv):
    """A `CountingEnv` that returns other values: ``ChangedEnv(reward="a")`` rewards with "a"."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes
        self.observation_space = changes.get("space", self.observation_space)

    def _obs(self):
        return self.changes.get("obs", super()._obs())

    def _info(self):
        return self.changes.get("info", super()._info())

    def step(self, action):
        obs, reward, *ends_and_info = super().step(action)
        return obs, self.changes.get("reward", reward), *ends_and_info


# Three tasks in one vector environment, and two in one environment.
three_envs = partial(mtwrappers.MetaIterativeEnvExecutor, counting_makers(3), 3)
two_tasks = partial(mtwrappers.MultiEnvWrapper, counting_makers(2))


def drawing_tasks(task=0):
    """An environment that draws this task at every reset."""
    return two_tasks(select=lambda *_: task, sample_tasks_on_reset=True)


def dict_action_env():
    """An environment whose actions are dicts."""
    space = gymnasium.spaces.Dict({"a": Discrete(2)})
    return gymnasium.wrappers.TransformAction(CountingEnv(), dict, space)
