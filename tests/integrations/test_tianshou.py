"""Tianshou over our vector environments."""

from __future__ import annotations

import numpy as np
import pytest

from mtwrappers import (
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    as_tianshou_env,
)
from tests.integrations import ledgers
from tests.integrations.examples import check_learnt, load_example
from tests.integrations.ledgers import ENVS, STEPS

pytest.importorskip("tianshou")

from tianshou.algorithm.algorithm_base import RandomActionPolicy
from tianshou.data import Collector, VectorReplayBuffer

# Of its own modules.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def collect(env, times=1, **amount):
    """Collects by random actions, and returns the collector's buffer."""
    buffer = VectorReplayBuffer(len(env) * 4 * STEPS, len(env))
    policy = RandomActionPolicy(env.action_space[0])
    collector = Collector(policy, env, buffer)
    collector.reset()
    for _ in range(times):
        collector.collect(**amount)
    return buffer


def check_buffer(buffer):
    rows = buffer[buffer.sample_indices(0)]  # all of them
    names = ("obs", "act", "rew", "obs_next", "terminated", "truncated")
    columns = [rows[name] for name in names]
    obs, _, _, obs_next, *_ = columns
    if not isinstance(obs, np.ndarray):  # a batch of dicts
        columns[0], columns[3] = dict(obs.items()), dict(obs_next.items())
    return ledgers.check_transitions(*columns)


@pytest.mark.parametrize(("observation", "workers"), [("vector", 2), ("image", 1), ("dict", 1)])
def test_it_stores_what_was_made(observation, workers):
    envs = ledgers.make(
        autoreset_mode="Disabled", observation=observation, workers=workers, context="forkserver"
    )
    env = as_tianshou_env(envs)
    report = check_buffer(collect(env, times=2, n_step=STEPS * ENVS))
    assert report.size == 2 * STEPS * ENVS
    ledgers.assert_complete(report, least=9)
    env.close()
    assert envs.closed


def test_environments_that_are_not_needed_are_paused():
    env = as_tianshou_env(ledgers.make(autoreset_mode="Disabled"))
    # Of the first three episodes, of 5, 2 and 3 steps, none is stepped further.
    report = check_buffer(collect(env, n_episode=3))
    ledgers.assert_complete(report)
    assert report.size == sum(ledgers.count_steps(i, 0, 1) for i in range(3)) == 5 + 2 + 3
    # Five episodes begin again with the next ones after the reset of them all.
    report = check_buffer(collect(env, times=2, n_episode=5))
    assert report.faults == {}
    assert report.cut == report.bootstraps >= 2
    env.close()


def test_only_the_steps_that_it_stores_are_counted():
    observations = VectorNormalizeObservationPerTask(ledgers.make(autoreset_mode="Disabled"))
    rewards = VectorNormalizeRewardPerTask(observations)
    env = as_tianshou_env(rewards)
    buffer = collect(env, n_episode=3)
    stored = [ledgers.count_steps(i, 0, 1) for i in range(ENVS)]
    assert [len(env_buffer) for env_buffer in buffer.buffers] == stored == [5, 2, 3]
    assert rewards.get_state()["count"] == pytest.approx([n + 1e-4 for n in stored])
    # With the observations of three resets: at the first, at the end, and of all after it.
    assert observations.get_state()["count"] == pytest.approx([n + 3.0001 for n in stored])
    env.close()


def test_the_example_prints_what_it_learnt(capsys):
    check_learnt(load_example("tianshou_ppo.py"), capsys)
