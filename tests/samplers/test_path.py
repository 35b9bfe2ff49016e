"""The path format and its checks."""

import numpy as np
import pytest

from mtwrappers.samplers.path import (
    check_finite,
    check_paths,
    check_targets,
    cut_observations,
    join,
)


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
    rest = r"\['actions', 'env_infos', 'observations', 'rewards'\] as in path 0"
    for other in (bad, path(extra=1)):
        with pytest.raises(ValueError, match=rf"path 1 of paths has the keys .*expected {rest}"):
            check_paths([path(), other])


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
@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        ({"a": np.ones(2)}, {"a": np.ones(3)}, r"\['a'\] of path 1 .* shape \(2,\), got \(3,\)"),
        ({"a": np.ones((2, 4))}, {"a": np.ones((2, 5))}, r"shape \(2, 4\), got \(2, 5\)"),
        ({"a": np.ones(2)}, {"b": np.ones(2)}, r"path 1 .* keys \['b'\], expected \['a'\]"),
        ({}, {"a": np.ones(2)}, r"path 1 .* keys \['a'\], expected \[\] as in path 0"),
        ({"a": np.ones(2)}, {}, r"path 1 .* keys \[\], expected \['a'\] as in path 0"),
        ({"a": 1.0}, {"a": 1.0}, r"\['a'\] of path 0 .* shape \(2,\), got \(\)"),
        ({"a": {"b": np.ones(2)}}, {"a": np.ones(2)}, r"\['a'\] of path 1 .* must be a dict"),
        ({"a": np.ones(2)}, {"a": {"b": np.ones(2)}}, r"\['a'\] of path 1 .* got \(\)"),
        (
            {"a": {"b": np.ones(2)}},
            {"a": {"b": np.ones(1)}},
            r"\['a'\]\['b'\] of path 1 of paths must have shape \(2,\), got \(1,\)",
        ),
        (None, None, "of path 0 of paths must be a dict, got None"),
        ([{}, {}], [{}, {}], "of path 0 of paths must be a dict, got"),
    ],
)
def test_infos_must_have_the_keys_and_shapes_of_the_first_path(key, one, two, message):
    with pytest.raises(ValueError, match=f"^{key}.*{message}"):
        check_paths([path(**{key: one}), path(**{key: two})])


@pytest.mark.parametrize("kind", [dict, tuple])
def test_observations_must_be_arrays(kind):
    arrays = {"b": np.zeros((2, 1)), "a": np.zeros(2)}
    nested = path(observations=arrays if kind is dict else tuple(arrays.values()))
    with pytest.raises(ValueError, match=f"of paths must be arrays, got {kind.__name__}s"):
        check_paths([nested])


def test_flags_must_be_as_long_as_the_path():
    good = path(terminated=np.zeros(2, np.bool_))
    with pytest.raises(ValueError, match=r"terminated of path 1 .* shape \(2,\), got \(1,\)"):
        check_paths([good, {**good, "terminated": np.zeros(1, np.bool_)}])


def test_targets_need_observations_alone_and_other_keys_may_differ():
    one = {"observations": np.zeros((2, 3)), "x": np.zeros(2)}
    two = {"observations": np.zeros((4, 3)), "x": np.zeros(4), "extra": None}
    assert check_targets([one, two], "x") == [2, 4]
    with pytest.raises(ValueError, match=r"path 0 of paths of 3 lacks \['y'\]; it has \["):
        check_targets([one, two], "y", "paths of 3")


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (0, "reward of path 0 of paths of task 3 is {} at step 0"),
        (1, "reward of path 0 of paths of task 3 is {} at step 1"),
        (2, "reward of path 1 of paths of task 3 is {} at step 0"),
        (5, "reward of path 2 of paths of task 3 is {} at step 2"),
    ],
)
def test_the_first_value_that_is_not_finite_is_named_by_path_and_step(bad, message, value, name):
    rewards = np.zeros(7)
    assert check_finite(rewards, [2, 1, 4], "reward", "paths of task 3") is None
    rewards[6], rewards[bad] = np.nan, value
    for values in (rewards, np.stack([np.zeros(7), rewards], axis=1)):
        with pytest.raises(ValueError, match=f"^{message.format(name)}$"):
            check_finite(values, [2, 1, 4], "reward", "paths of task 3")


def test_values_must_be_numbers():
    with pytest.raises(ValueError, match="each reward of paths must be of numbers, got dtype <U1"):
        check_finite(np.array(["a"]), [1], "reward", "paths")
    assert check_finite(np.array([True]), [1], "reward", "paths") is None


def test_dicts_are_joined_key_by_key():
    one = {"a": np.array([1, 2]), "b": {"c": np.array([[1.0]])}, "d": {}}
    two = {"a": np.array([3]), "b": {"c": np.array([[2.0], [3.0]])}, "d": {}}
    joined = join([one, two])
    assert joined["a"].tolist() == [1, 2, 3]
    assert joined["b"]["c"].tolist() == [[1], [2], [3]]
    assert joined["d"] == {}


@pytest.mark.parametrize(
    ("truncated", "terminated", "cut"),
    [
        ([False, True], [False, False], True),
        ([True, False], [False, False], False),
        ([False, True], [False, True], False),
        (True, False, True),
        (True, True, False),
    ],
)
def test_a_path_is_cut_if_its_last_step_is_truncated_and_not_terminated(truncated, terminated, cut):
    one = path(truncated=truncated, terminated=np.array(terminated), next_observation=[1, 2, 3])
    (found,) = cut_observations([one])
    assert (found is not None and found.tolist() == [1, 2, 3]) is cut
