"""What environments return: always new for the caller, and refused where it does not fit."""

import copy
import random
from collections.abc import Iterable
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import BagEnv, NestedEnv, WordEnv, all_modes, both_executors, exact


def arrays_in(value):
    """Every array in a result, however deep."""
    if isinstance(value, np.ndarray):
        yield value
        value = value.tolist() if value.dtype == object else ()
    elif isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str) and isinstance(value, Iterable):
        for item in value:
            yield from arrays_in(item)


@both_executors
@all_modes
@pytest.mark.parametrize("make", [CountingEnv, NestedEnv, WordEnv, BagEnv])
def test_no_array_is_handed_out_twice_and_what_is_done_to_it_changes_nothing(executor, mode, make):
    seen, maker = [], partial(make, 3)
    with (
        closing(executor(maker, 2, autoreset_mode=mode)) as envs,
        closing(SyncVectorEnv([maker] * 2, autoreset_mode=mode)) as oracle,
    ):

        def check_and_scribble(method, **kwargs):
            found, expected = (getattr(e, method)(**copy.deepcopy(kwargs)) for e in (envs, oracle))
            assert equal(found, expected)
            arrays = list(arrays_in(found))
            assert not any(np.shares_memory(array, other) for array in arrays for other in seen)
            seen.extend(arrays)
            for array in arrays:
                array[...] = None if array.dtype == object else 1
            return expected

        envs.action_space.seed(0)
        check_and_scribble("reset", seed=0)
        for t in range(9):
            if t % 4 == 2:
                # The other environment's observation is the one that was handed out before.
                check_and_scribble("reset", options={"reset_mask": np.array([True, False])})
            expected = check_and_scribble("step", actions=envs.action_space.sample())
            over = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and over.any():
                check_and_scribble("reset", options={"reset_mask": over})


class ReusingEnv(CountingEnv):
    """Writes every observation and info into the same arrays."""

    def __init__(self, length):
        super().__init__(length)
        self.obs, self.info = np.zeros(2), {"array": np.zeros(1), "parts": [np.zeros(1)]}

    def _obs(self):
        self.obs[:] = self.steps
        return self.obs

    def _info(self):
        self.info["array"][:] = self.info["parts"][0][:] = self.steps
        return self.info


@both_executors
def test_the_last_observation_of_an_environment_that_reuses_its_arrays_is_kept(executor):
    with closing(executor([partial(ReusingEnv, 2), partial(ReusingEnv, 3)], 2)) as envs:
        envs.reset(seed=0)
        first = envs.step([0, 0])
        infos = envs.step([0, 0])[4]
        assert infos["final_obs"][0].tolist() == [2, 2]
        assert infos["final_info"]["array"][0].tolist() == [2]
        assert infos["final_info"]["parts"][0][0].tolist() == [2]
        assert first[0].tolist() == [[1, 1]] * 2


class OddEnv(CountingEnv):
    """Puts ``odd`` in the place ``at`` of what its method ``use`` returns, or instead of all."""

    use = at = odd = None

    def step(self, action):
        return self._changed("step", super().step(action))

    def reset(self, **kwargs):
        return self._changed("reset", super().reset(**kwargs))

    def _changed(self, name, result):
        if self.use != name:
            return result
        if self.at is None:
            return self.odd
        return *result[: self.at], self.odd, *result[self.at + 1 :]

    def _info(self):
        return {"task_name": "odd"}


FLOATS = "expected an observation of shape (2,) and dtype float64, got "
STEP = "expected (observation, reward, terminated, truncated, info) from step(), got "
RESET = "expected (observation, info dict) from reset(), got "
INFO = "expected an info that is a dict, got "


@both_executors
@pytest.mark.parametrize(
    ("use", "at", "odd", "error", "message"),
    [
        ("step", 0, "abc", ValueError, FLOATS + "'abc' (str)"),
        ("step", None, (1, 2, 3, 4), TypeError, STEP + "a tuple of 4"),
        ("step", None, None, TypeError, STEP + "None"),
        ("step", 1, None, TypeError, "a number, got None"),
        ("step", 1, "much", ValueError, "a number, got 'much'"),
        ("step", 2, None, TypeError, "expected terminated to be a bool, got None"),
        ("step", 3, "no", TypeError, "expected truncated to be a bool, got 'no'"),
        ("step", 4, None, TypeError, INFO + "None"),
        ("reset", None, 3, TypeError, RESET + "3"),
        ("reset", 1, None, TypeError, RESET + "(array([0., 0.]), None)"),
        ("reset", 0, 5, ValueError, FLOATS + "5 of shape () and dtype int64"),
    ],
)
def test_a_result_that_does_not_fit_names_its_environment(executor, use, at, odd, error, message):
    with closing(executor(partial(OddEnv, 9), 3)) as envs:
        envs.reset(seed=0)
        envs.step([0, 0, 0])
        envs.set_attr("at", at)
        envs.set_attr("odd", [odd] * 3)
        envs.set_attr("use", [None, use, None])
        with pytest.raises(error, match="^environment 1, task 'odd': .*" + exact(message)):
            envs.reset() if use == "reset" else envs.step([0, 0, 0])
        with pytest.raises(ResetNeeded, match="call reset"):
            envs.step([0, 0, 0])
        envs.set_attr("use", None)
        envs.reset(seed=0)
        assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]


@both_executors
def test_the_last_info_of_an_episode_is_a_dict_too(executor):
    with closing(executor(partial(OddEnv, 1), 1)) as envs:
        envs.reset()
        envs.set_attr("at", 4)
        envs.set_attr("use", "step")
        with pytest.raises(TypeError, match=f"^environment 0, task 'odd': {INFO}None"):
            envs.step([0])


class GlobalEnv(CountingEnv):
    """Draws from the global random states."""

    def _info(self):
        return {"numpy": np.random.random(), "python": random.random()}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_have_global_random_states_of_their_own(context):
    before = random.getstate(), np.random.get_state()[1].tolist()
    with closing(MetaParallelEnvExecutor(GlobalEnv, 4, 3, workers=3, context=context)) as envs:
        infos = envs.reset(seed=0)[1]
    assert len(set(infos["numpy"].tolist())) == len(set(infos["python"].tolist())) == 12
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
