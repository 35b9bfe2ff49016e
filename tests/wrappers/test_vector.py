"""What the wrappers of vector environments need below them."""

from functools import partial

import gymnasium
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaVectorWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)
from tests.fakes import CountingEnv

WRAPPERS = (
    MetaVectorWrapper,
    VectorNormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
    VectorRL2Observation,
)
OTHERS = [
    (lambda: SyncVectorEnv([CountingEnv] * 2), "SyncVectorEnv, which has no step_async"),
    (
        lambda: gymnasium.make_vec("CartPole-v1", 2, "vector_entry_point"),
        "CartPoleVectorEnv, which has no step_async, step_wait, call",
    ),
    (
        lambda: RecordEpisodeStatistics(MetaIterativeEnvExecutor(CountingEnv, 2)),
        "RecordEpisodeStatistics, which has no step_async.* Gymnasium's own .* go outside",
    ),
]


@pytest.mark.parametrize(("make", "missing"), OTHERS, ids=["sync", "native", "wrapped"])
def test_a_vector_environment_of_gymnasiums_own_is_refused_at_once(make, missing):
    envs = make()
    for wrap in WRAPPERS:
        with pytest.raises(TypeError, match=f"expected a MetaVectorEnv, .* got {missing}"):
            wrap(envs)
    envs.close()


def test_gymnasiums_wrappers_go_outside():
    inner = VectorNormalizeRewardPerTask(MetaIterativeEnvExecutor(partial(CountingEnv, 9), 2))
    envs = RecordEpisodeStatistics(inner)
    envs.reset(seed=0)
    assert envs.step([0, 0])[4]["raw_reward"].tolist() == [1, 1]
    envs.close()
