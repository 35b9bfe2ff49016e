"""`check_transitions` on buffers that are right, and on those of libraries that err."""

import re

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.testing import Ledger, check_transitions
from mtwrappers.testing.ledger import entry_reward

STEPS, ENVS = 24, 3


def collect(mode="SameStep", reads="SameStep", **kwargs):
    """The six arrays, ``(STEPS, ENVS)``, of a library that takes the mode for ``reads``."""
    makers = [lambda i=i: Ledger(i, **kwargs) for i in range(ENVS)]
    envs = MetaIterativeEnvExecutor(makers, ENVS, autoreset_mode=mode)
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
@pytest.mark.parametrize("actions", ["continuous", "discrete"])
def test_what_is_read_in_its_mode_is_real(mode, actions):
    report = check_transitions(*collect(mode.value, mode.value, actions=actions))
    assert report.ok
    assert report.real.all()
    assert report.truncations.sum() == report.bootstraps.sum() >= 3
    assert (report.missing, report.repeated) == ((), ())
    assert str(report) == (
        f"{report.real.size} transitions: {report.real.size} real, 0 phantom, 0 wrong\n- "
        f"{report.truncations.sum()} of {report.truncations.sum()} truncations bootstrap from "
        "their true last observation"
    )


def test_the_reset_of_the_next_step_read_as_a_step_is_a_phantom():
    stored = collect("NextStep", reads="Disabled")
    report = check_transitions(*stored, strict=False)
    obs, _, rewards, *_ = stored
    assert report.phantom.tolist() == (rewards == 0).tolist()
    assert report.phantom.sum() >= 15
    assert (report.real ^ report.phantom).all()
    assert (report.missing, report.repeated) == ((), ())
    first = int(report.phantom.argmax())
    named = f"[{first}] {tuple(obs[first].astype(int).tolist())}"
    expected = (
        rf"\d+ real, {report.phantom.sum()} phantom, 0 wrong\n- phantom, .*{re.escape(named)}"
    )
    with pytest.raises(AssertionError, match=expected):
        check_transitions(*stored)


# Environment 0 is at [0], [3], [6], ...; its first episode ends at [12], its second is cut at [18].
@pytest.mark.parametrize(
    ("name", "at", "value", "says"),
    [
        ("obs", 3, lambda x: x + 0.5, "obs is not an observation of a Ledger, or of several at o"),
        ("obs", 3, lambda x: x + np.array([0, 0, 9]), "obs is not an observation of a Ledger"),
        ("rewards", 3, lambda x: entry_reward(1, 0, 1), "expected (0, 0, 2), got (1, 0, 1)"),
        ("rewards", 3, lambda x: 10 * x, "expected (0, 0, 2), got (0, 0, 20)"),
        ("rewards", 0, lambda x: 0.0, "reward is not as it was: [0] at (0, 0, 0): expected (0, 0"),
        ("actions", 3, lambda x: -x, "action is not as it was: [3] at (0, 0, 1): expected False"),
        ("next_obs", 3, lambda x: x + 1, "next_obs is not as it was: [3] at (0, 0, 1): expected ("),
        ("next_obs", 18, lambda x: [0, 2, 0], "at (0, 1, 1): expected (0, 1, 2), got (0, 2, 0)"),
        ("next_obs", 3, lambda x: x - 9, "expected (0, 0, 2), got (-1, -1, -1)"),
        ("terminated", 12, lambda x: False, "terminated is not as it was: [12] at (0, 0, 4): exp"),
        ("terminated", 18, lambda x: True, "[18] at (0, 1, 1): expected False, got True"),
        ("truncated", 18, lambda x: False, "truncated is not as it was: [18] at (0, 1, 1): expe"),
    ],
)
def test_one_false_entry_is_found_and_named(name, at, value, says):
    names = ("obs", "actions", "rewards", "next_obs", "terminated", "truncated")
    stored = dict(zip(names, collect(), strict=True))
    stored[name][at] = value(stored[name][at])
    report = check_transitions(*stored.values(), strict=False)
    [fault] = report.faults
    assert says in fault
    assert f": [{at}]" in fault
    assert np.flatnonzero(report.wrong).tolist() == np.flatnonzero(~report.real).tolist() == [at]
    # What is stored as a termination does not bootstrap.
    lost = [at] if name in ("next_obs", "terminated") and at == 18 else []
    assert np.flatnonzero(report.truncations ^ report.bootstraps).tolist() == lost


