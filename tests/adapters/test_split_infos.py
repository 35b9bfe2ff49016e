"""Batched infos, one by one again."""

import numpy as np
import pytest
from gymnasium.vector import VectorEnv

from mtwrappers.adapters.sb3 import split_infos

CASES = {
    "nothing": [{}, {}, {}],
    "numbers": [{"a": i, "b": i / 2, "c": i > 0} for i in range(3)],
    "some": [{"a": 1}, {}, {"a": 3, "b": 4.5}],
    "strings": [{"name": "x"}, {"name": "y"}, {"name": None}],
    "nested": [{"e": {"r": 1.5, "l": 2}}, {}, {"e": {"r": 2.5}}],
    "nested by all": [{"e": {"r": 1.5, "f": {"g": i}}} for i in range(3)],
    "empty nested": [{"e": {}}, {}, {"a": 1}],
    "objects": [{"o": (1, 2)}, {"o": [3]}, {"o": {4}}],
    "underscores": [{"_a": 1}, {"_a": 2}, {"_b": 3}],
}


def batched(infos):
    envs, out = VectorEnv(), {}
    envs.num_envs = len(infos)
    for i, info in enumerate(infos):
        out = envs._add_info(out, info, i)
    return out


@pytest.mark.parametrize("case", CASES)
def test_what_each_environment_has_reported_comes_back(case):
    infos = CASES[case]
    split = split_infos(batched(infos), 3)
    assert split == infos
    for info, expected in zip(split, infos, strict=True):
        assert {k: type(v) for k, v in info.items()} == {k: type(v) for k, v in expected.items()}


def test_arrays_come_back_as_rows_and_the_batch_is_left_as_it_was():
    infos = batched([{"v": np.array([i, i + 0.5])} for i in range(2)] + [{"w": np.float32(3.5)}])
    split = split_infos(infos, 3)
    assert [info["v"].tolist() for info in split[:2]] == [[0.0, 0.5], [1.0, 1.5]]
    assert split[2] == {"w": 3.5}
    split[0]["w"] = 9
    assert split_infos(infos, 3)[2] == {"w": 3.5}
