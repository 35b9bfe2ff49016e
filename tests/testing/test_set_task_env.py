import pickle
import random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers.testing import check_set_task_env
from tests.fakes import CountingEnv, CountingSetTaskEnv, equal
from tests.testing import fakes
from tests.testing.fakes import count

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


def test_a_check_leaves_an_environment_on_its_task_and_the_global_random_state_as_it_was():
    before = random.getstate(), np.random.get_state(legacy=False)
    env = CountingSetTaskEnv()
    for _ in range(2):
        check_set_task_env(env)
        obs, _ = env.reset()
        assert obs.tolist() == [env.get_task()["first"]] * 2
        env.step(0)
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each.


def breaks(**methods):
    """A `CountingSetTaskEnv` with other methods, but for its copies."""

    def reduce(self):
        return rebuild, (CountingSetTaskEnv, self.__dict__)

    return fakes.breaks(CountingSetTaskEnv, **{"__reduce__": reduce, **methods})


def samples(change):
    """One that samples ``change(env, tasks)``."""
    return breaks(sample_tasks=lambda s, n: change(s, CountingSetTaskEnv.sample_tasks(s, n)))


def steps(change):
    """One whose steps return ``change(env, obs, reward, terminated, truncated, info)``."""
    return breaks(step=lambda s, action: change(s, *CountingSetTaskEnv.step(s, action)))


def sets(change):
    """One that is set to ``change(env, task)``, and to nothing if that is ``None``."""

    def set_task(self, task):
        task = change(self, task)
        if task is not None:
            CountingSetTaskEnv.set_task(self, task)

    return breaks(set_task=set_task)


def copies(in_copy=None, in_pickle=None):
    """One whose copies or pickles have other attributes."""

    def deepcopy(self, memo):
        return rebuild(CountingSetTaskEnv, {**self.__dict__, **(in_copy or {})})

    def reduce(self):
        return rebuild, (CountingSetTaskEnv, {**self.__dict__, **(in_pickle or {})})

    return breaks(__deepcopy__=deepcopy, __reduce__=reduce)


def rebuild(env_class, attributes, *args):
    env = env_class(*args)
    env.__dict__.update(attributes)
    return env


class LargeTasksEnv(CountingSetTaskEnv):
    """Its tasks take ``size`` bytes."""

    def __init__(self, size=5000):
        super().__init__()
        self.size = size

    def sample_tasks(self, n):
        tasks = super().sample_tasks(n)
        for task in tasks:
            task["model"] = b"x" * 1000
            task["model"] += b"x" * (self.size - len(pickle.dumps(task)))
        return tasks

    def set_task(self, task):
        super().set_task({"first": task["first"]} if isinstance(task, dict) else task)
        self.given = task

    def get_task(self):
        return self.given

    def __reduce__(self):
        return rebuild, (type(self), self.__dict__, self.size)


class OtherErrorWithoutResetEnv(CountingSetTaskEnv):
    def step(self, action):
        try:
            return super().step(action)
        except ResetNeeded as exc:
            raise RuntimeError("reset me") from exc


class RefusalChangesTheTaskEnv(CountingSetTaskEnv):
    def set_task(self, task):
        if not isinstance(task, dict):
            self.first += 1
        super().set_task(task)


BROKEN = {
    "no set-task": (CountingEnv, r"CountingEnv must have sample_tasks\(\)"),
    "no sample_tasks": (breaks(sample_tasks=None), r"Broken must have sample_tasks\(\)"),
    "no get_task": (breaks(get_task=None), r"Broken must have get_task\(\)"),
    "a tuple": (
        samples(lambda s, tasks: tuple(tasks)),
        r"sample_tasks\(3\) must return a list of 3 tasks, got \(",
    ),
    "too few": (
        samples(lambda s, tasks: tasks[1:]),
        r"sample_tasks\(3\) must return a list of 3 tasks, got \[",
    ),
    "tasks differ": (
        samples(lambda s, tasks: [{"first": task["first"] + count(s)} for task in tasks]),
        r"reset\(seed=3\) must determine the tasks drawn next",
    ),
    "a task repeats": (
        samples(lambda s, tasks: [*tasks[:-1], tasks[0]] if len(tasks) == 5 else tasks),
        "a sweep of 5 tasks must not repeat any, got 4 different",
    ),
    "large tasks": (LargeTasksEnv, "a task must pickle to under 4096 bytes, got 5000"),
    "global np.random": (
        samples(lambda s, tasks: (np.random.uniform(), tasks)[1]),
        "used the global state of np.random",
    ),
    "global random": (
        sets(lambda s, task: (random.random(), task)[1]),
        "used the global state of random",
    ),
    "changes the task": (
        breaks(set_task=lambda s, t: CountingSetTaskEnv.set_task(s, t) or t.update(seen=True)),
        "set_task must not change the task that it is given",
    ),
    "gets another task": (
        breaks(get_task=lambda s: {"first": -1}),
        r"get_task\(\) must be the task that was set, got {'first': -1}",
    ),
    "steps without a reset": (
        breaks(step=CountingEnv.step),
        r"step\(\) after set_task\(\) without reset\(\) must raise ResetNeeded",
    ),
    "other error without a reset": (
        OtherErrorWithoutResetEnv,
        "must raise ResetNeeded, raised RuntimeError: reset me",
    ),
    "steps outside": (
        steps(lambda s, obs, *rest: (obs + 1000, *rest)),
        r"step returned .*, not in Box\(",
    ),
    "numpy reward": (
        steps(lambda s, obs, reward, *rest: (obs, np.float32(reward), *rest)),
        "reward must be a float, got float32",
    ),
    "episodes differ": (
        breaks(_info=lambda s: {"calls": count(s)}),
        r"two reset\(seed=3\) on one task and the steps after them must agree",
    ),
    "a copy's task": (copies({"first": 7}), "copy.deepcopy must keep the task"),
    "a copy's episode": (copies({"length": 1}), "copy.deepcopy must give an environment that pl"),
    "a pickle's task": (copies(None, {"first": 7}), "pickle must keep the task"),
    "a pickle's episode": (copies(None, {"length": 1}), "pickle must give an environment that pl"),
    "refuses nothing": (
        sets(lambda s, task: task if isinstance(task, dict) else None),
        "set_task of something that is no task must raise ValueError",
    ),
    "other error for no task": (
        sets(lambda s, task: {"first": task["first"]}),
        "must raise ValueError, raised TypeError",
    ),
    "refusal changes the task": (
        RefusalChangesTheTaskEnv,
        "a task that is refused must leave the present one",
    ),
}


@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN)
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
        check_set_task_env(BROKEN["tasks differ"][0](), seed=11)


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


def test_a_task_takes_under_4096_bytes():
    check_set_task_env(LargeTasksEnv(4095))
    with pytest.raises(AssertionError, match="under 4096 bytes, got 4096"):
        check_set_task_env(LargeTasksEnv(4096))


class ClosingEnv(CountingSetTaskEnv):
    closings: list[int] = []  # noqa: RUF012

    def close(self):
        self.closings.append(id(self))


def test_the_copies_are_closed_and_the_environment_is_not():
    env = ClosingEnv()
    check_set_task_env(env)
    assert len(env.closings) == 2
    assert id(env) not in env.closings
