"""What ProMP's trainer asks of processors and baselines, in its order and with its keywords."""

import inspect
import pickle

import numpy as np
import pytest

from mtwrappers import (
    DiceMetaSampleProcessor,
    DiceSampleProcessor,
    LinearFeatureBaseline,
    LinearTimeBaseline,
    MetaSampleProcessor,
    SampleProcessor,
)
from tests.processors.fakes import make_path

ARGUMENTS = {"discount": 0.99, "gae_lambda": 1, "normalize_adv": False, "positive_adv": False}
DICE_ARGUMENTS = {**ARGUMENTS, "normalize_adv": True, "return_baseline": None}


@pytest.mark.parametrize(
    ("processor_type", "required", "defaults"),
    [
        (SampleProcessor, ["baseline"], ARGUMENTS),
        (MetaSampleProcessor, ["baseline"], ARGUMENTS),
        (DiceSampleProcessor, ["baseline", "max_path_length"], DICE_ARGUMENTS),
        (DiceMetaSampleProcessor, ["baseline", "max_path_length"], DICE_ARGUMENTS),
    ],
)
def test_arguments_have_promps_names_order_and_defaults(processor_type, required, defaults):
    parameters = inspect.signature(processor_type).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in positional] == [*required, *defaults]
    assert {p.name: p.default for p in positional if p.name not in required} == defaults


def obtain_samples(tasks=3, paths=2, steps=6):
    """Paths as ProMP's sampler makes them: without flags and last observations."""
    rng = np.random.default_rng(0)
    keys = ("observations", "actions", "rewards", "env_infos", "agent_infos")
    found = {}
    for task in range(tasks):
        own = [make_path(rng.normal(size=steps), obs=rng.normal(size=steps)) for _ in range(paths)]
        found[task] = [{key: path[key] for key in keys} for path in own]
    return found


@pytest.mark.parametrize(
    ("processor", "estimate"),
    [
        (
            MetaSampleProcessor(
                baseline=LinearFeatureBaseline(),
                discount=0.99,
                gae_lambda=1,
                normalize_adv=True,
                positive_adv=False,
            ),
            "advantages",
        ),
        (
            DiceMetaSampleProcessor(
                baseline=LinearTimeBaseline(),
                max_path_length=6,
                discount=0.99,
                gae_lambda=1.0,
                normalize_adv=True,
                positive_adv=False,
                return_baseline=LinearFeatureBaseline(),
            ),
            "adjusted_rewards",
        ),
    ],
    ids=["flat", "dice"],
)
def test_the_trainers_loop(processor, estimate):
    all_samples = []
    for step in range(2):
        paths, prefix = obtain_samples(), f"Step_{step}-"
        samples = processor.process_samples(paths_meta_batch=paths, log="all", log_prefix=prefix)
        every_path = [path for own in paths.values() for path in own]
        processor.baseline.log_diagnostics(every_path, prefix=prefix)
        all_samples.append(samples)
        for own in samples:
            # What the algorithms feed: estimates, and for E-MAML the adjusted average rewards.
            for key in ("observations", "actions", "adj_avg_rewards", estimate):
                assert own[key].size >= 12
            assert set(own["agent_infos"]) == {"mean", "deep"}
    assert np.array_equal(all_samples[0][0][estimate], all_samples[1][0][estimate])
    # A snapshot of an iteration holds the baseline.
    snapshot = pickle.loads(pickle.dumps({"itr": 1, "baseline": processor.baseline}))
    params = processor.baseline.get_param_values()
    assert np.array_equal(snapshot["baseline"].get_param_values(), params)
