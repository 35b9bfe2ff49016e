"""The state of a vector environment goes to another one, in mid-episode too."""

import copy
import pickle
from contextlib import closing
from functools import partial

import cloudpickle
import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.common.errors import NotDeterministicError
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import KINDS, both_executors, kinds_and_modes
from tests.vector.faults import (
    fragile_makers,
    parallel,
    run_steps,
)
from tests.vector.processes import needs_proc

pytestmark = needs_proc

iterative = partial(MetaIterativeEnvExecutor, meta_batch_size=2, envs_per_task=2, journal=True)


class TallyEnv(CountingEnv):
    """Counts its episodes in an array that it hands out, takes, and changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.tally += 1
        return super().reset(seed=seed, options=options)

    def get_state(self):
        return {"tally": self.tally}

    def set_state(self, state):
        self.tally = state["tally"]

    def _info(self):
        return {"tally": float(self.tally[0])}


@kinds_and_modes
@pytest.mark.slow_but("cartpole", "nested")
def test_another_executor_goes_on_where_the_first_one_was(kind, mode):
    with closing(iterative(KINDS[kind], autoreset_mode=mode)) as first:
        first.action_space.seed(0)
        actions = [first.action_space.sample() for _ in range(40)]
        first.reset()
        run_steps(first, actions[:22])
        state = pickle.loads(pickle.dumps(first.get_state()))
        expected = run_steps(first, actions[22:])
    with closing(parallel(KINDS[kind], journal=True, workers=3, autoreset_mode=mode)) as other:
        other.set_state(state)
        assert equal(run_steps(other, actions[22:]), expected)
        # And again, in environments that have been played.
        other.set_state(state)
        state_of_other = other.get_state()
        assert equal(run_steps(other, actions[22:]), expected)
    with closing(iterative(KINDS[kind], autoreset_mode=mode)) as third:
        third.reset(seed=9)
        third.set_state(state_of_other)
        assert equal(run_steps(third, actions[22:]), expected)


@both_executors
def test_a_state_is_not_what_environments_or_callers_go_on_to_change(executor):
    with closing(executor(TallyEnv, 2, journal=True)) as envs:
        for _ in range(3):
            envs.reset(seed=0)
        state = envs.get_state()
        envs.get_state()["logs"][0]["state"][0][2]["tally"] += 1
        assert equal(envs.get_state(), state)
        for _ in range(2):
            envs.set_state(state)
            assert envs.step([0, 0])[4]["tally"].tolist() == [3.0, 3.0]
            envs.reset()
        between = envs.get_state(between_episodes=True)
        for _ in range(2):
            envs.set_state(between)
            assert envs.reset()[1]["tally"].tolist() == [5.0, 5.0]


def test_the_state_of_other_environments_is_refused_and_changes_nothing():
    with (
        closing(iterative(fragile_makers())) as first,
        closing(parallel(journal=True)) as other,
        closing(iterative(fragile_makers(), max_path_length=7)) as shorter,
    ):
        for envs in (first, other, shorter):
            envs.reset(seed=1)
            envs.step([0] * 4)
        state = first.get_state()
        with pytest.raises(ValueError, match=r"expected max_path_length 7, got None$"):
            shorter.set_state(state)
        state["logs"][3]["digest"] += np.uint64(1)
        for envs in (other, first):
            envs.step([0] * 4)
            before = envs.get_state()
            with pytest.raises(NotDeterministicError, match=r"environment 3.* is not determ"):
                envs.set_state(state)
            assert equal(envs.get_state(), before)
            assert envs.step([0] * 4)[1].tolist() == [3.0] * 4


COPY = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "cloudpickle": cloudpickle.dumps,
}


@pytest.mark.parametrize("how", COPY)
@both_executors
@pytest.mark.slow_but("iterative", "parallel-pickle")
def test_an_executor_is_not_copied_and_says_what_to_do_instead(executor, how):
    with closing(executor(CountingEnv, 2)) as envs:
        message = (
            f"this {type(envs).__name__} cannot be copied or pickled.*: make another "
            f"{type(envs).__name__} with the same arguments.*load_checkpoint"
        )
        with pytest.raises(TypeError, match=message):
            COPY[how](envs)
        envs.reset(seed=0)
