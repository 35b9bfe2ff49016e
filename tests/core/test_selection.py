import json

import numpy as np
import pytest

from mtwrappers.core.history import TaskHistory
from mtwrappers.core.selection import TaskSelector, least_success


def draws(select, num_tasks, n, seed=0):
    selector, rng = TaskSelector(select, num_tasks), np.random.default_rng(seed)
    return [selector(rng) for _ in range(n)]


class Countdown:
    """A strategy with a memory: every task from the last to the first."""

    left = 0

    def __call__(self, num_tasks, last_task, rng):
        self.left = (self.left or num_tasks) - 1
        return self.left

    def reset(self):
        self.left = 0

    def get_state(self):
        return {"left": self.left}

    def set_state(self, state):
        self.left = state["left"]


@pytest.mark.parametrize(
    "select", ["uniform", "round_robin", "without_replacement", "least_success"]
)
def test_the_generator_determines_the_tasks_after_a_reset_and_from_a_state_in_json(select):
    selector, rng = TaskSelector(select, 7), np.random.default_rng(3)
    first = [selector(rng) for _ in range(10)]
    selector.reset()
    rng = np.random.default_rng(3)
    assert [selector(rng) for _ in range(10)] == first == draws(select, 7, 10, seed=3)
    assert (draws(select, 7, 10, seed=4) == first) == (select == "round_robin")
    state, bits = json.loads(json.dumps(selector.get_state())), rng.bit_generator.state
    expected = [selector(rng) for _ in range(8)]
    rng.bit_generator.state = bits
    other = TaskSelector(select, 7)
    other.set_state(state)
    assert [other(rng) for _ in range(8)] == expected


def test_a_callable_is_told_the_number_of_tasks_and_the_last_one():
    seen = []

    def strategy(num_tasks, last_task, rng):
        seen.append((num_tasks, last_task, rng))
        return np.int64(2) if last_task is None else 1

    rng = np.random.default_rng(0)
    selector = TaskSelector(strategy, 3)
    drawn = [selector(rng), selector(rng)]
    selector.reset()
    drawn.append(selector(rng))
    assert drawn == [2, 1, 2]
    assert {type(index) for index in drawn} == {int}
    assert seen == [(3, None, rng), (3, 2, rng), (3, None, rng)]


def test_a_strategy_that_remembers_has_a_copy_of_its_own_and_a_state_and_forgets():
    strategy = Countdown()
    selector, other = TaskSelector(strategy, 4), TaskSelector(strategy, 4)
    assert (selector(None), strategy.left) == (3, 0)
    assert selector.get_state() == {"last": 3, "strategy": {"left": 3}, "history": None}
    other.set_state(selector.get_state())
    assert other(None) == 2
    selector.reset()
    assert selector(None) == 3


@pytest.mark.parametrize("floor", [3, -0.1, float("nan")])
def test_a_floor_that_is_no_share_is_refused(floor):
    with pytest.raises(ValueError, match=rf"floor .* a share in \[0, 1\], got {floor}"):
        least_success(2, None, np.random.default_rng(0), TaskHistory(2), floor)
