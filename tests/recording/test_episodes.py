"""Episodes as arrays: their names, their differences, and their files."""

import numpy as np
import pytest

from mtwrappers.recording.episodes import Episode, Stored, columns_of, difference
from mtwrappers.recording.minari import MinariStore
from mtwrappers.recording.unfinished import Unfinished

ABOUT = {
    "task_state": 3,
    "task_name": "reach-v3",
    "task_description": "Reach",
    "rand_vec": np.arange(3.0),
}


def episode(observations):
    flags = np.array([False, True])
    actions = np.full((2, 4), 0.5, np.float32)
    return Episode(7, ABOUT, observations, actions, np.array([1.0, 2.0]), flags, ~flags)


NESTED = {
    "pixels": {"corner4": np.zeros((3, 2, 2, 3), np.uint8), "up": np.ones((3, 2, 2, 3), np.uint8)},
    "environment_state": np.arange(6.0).reshape(3, 2),
}


@pytest.mark.parametrize("observations", [np.arange(6.0).reshape(3, 2), NESTED])
def test_an_unfinished_recording_returns_what_was_written(observations, tmp_path):
    unfinished = Unfinished(tmp_path / "deep" / "a")
    unfinished.begin({"seed": 1})
    assert (unfinished.settings(), unfinished.has(3)) == ({"seed": 1}, False)
    unfinished.write(episode(observations))
    assert not unfinished.has(3)  # as it was not replayed
    unfinished.keep(3)
    found = unfinished.read(3)
    assert (found.seed, found.about["task_name"]) == (7, "reach-v3")
    before, after = columns_of(episode(observations)), columns_of(found)
    assert {k: (v.dtype, v.tolist()) for k, v in after.items()} == {
        k: (v.dtype, v.tolist()) for k, v in before.items()
    }
    unfinished.write(None)
    unfinished.keep(4)
    assert (unfinished.succeeded(3), unfinished.succeeded(4)) == (True, False)
    unfinished.remove()
    assert not unfinished.begun


def test_columns_are_named_by_their_place():
    names = ["observations['environment_state']", "actions", "rewards", "terminations"]
    names += ["truncations", "observations['pixels']['corner4']", "observations['pixels']['up']"]
    assert sorted(columns_of(episode(NESTED))) == sorted(names)


def stored(**changed):
    about = {**ABOUT, **{k: v for k, v in changed.items() if k in ABOUT}}
    columns = {"rewards": np.array([1.0, 2.0]), "done": np.array([False, True])}
    columns |= {k: v for k, v in changed.items() if k in columns}
    return Stored(7, about, np.zeros((2, 4), np.float32), columns)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({}, None),
        ({"task_name": "push-v3"}, "task_name"),
        ({"task_description": "Push"}, "task_description"),
        ({"rand_vec": np.array([0.0, 1.0, 2.5])}, "rand_vec"),
        ({"done": np.array([False, False])}, "done"),
        ({"done": np.array([0, 1])}, "done"),
        ({"rewards": np.array([1.0, 2.0 + 1e-12])}, "rewards"),
        ({"rewards": np.array([1.0])}, "rewards"),
    ],
)
def test_the_first_part_with_other_bits_is_named(changed, part):
    assert difference(stored(), stored(**changed)) == part


@pytest.mark.parametrize(
    ("dtype", "apart", "part"),
    [(float, 1e-12, None), (float, 1e-8, "rewards"), (np.float32, 1e-7, None)],
)
def test_rewards_may_differ_by_rounding_where_that_is_asked_for(dtype, apart, part):
    one = stored(rewards=np.array([1.0, 2.0], dtype))
    other = stored(rewards=np.array([1.0, 2.0 * (1 + apart)], dtype))
    assert difference(one, other, rounding=1e-9) == part


def test_a_file_of_hdf5_is_smaller_with_the_same_bits(tmp_path):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("minari")
    path, frames = tmp_path / "main_data.hdf5", np.zeros((50, 16, 16, 3), np.uint8)
    frames[:, 3] = np.random.default_rng(0).integers(0, 255, (16, 3))
    with h5py.File(path, "w", track_order=True) as file:
        for i in range(12):
            group = file.create_group(f"episode_{i}")
            group.attrs["seed"] = i
            group.create_dataset("observations/pixels", data=frames + np.uint8(i))
            group.create_dataset("rewards", data=np.arange(50.0), chunks=True, maxshape=(None,))
    before = path.stat().st_size
    MinariStore("tests/a-v0")._compress(path)
    assert path.stat().st_size < before / 4
    with h5py.File(path) as file:
        assert [file[f"episode_{i}"].attrs["seed"] for i in range(12)] == [*range(12)]
        assert (file["episode_11/observations/pixels"][:] == frames + np.uint8(11)).all()
        assert file["episode_5/rewards"][:].tolist() == [*range(50)]
    assert [*tmp_path.iterdir()] == [path]
