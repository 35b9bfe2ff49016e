"""What this package's own families promise beyond the contract of families."""

import pickle

import pytest
from gymnasium.error import ResetNeeded

from mtwrappers.state.plain_data import copied
from mtwrappers.testing import check, check_set_task_env
from tests.fakes import equal

MAX_TASK_BYTES = 4096


def assert_strict_set_task_contract(env, steps=10):
    """Asserts the contract, small tasks, and errors for no tasks and for steps before a reset."""
    check_set_task_env(env, steps=steps)
    check._require_env(env, check.SET_TASK_CHECKS, 3, steps, is_strict=True)
    env.reset(seed=0)
    task, other_task = env.sample_tasks(2)
    assert len(pickle.dumps(task)) < MAX_TASK_BYTES
    env.set_task(copied(task))
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())
    env.reset()
    with pytest.raises(ValueError, match="task"):
        env.set_task(object())
    assert equal(env.get_task(), task)
    env.set_task(other_task)
    env.reset()
    assert equal(env.get_task(), other_task)
