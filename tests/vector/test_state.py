"""The state of a vector environment goes to another one, in mid-episode too."""

import copy
import pickle
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.common.errors import NotDeterministicError
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import KINDS, both_executors, kinds_and_modes
from tests.vector.faults import NO_ACTIONS, fragile_makers, parallel, run_steps
from tests.vector.processes import needs_proc

pytestmark = needs_proc

iterative = partial(MetaIterativeEnvExecutor, meta_batch_size=2, envs_per_task=2, journal=True)


@pytest.fixture
def target_executor():
    """The executor that takes the state; ``test_ray.py`` has another one."""
    return partial(MetaParallelEnvExecutor, context="fork")


@kinds_and_modes
@pytest.mark.slow_but("cartpole", "nested")
def test_another_executor_goes_on_where_the_first_one_was(target_executor, kind, mode):
    with closing(iterative(KINDS[kind], autoreset_mode=mode)) as source:
        source.action_space.seed(0)
        actions = [source.action_space.sample() for _ in range(40)]
        source.reset()
        run_steps(source, actions[:22])
        state = pickle.loads(pickle.dumps(source.get_state()))
        expected = run_steps(source, actions[22:])
    target = target_executor(KINDS[kind], 2, 2, journal=True, workers=3, autoreset_mode=mode)
    with closing(target):
        target.set_state(state)
        assert equal(run_steps(target, actions[22:]), expected)
        # And again, in environments that have been stepped.
        target.set_state(state)
        target_state = target.get_state()
        assert equal(run_steps(target, actions[22:]), expected)
    with closing(iterative(KINDS[kind], autoreset_mode=mode)) as third:
        third.reset(seed=9)
        third.set_state(target_state)
        assert equal(run_steps(third, actions[22:]), expected)


def test_the_state_of_other_environments_is_refused_and_changes_nothing():
    with (
        closing(iterative(fragile_makers())) as iterative_envs,
        closing(parallel(journal=True)) as parallel_envs,
        closing(iterative(fragile_makers(), max_path_length=7)) as limited_envs,
    ):
        for envs in (iterative_envs, parallel_envs, limited_envs):
            envs.reset(seed=1)
            envs.step(NO_ACTIONS)
        state = iterative_envs.get_state()
        with pytest.raises(ValueError, match=r"expected max_path_length 7, got None$"):
            limited_envs.set_state(state)
        state["logs"][3]["digest"] += np.uint64(1)
        for envs in (parallel_envs, iterative_envs):
            envs.step(NO_ACTIONS)
            state_before = envs.get_state()
            with pytest.raises(NotDeterministicError, match=r"environment 3.* is not determ"):
                envs.set_state(state)
            assert equal(envs.get_state(), state_before)
            assert envs.step(NO_ACTIONS)[1].tolist() == [3.0] * 4


@both_executors
def test_an_executor_is_not_copied_and_says_what_to_do_instead(executor):
    with closing(executor(CountingEnv, 2)) as envs:
        message = (
            f"this {type(envs).__name__} cannot be copied or pickled.*: make another "
            f"{type(envs).__name__} with the same arguments.*load_checkpoint"
        )
        for copy_envs in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=message):
                copy_envs(envs)
        envs.reset(seed=0)


class OpenCountingEnv(CountingEnv):
    """Counts the environments that are open in its process."""

    num_open = 0

    def __init__(self):
        super().__init__()
        OpenCountingEnv.num_open += 1

    def close(self):
        OpenCountingEnv.num_open -= 1


def test_a_state_that_a_worker_refuses_leaves_no_environments_open_in_the_others():
    with closing(parallel([OpenCountingEnv] * 2, 2, 1, workers=2, journal=True)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        state = envs.get_state()
        state["logs"][1]["digest"] = np.uint64(1)
        with pytest.raises(NotDeterministicError):
            envs.set_state(state)
        assert envs.get_attr("num_open") == (1, 1)
