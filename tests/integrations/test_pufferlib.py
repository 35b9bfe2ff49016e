"""PufferLib's trainer over our vector environments."""

from __future__ import annotations

import signal
from contextlib import closing
from types import SimpleNamespace

import pytest

from mtwrappers import as_pufferlib_env
from tests.integrations import ledgers
from tests.integrations.examples import check_learnt, load_example
from tests.integrations.ledgers import ENVS, STEPS

pytest.importorskip("pufferlib")

import torch

# Of its own modules, and of PyTorch without CUDA.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture
def script():
    """The example; the import of the trainer lets Ctrl-C end the process at once."""
    handler = signal.getsignal(signal.SIGINT)
    script = load_example("pufferlib_ppo.py")
    signal.signal(signal.SIGINT, handler)
    return script


class Policy(torch.nn.Module):
    """Random actions, and the value that a test knows."""

    def __init__(self):
        super().__init__()
        self.log_std = torch.nn.Parameter(torch.zeros(1))

    def forward_eval(self, obs, state):
        mean = torch.zeros(len(obs), 1)
        return torch.distributions.Normal(mean, self.log_std.exp()), ledgers.known_value(
            ledgers.observations_to_entries(obs)
        )


@pytest.fixture
def trainer(script, tmp_path):
    """Makes trainers with rows for some turns of all environments, whose discount is 1."""

    def make(env, turns=1):
        rows = ENVS * turns
        sizes = {
            "batch_size": rows * STEPS,
            "bptt_horizon": STEPS,
            "minibatch_size": STEPS,
        }
        config = script.CONFIG | sizes | {"gamma": 1.0, "data_dir": str(tmp_path)}
        return script.PuffeRL(config, env, Policy())

    return make


def check(puffer, evaluations=1):
    """Checks the buffer that the trainer would learn from, after each of some evaluations.

    In the buffer, a reward and an end are a row below their action.
    """
    reports = []
    with closing(puffer):  # or its threads keep the process
        for _ in range(evaluations):
            puffer.evaluate()
            reports.append(
                ledgers.check_on_policy(
                    ledgers.observations_to_entries(puffer.observations[:, :-1]),
                    puffer.actions[:, :-1],
                    puffer.rewards[:, 1:],
                    ledgers.observations_to_entries(puffer.observations[:, 1:]),
                    puffer.terminals[:, 1:],
                )
            )
    return reports


@pytest.mark.parametrize(("observation", "workers"), [("vector", 2), ("image", 1)])
def test_it_bootstraps_from_the_true_last_observation(trainer, observation, workers):
    envs = ledgers.make(observation=observation, workers=workers, context="forkserver")
    env = as_pufferlib_env(envs)
    env.trainer = trainer(env)
    for report in check(env.trainer, evaluations=2):
        ledgers.assert_complete(report, least=9)
    assert envs.closed


def test_each_row_of_an_evaluation_gets_its_values(trainer):
    env = as_pufferlib_env(ledgers.make())
    env.trainer = trainer(env, turns=2)
    for report in check(env.trainer, evaluations=2):
        assert report.faults == {}
        assert report.cut == report.bootstraps >= 18


def test_without_a_trainer_truncations_are_terminations(trainer):
    (report,) = check(trainer(as_pufferlib_env(ledgers.make())))
    assert report.phantoms == 0
    assert report.bootstraps == 0 < report.cut
    assert [*report.faults] == ["terminated", "truncated"]


def test_a_recurrent_policy_is_refused_where_an_episode_is_truncated(trainer):
    env = as_pufferlib_env(ledgers.make())
    puffer, env.trainer = trainer(env), SimpleNamespace(config={"use_rnn": True})
    with pytest.raises(ValueError, match="got one with use_rnn=True"):
        check(puffer)


def test_the_example_prints_what_it_learnt(script, capsys):
    pytest.importorskip("pufferlib._C", exc_type=ImportError)  # which its training needs
    check_learnt(script, capsys)
