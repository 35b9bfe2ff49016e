"""Returns and advantages in the batches of processors, which are those of a loop over the steps."""

import numpy as np
import pytest

from tests.processors.fakes import ObservedValue, every_type, loop_returns, make_path, process

# Few and many paths, of one length and of any, with single steps at either end.
LENGTHS = [
    [1],
    [1, 1, 1],
    [5] * 40,
    [30, 1, 7, 8, 15, 16, 2],
    [1, 4000, 1],
    [3, 1000, 5, 600, 1, 1, 90],
]
ENDS = ["terminated", "truncated", "both", None]


def random_batch(lengths):
    """Paths of normal and of odd numbers, which terminate, are cut, both, or just end."""
    rng, batch = np.random.default_rng(len(lengths)), []
    for i, n in enumerate(lengths):
        numbers = rng.normal(size=2 * n + 1) * rng.choice([1, 0.0, -0.0, 1e-300, 1e6], 2 * n + 1)
        path = make_path(numbers[:n], obs=numbers[n:], ended=ENDS[i % 4])
        if i % 3 == 0:  # of the whole path, as some samplers say it
            path["truncated"] = bool(path["truncated"][-1])
        batch.append(path)
    return batch


def loop_gae(rewards, values, last_value, discount, gae_lambda):
    """Generalized advantage estimates of one path, step by step from its end."""
    advantages, following, next_value = [], 0.0, last_value
    for reward, value in zip(reversed(list(rewards)), reversed(list(values)), strict=True):
        delta = discount * next_value + reward - value
        following = delta + discount * gae_lambda * following
        advantages.append(following)
        next_value = value
    return advantages[::-1]


@every_type
@pytest.mark.parametrize("bootstrap_truncated", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.0, 0.95), (1e-300, 1.0), (0.99, 0.95), (1.0, 0.0), (1.0, 1.0)]
)
def test_returns_and_advantages_equal_a_loop_bit_for_bit(
    processor_type, bootstrap_truncated, lengths, discount, gae_lambda
):
    batch = random_batch(lengths)
    data = process(
        processor_type,
        batch,
        ObservedValue(),
        max(lengths),
        discount=discount,
        gae_lambda=gae_lambda,
        normalize_adv=False,
        bootstrap_truncated=bootstrap_truncated,
    )
    returns, advantages = [], []
    for path in batch:
        is_truncated = np.ravel(path["truncated"])[-1] and not path["terminated"][-1]
        last_value = path["next_observation"][0] if bootstrap_truncated and is_truncated else 0.0
        returns += loop_returns(path["rewards"], discount)
        values = path["observations"][:, 0]
        advantages += loop_gae(path["rewards"], values, last_value, discount, gae_lambda)
    assert data["returns"].tolist() == returns
    assert data["advantages"].tolist() == advantages
    for key in ("observations", "actions", "rewards"):
        assert np.array_equal(data[key], np.concatenate([path[key] for path in batch]))
