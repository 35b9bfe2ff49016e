import random
import re
from functools import partial

import numpy as np
import pytest

from mtwrappers.testing import check_set_task_env
from tests.fakes import CountingEnv, CountingSetTaskEnv, equal
from tests.testing import fakes
from tests.testing.fakes import count, draw_np

Base = CountingSetTaskEnv

# Environments that keep the contract.


class ManyTasksEnv(CountingSetTaskEnv):
    """One that does not say how many tasks there are, and whose episodes are truncated."""

    num_tasks = None

    def __init__(self):
        super().__init__(2, truncate=True)

    def sample_tasks(self, n):
        return [{"first": int(self.np_random.integers(900))} for _ in range(n)]


@pytest.mark.parametrize("good", [CountingSetTaskEnv, ManyTasksEnv])
@pytest.mark.parametrize("seed", [0, 3])
def test_an_environment_that_keeps_the_contract_passes_and_is_left_on_its_task(good, seed):
    before = random.getstate(), np.random.get_state(legacy=False)
    env = good()
    for _ in range(2):
        check_set_task_env(env, seed=seed)
        obs, _ = env.reset()
        assert obs.tolist() == [env.get_task()["first"]] * 2
        env.step(0)
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each. Their copies and pickles are of the good class.


def rebuild(env_class, attributes, *args):
    env = env_class(*args)
    env.__dict__.update(attributes)
    return env


def reduce(self, **changes):
    return rebuild, (Base, {**self.__dict__, **changes})


breaks = partial(fakes.breaks, Base, __reduce__=reduce)
returns = partial(fakes.returns, fakes.breaks(Base, __reduce__=reduce))


def copies(**changes):
    """One whose copies have other attributes."""
    return breaks(__deepcopy__=lambda s, memo: rebuild(Base, {**s.__dict__, **changes}))


def pickles(**changes):
    """One whose pickles, but not its copies, have other attributes."""
    return breaks(
        __deepcopy__=lambda s, memo: rebuild(Base, s.__dict__),
        __reduce__=lambda s: reduce(s, **changes),
    )


def refuses_but_changes(self, task):
    self.first += not isinstance(task, dict)
    Base.set_task(self, task)


# What is broken, and what is said: ``...`` stands for any text.
BROKEN = {
    "no set-task": (CountingEnv, "CountingEnv must have sample_tasks()"),
    "a tuple": (
        breaks(sample_tasks=lambda s, n: tuple(Base.sample_tasks(s, n))),
        "sample_tasks(3) must return a list of 3 tasks, got (",
    ),
    "tasks differ": (
        returns(sample_tasks=lambda s, tasks: [{"first": count(s)}] * 3),
        "reset(seed=3) must determine the tasks drawn next",
    ),
    "a task repeats": (
        returns(sample_tasks=lambda s, t: [*t[:-1], t[0]] if len(t) == 5 else t),
        "a sweep of 5 tasks must not repeat any, got 4 different",
    ),
    "large tasks": (
        returns(sample_tasks=lambda s, tasks: [{**task, "model": bytes(4096)} for task in tasks]),
        "a task must pickle to under 4096 bytes, got 4",
    ),
    "global np.random": (
        returns(step=draw_np),
        "'global random': reset or step draws from the global np.random",
    ),
    "changes the task": (
        breaks(set_task=lambda s, t: Base.set_task(s, t) or t.update(seen=True)),
        "set_task must not change the task that it is given",
    ),
    "gets another task": (
        breaks(get_task=lambda s: {"first": -1}),
        "get_task() must be the task that was set, ..., got {'first': -1}",
    ),
    "steps without a reset": (
        breaks(step=CountingEnv.step),
        "step() after set_task() without reset() must raise ResetNeeded, raised nothing",
    ),
    "episodes differ": (
        breaks(_info=lambda s: {"calls": count(s)}),
        "'seed repeats': two runs from reset(seed=3) with the same actions differ",
    ),
    "a copy's task": (copies(first=7), "copy.deepcopy must keep the task"),
    "a copy's episode": (copies(length=1), "a copy made by copy.deepcopy runs differently"),
    "a pickle's task": (pickles(first=7), "pickle must keep the task"),
    "a pickle's episode": (pickles(length=1), "a copy made by pickle runs differently"),
    "refuses nothing": (
        breaks(set_task=lambda s, t: Base.set_task(s, t) if isinstance(t, dict) else None),
        "set_task of something that is not a task must raise ValueError, raised nothing",
    ),
    "other error for no task": (
        breaks(set_task=lambda s, task: Base.set_task(s, {"first": task["first"]})),
        "must raise ValueError, raised TypeError",
    ),
    "refusal changes the task": (
        breaks(set_task=refuses_but_changes),
        "a task that is refused must leave the current one",
    ),
}


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN)
def test_the_rule_that_an_environment_breaks_is_named(broken, message):
    with pytest.raises(AssertionError, match=fakes.pattern(message)):
        check_set_task_env(broken())


class OneBufferEnv(CountingSetTaskEnv):
    """Returns one array for all observations, one dict for all infos; a number is from nowhere."""

    def __init__(self):
        super().__init__()
        self.buffer, self.seen = np.zeros(2), {}

    def reset(self, **kwargs):
        return self.same_buffer(*super().reset(**kwargs))

    def step(self, action):
        return self.same_buffer(*super().step(action))

    def same_buffer(self, obs, *others):
        self.buffer[:] = obs[0], count(self) % 997
        self.seen.update(others[-1])
        return self.buffer, *others[:-1], self.seen

    def sample_tasks(self, n):
        if not self.task_buffer:
            return super().sample_tasks(n)
        self.task_buffer[:] = [{"first": count(self)} for _ in range(n)]
        return self.task_buffer


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "'seed repeats': two runs from reset(seed=3) with the same actions differ"),
        ([None], "reset(seed=3) must determine the tasks drawn next"),
    ],
)
def test_what_differs_in_a_buffer_that_is_used_again_is_found(tasks, message):
    env = OneBufferEnv()
    env.task_buffer = tasks
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_set_task_env(env)


class ClosingEnv(CountingSetTaskEnv):
    closings: list[int] = []  # noqa: RUF012

    def close(self):
        self.closings.append(id(self))


def test_the_copies_are_closed_and_the_environment_is_not():
    env = ClosingEnv()
    check_set_task_env(env)
    assert len(env.closings) == 2
    assert id(env) not in env.closings
