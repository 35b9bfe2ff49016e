"""Arrays in a zip file, which NumPy reads and writes too.

Crafted files are in the tests of checkpoints and of evidence.
"""

import io
import zipfile

import numpy as np

from mtwrappers.state.arrays import add_member, from_npy, read_members, to_npy

ARRAYS = {
    "numbers": np.arange(6, dtype=">i2").reshape(2, 3),
    "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "neither": np.arange(12.0).reshape(3, 4)[:, ::2],
    "one": np.array(1.5),
    "none": np.zeros((0, 3)),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "bcd"]),
    "times": np.array(["NaT", "2026-11-21"], "M8[D]"),
}


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for i, (name, array) in enumerate(ARRAYS.items()):
            add_member(archive, f"{name}.npy", to_npy(array), compress=i % 2 == 0)
    file.seek(0)
    return file


def same(found, expected):
    return (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_numpy_reads_the_file():
    found = np.load(zipped())
    assert list(found) == list(ARRAYS)
    assert all(same(found[name], array) for name, array in ARRAYS.items() if name != "times")


def test_a_file_of_numpy_is_read():
    file = io.BytesIO()
    np.savez_compressed(file, **ARRAYS)
    found = {name: from_npy(name, data) for name, data in read_members(file, 10_000)}
    assert list(found) == [f"{name}.npy" for name in ARRAYS]
    for name, array in ARRAYS.items():
        assert repr(found[f"{name}.npy"]) == repr(array)
        assert found[f"{name}.npy"].flags.f_contiguous == (
            array.flags.f_contiguous or name == "none"
        )
        assert not found[f"{name}.npy"].flags.writeable


def test_a_file_that_is_cut_off_anywhere_gives_the_members_that_are_whole():
    whole, data, counts = dict(read_members(zipped(), 10_000)), zipped().getvalue(), set()
    for end in range(len(data) - 1):
        part = io.BytesIO(data[:end])
        try:
            found = dict(read_members(part, 10_000))
        except zipfile.BadZipFile:
            found = {}
        assert found == {name: whole[name] for name in list(whole)[: len(found)]}
        counts.add(len(found))
    assert counts == {*range(len(whole) + 1)}
