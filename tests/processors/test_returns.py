"""Discounted sums and advantages: of ragged batches, and in the batches of processors."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtwrappers.processors.returns import discounted_sums, gae
from tests.processors.fakes import (
    ObservedValue,
    every_type,
    loop_returns,
    make_path,
    process,
)

# Few and many paths, of one length and of any, with single steps at either end.
LENGTHS = [
    [1],
    [1, 1, 1],
    [5] * 40,
    [30, 1, 7, 8, 15, 16, 2],
    [1, 4000, 1],
    [3, 1000, 5, 600, 1, 1, 90],
]


def loop_gae(rewards, values, last_value, discount, gae_lambda):
    """Generalized advantage estimates of one path, step by step from its end."""
    advantages, following, next_value = [], 0.0, last_value
    for reward, value in zip(reversed(list(rewards)), reversed(list(values)), strict=True):
        delta = discount * next_value + reward - value
        following = delta + discount * gae_lambda * following
        advantages.append(following)
        next_value = value
    return advantages[::-1]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.0, 0.95), (1e-300, 1.0), (0.99, 0.95), (1.0, 0.0), (1.0, 1.0)]
)
def test_sums_and_advantages_equal_a_loop_bit_for_bit(lengths, discount, gae_lambda):
    rng = np.random.default_rng(1)
    rewards, values = rng.normal(size=(2, sum(lengths)))
    last, cuts = rng.normal(size=len(lengths)), np.cumsum(lengths)[:-1]
    arrays = rewards, values, last
    before = copy.deepcopy(arrays)
    sums, advantages = [], []
    for r, v, after in zip(np.split(rewards, cuts), np.split(values, cuts), last, strict=True):
        sums += loop_returns(r.tolist(), discount)
        advantages += loop_gae(r.tolist(), v.tolist(), after, discount, gae_lambda)
    assert discounted_sums(rewards, discount, lengths).tolist() == sums
    assert gae(*arrays, discount, gae_lambda, lengths).tolist() == advantages
    assert all(map(np.array_equal, arrays, before))


number = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1e-300, 1 / 3])
fraction = st.floats(0, 1) | st.sampled_from([0.0, 0.99, 1.0])


@st.composite
def paths(draw):
    """One to five paths of 1 to 40 steps, which terminate, are cut, both, or just end."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(1, 4) | st.integers(1, 40))
        rewards = draw(st.lists(number, min_size=n, max_size=n))
        obs = draw(st.lists(number, min_size=n + 1, max_size=n + 1))
        ended = draw(st.sampled_from(["terminated", "truncated", "both", None]))
        path = make_path(rewards, obs=obs, ended=ended)
        if draw(st.booleans()):  # of the whole path, as some samplers say it
            path["truncated"] = bool(path["truncated"][-1])
        made.append(path)
    return made


@every_type
@given(batch=paths(), discount=fraction, gae_lambda=fraction, bootstrap_truncated=st.booleans())
def test_returns_and_advantages_are_those_of_a_loop(
    processor_type, batch, discount, gae_lambda, bootstrap_truncated
):
    data = process(
        processor_type,
        batch,
        ObservedValue(),
        discount=discount,
        gae_lambda=gae_lambda,
        normalize_adv=False,
        bootstrap_truncated=bootstrap_truncated,
    )
    returns, advantages = [], []
    for path in batch:
        cut = np.ravel(path["truncated"])[-1] and not path["terminated"][-1]
        goes_on = bootstrap_truncated and cut
        after = path["next_observation"][0] if goes_on else 0.0
        returns += loop_returns(path["rewards"], discount)
        values = path["observations"][:, 0]
        advantages += loop_gae(path["rewards"], values, after, discount, gae_lambda)
    assert data["rewards"].tolist() == [r for path in batch for r in path["rewards"]]
    assert data["returns"].tolist() == returns
    assert data["advantages"].tolist() == advantages
    for key in ("observations", "actions"):
        assert np.array_equal(data[key], np.concatenate([path[key] for path in batch]))