def as_image(entries, channels_first=False):
    image = np.tile(entries[..., None, None, :], (4, 5, 1)).astype(np.uint8)
    return np.moveaxis(image, -1, -3) if channels_first else image


FORMS = {
    "lists": np.ndarray.tolist,
    "image": as_image,
    "channels first": lambda entries: as_image(entries, True),
    "flat": lambda entries: as_image(entries).reshape(len(entries), -1),
    "dict": lambda entries: {"a": entries, "b": as_image(entries, True)},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_observations_may_have_any_form_of_a_ledger(form):
    obs, actions, rewards, next_obs, *flags = collect()
    report = check_transitions(form(obs), actions, rewards, form(next_obs), *flags)
    assert report.real.shape == (STEPS * ENVS,)
    wrong = next_obs.copy()
    wrong[3] += [0, 1, 0]
    report = check_transitions(form(obs), actions, rewards, form(wrong), *flags, strict=False)
    assert np.flatnonzero(report.wrong).tolist() == [3]


def test_parts_and_pixels_of_different_steps_are_no_observation():
    obs, *rest = collect()
    image = as_image(obs)
    image[7, 3, 2] = image[8, 3, 2]
    for torn in (image, {"image": as_image(obs[::-1]), "vector": obs}):
        report = check_transitions(torn, *rest, strict=False)
        assert "obs is not an observation of a Ledger, or of several at once" in report.faults[0]
        assert report.wrong[7]


def test_any_number_of_leading_dimensions_and_what_is_not_stored():
    stored = [array.reshape(STEPS, ENVS, *array.shape[1:]) for array in collect()]
    assert check_transitions(*stored).real.shape == (STEPS, ENVS)
    stored[2] = stored[2][..., None]
    assert check_transitions(*stored).real.shape == (STEPS, ENVS)
    stored[0][2, 1] += 0.5
    report = check_transitions(stored[0], None, stored[2], None, None, None, strict=False)
    assert report.faults == (
        "obs is not an observation of a Ledger, or of several at once: [2, 1]",
    )
    assert report.bootstraps is None
    assert "bootstrap" not in str(report)


def test_what_is_missing_or_repeated_is_said_but_is_no_fault():
    stored = collect()
    some = np.r_[0:3, 6:12, 10, 15:72]
    report = check_transitions(*(array[some] for array in stored))
    assert report.missing[:2] == ((0, 0, 1), (0, 0, 4))
    assert len(report.missing) == 6
    assert report.repeated == ((1, 1, 1),)
    assert "6 missing, such as (0, 0, 1); (0, 0, 4);" in str(report)
    assert str(report).endswith("\n- 1 repeated, such as (1, 1, 1)")


def test_what_does_not_fit_is_refused():
    stored = collect()
    for i, value, message in (
        (2, [], "expected transitions, got rewards of shape (0,)"),
        (0, {}, "expected observations in obs, got an empty mapping"),
        (0, np.ones((72, 4)), "expected observations of a Ledger, numbers that come by threes, g"),
        (3, stored[3][1:], "expected next_obs with the leading dimensions (72,) of the rewards"),
        (1, np.ones((72, 2)), "expected a number a transition in actions, got shape (2,) each"),
        (4, False, "expected terminated with the leading dimensions (72,)"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            check_transitions(*stored[:i], value, *stored[i + 1 :])
