"""The path format and its checks."""

import numpy as np
import pytest

from mtwrappers.samplers.trajectory import check_paths, check_rewards, last_flag, stack


def path(steps=2, **changes):
    made = {
        "observations": np.zeros((steps, 3)),
        "actions": np.zeros((steps, 2)),
        "rewards": np.zeros(steps),
        "env_infos": {"success": np.zeros(steps)},
    }
    return {**made, **changes}


def test_good_paths_of_different_lengths_pass_and_their_lengths_are_returned():
    assert check_paths([path(1), path(5), path(2)]) == [1, 5, 2]


def test_a_tuple_of_paths_of_lists_passes():
    one = {"observations": [[1.0], [2.0]], "actions": [0, 1], "rewards": [1, 2]}
    assert check_paths((one, one)) == [2, 2]


@pytest.mark.parametrize(
    ("paths", "got"),
    [([], "none"), ((), "none"), (None, "None"), ("paths", "none"), (iter([path()]), "<list")],
    ids=["list", "tuple", "none", "string", "iterator"],
)
def test_there_must_be_a_path(paths, got):
    with pytest.raises(ValueError, match=f"paths must be a list of at least one path, got {got}"):
        check_paths(paths)


def test_a_path_must_be_a_dict():
    with pytest.raises(ValueError, match=r"path 1 of paths must be a dict, got \[1\.0\]"):
        check_paths([path(), [1.0]])


@pytest.mark.parametrize("key", ["observations", "actions", "rewards"])
def test_a_path_must_have_its_keys(key):
    bad = {name: value for name, value in path().items() if name != key}
    with pytest.raises(ValueError, match=rf"path 0 of paths lacks \['{key}'\]; it has \["):
        check_paths([bad, bad])
    with pytest.raises(ValueError, match=r"path 1 of paths has the keys .*expected .* in path 0"):
        check_paths([path(), bad])


def test_all_paths_must_have_the_same_keys():
    with pytest.raises(
        ValueError,
        match=r"path 2 of paths has the keys \['actions', 'env_infos', 'extra', .*expected "
        r"\['actions', 'env_infos', 'observations', 'rewards'\] as in path 0",
    ):
        check_paths([path(), path(), path(extra=1)])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("observations", np.zeros((3, 3)), r"must have shape \(2, 3\), got \(3, 3\)"),
        ("observations", np.zeros((2, 4)), r"must have shape \(2, 3\), got \(2, 4\)"),
        ("observations", np.zeros(2), r"must have shape \(2, 3\), got \(2,\)"),
        ("actions", np.zeros((1, 2)), r"must have shape \(2, 2\), got \(1, 2\)"),
        ("actions", np.zeros((2, 5)), r"must have shape \(2, 2\), got \(2, 5\)"),
        ("rewards", np.zeros((2, 1)), r"must have shape \(T,\) with T of 1 or more, got \(2, 1\)"),
        ("rewards", np.zeros(0), r"must have shape \(T,\) with T of 1 or more, got \(0,\)"),
    ],
)
def test_arrays_must_fit_together(key, value, message):
    with pytest.raises(ValueError, match=f"{key} of path 1 of paths {message}"):
        check_paths([path(), path(**{key: value})])


def test_the_first_path_must_fit_together_too():
    with pytest.raises(ValueError, match="actions of path 0 of paths must have shape"):
        check_paths([path(actions=np.zeros((3, 2)))])


@pytest.mark.parametrize("key", ["env_infos", "agent_infos"])
def test_infos_must_be_as_long_as_the_path(key):
    good = path(agent_infos={"success": np.zeros(2)})
    with pytest.raises(ValueError, match=key):
        check_paths([good, {**good, key: {"success": np.zeros(3)}}])


@pytest.mark.parametrize("key", ["env_infos", "agent_infos"])
def test_infos_must_have_the_same_keys_in_every_path(key):
    good = path(agent_infos={"success": np.zeros(2)})
    with pytest.raises(ValueError, match=key):
        check_paths([good, {**good, key: {"other": np.zeros(2)}}])


def test_flags_must_be_as_long_as_the_path():
    good = path(terminated=np.zeros(2, np.bool_))
    with pytest.raises(ValueError, match="terminated"):
        check_paths([good, {**good, "terminated": np.zeros(1, np.bool_)}])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (0, "reward of path 0 of paths of task 3 is NaN at step 0"),
        (1, "reward of path 0 of paths of task 3 is NaN at step 1"),
        (2, "reward of path 1 of paths of task 3 is NaN at step 0"),
        (5, "reward of path 2 of paths of task 3 is NaN at step 2"),
    ],
)
def test_the_first_nan_reward_is_named_by_path_and_step(bad, message):
    rewards = np.zeros(7)
    rewards[[bad, 6]] = np.nan
    with pytest.raises(ValueError, match=message):
        check_rewards(rewards, [2, 1, 4], "paths of task 3")


def test_infinite_rewards_pass():
    assert check_rewards(np.array([np.inf, 1.0, -np.inf]), [2, 1]) is None


def test_dicts_are_stacked_key_by_key():
    one = {"a": np.array([1, 2]), "b": {"c": np.array([[1.0]])}}
    two = {"a": np.array([3]), "b": {"c": np.array([[2.0], [3.0]])}}
    stacked = stack([one, two])
    assert stacked["a"].tolist() == [1, 2, 3]
    assert stacked["b"]["c"].tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("flags", "last"),
    [([False, True], True), ([True, False], False), ([True], True), (True, True), (False, False)],
)
def test_the_last_flag_of_a_path_counts(flags, last):
    assert last_flag({"truncated": flags}, "truncated") is last
    assert last_flag({"truncated": np.array(flags)}, "truncated") is last


def test_a_path_without_flags_ended_by_neither():
    assert last_flag({}, "terminated") is False
