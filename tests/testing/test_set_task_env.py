import pickle
import random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers.testing import check_set_task_env
from tests.fakes import CountingEnv, CountingSetTaskEnv, equal

# Environments that keep the contract.


class ManyTasksEnv(CountingSetTaskEnv):
    """One that does not say how many tasks there are."""

    num_tasks = None

    def sample_tasks(self, n):
        return [{"first": int(self.np_random.integers(900))} for _ in range(n)]


class TruncatedEnv(CountingSetTaskEnv):
    def __init__(self):
        super().__init__(2, truncate=True)


@pytest.mark.parametrize("good", [CountingSetTaskEnv, ManyTasksEnv, TruncatedEnv])
@pytest.mark.parametrize("seed", [0, 3])
def test_an_environment_that_keeps_the_contract_passes(good, seed):
    check_set_task_env(good(), seed=seed)


def test_one_that_was_played_before_passes_twice():
    env = CountingSetTaskEnv()
    env.reset(seed=1)
    env.step(0)
    check_set_task_env(env)
    check_set_task_env(env)


def test_the_check_leaves_the_global_random_state_as_it_was():
    before = random.getstate(), np.random.get_state(legacy=False)
    check_set_task_env(CountingSetTaskEnv())
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each.


class WithoutSampleTasksEnv(CountingSetTaskEnv):
    sample_tasks = None


class WithoutGetTaskEnv(CountingSetTaskEnv):
    get_task = None


class SampleEnv(CountingSetTaskEnv):
    """Changes the tasks that are sampled."""

    def sample_tasks(self, n):
        return self.change(super().sample_tasks(n))


class TupleOfTasksEnv(SampleEnv):
    def change(self, tasks):
        return tuple(tasks)


class TooFewTasksEnv(SampleEnv):
    def change(self, tasks):
        return tasks[1:]


class TasksDifferEnv(SampleEnv):
    draws = 0

    def change(self, tasks):
        self.draws += 1
        return [{"first": task["first"] + self.draws} for task in tasks]


class RepeatsTasksEnv(SampleEnv):
    def change(self, tasks):
        return [*tasks[:-1], tasks[0]] if len(tasks) == self.num_tasks else tasks


class LargeTasksEnv(CountingSetTaskEnv):
    def sample_tasks(self, n):
        return [{**task, "model": b"x" * 4096} for task in super().sample_tasks(n)]

    def set_task(self, task):
        super().set_task({"first": task["first"]} if isinstance(task, dict) else task)
        self.given = task

    def get_task(self):
        return self.given


class GlobalNumpyEnv(SampleEnv):
    def change(self, tasks):
        np.random.uniform()
        return tasks


class GlobalRandomEnv(CountingSetTaskEnv):
    def set_task(self, task):
        random.random()
        super().set_task(task)


class ChangesTheTaskEnv(CountingSetTaskEnv):
    def set_task(self, task):
        super().set_task(task)
        task["seen"] = True


class GetsAnotherTaskEnv(CountingSetTaskEnv):
    def get_task(self):
        return {"first": -1}


class StepsWithoutResetEnv(CountingSetTaskEnv):
    def step(self, action):
        return CountingEnv.step(self, action)


class OtherErrorWithoutResetEnv(CountingSetTaskEnv):
    def step(self, action):
        try:
            return super().step(action)
        except ResetNeeded as exc:
            raise RuntimeError("reset me") from exc


class StepOutsideEnv(CountingSetTaskEnv):
    def step(self, action):
        obs, *rest = super().step(action)
        return obs + 1000, *rest


class NumpyRewardEnv(CountingSetTaskEnv):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, np.float32(reward), *rest


class EpisodesDifferEnv(CountingSetTaskEnv):
    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)

    def _info(self):
        return {"resets": self.resets}


class RefusesNothingEnv(CountingSetTaskEnv):
    def set_task(self, task):
        if isinstance(task, dict):
            super().set_task(task)


class OtherErrorForNoTaskEnv(CountingSetTaskEnv):
    def set_task(self, task):
        if not isinstance(task, dict):
            raise KeyError("first")
        super().set_task(task)


class RefusalChangesTheTaskEnv(CountingSetTaskEnv):
    def set_task(self, task):
        if not isinstance(task, dict):
            self.first += 1
        super().set_task(task)


class CopiedEnv(CountingSetTaskEnv):
    """Changes its copies."""

    in_copy: dict[str, int] = {}  # noqa: RUF012
    in_pickle: dict[str, int] = {}  # noqa: RUF012

    def __deepcopy__(self, memo):
        return rebuild(type(self), {**self.__dict__, **self.in_copy})

    def __reduce__(self):
        return rebuild, (type(self), {**self.__dict__, **self.in_pickle})


def rebuild(env_class, attributes, *args):
    env = env_class(*args)
    env.__dict__.update(attributes)
    return env


class CopyLosesTheTaskEnv(CopiedEnv):
    in_copy = {"first": 7}  # noqa: RUF012


