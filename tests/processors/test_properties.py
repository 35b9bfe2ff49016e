"""Whatever the paths are, batches hold what the definitions say, bit for bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processors.fakes import (
    ObservedValue,
    every_type,
    loop_gae,
    loop_returns,
    make_path,
    process,
)

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
@settings(max_examples=60, deadline=None)
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
