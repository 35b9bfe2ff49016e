"""Scores with sentences of one's own, which protocols fix."""

from contextlib import closing

import numpy as np
import pytest

from mtwrappers import protocols

TABLE = {"reach-v3": "Go there, 到球那里", "push-v3": "Push it"}
FROZEN = (("push-v3", "Push it"), ("reach-v3", "Go there, 到球那里"))
MINE = (
    protocols["lerobot-0.6"]
    .on("MT1", "reach-v3")
    .variant(
        "mine", episodes_per_task=2, max_episode_steps=2, height=8, width=8, descriptions=TABLE
    )
)


def still(observations):
    return np.zeros((len(observations["instruction"]), 4), np.float32)


def test_the_table_is_fixed_and_the_instruction_free():
    with closing(MINE.make_vec(descriptions=TABLE, instruction=True)) as envs:
        assert set(envs.single_observation_space) == {"agent_pos", "instruction", "pixels"}
    with pytest.raises(ValueError, match=r"each of the 1 classes, but lack \['reach-v3'\]"):
        MINE.variant("mine", descriptions=FROZEN[:1]).make_vec()
    with pytest.raises(ValueError, match=r"mine fixes descriptions=\{'push-v3': .* got 'metaworl"):
        MINE.make_vec(descriptions="metaworld")
    for protocol in (MINE.with_states(), protocols["metaworld-3.1"]):
        with pytest.raises(ValueError, match="fixes instruction=False, got True"):
            protocol.make_vec(instruction=True)
        assert "instruction" not in protocol.settings.arguments
