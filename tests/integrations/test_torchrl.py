"""TorchRL over our vector environments."""

import gymnasium
import numpy as np
import pytest

from mtwrappers.adapters.torchrl import as_torchrl_env
from tests.integrations import ledgers
from tests.integrations.examples import load_example
from tests.integrations.ledgers import STEPS

GymEnv = pytest.importorskip("torchrl.envs").GymEnv
GymWrapper = pytest.importorskip("torchrl.envs").GymWrapper
check_env_specs = pytest.importorskip("torchrl.envs.utils").check_env_specs


def check_rollout(env):
    """Checks a rollout of random actions."""
    rollout = env.rollout(STEPS, break_when_any_done=False)
    following = rollout["next"]

    def get_obs(tensors):
        if "observation" in tensors.keys():  # noqa: SIM118 (a TensorDict iterates over its batch)
            return np.asarray(tensors["observation"])
        return {key: np.asarray(tensors[key]) for key in ("image", "vector")}

    flags = (np.asarray(following[key]) for key in ("terminated", "truncated"))
    actions, rewards = np.asarray(rollout["action"]), np.asarray(following["reward"])
    env.close()
    return ledgers.check_transitions(get_obs(rollout), actions, rewards, get_obs(following), *flags)


@pytest.mark.parametrize(("observation", "workers"), [("vector", 2), ("image", 1), ("dict", 1)])
def test_it_stores_what_was_made(observation, workers):
    # One more is checked, of whose rollout TorchRL keeps some values.
    kwargs = {"observation": observation, "workers": workers, "context": "forkserver"}
    kwargs["autoreset_mode"] = "Disabled"
    env, checked = (as_torchrl_env(ledgers.make(**kwargs)) for _ in range(2))
    check_env_specs(checked)
    checked.close()
    ledgers.assert_complete(check_rollout(env), least=9)


def test_it_resets_twice_in_the_same_step_where_all_episodes_end_at_once():
    env, checked = (as_torchrl_env(ledgers.make(autoreset_mode="SameStep")) for _ in range(2))
    check_env_specs(checked)
    checked.close()
    report = check_rollout(env)
    assert report.faults == {}
    assert report.cut == report.bootstraps >= 9
    # All that is there is true; of an episode that is skipped, nothing is.
    skipped = {entry[:2]: ledgers.count_steps(*entry[:2], 1) for entry in report.missing}
    assert len(report.missing) == sum(skipped.values()) > 0


def test_infos_of_numbers_become_entries():
    kwargs = {"num_goals": 5, "max_episode_steps": 4, "autoreset_mode": "Disabled"}
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", **kwargs)
    env = as_torchrl_env(envs).auto_register_info_dict()
    check_env_specs(env)
    rollout = env.rollout(5, break_when_any_done=False)
    assert rollout["next", "task_id"].tolist() == [[0] * 5, [1] * 5]
    assert rollout["next", "success"].shape == (2, 5)
    env.close()


def test_a_single_environment_needs_no_adapter():
    env = GymWrapper(gymnasium.make("mtwrappers/MT10-v0", num_goals=2, max_episode_steps=4))
    check_env_specs(env)
    assert env.rollout(9)["next", "truncated"].squeeze(-1).tolist() == [False] * 3 + [True]
    env.close()


def test_an_id_needs_no_adapter_although_torchrl_tries_other_arguments():
    env = GymEnv("mtwrappers/MT10-v0", num_goals=2)  # which first passes frameskip=1
    assert env.reset()["observation"].shape == (49,)
    env.close()


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
