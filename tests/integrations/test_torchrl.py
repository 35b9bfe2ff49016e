"""TorchRL over our vector environments."""

from __future__ import annotations

from functools import partial

import gymnasium
import pytest
from gymnasium.error import ClosedEnvironmentError

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.adapters.torchrl import as_torchrl_env
from tests.integrations.examples import load_example
from tests.vector.fakes import BoxCountingEnv

torch = pytest.importorskip("torch")
envs_module = pytest.importorskip("torchrl.envs")
GymWrapper = envs_module.GymWrapper
check_env_specs = pytest.importorskip("torchrl.envs.utils").check_env_specs

EXECUTORS = {
    "iterative": MetaIterativeEnvExecutor,
    "parallel": partial(MetaParallelEnvExecutor, workers=2, context="forkserver"),
}
MAKERS = [partial(BoxCountingEnv, n, truncate=n == 3, first=10 * n) for n in (2, 3)]


@pytest.fixture
def wrap():
    """Wraps with TorchRL, and closes at the end."""
    wrapped = []

    def make(envs, by=GymWrapper):
        wrapped.append(by(envs))
        return wrapped[-1]

    yield make
    for env in wrapped:
        env.close()


def counts(rollout, *key):
    """The first number of each environment's observations, a list an environment."""
    return rollout[(*key, "observation")][..., 0].int().tolist()


@pytest.mark.parametrize(
    ("executor", "mode", "by"),
    [
        ("iterative", "SameStep", GymWrapper),
        ("iterative", "Disabled", as_torchrl_env),
        ("parallel", "SameStep", as_torchrl_env),
        ("parallel", "Disabled", GymWrapper),
    ],
)
def test_the_last_next_observation_of_an_episode_is_its_own(executor, mode, by, wrap):
    # Not the one that is checked, of whose rollout TorchRL keeps some values.
    env, checked = (wrap(EXECUTORS[executor](MAKERS, 2, autoreset_mode=mode), by) for _ in range(2))
    check_env_specs(checked)
    rollout = env.rollout(6, break_when_any_done=False)
    assert counts(rollout) == [[20, 21, 20, 21, 20, 21], [30, 31, 32, 30, 31, 32]]
    assert counts(rollout, "next") == [[21, 22, 21, 22, 21, 22], [31, 32, 33, 31, 32, 33]]
    assert rollout["next", "reward"].squeeze(-1).tolist() == [
        [1, 2, 1, 2, 1, 2],
        [1, 2, 3, 1, 2, 3],
    ]
    flags = {
        name: rollout["next", name].squeeze(-1).int().tolist()
        for name in ("terminated", "truncated", "done")
    }
    first, second, never = [0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 0, 1], [0] * 6
    assert flags == {
        "terminated": [first, never],
        "truncated": [never, second],
        "done": [first, second],
    }


def test_infos_of_numbers_become_entries(wrap):
    kwargs = {"num_goals": 5, "max_episode_steps": 4, "autoreset_mode": "Disabled"}
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **kwargs)
    env = wrap(envs, as_torchrl_env).auto_register_info_dict()
    check_env_specs(env)
    rollout = env.rollout(5, break_when_any_done=False)
    assert rollout["next", "task_id"].tolist() == [[0] * 5, [1] * 5]
    assert rollout["next", "success"].shape == (2, 5)


def test_resets_in_the_next_step_and_other_environments_are_refused(wrap):
    envs = EXECUTORS["iterative"](MAKERS, 2, autoreset_mode="NextStep")
    with pytest.raises(ValueError, match=r"TorchRL needs .*'Disabled' or .*, got 'NextStep'"):
        as_torchrl_env(envs)
    envs.close()
    with pytest.raises(ClosedEnvironmentError, match="expected an open vector environment"):
        as_torchrl_env(envs)
    with pytest.raises(TypeError, match=r"expected a MetaVectorEnv, .* got list"):
        as_torchrl_env([])


def test_a_single_environment_passes_its_check(wrap):
    env = wrap(gymnasium.make("mtwrappers/MT10-v0", num_goals=2, max_episode_steps=4))
    check_env_specs(env)
    assert env.rollout(9)["next", "truncated"].squeeze(-1).tolist() == [False] * 3 + [True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchRL's own, of its collectors.
def test_the_example_prints_a_return_for_each_class(capsys):
    load_example("torchrl_collect.py").main()
    first, *rows, last = capsys.readouterr().out.splitlines()[-12:]
    assert first.startswith("batch of shape (10, 200) with: done, episode_reward,")
    returns = {row.split()[0]: float(row.split()[2].rstrip(",")) for row in rows}
    assert {"reach-v3", "window-close-v3"} < returns.keys()
    assert len(returns) == 10
    assert all(0 < value < 1000 for value in returns.values())
    # Were the next observation another episode's, the hand would have jumped.
    assert 0 < float(last.split()[-2]) < 0.02
