import random
import re

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict

from mtwrappers import EnvToMTEnv, MultiEnvWrapper, SeedNotSetError
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, CountingMTEnv, counting_makers, equal, run_python
from tests.testing.broken_mtenvs import BROKEN, NeverEndingEnv, breaks
from tests.testing.fakes import raises, steps

# Environments that keep the contract.


class DictTaskEnv(CountingMTEnv):
    """Its task state is a dict of an array, which it shows."""

    def __init__(self):
        super().__init__()
        self.task = np.zeros(2)
        self.task_observation_space = Box(0, 1, (2,), np.float64)
        self.observation_space = Dict(
            {"env_obs": self.env_observation_space, "task_obs": self.task_observation_space}
        )

    def get_task_obs(self):
        return self.task.copy()

    def get_task_state(self):
        return {"goal": self.task.copy()}

    def set_task_state(self, task_state):
        self.task = task_state["goal"].copy()

    def sample_task_state(self):
        return {"goal": self.np_random_task.uniform(size=2)}


class ResetsBeforeSteppingEnv(CountingMTEnv):
    """Says so when a task was set and not reset since."""

    due = True

    def set_task_state(self, task_state):
        super().set_task_state(task_state)
        self.due = True

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        self.due = False
        return returned

    def step(self, action):
        if self.due:
            raise ResetNeeded("reset first")
        return super().step(action)


class ObservesActionsEnv(NeverEndingEnv):
    def step(self, action):
        obs, *rest = super().step(action)
        obs["env_obs"][1] = action
        return obs, *rest


class EndsOnceEnv(CountingMTEnv):
    """Cannot be stepped when an episode is over, by termination or by truncation."""

    def __init__(self, truncate):
        super().__init__()
        self.truncate = truncate

    def step(self, action):
        if self.steps == 2:
            raise ResetNeeded("the episode is over")
        obs, reward, _, _, info = super().step(action)
        over = self.steps == 2
        return obs, reward, over and not self.truncate, over and self.truncate, info


class ChangingInfoEnv(NeverEndingEnv):
    """The keys of its info stay, the types of its values do not."""

    def step(self, action):
        obs, *rest, _ = super().step(action)
        one, two = (np.ones(1),), (np.ones(1), np.ones(1))
        some = [None, one, {"a": 1}, two, one, np.ones(1)]
        return obs, *rest, {"goal": some[self.steps % 6]}


GOOD = {
    "a subclass": CountingMTEnv,
    "tasks of arrays": DictTaskEnv,
    "no end": NeverEndingEnv,
    "needs a reset": ResetsBeforeSteppingEnv,
    "shows the actions": ObservesActionsEnv,
    "terminates": lambda: EndsOnceEnv(truncate=False),
    "truncates": lambda: EndsOnceEnv(truncate=True),
    "many types": ChangingInfoEnv,
    "many": lambda: MultiEnvWrapper(counting_makers(3)),
    "one task": lambda: MultiEnvWrapper(counting_makers(1)),
    "a parameter": lambda: EnvToMTEnv(CountingEnv(), [1, 2], lambda env, task: None),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_an_environment_that_keeps_the_contract_passes_for_any_seed(make):
    before = random.getstate(), np.random.get_state(legacy=False)
    for seed in range(30):
        check_mtenv(make(), seed=seed)
    env = make()
    check_mtenv(env, steps=1)
    env.step(env.action_space.sample())  # it is left ready
    check_mtenv(env)
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each.


@pytest.fixture
def _same_random_state():
    state = random.getstate(), np.random.get_state()
    yield
    random.setstate(state[0])
    np.random.set_state(state[1])


@pytest.mark.usefixtures("_same_random_state")
@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN)
def test_an_environment_that_breaks_a_rule_is_told_which_for_any_seed(broken, message):
    with pytest.raises(AssertionError, match=message) as caught:
        check_mtenv(broken())
    assert isinstance(caught.value, SeedNotSetError) == ("seed is not set" in message)
    any_numbers = re.sub(r"\d+", r"\\d+", message)
    for seed in range(30):
        with pytest.raises(AssertionError, match=any_numbers):
            check_mtenv(broken(), seed=seed)


def test_the_check_of_an_unseeded_environment_is_left_out_on_a_seeded_one():
    env = BROKEN["samples unseeded"][0]()
    env.reset(seed=0)
    check_mtenv(env)


def test_a_breach_is_found_in_optimised_python_too():
    code = """
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv
assert False, "asserts are on"
try:
    check_mtenv(CountingEnv())
except AssertionError as exc:
    print(exc)
"""
    assert run_python(code, "-O") == "expected an MTEnv, got CountingEnv"


def test_an_error_of_the_environment_itself_is_not_hidden():
    failing = breaks(step=lambda self, action: raises(ZeroDivisionError("it failed")))
    with pytest.raises(ZeroDivisionError, match="it failed"):
        check_mtenv(failing())


def test_the_check_goes_as_many_steps_as_it_was_asked_to():
    fifth_reward_is_int = steps(
        NeverEndingEnv, lambda s, obs, r, *rest: (obs, 5 if s.steps == 5 else r, *rest)
    )
    check_mtenv(fifth_reward_is_int(), steps=4)
    for kwargs in ({"steps": 5}, {}):
        with pytest.raises(AssertionError, match="reward must be a float, got int"):
            check_mtenv(fifth_reward_is_int(), **kwargs)
