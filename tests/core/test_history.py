"""The memory that environments have of each task's episodes, and the curricula that look at it."""

import json
from collections import Counter
from functools import partial

import numpy as np
import pytest

from mtwrappers import MultiEnvWrapper
from mtwrappers.core.history import TaskHistory
from mtwrappers.core.selection import least_success
from tests.fakes import CountingEnv


class GradedEnv(CountingEnv):
    """Succeeds at its first step, at none, or does not say; ``key`` is where it says so."""

    def __init__(self, succeeds=False, length=3, key="success", **kwargs):
        super().__init__(length, **kwargs)
        self.succeeds, self.key = succeeds, key

    def _info(self):
        info = super()._info()
        if self.succeeds is not None:
            info[self.key] = float(self.succeeds and self.steps == 1)
        return info


def graded_makers(*outcomes, **kwargs):
    return [partial(GradedEnv, succeeds, **kwargs) for succeeds in outcomes]


def run_episode(env, steps=3, **reset):
    env.reset(**reset)
    for _ in range(steps):
        env.step(0)


def record(history, task, success, episode_return=1.0):
    history.begin(task)
    history.step(episode_return, True, {} if success is None else {"success": success})


# The record.


def test_mean_returns_are_added_up_in_order_on_every_python():
    history = TaskHistory(1)
    for _ in range(10):
        record(history, 0, None, 0.1)
    assert history.mean_returns[0] == 0.09999999999999999  # `sum` says 0.1 since Python 3.12


def test_a_history_goes_on_from_a_state_that_went_through_json_in_mid_episode():
    history, restored = (TaskHistory(2, groups=[1, 1]) for _ in range(2))
    record(history, 0, True, 2.5)
    record(history, 1, None)
    history.begin(1)
    history.step(np.float32(4.0), False, {"success": True})
    state = json.loads(json.dumps(history.get_state()))
    restored.set_state(state)
    for task_history in (history, restored):
        task_history.step(2.0, True, {"success": False})
        assert (task_history.returns(0), task_history.returns(1)) == ((2.5,), (1.0, 6.0))
        assert (task_history.successes(0), task_history.successes(1)) == ((True,), (None, True))
        assert task_history.group_success_rates.tolist()[1] == 1.0
    assert state["tasks"][1] == [[1.0, None]]


def test_a_state_of_other_tasks_is_refused():
    message = r"history with groups \[0, 1\], got one with \[0, 0\]"
    with pytest.raises(ValueError, match=message):
        TaskHistory(2).set_state(TaskHistory(2, groups=[0, 0]).get_state())


# What environments record.


@pytest.mark.parametrize(("truncate", "key"), [(False, "success"), (True, "is_success")])
def test_an_episode_is_recorded_once_for_its_task_and_before_the_next_draw(truncate, key):
    histories = []

    def record_history(num_tasks, last_task, rng, history):
        histories.append([(history.returns(task), history.successes(task)) for task in (0, 1)])
        return 0

    makers = graded_makers(False, True, truncate=truncate, key=key)
    env = MultiEnvWrapper(makers, select=record_history, sample_tasks_on_reset=True)
    run_episode(env, seed=0, options={"task_state": 1})
    env.reset()
    run_episode(env, 2)  # which the next reset cuts
    env.reset()
    env.reset()  # no step was made, so nothing is recorded
    env.reset(seed=0)  # which forgets all
    success_record = ((6.0,), (True,))  # 1 + 2 + 3, and a success at its first step alone
    assert histories == [
        [((), ()), success_record],
        [((), ()), success_record],
        *[[((3.0,), (False,)), success_record]] * 2,
        [((), ()), ((), ())],
    ]


SOLVED, HALF, FAILS = (True, True), (True, False), (False, False)


@pytest.mark.parametrize(
    ("groups", "outcomes", "floor", "expected"),
    [
        # In proportion to failure, above the floor.
        (None, [SOLVED, HALF, FAILS], 0.1, [0.1 / 3, 0.3 + 0.1 / 3, 0.6 + 0.1 / 3]),
        (None, [SOLVED, HALF, FAILS], 0.0, [0, 1 / 3, 2 / 3]),
        # Uniform before the first episode and when all is solved.
        (None, [(), (), (), ()], 0.1, [0.25] * 4),
        (None, [SOLVED] * 4, 0.1, [0.25] * 4),
        # A task without an episode counts as one that fails.
        (None, [SOLVED, ()], 0.1, [0.05, 0.95]),
        # Three goals of a class that is solved, one of a class that is not; group 1 is empty.
        ([0, 0, 0, 2], [SOLVED, (), (), FAILS], 0.1, [*[0.05 / 3] * 3, 0.95]),
    ],
)
def test_least_success_draws_groups_that_fail_and_then_a_task_of_one(
    groups, outcomes, floor, expected
):
    history = TaskHistory(len(outcomes), groups)
    for task, successes in enumerate(outcomes):
        for success in successes:
            record(history, task, success)
    rng, n = np.random.default_rng(0), 3000
    drawn = Counter(least_success(len(outcomes), None, rng, history, floor) for _ in range(n))
    assert [drawn[task] / n for task in range(len(outcomes))] == pytest.approx(expected, abs=0.03)
    assert all(drawn[task] == 0 for task, share in enumerate(expected) if share == 0)


def test_least_success_refuses_a_task_that_does_not_say_whether_it_succeeded():
    env = MultiEnvWrapper(graded_makers(None), select="least_success", sample_tasks_on_reset=True)
    run_episode(env, seed=0)
    with pytest.raises(ValueError, match=r"needs info\['success'\].*an episode of task 0 ended"):
        env.reset()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": [[]]}, "expected the episodes of 2 tasks, got 1"),
        ({"by_group": [[]] * 3}, "expected the episodes of 2 groups, got 3"),
        ({"tasks": [[[1.0]], []]}, "an episode must be a return and a success"),
        ({"tasks": [[["high", True]], []]}, "an episode must be a return and a success"),
        ({"tasks": [[[False, True]], []]}, "an episode must be a return and a success"),
        ({"episode": [2, 1, 0.0, None]}, r"an integer in \[0, 1\], got 2"),
        ({"episode": [0, -1, 0.0, None]}, "steps of the current episode"),
        ({"episode": [0, 1, 0.0]}, "task, steps, return and success"),
    ],
)
def test_a_history_refuses_a_state_that_does_not_fit_and_stays_as_it_is(change, message):
    history = TaskHistory(2)
    record(history, 1, True)
    state = history.get_state()
    with pytest.raises(ValueError, match=message):
        history.set_state({**state, **change})
    assert history.get_state() == state


@pytest.mark.parametrize("state", [{}, {"groups": [0, 1]}, None])
def test_a_history_refuses_a_state_without_its_names(state):
    with pytest.raises(ValueError, match=r"expected \['by_group', .* of TaskHistory, got"):
        TaskHistory(2).set_state(state)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 0], "groups of 3 tasks, got 2"),
        ([0, -1, 0], "the group of task 1 must be"),
        ([0, 0, 0.5], "the group of task 2 must be"),
    ],
)
def test_a_history_needs_a_group_for_each_task(groups, message):
    with pytest.raises(ValueError, match=message):
        TaskHistory(3, groups)
