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
    Misread,
    check_misread,
    check_on_policy,
    check_whole,
    known_value,
    make_ledgers,
    steps_of,
    transitions,
    vector_of,
)

LEDGER = "mtwrappers/Ledger-v0"

# Stable-Baselines3.


POLICIES = {"vector": "MlpPolicy", "image": "CnnPolicy", "dict": "MultiInputPolicy"}


def check_ppo_of_sb3(envs, observation="vector"):
    """What its PPO holds when it would learn."""
    sb3 = pytest.importorskip("stable_baselines3")
    venv = as_sb3_vec_env(envs)
    sizes = {"n_steps": STEPS, "batch_size": STEPS, "gamma": 1.0}
    model = sb3.PPO(POLICIES[observation], venv, device="cpu", **sizes)
    model.policy.predict_values = lambda obs: known_value(vector_of(obs))
    # Nothing is learnt: the buffer is left as it was collected.
    model.train = lambda: None
    model.learn(STEPS * ENVS)
    venv.close()
    stored = model.rollout_buffer
    obs, last = vector_of(stored.observations), vector_of(model._last_obs)
    return check_on_policy(
        obs,
        stored.actions,
        stored.rewards,
        np.concatenate([obs[1:], last[None]]),
        np.concatenate([stored.episode_starts[1:], model._last_episode_starts[None]]),
        strict=False,
    )


def check_sac_of_sb3(envs, observation="vector"):
    """What its SAC holds before it learns."""
    sb3 = pytest.importorskip("stable_baselines3")
    venv = as_sb3_vec_env(envs)
    sizes = {"buffer_size": STEPS * ENVS, "learning_starts": 99}
    model = sb3.SAC(POLICIES[observation], venv, device="cpu", **sizes)
    model.learn(STEPS * ENVS)
    venv.close()
    stored = model.replay_buffer
    return check_transitions(
        stored.observations,
        stored.actions,
        stored.rewards,
        stored.next_observations,
        stored.dones * (1 - stored.timeouts),
        stored.timeouts,
        strict=False,
    )


@pytest.mark.parametrize("observation", POLICIES)
@pytest.mark.parametrize("workers", [1, 2])
def test_ppo_of_stable_baselines3_bootstraps_from_the_true_last_observation(workers, observation):
    envs = make_ledgers(workers=workers, context="forkserver", observation=observation)
    check_whole(check_ppo_of_sb3(envs, observation), least=9)


@pytest.mark.parametrize("observation", POLICIES)
def test_sac_of_stable_baselines3_stores_what_was_made(observation):
    check_whole(check_sac_of_sb3(make_ledgers(observation=observation), observation), least=9)


@pytest.mark.parametrize("observation", POLICIES)
@pytest.mark.parametrize("check", [check_ppo_of_sb3, check_sac_of_sb3])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_stable_baselines3_stores_of_a_mode_that_is_misread_is_named(mode, check, observation):
    envs = make_ledgers(autoreset_mode=mode, observation=observation)
    check_misread(check(Misread(envs), observation), mode)


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

    def obs(of):
        if "observation" in of.keys():  # noqa: SIM118 (a TensorDict iterates over its batch)
            return np.asarray(of["observation"])
        return {key: np.asarray(of[key]) for key in ("image", "vector")}

    flags = (np.asarray(following[key]) for key in ("terminated", "truncated"))
    actions, rewards = np.asarray(rollout["action"]), np.asarray(following["reward"])
    env.close()
    return check_transitions(obs(rollout), actions, rewards, obs(following), *flags, strict=False)


@pytest.mark.parametrize("observation", ["vector", "image", "dict"])
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


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_torchrl_stores_of_a_mode_that_is_misread_is_named(mode):
    pytest.importorskip("torchrl")
    check_misread(check_torchrl(as_torchrl_env(Misread(make_ledgers(autoreset_mode=mode)))), mode)


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


def check_cleanrl(mode, monkeypatch, wrap=lambda envs: envs):
    """What `examples/cleanrl_ppo.py` stores in an iteration, but for the last step."""
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
    script.train(wrap(envs), "abc", script.parser().parse_args(line.split()))
    # The batch is what it makes first, but for the networks' biases.
    batch = [tensor for tensor in made if tensor.shape[:2] == (STEPS, ENVS)]
    obs, actions, _, rewards, dones = batch[:5]
    columns = obs[:-1], actions[:-1], rewards[:-1], obs[1:], dones[:-1]
    return check_on_policy(*columns, strict=False)


def test_the_example_in_the_style_of_cleanrl_bootstraps_from_the_true_last_observation(monkeypatch):
    check_whole(check_cleanrl("SameStep", monkeypatch), least=9)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_the_example_stores_of_a_mode_that_is_misread_is_named(mode, monkeypatch):
    check_misread(check_cleanrl(mode, monkeypatch, Misread), mode)


@pytest.mark.parametrize(("mode", "error"), [("NextStep", KeyError), ("Disabled", KeyError)])
def test_the_example_in_the_style_of_cleanrl_stops_in_another_mode(mode, error, monkeypatch):
    with pytest.raises(error, match="final_info"):
        check_cleanrl(mode, monkeypatch)


# Minari.


def record(env, reset=True, **kwargs):
    """What Minari stores of random actions; the environment is reset where an episode ends."""
    minari = pytest.importorskip("minari")
    collector = minari.DataCollector(env, **kwargs)
    collector.action_space.seed(0)
    ended = True
    for step in range(steps_of(0, 0, episodes=9)):
        if ended and (reset or step == 0):
            collector.reset(options={"minari_autoseed": False})
        ended = any(collector.step(collector.action_space.sample())[2:4])
    dataset = collector.create_dataset(f"tests/ledger{reset:d}-v0")
    collector.close()
    parts = ("observations", "actions", "rewards", "terminations", "truncations")
    episodes = [[getattr(episode, part) for part in parts] for episode in dataset]
    return check_transitions(*transitions(episodes), strict=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


minari_warns = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")


@minari_warns
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("observation", ["vector", "image", "dict"])
def test_minari_records_what_was_made_unless_the_environment_resets_itself(observation):
    first, second = (gymnasium.make(LEDGER, observation=observation) for _ in range(2))
    check_whole(record(first, jpeg_encoding=False), least=4)
    report = record(gymnasium.wrappers.Autoreset(second), reset=False, jpeg_encoding=False)
    assert report.phantom.sum() == (~report.real).sum() == 6
    assert "phantom, no action is taken at the last observation" in str(report)


@minari_warns
@pytest.mark.usefixtures("folder")
def test_minari_changes_images_unless_it_is_asked_to_leave_them():
    report = record(gymnasium.make(LEDGER, observation="image"))
    assert (~report.real).sum() > report.real.sum(), str(report)
