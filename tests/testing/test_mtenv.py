import random
import re

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import EnvToMTEnv, MTEnv, MultiEnvWrapper, SeedNotSetError
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, CountingMTEnv, counting_makers, equal, run_python

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


class NeverEndingEnv(CountingMTEnv):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


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


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("seed", [0, 3])
def test_an_environment_that_keeps_the_contract_passes(name, seed):
    check_mtenv(GOOD[name](), seed=seed)


def test_one_that_was_seeded_and_played_before_passes():
    env = CountingMTEnv()
    env.reset(seed=1)
    env.step(0)
    check_mtenv(env)
    check_mtenv(env)


def test_the_check_leaves_an_environment_that_can_be_stepped():
    env = ResetsBeforeSteppingEnv()
    check_mtenv(env)
    env.step(0)


def test_one_with_a_single_step_passes():
    check_mtenv(CountingMTEnv(), steps=1)


def test_the_check_leaves_the_global_random_state_as_it_was():
    before = random.getstate(), np.random.get_state(legacy=False)
    check_mtenv(CountingMTEnv())
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each.


class OtherSpaceEnv(CountingMTEnv):
    def __init__(self):
        super().__init__()
        self.observation_space = Dict({"env_obs": Discrete(2), "goal": Discrete(2)})


class FlatSpaceEnv(CountingMTEnv):
    def __init__(self):
        super().__init__()
        self.observation_space = self.env_observation_space


class SamplesUnseededEnv(CountingMTEnv):
    def sample_task_state(self):
        return 1 if self._task_seed is None else super().sample_task_state()


class OtherErrorUnseededEnv(CountingMTEnv):
    def sample_task_state(self):
        if self._task_seed is None:
            raise RuntimeError("seed me")
        return super().sample_task_state()


class SeedReturnsNothingEnv(CountingMTEnv):
    def seed(self, seed=None):
        super().seed(seed)


class SeedTaskReturnsAnotherEnv(CountingMTEnv):
    def seed_task(self, seed=None):
        return [super().seed_task(seed)[0] + 1]


class SeedForgetsEnv(CountingMTEnv):
    def seed(self, seed=None):
        return [seed]


class SeedTaskForgetsEnv(CountingMTEnv):
    def seed_task(self, seed=None):
        return [seed]

    def sample_task_state(self):
        return 0 if self._task_seed is not None else super().sample_task_state()


class OwnTaskStreamEnv(CountingMTEnv):
    own = None

    def seed_task(self, seed=None):
        self.own = np.random.default_rng(seed)
        return [seed]

    def sample_task_state(self):
        if self.own is None:
            raise SeedNotSetError("my own stream was not seeded")
        return int(self.own.integers(3))


class TasksDifferEnv(CountingMTEnv):
    draws = 0

    def sample_task_state(self):
        super().sample_task_state()
        self.draws += 1
        return self.draws // 5 % 3


class EpisodesDifferEnv(CountingMTEnv):
    resets = 0

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        self.resets += 1
        obs["env_obs"][1] = self.resets
        return obs, info


class StepsDifferEnv(CountingMTEnv):
    total = 0

    def step(self, action):
        obs, _, *rest = super().step(action)
        self.total += 1
        return obs, float(self.total), *rest


class EpisodesDifferByABitEnv(CountingMTEnv):
    resets = 0

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        self.resets += 1
        obs["env_obs"][1] += self.resets * 1e-9
        return obs, info


class LaterStepsDifferEnv(NeverEndingEnv):
    total = 0

    def step(self, action):
        obs, reward, *rest = super().step(action)
        self.total += 1
        return obs, float(self.total) if self.steps > 1 else reward, *rest


class GlobalNumpyEnv(CountingMTEnv):
    def step(self, action):
        np.random.uniform()
        return super().step(action)


class GlobalRandomEnv(CountingMTEnv):
    def sample_task_state(self):
        random.random()
        return super().sample_task_state()


class ReseedsGlobalEnv(CountingMTEnv):
    def seed(self, seed=None):
        np.random.seed(seed)
        return super().seed(seed)


class FillsOptionsEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        if options is not None:
            options["seen"] = True
        return super().reset(seed=seed, options=options)


class TakesTaskOptionEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        returned = super().reset(seed=seed, options=options)
        if options:
            options.pop("task_state", None)
        return returned


class ResetOutsideEnv(CountingMTEnv):
    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        obs["env_obs"][0] = -1
        return obs, info


class ResetWithoutTaskEnv(CountingMTEnv):
    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        del obs["task_obs"]
        return obs, info


class OtherDtypeEnv(CountingMTEnv):
    def observe(self, env_obs):
        return super().observe(env_obs.astype(np.float32))


class StepOutsideEnv(CountingMTEnv):
    def step(self, action):
        obs, *rest = super().step(action)
        obs["env_obs"][0] = 1001
        return obs, *rest


class InfoIsNoneEnv(CountingMTEnv):
    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], None


class StepEnv(CountingMTEnv):
    """Changes what a step returns."""

    def step(self, action):
        return self.change(*super().step(action))


class NumpyRewardEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, np.float64(reward), terminated, truncated, info


class IntRewardEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, int(reward), terminated, truncated, info


class NumpyTerminatedEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, np.bool_(terminated), truncated, info


class IntTruncatedEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, int(truncated), info


class MoreInfoEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, truncated, {**info, "success": 0}


class LessInfoEnv(StepEnv):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, truncated, {}


class BufferEnv(CountingMTEnv):
    """Hands out one array again and again."""

    def observe(self, env_obs):
        self.buffer = getattr(self, "buffer", np.zeros(2))
        self.buffer[:] = env_obs
        return super().observe(self.buffer)


class StepBufferEnv(CountingMTEnv):
    """Hands out one array in every step."""

    def step(self, action):
        obs, *rest = super().step(action)
        self.buffer = getattr(self, "buffer", np.zeros(2))
        self.buffer[:] = obs["env_obs"]
        return {**obs, "env_obs": self.buffer}, *rest


class TupleInInfoEnv(CountingMTEnv):
    """Hands out one array in the tuples of its infos."""

    shared = np.zeros(1)

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"goal": (0, self.shared)}

    def step(self, action):
        return *super().step(action)[:4], {"goal": (0, self.shared)}


class ViewEnv(CountingMTEnv):
    """Hands out views of one array, each of its own part, and one that overlaps the last."""

    def observe(self, env_obs):
        memory = getattr(self, "memory", np.zeros(1000))
        self.memory = memory
        self.at = getattr(self, "at", 0) + 1
        memory[self.at : self.at + 2] = 0
        return super().observe(memory[self.at : self.at + 2])


class SharedInfoEnv(CountingMTEnv):
    shared: dict[str, int] = {}  # noqa: RUF012

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.shared

    def step(self, action):
        return *super().step(action)[:4], self.shared


class ChangesTheLastEnv(CountingMTEnv):
    """Writes into the observation that it handed out before in the episode."""

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        self.last = returned[0]
        return returned

    def step(self, action):
        self.last["env_obs"][1] = 77
        returned = super().step(action)
        self.last = returned[0]
        return returned


class SamplingSetsEnv(CountingMTEnv):
    def sample_task_state(self):
        self.goal = super().sample_task_state()
        return self.goal


class ResetTaskStateFailsEnv(CountingMTEnv):
    def reset_task_state(self):
        if self._task_seed is not None:
            raise AssertionError("the task cannot be drawn and set")


class SettingDoesNothingEnv(CountingMTEnv):
    def set_task_state(self, task_state):
        pass


class ResetForgetsTheTaskEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        returned = super().reset(seed=seed, options=options)
        if not options:
            self.goal = 2
        return returned


class ShowsAnotherTaskEnv(CountingMTEnv):
    def observe(self, env_obs):
        return {"env_obs": env_obs, "task_obs": (self.goal + 1) % 3}


class IgnoresTaskOptionEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        rest = {k: v for k, v in (options or {}).items() if k != "task_state"}
        if options and len(options) == 2:
            rest = options
        return super().reset(seed=seed, options=rest)


class ResamplesAnythingEnv(CountingMTEnv):
    resets = 0

    def reset(self, *, seed=None, options=None):
        returned = super().reset(seed=seed, options=options)
        if options and options.get("resample_task"):
            self.resets += 1
            self.goal = self.resets % 3
        return returned


class TakesBothOptionsEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        if options and len(options) == 2:
            options = {"task_state": options["task_state"]}
        return super().reset(seed=seed, options=options)


class OtherErrorForBothEnv(CountingMTEnv):
    def reset(self, *, seed=None, options=None):
        if options and len(options) == 2:
            raise KeyError("both")
        return super().reset(seed=seed, options=options)


