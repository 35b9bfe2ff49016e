"""What libraries store of a `Ledger`, in the mode that the README recommends and in others."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, as_sb3_vec_env, as_torchrl_env
from mtwrappers.testing import Ledger, check_transitions
from tests.integrations.examples import load_example
from tests.integrations.ledgers import (
    ENVS,
    STEPS,
    check_on_policy,
    check_whole,
    known_value,
    make_ledgers,
    steps_of,
)

# Stable-Baselines3.


@pytest.mark.parametrize("workers", [1, 2])
def test_ppo_of_stable_baselines3_bootstraps_from_the_true_last_observation(workers):
    sb3 = pytest.importorskip("stable_baselines3")
    venv = as_sb3_vec_env(make_ledgers(workers=workers, context="forkserver"))
    model = sb3.PPO("MlpPolicy", venv, n_steps=STEPS, batch_size=STEPS, gamma=1.0, device="cpu")
    model.policy.predict_values = known_value
    # Nothing is learnt: the buffer is left as it was collected.
    model.train = lambda: None
    model.learn(STEPS * ENVS)
    stored = model.rollout_buffer
    last_obs, last_starts = model._last_obs[None], model._last_episode_starts[None]
    report = check_on_policy(
        stored.observations,
        stored.actions,
        stored.rewards,
        np.concatenate([stored.observations[1:], last_obs]),
        np.concatenate([stored.episode_starts[1:], last_starts]),
    )
    check_whole(report, least=9)
    venv.close()


@pytest.mark.parametrize(
    ("policy", "observation"),
    [("MlpPolicy", "vector"), ("CnnPolicy", "image"), ("MultiInputPolicy", "dict")],
)
def test_sac_of_stable_baselines3_stores_what_was_made(policy, observation):
    sb3 = pytest.importorskip("stable_baselines3")
    venv = as_sb3_vec_env(make_ledgers(observation=observation))
    model = sb3.SAC(policy, venv, buffer_size=STEPS * ENVS, learning_starts=99, device="cpu")
    model.learn(STEPS * ENVS)
    stored = model.replay_buffer
    report = check_transitions(
        stored.observations,
        stored.actions,
        stored.rewards,
        stored.next_observations,
        stored.dones * (1 - stored.timeouts),
        stored.timeouts,
    )
    check_whole(report, least=9)
    venv.close()


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_stable_baselines3_is_given_no_other_mode(mode):
    pytest.importorskip("stable_baselines3")
    envs = make_ledgers(autoreset_mode=mode)
    with pytest.raises(ValueError, match=f"needs autoreset_mode='SameStep', got '{mode}'"):
        as_sb3_vec_env(envs)
    envs.close()


# TorchRL.


def check_torchrl(env):
    """What a rollout of random actions holds."""
    rollout = env.rollout(STEPS, break_when_any_done=False)
    following = rollout["next"]
    columns = [rollout["observation"], rollout["action"], following["reward"]]
    columns += [following[key] for key in ("observation", "terminated", "truncated")]
    columns = [np.asarray(column) for column in columns]
    env.close()
    return check_transitions(*columns, strict=False)


@pytest.mark.parametrize("observation", ["vector", "image"])
def test_torchrl_stores_what_was_made(observation):
    pytest.importorskip("torchrl")
    envs = make_ledgers(autoreset_mode="Disabled", observation=observation)
    check_whole(check_torchrl(as_torchrl_env(envs)), least=9)


def test_torchrl_resets_twice_in_the_same_step_where_all_episodes_end_at_once():
    pytest.importorskip("torchrl")
    report = check_torchrl(as_torchrl_env(make_ledgers(autoreset_mode="SameStep")))
    assert report.ok
    assert report.truncations.sum() == report.bootstraps.sum() >= 9
    # All that is there is true; of an episode that is skipped, nothing is.
    skipped = {entry[:2]: steps_of(*entry[:2], 1) for entry in report.missing}
    assert len(report.missing) == sum(skipped.values()) > 0


def test_torchrl_takes_no_resets_in_the_next_step():
    pytest.importorskip("torchrl")
    from torchrl.envs import GymWrapper

    envs = make_ledgers(autoreset_mode="NextStep")
    with pytest.raises(ValueError, match="got 'NextStep'"):
        as_torchrl_env(envs)
    with pytest.raises(RuntimeError, match="must be one of SAME_STEP or DISABLED"):
        GymWrapper(envs)
    envs.close()


# CleanRL's way: a loop over Gymnasium's interface.


class Successful(Ledger):
    """Reports success, which the example counts."""

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"success": 0.0}

    def step(self, action):
        return *super().step(action)[:4], {"success": 0.0}


def train_cleanrl(mode, monkeypatch):
    """What `examples/cleanrl_ppo.py` stores in an iteration."""
    torch = pytest.importorskip("torch")
    script = load_example("cleanrl_ppo.py")
    line = f"--iterations 1 --num-steps {STEPS} --gamma 1 --reward-scale 1 --epochs 0"
    made, zeros = [], torch.zeros

    def watched(*shape):
        made.append(zeros(*shape))
        return made[-1]

    monkeypatch.setattr(torch, "zeros", watched)
    monkeypatch.setattr(script.Agent, "value", lambda self, obs: known_value(obs))
    makers = [partial(Successful, i) for i in range(ENVS)]
    envs = MetaIterativeEnvExecutor(makers, ENVS, autoreset_mode=mode)
    script.train(envs, "abc", script.parser().parse_args(line.split()))
    # The batch is what it makes first, but for the networks' biases.
    batch = [tensor for tensor in made if tensor.shape[:2] == (STEPS, ENVS)]
    obs, actions, _, rewards, dones = batch[:5]
    return obs, actions, rewards, dones


def test_the_example_in_the_style_of_cleanrl_bootstraps_from_the_true_last_observation(monkeypatch):
    obs, actions, rewards, dones = train_cleanrl("SameStep", monkeypatch)
    report = check_on_policy(obs[:-1], actions[:-1], rewards[:-1], obs[1:], dones[:-1])
    check_whole(report, least=9)


@pytest.mark.parametrize(("mode", "error"), [("NextStep", KeyError), ("Disabled", KeyError)])
def test_the_example_in_the_style_of_cleanrl_stops_in_another_mode(mode, error, monkeypatch):
    with pytest.raises(error, match="final_info"):
        train_cleanrl(mode, monkeypatch)


# Minari.


def record(env, reset):
    """What Minari stores of random actions; the environment is reset where an episode ends."""
    minari = pytest.importorskip("minari")
    collector = minari.DataCollector(env)
    collector.action_space.seed(0)
    ended = True
    for step in range(steps_of(0, 0, episodes=9)):
        if ended and (reset or step == 0):
            collector.reset(options={"minari_autoseed": False})
        ended = any(collector.step(collector.action_space.sample())[2:4])
    dataset = collector.create_dataset("tests/ledger-v0")
    collector.close()
    rows = []
    for episode in dataset:
        obs = episode.observations
        flags = episode.terminations, episode.truncations
        rows.append((obs[:-1], episode.actions, episode.rewards, obs[1:], *flags))
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return check_transitions(*columns, strict=False)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")  # Minari's own
def test_minari_records_what_was_made_unless_the_environment_resets_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "a"))
    check_whole(record(gymnasium.make("mtwrappers/Ledger-v0"), reset=True), least=4)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "b"))
    env = gymnasium.wrappers.Autoreset(gymnasium.make("mtwrappers/Ledger-v0"))
    report = record(env, reset=False)
    assert report.phantom.sum() == (~report.real).sum() == 6
