"""`Ledger`: an environment whose transitions say where they come from."""

import re
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers.testing import Ledger, check_meta_vector_env
from mtwrappers.testing.ledger import entry_reward
from tests.fakes import check_env_warnings

ID = "mtwrappers/Ledger-v0"


def episode(env, action=(1.0,), **reset):
    """The entries of an episode, its rewards, and its last two flags."""
    entries, rewards, flags = [env.reset(**reset)[0].tolist()], [], (False, False)
    while not any(flags):
        obs, reward, *flags, info = env.step(action)
        assert info == {}
        entries.append(obs.tolist())
        rewards.append(reward)
    return entries, rewards, tuple(flags)


def test_observations_are_entries_and_ends_are_known():
    env = Ledger(2)
    assert episode(env) == (
        [[2, 0, step] for step in range(4)],
        [entry_reward(2, 0, step) for step in range(1, 4)],
        (True, False),
    )
    episodes = [episode(env) for _ in range(5)]
    assert [(len(rewards), flags[1]) for _, rewards, flags in episodes] == [
        *((1, True), (4, False), (5, True), (2, False), (3, True))
    ]
    assert [entries[0] for entries, *_ in episodes] == [[2, k, 0] for k in range(1, 6)]


def test_a_reset_with_a_seed_begins_again_and_one_in_mid_episode_goes_on():
    env = Ledger()
    starts = [env.reset(seed=seed)[0].tolist() for seed in (None, None, 5, None)]
    assert starts == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0]]
    env.set_state({"episode": 255})
    assert env.reset()[0].tolist() == [0, 0, 0]  # a pixel counts no further


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("continuous", [[-1.0], [0.0]], [[0.01], [1.0]]), ("discrete", [0], [1, np.int64(1)])],
)
def test_the_sign_of_the_reward_is_that_of_the_action(kind, low, high):
    env = Ledger(actions=kind)
    for action, sign in [*((a, -1) for a in low), *((a, 1) for a in high)]:
        env.reset(seed=0)
        assert env.step(action)[1] == sign * 2.0**-24


def test_rewards_are_their_own_in_single_precision_too():
    entries = np.indices((256, 256, 6)).reshape(3, -1)[:, 1:]
    rewards = entry_reward(*entries)
    assert len(np.unique(rewards.astype(np.float32))) == rewards.size
    assert (rewards.astype(np.float32) == rewards).all()
    assert 0 < rewards.min() < rewards.max() < 1


@pytest.mark.parametrize("observation", ["vector", "image", "dict"])
@pytest.mark.parametrize("actions", ["continuous", "discrete"])
def test_every_form_keeps_gymnasiums_contract(observation, actions):
    env = gymnasium.make(ID, environment=9, observation=observation, actions=actions)
    assert check_env_warnings(env, skip_render_check=True) == []
    obs, _ = env.reset(seed=0)
    parts = obs.values() if observation == "dict" else [obs]
    assert all((part.reshape(-1, 3) == [9, 0, 0]).all() for part in parts)


def test_the_vector_form_numbers_its_environments_on_every_executor():
    def make_vector(makers, autoreset_mode):
        return gymnasium.make_vec(ID, 4, autoreset_mode=autoreset_mode)

    check_meta_vector_env(make_vector, [lambda i=i: Ledger(i) for i in range(4)])
    with closing(gymnasium.make_vec(ID, 3, workers=2, observation="image")) as envs:
        obs, _ = envs.reset()
        assert obs[:, 0, 0].tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]


def test_what_does_not_fit_is_refused():
    for kwargs, message in (
        ({"environment": 256}, "environment must be an integer in [0, 255], got 256"),
        ({"observation": "text"}, "observation must be 'vector', 'image' or 'dict', got 'text'"),
        ({"actions": 3}, "actions must be 'continuous' or 'discrete', got 3"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            Ledger(**kwargs)
    env = Ledger(3)  # whose first episode has one step
    for _ in range(2):
        with pytest.raises(ResetNeeded, match=re.escape("call reset() before step()")):
            env.step([0.0])
        env.reset(seed=0)
        for action in ([np.nan], [0.0, 0.0], 0.0):
            with pytest.raises(ValueError, match="expected an action of Box"):
                env.step(action)
        env.step([0.0])
