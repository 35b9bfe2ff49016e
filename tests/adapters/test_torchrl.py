"""What the adapter for TorchRL leaves of infos; tests/integrations has TorchRL itself."""

from functools import partial

import numpy as np

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


def with_masks(names):
    return names | {f"_{name}" for name in names}


@both_executors
@all_modes
def test_infos_that_are_arrays_of_numbers_are_left_and_final_observations(executor, mode):
    makers = [partial(TalkativeEnv, length, first=5, low=5) for length in (2, 3)]
    below = executor(makers, 2, autoreset_mode=mode)
    envs = NumericInfos(below)
    # TorchRL writes zeros for what is not there.
    assert (np.zeros(2) in envs.single_observation_space) == (mode.value == "SameStep")
    numeric = with_masks({"array", "draw", "flag", "half", "steps"})
    assert envs.reset(seed=0)[1].keys() == numeric
    infos = envs.step([0, 0])[4]
    assert infos.keys() == numeric
    assert infos["half"].tolist() == [0.5, 0.5]
    assert infos["array"].tolist() == [[1] * 3] * 2
    infos = envs.step([0, 0])[4]
    if mode.value == "SameStep":
        assert infos.keys() == numeric | with_masks({"final_info", "final_obs"})
        assert infos["final_obs"][0].tolist() == [7, 7]
        assert infos["final_obs"][1] is None
        assert infos["final_info"].keys() == numeric
        assert infos["final_info"]["steps"].tolist() == [2, 0]
    assert below.reset(seed=0)[1]["name"].tolist() == ["abc", "abc"]
    envs.close()
