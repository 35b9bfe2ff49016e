"""Infos of numbers alone."""

from functools import partial

import numpy as np
import pytest

from mtwrappers.adapters.torchrl import NumericInfos
from tests.fakes import CountingEnv
from tests.vector.fakes import all_modes, both_executors


class TalkativeEnv(CountingEnv):
    """A `CountingEnv` with infos of every kind."""

    def _info(self):
        return {
            **super()._info(),
            "name": "abc",
            "half": self.steps / 2,
            "flag": self.steps > 1,
            "array": np.full(3, self.steps),
            "parts": {"r": 1.0, "name": "abc"},
            "list": [1, 2],
            "nothing": None,
        }


NUMERIC = {"array", "draw", "flag", "half", "steps"}


def with_masks(names):
    return names | {f"_{name}" for name in names}


def make(executor, **kwargs):
    return executor([partial(TalkativeEnv, 2), partial(TalkativeEnv, 3)], 2, **kwargs)


@both_executors
@all_modes
def test_only_arrays_of_numbers_are_left(executor, mode):
    envs = NumericInfos(make(executor, autoreset_mode=mode))
    _, infos = envs.reset(seed=0)
    assert infos.keys() == with_masks(NUMERIC)
    infos = envs.step([0, 0])[4]
    assert infos.keys() == with_masks(NUMERIC)
    assert infos["half"].tolist() == [0.5, 0.5]
    assert infos["array"].tolist() == [[1] * 3] * 2
    envs.close()


@both_executors
def test_the_last_observation_is_left_and_of_the_last_infos_the_numbers(executor):
    envs = NumericInfos(make(executor))
    envs.reset(seed=0)
    envs.step([0, 0])
    infos = envs.step([0, 0])[4]
    assert infos.keys() == with_masks({*NUMERIC, "final_info", "final_obs"})
    assert infos["final_obs"][0].tolist() == [2, 2]
    assert infos["final_obs"][1] is None
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False]
    assert infos["final_info"].keys() == with_masks(NUMERIC)
    assert infos["final_info"]["steps"].tolist() == [2, 0]
    envs.close()


@both_executors
def test_the_environments_below_keep_their_infos_and_everything_else_reaches_through(executor):
    below = make(executor, autoreset_mode="NextStep")
    envs = NumericInfos(below)
    obs, _ = envs.reset(seed=0)
    assert obs.tolist() == [[0, 0], [0, 0]]
    obs, rewards, terminated, truncated, _ = envs.step([0, 0])
    assert (obs.tolist(), rewards.tolist()) == ([[1, 1], [1, 1]], [1, 1])
    assert (terminated | truncated).tolist() == [False, False]
    assert below.step([0, 0])[4]["name"].tolist() == ["abc", "abc"]
    assert envs.autoreset_mode is below.autoreset_mode
    assert envs.get_attr("length") == (2, 3)
    envs.step_async([0, 0])
    assert "name" not in envs.step_wait()[4]
    with pytest.raises(ValueError, match="seed"):
        envs.reset(seed=[1])
    envs.close()
