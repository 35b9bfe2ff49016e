"""Declared sets of tasks: what each of them promises, and a set of one's own."""

import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import EnvToMTEnv, MultiEnvWrapper
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList, Tasks, TaskSpace
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, counting_makers, equal


class Letters(Tasks):
    """Tasks that are letters, in the order of the alphabet."""

    def __init__(self):
        self.space, self.names, self._next = Discrete(3), ("a", "b", "c"), 0

    def first(self):
        return "a"

    def draw(self, rng):
        self._next += 1
        return self.names[(self._next - 1) % 3]

    def check(self, task_state, name):
        if task_state not in self.names:
            raise ValueError(f"{name} must be one of {self.names}, got {task_state!r}")
        return task_state

    def describe(self, task_state):
        return np.int64(self.names.index(task_state)), {"task_name": task_state}

    def restart(self):
        self._next = 0

    def get_state(self):
        return {"next": self._next}

    def set_state(self, state):
        self._next = state["next"]


class LettersEnv(TaskSetMTEnv):
    """An environment that counts from the place of its letter."""

    _branch = 0

    def __init__(self, **kwargs):
        self._env = CountingEnv()
        self._envs = {0: self._env}
        spaces = self._env.action_space, self._env.observation_space
        super().__init__(*spaces, None, Letters(), **kwargs)

    def _activate(self, task_state):
        self._env.first = 10 * "abc".index(task_state)


def test_a_set_of_ones_own_makes_an_mtenv():
    check_mtenv(LettersEnv())
    env = LettersEnv(sample_tasks_on_reset=True)
    runs = [env.reset(seed=seed) for seed in (0, None, None, None)]
    assert [info["task_name"] for _, info in runs] == ["a", "b", "c", "a"]
    assert [int(obs["task_obs"]) for obs, _ in runs] == [0, 1, 2, 0]
    assert (env.task_names, env.task_observation_space) == (("a", "b", "c"), Discrete(3))
    restored = LettersEnv(sample_tasks_on_reset=True)
    restored.set_state(json.loads(json.dumps(env.get_state())))
    assert equal(restored.reset(), env.reset())
    assert restored.get_task_state() == "b"
    for name in ("num_tasks", "task_ids", "task_states", "settable_task_ids"):
        with pytest.raises(AttributeError, match=f"has no {name}: its task states are not indices"):
            getattr(env, name)


def test_a_set_without_one_of_the_methods_is_refused_with_their_names():
    class Unchecked(Letters):
        check = Tasks.check

    with pytest.raises(TypeError, match=r"abstract.*check"):
        Unchecked()


def test_a_list_has_indices_and_a_space_has_elements():
    listed = TaskList([0, 0, 1], ["x", "y"], [0, 2], "round_robin")
    assert (listed.space, listed.names, listed.ids, listed.states) == (
        *(Discrete(2), ("x", "y")),
        *((0, 0, 1), (0, 2)),
    )
    rng = np.random.default_rng(0)
    assert [listed.draw(rng) for _ in range(3)] == [0, 2, 0]
    state = listed.get_state()
    assert [listed.draw(rng), listed.draw(rng)] == [2, 0]
    listed.set_state(json.loads(json.dumps(state)))
    assert listed.draw(rng) == 2
    listed.restart()
    assert listed.draw(rng) == 0
    assert equal(listed.describe(2), (np.int64(1), {"task_id": 1, "task_name": "y"}))
    with pytest.raises(ValueError, match=r"goal must be one of this environment's own 2: \[0, 2\]"):
        listed.check(1, "goal")
    elements = TaskSpace(Box(0.0, 1.0, (2,), np.float64))
    assert (elements.names, elements.ids, elements.states) == (None, None, None)
    assert elements.get_state() == {}
    assert equal(elements.check([0.5, 1], "goal"), np.array([0.5, 1.0]))
    with pytest.raises(ValueError, match=r"goal must be an element of Box\(.*, got \[2, 0\]"):
        elements.check([2, 0], "goal")


def test_a_set_of_tasks_refuses_a_state_before_it_changes():
    env = MultiEnvWrapper(counting_makers(3))
    env.reset(seed=0)
    state = env.get_state()
    selection = {"last": 9, "strategy": None, "history": None}
    changes = [
        {"selection": selection},
        {"was_set": 0},
        {"has_set_task": 0},
        {"was_seeded": None},
        {"seeded": "01"},
        {"seeded": [-1]},
        {"envs": []},
        {"envs": {"3": {}}},
        {"envs": {"x": {}}},
    ]
    for broken in ({}, *({**state, "task_state": 2, **change} for change in changes)):
        with pytest.raises((TypeError, ValueError), match=r"expected|must|'x'"):
            env.set_state(broken)
        assert env.get_state() == state


def test_an_inner_environment_that_does_not_exist_has_no_state():
    env = EnvToMTEnv(CountingEnv(), [0, 1], set_task=lambda env, task: None)
    state = env.get_state()
    message = r"expected the states of inner environments \[0\], got one of 1"
    with pytest.raises(ValueError, match=message):
        env.set_state({**state, "task_state": 1, "envs": {"1": state["envs"]["0"]}})
    assert env.get_state() == state
