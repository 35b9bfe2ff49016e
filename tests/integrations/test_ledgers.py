"""What finds the faults of libraries is itself tested, on records that are right and wrong."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.fakes import check_env_warnings
from tests.integrations import ledgers
from tests.integrations.ledgers import ENVS, STEPS, check_transitions, entry_reward


def collect(mode="SameStep", reads="SameStep", **kwargs):
    """The six columns of a library that takes the mode for ``reads``."""
    envs = ledgers.make(autoreset_mode=mode, **kwargs)
    envs.action_space.seed(0)
    obs, _ = envs.reset(seed=0)
    ended = np.zeros(ENVS, bool)
    rows = []
    for _ in range(STEPS):
        actions = envs.action_space.sample()
        following, rewards, terminated, truncated, infos = envs.step(actions)
        last = following.copy()
        if reads == "SameStep":
            for i in np.flatnonzero(terminated | truncated):
                last[i] = infos["final_obs"][i]
        row = obs, actions, rewards, last, terminated, truncated
        kept = ~ended if reads == "NextStep" else np.ones(ENVS, bool)
        rows.append([array[kept] for array in row])
        obs, ended = following, terminated | truncated
        if mode == "Disabled" and ended.any():
            obs, _ = envs.reset(options={"reset_mask": ended})
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("observation", ["vector", "image"])
@pytest.mark.parametrize("actions", ["continuous", "discrete"])
def test_what_is_read_in_its_mode_is_whole(mode, observation, actions):
    kwargs = {"observation": observation, "actions": actions}
    stored = collect(mode.value, mode.value, **kwargs)
    ledgers.check_whole(check_transitions(*stored), least=3)
    assert check_env_warnings(gymnasium.make(ledgers.ID, **kwargs), skip_render_check=True) == []


def test_the_reset_of_the_next_step_read_as_a_step_is_a_phantom():
    stored = collect("NextStep", reads="Disabled")
    report = check_transitions(*stored)
    assert report.phantoms == (stored[2] == 0).sum() >= 15
    assert [*report.faults] == ["phantom"]


# Environment 0 is at [0], [3], [6], ...; its first episode ends at [12], its second is cut at [18].
@pytest.mark.parametrize(
    ("name", "at", "value", "lost"),
    [
        ("obs", 3, lambda x: x + 0.5, 0),
        ("obs", 3, lambda x: x + np.array([0, 0, 9]), 0),
        ("reward", 3, lambda x: entry_reward(1, 0, 1), 0),
        ("reward", 3, lambda x: 10 * x, 0),
        ("reward", 0, lambda x: 0.0, 0),
        ("action", 3, lambda x: -x, 0),
        ("next_obs", 3, lambda x: x + 1, 0),
        ("next_obs", 18, lambda x: [0, 2, 0], 1),
        ("terminated", 12, lambda x: False, 0),
        ("terminated", 18, lambda x: True, 1),  # which does not bootstrap
        ("truncated", 18, lambda x: False, 0),
    ],
)
def test_one_false_entry_is_found_and_named(name, at, value, lost):
    names = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
    stored = dict(zip(names, collect(), strict=True))
    place = str(tuple(stored["obs"][at].astype(int).tolist()))
    stored[name][at] = value(stored[name][at])
    report = check_transitions(*stored.values())
    [(named, [where])] = report.faults.items()
    assert named == name
    assert where.startswith(place) or name == "obs"
    assert report.cut - report.bootstraps == lost


def test_pixels_of_different_steps_are_no_observation():
    obs, *rest = collect(observation="image")
    obs[7, 3, 2] = obs[8, 3, 2]
    report = check_transitions(obs, *rest)
    assert [len(places) for places in report.faults.values()] == [1]


def test_what_is_missing_or_repeated_is_said_but_is_no_fault():
    some = np.r_[0:3, 6:12, 10, 15:72]
    report = check_transitions(*(array[some] for array in collect()))
    assert report.faults == {}
    assert report.missing[:2] == [(0, 0, 1), (0, 0, 4)]
    assert len(report.missing) == 6
    assert report.repeated == [(1, 1, 1)]
