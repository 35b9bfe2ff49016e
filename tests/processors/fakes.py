"""Paths, baselines and plain loops that the tests of processors share."""

import copy

import numpy as np
import pytest

import mtwrappers as mt
from tests.fakes import equal

TYPES = [
    mt.SampleProcessor,
    mt.MetaSampleProcessor,
    mt.DiceSampleProcessor,
    mt.DiceMetaSampleProcessor,
]
METAS = [mt.MetaSampleProcessor, mt.DiceMetaSampleProcessor]

every_type = pytest.mark.parametrize("processor_type", TYPES)
every_meta = pytest.mark.parametrize("processor_type", METAS)


def make_path(rewards, *, obs=None, ended="terminated", **changes):
    """Makes a path with these rewards; observations are by default their negatives, twice.

    Args:
        rewards: A number per step.
        obs: The first column of the observations, and of the next observation after them.
        ended: Which flag its last step has: "terminated", "truncated", "both", or None.
        changes: Replace arrays of the path.
    """
    n = len(rewards)
    column = [-r for r in rewards] + [0.0] if obs is None else obs
    observations = np.repeat(np.asarray(column, np.float64)[:, None], 2, axis=1)
    is_last = np.arange(n) == n - 1
    no_ends = np.zeros(n, np.bool_)
    path = {
        "observations": observations[:n],
        "actions": np.arange(3.0 * n).reshape(n, 3),
        "rewards": np.asarray(rewards, np.float64),
        "terminated": is_last if ended in ("terminated", "both") else no_ends,
        "truncated": is_last if ended in ("truncated", "both") else no_ends,
        "env_infos": {"step": np.arange(1, n + 1)},
        "agent_infos": {"mean": np.arange(3.0 * n).reshape(n, 3) / 2, "deep": {"x": np.ones(n)}},
        "next_observation": observations[n] if len(observations) > n else observations[-1],
    }
    return {**path, **changes}


def random_paths(seed, n=6, longest=12, ended=("terminated", "truncated")):
    """Paths of random lengths, rewards and observations."""
    rng = np.random.default_rng(seed)
    paths = []
    for i in range(n):
        steps = int(rng.integers(1, longest + 1))
        path = make_path(rng.normal(size=steps), ended=ended[i % len(ended)])
        path["observations"] = rng.normal(size=(steps, 2))
        path["next_observation"] = rng.normal(size=2)
        paths.append(path)
    return paths


def process_and_check_inputs(paths, process):
    """Calls ``process`` with paths, and requires that it leaves them as they were."""
    paths_before = copy.deepcopy(paths)
    result = process(paths)
    assert equal(paths, paths_before)
    return result


class ObservedValue:
    """A baseline without the base class: the value is the first number of the observation."""

    def __init__(self):
        self.fitted = []

    def fit(self, paths, target_key="returns"):
        self.fitted.append((target_key, [path[target_key].tolist() for path in paths]))

    def fit_bootstrapped(self, paths, discount, target_key="returns"):
        self.fit(paths, target_key)

    def predict(self, path):
        return path["observations"][:, 0].copy()


def loop_returns(rewards, discount):
    """Discounted sums of one path, step by step from its end."""
    returns, following = [], 0.0
    for reward in reversed(list(rewards)):
        following = reward + discount * following
        returns.append(following)
    return returns[::-1]


def make_processor(processor_type, baseline=None, longest=40, **options):
    """Makes a processor whose advantages are over ``baseline``."""
    baseline = mt.ZeroBaseline() if baseline is None else baseline
    if not issubclass(processor_type, mt.DiceSampleProcessor):
        return processor_type(baseline, **options)
    options = {"normalize_adv": False, **options}
    return processor_type(mt.ZeroBaseline(), longest, return_baseline=baseline, **options)


def process(processor_type, paths, baseline=None, longest=40, **options):
    """Returns the steps of a task's batch: its rows without their padding, if it is padded."""
    processor = make_processor(processor_type, baseline, longest, **options)
    if processor_type in METAS:
        (data,) = process_and_check_inputs({3: paths}, processor.process_samples)
    else:
        data = process_and_check_inputs(paths, processor.process_samples)
    if "mask" not in data:
        return data
    return drop_padding(data, data.pop("mask") == 1)


def drop_padding(rows, is_step):
    if isinstance(rows, dict):
        return {key: drop_padding(value, is_step) for key, value in rows.items()}
    assert not rows[~is_step].any()
    return rows[is_step]