BROKEN = [
    (CountingEnv, "expected an MTEnv, got CountingEnv"),
    (OtherSpaceEnv, r"must be a Dict of env_obs and task_obs, got Dict\(.*goal"),
    (FlatSpaceEnv, r"must be a Dict of env_obs and task_obs, got Box\("),
    (SamplesUnseededEnv, r"before a task seed was set must raise SeedNotSetError, raised nothing"),
    (OtherErrorUnseededEnv, "must raise SeedNotSetError, raised RuntimeError: seed me"),
    (SeedReturnsNothingEnv, r"seed\(3\) must return \[3\], got None"),
    (SeedTaskReturnsAnotherEnv, r"seed_task\(3\) must return \[3\], got \[4\]"),
    (SeedForgetsEnv, "the environment seed is not set"),
    (SeedTaskForgetsEnv, "the task seed is not set"),
    (OwnTaskStreamEnv, "the task seed is not set: call seed_task"),
    (TasksDifferEnv, r"seed_task\(3\) must determine the tasks, got \[\[0, 0, 0, 0, 1\], \[1, "),
    (EpisodesDifferEnv, r"two reset\(seed=3\) and the steps after them must agree"),
    (EpisodesDifferByABitEnv, r"two reset\(seed=3\) and the steps after them must agree"),
    (LaterStepsDifferEnv, r"two reset\(seed=3\) and the steps after them must agree"),
    (StepsDifferEnv, r"two reset\(seed=3\) and the steps after them must agree"),
    (GlobalNumpyEnv, "used the global state of np.random"),
    (GlobalRandomEnv, "used the global state of random"),
    (ReseedsGlobalEnv, "used the global state of np.random"),
    (FillsOptionsEnv, r"reset changed the caller's options to {'seen': True}"),
    (TakesTaskOptionEnv, r"reset changed the caller's options to \[\]"),
    (ResetOutsideEnv, r"reset returned .*-1.*, not in Dict\("),
    (ResetWithoutTaskEnv, r"reset returned .*, not in Dict\("),
    (OtherDtypeEnv, "float32"),
    (StepOutsideEnv, r"step returned .*1001.*, not in Dict\("),
    (InfoIsNoneEnv, "reset must return an info dict, got None"),
    (NumpyRewardEnv, "reward must be a float, got float64"),
    (IntRewardEnv, "reward must be a float, got int"),
    (NumpyTerminatedEnv, "terminated must be a bool, got bool"),
    (IntTruncatedEnv, "truncated must be a bool, got int"),
    (MoreInfoEnv, r"keys of reset \['goal'\] on step, got \['goal', 'success'\]"),
    (LessInfoEnv, r"keys of reset \['goal'\] on step, got \[\]"),
    (BufferEnv, "step must return new arrays and dicts"),
    (StepBufferEnv, "step must return new arrays and dicts"),
    (TupleInInfoEnv, "step must return new arrays and dicts"),
    (ViewEnv, "step must return new arrays and dicts"),
    (SharedInfoEnv, "step must return new arrays and dicts"),
    (ChangesTheLastEnv, "step must return new arrays and dicts"),
    (SamplingSetsEnv, r"sample_task_state\(\) must not set the task, it changed \d to \d"),
    (ResetTaskStateFailsEnv, "the task cannot be drawn and set"),
    (SettingDoesNothingEnv, r"get_task_state\(\) after set_task_state must be \d, got 2"),
    (ResetForgetsTheTaskEnv, r"after set_task_state and reset must be \d, got 2"),
    (ShowsAnotherTaskEnv, r"task_obs must be get_task_obs\(\) = \d, got \d"),
    (IgnoresTaskOptionEnv, r"after reset\(options={'task_state': ...}\) must be \d, got \d"),
    (ResamplesAnythingEnv, r"options={'resample_task': True}\) must determine the task, got \[1, "),
    (TakesBothOptionsEnv, "task_state and resample_task must raise ValueError, raised nothing"),
    (OtherErrorForBothEnv, "must raise ValueError, raised KeyError: 'both'"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[env.__name__ for env, _ in BROKEN])
def test_an_environment_that_breaks_a_rule_is_told_which(broken, message):
    state = random.getstate(), np.random.get_state()
    try:
        with pytest.raises(AssertionError, match=message):
            check_mtenv(broken())
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[env.__name__ for env, _ in BROKEN])
def test_it_is_told_for_any_seed(broken, message):
    any_numbers = re.sub(r"\d+", r"\\d+", message)
    state = random.getstate(), np.random.get_state()
    try:
        for seed in range(30):
            with pytest.raises(AssertionError, match=any_numbers):
                check_mtenv(broken(), seed=seed)
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])


@pytest.mark.parametrize("name", GOOD)
def test_one_that_keeps_the_contract_passes_for_any_seed(name):
    for seed in range(30):
        check_mtenv(GOOD[name](), seed=seed)


def test_the_check_of_an_unseeded_environment_is_left_out_on_a_seeded_one():
    env = SamplesUnseededEnv()
    env.reset(seed=0)
    check_mtenv(env)


def test_a_breach_that_is_found_is_no_missing_seed():
    with pytest.raises(AssertionError, match="must return") as caught:
        check_mtenv(SeedReturnsNothingEnv())
    assert not isinstance(caught.value, SeedNotSetError)


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
    class FailingEnv(CountingMTEnv):
        def step(self, action):
            raise ZeroDivisionError("the environment failed")

    with pytest.raises(ZeroDivisionError, match="the environment failed"):
        check_mtenv(FailingEnv())


class FifthRewardEnv(NeverEndingEnv):
    """Its fifth reward of an episode is no float."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 5 if self.steps == 5 else reward, *rest


def test_the_check_goes_as_many_steps_as_it_was_asked_to():
    check_mtenv(FifthRewardEnv(), steps=4)
    with pytest.raises(AssertionError, match="reward must be a float, got int"):
        check_mtenv(FifthRewardEnv(), steps=5)
    with pytest.raises(AssertionError, match="reward must be a float, got int"):
        check_mtenv(FifthRewardEnv())


def test_the_message_names_the_seed_that_was_asked_for():
    with pytest.raises(AssertionError, match=r"seed\(11\) must return \[11\], got None"):
        check_mtenv(SeedReturnsNothingEnv(), seed=11)


def test_every_broken_environment_is_an_mtenv_but_one():
    assert [env for env, _ in BROKEN if not issubclass(env, MTEnv)] == [CountingEnv]