class CopyPlaysOtherwiseEnv(CopiedEnv):
    in_copy = {"length": 1}  # noqa: RUF012


class PickleLosesTheTaskEnv(CopiedEnv):
    in_pickle = {"first": 7}  # noqa: RUF012


class PicklePlaysOtherwiseEnv(CopiedEnv):
    in_pickle = {"length": 1}  # noqa: RUF012


BROKEN = [
    (CountingEnv, r"CountingEnv must have sample_tasks\(\)"),
    (WithoutSampleTasksEnv, r"WithoutSampleTasksEnv must have sample_tasks\(\)"),
    (WithoutGetTaskEnv, r"WithoutGetTaskEnv must have get_task\(\)"),
    (TupleOfTasksEnv, r"sample_tasks\(3\) must return a list of 3 tasks, got \("),
    (TooFewTasksEnv, r"sample_tasks\(3\) must return a list of 3 tasks, got \["),
    (TasksDifferEnv, r"reset\(seed=3\) must determine the tasks drawn next"),
    (RepeatsTasksEnv, "a sweep of 5 tasks must not repeat any, got 4 different"),
    (LargeTasksEnv, r"a task must pickle to under 4096 bytes, got 4\d\d\d"),
    (GlobalNumpyEnv, "used the global state of np.random"),
    (GlobalRandomEnv, "used the global state of random"),
    (ChangesTheTaskEnv, "set_task must not change the task that it is given"),
    (GetsAnotherTaskEnv, r"get_task\(\) must be the task that was set, got {'first': -1}"),
    (StepsWithoutResetEnv, r"step\(\) after set_task\(\) without reset\(\) must raise ResetNeeded"),
    (OtherErrorWithoutResetEnv, "must raise ResetNeeded, raised RuntimeError: reset me"),
    (StepOutsideEnv, r"step returned .*, not in Box\("),
    (NumpyRewardEnv, "reward must be a float, got float32"),
    (EpisodesDifferEnv, r"two reset\(seed=3\) on one task and the steps after them must agree"),
    (CopyLosesTheTaskEnv, "copy.deepcopy must keep the task"),
    (CopyPlaysOtherwiseEnv, "copy.deepcopy must give an environment that plays the task as"),
    (PickleLosesTheTaskEnv, "pickle must keep the task"),
    (PicklePlaysOtherwiseEnv, "pickle must give an environment that plays the task as"),
    (RefusesNothingEnv, "set_task of something that is no task must raise ValueError"),
    (OtherErrorForNoTaskEnv, "must raise ValueError, raised KeyError: 'first'"),
    (RefusalChangesTheTaskEnv, "a task that is refused must leave the present one"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[env.__name__ for env, _ in BROKEN])
def test_an_environment_that_breaks_a_rule_is_told_which(broken, message):
    state = random.getstate(), np.random.get_state()
    try:
        with pytest.raises(AssertionError, match=message):
            check_set_task_env(broken())
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])


def test_the_message_names_the_seed_that_was_asked_for():
    with pytest.raises(AssertionError, match=r"reset\(seed=11\) must determine the tasks"):
        check_set_task_env(TasksDifferEnv(), seed=11)


class FifthRewardEnv(CountingSetTaskEnv):
    """Its fifth reward of an episode is no float."""

    def __init__(self):
        super().__init__(20)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 5 if self.steps == 5 else reward, *rest


def test_the_check_goes_as_many_steps_as_it_was_asked_to():
    check_set_task_env(FifthRewardEnv(), steps=4)
    for kwargs in ({"steps": 5}, {}):
        with pytest.raises(AssertionError, match="reward must be a float, got int"):
            check_set_task_env(FifthRewardEnv(), **kwargs)


class SizedTasksEnv(LargeTasksEnv):
    """Its tasks take so many bytes."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def sample_tasks(self, n):
        tasks = super().sample_tasks(n)
        for task in tasks:
            task["model"] = b"x" * 1000
            task["model"] += b"x" * (self.size - len(pickle.dumps(task)))
        return tasks

    def __reduce__(self):
        return rebuild, (type(self), self.__dict__, self.size)


def test_a_task_takes_under_4096_bytes():
    check_set_task_env(SizedTasksEnv(4095))
    with pytest.raises(AssertionError, match="under 4096 bytes, got 4096"):
        check_set_task_env(SizedTasksEnv(4096))


class ClosingEnv(CountingSetTaskEnv):
    closings: list[int] = []  # noqa: RUF012

    def close(self):
        self.closings.append(id(self))


def test_the_copies_are_closed_and_the_environment_is_not():
    env = ClosingEnv()
    check_set_task_env(env)
    assert len(env.closings) == 2
    assert id(env) not in env.closings


def test_the_present_task_is_kept_when_the_check_is_over():
    env = CountingSetTaskEnv()
    check_set_task_env(env)
    obs, _ = env.reset()
    assert obs.tolist() == [env.get_task()["first"]] * 2
