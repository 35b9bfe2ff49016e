"""PufferLib's trainer over our vector environments."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from mtwrappers import as_pufferlib_env
from mtwrappers.testing import Ledger
from tests.integrations.examples import check_learnt, load_example
from tests.integrations.ledgers import (
    ENVS,
    STEPS,
    Misread,
    check_misread,
    check_on_policy,
    check_refused,
    check_whole,
    known_value,
    make_ledgers,
    vector_of,
)

pytest.importorskip("pufferlib")

import torch
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.vector import Serial, make

# Of its own modules, and of PyTorch without CUDA.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def load_script():
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
        return torch.distributions.Normal(mean, self.log_std.exp()), known_value(vector_of(obs))


def trainer(env, tmp_path, turns=1):
    """A trainer with rows for some turns of all environments, whose discount is 1."""
    script = load_script()
    rows = ENVS * turns
    sizes = {"batch_size": rows * STEPS, "bptt_horizon": STEPS, "minibatch_size": STEPS}
    config = script.CONFIG | sizes | {"gamma": 1.0, "data_dir": str(tmp_path)}
    return script.PuffeRL(config, env, Policy())


def check(puffer, evaluations=1):
    """What it holds when it would learn; a reward and an end are a row below their action."""
    reports = []
    for _ in range(evaluations):
        puffer.evaluate()
        reports.append(
            check_on_policy(
                vector_of(puffer.observations[:, :-1]),
                puffer.actions[:, :-1],
                puffer.rewards[:, 1:],
                vector_of(puffer.observations[:, 1:]),
                puffer.terminals[:, 1:],
                strict=False,
            )
        )
    puffer.close()
    return reports


@pytest.mark.parametrize("observation", ["vector", "image"])
@pytest.mark.parametrize("workers", [1, 2])
def test_it_bootstraps_from_the_true_last_observation(tmp_path, observation, workers):
    envs = make_ledgers(observation=observation, workers=workers, context="forkserver")
    env = as_pufferlib_env(envs)
    env.trainer = trainer(env, tmp_path)
    first, second = check(env.trainer, evaluations=2)
    check_whole(first, least=9)
    check_whole(second, least=9)
    assert envs.closed


def test_each_row_of_an_evaluation_gets_its_values(tmp_path):
    env = as_pufferlib_env(make_ledgers())
    env.trainer = trainer(env, tmp_path, turns=2)
    for report in check(env.trainer, evaluations=2):
        assert report.ok, str(report)
        assert report.truncations.sum() == report.bootstraps.sum() >= 18


def test_without_a_trainer_truncations_are_terminations(tmp_path):
    (report,) = check(trainer(as_pufferlib_env(make_ledgers()), tmp_path))
    assert report.phantom.sum() == 0
    assert report.bootstraps.sum() == 0 < report.truncations.sum()
    assert [fault.split(":")[0] for fault in report.faults] == [
        "terminated is not as it was",
        "truncated is not as it was",
    ]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_it_stores_of_a_mode_that_is_misread_is_named(mode, tmp_path):
    env = as_pufferlib_env(Misread(make_ledgers(autoreset_mode=mode)))
    env.trainer = trainer(env, tmp_path)
    check_misread(check(env.trainer)[0], mode)


def test_its_own_vector_environments_store_resets_as_steps(tmp_path):
    def maker(i, buf=None, seed=0):
        return GymnasiumPufferEnv(Ledger(i), buf=buf, seed=seed)

    env = make([maker] * ENVS, [[i] for i in range(ENVS)], [{}] * ENVS, Serial, ENVS)
    (report,) = check(trainer(env, tmp_path))
    assert report.phantom.sum() >= 12
    assert "phantom, no action is taken at the last observation" in str(report)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_other_modes_and_environments_are_refused(mode):
    check_refused(as_pufferlib_env, "PufferLib", mode, needed="SameStep")


def test_a_recurrent_policy_is_refused_where_an_episode_is_truncated(tmp_path):
    env = as_pufferlib_env(make_ledgers())
    puffer, env.trainer = trainer(env, tmp_path), SimpleNamespace(config={"use_rnn": True})
    with pytest.raises(ValueError, match="got one with use_rnn=True"):
        check(puffer)
    puffer.close()


def test_the_example_prints_what_it_learnt(capsys):
    pytest.importorskip("pufferlib._C", exc_type=ImportError)  # which its training needs
    check_learnt(load_script(), capsys)
