"""Arrays in a zip file; what NumPy reads and writes is in the tests of evidence."""

import io
import zipfile

import numpy as np
import pytest

from mtwrappers.state.arrays import add_member, read_members, to_npy


def test_a_file_that_is_cut_off_anywhere_gives_the_members_that_are_whole():
    file, members = io.BytesIO(), {f"{n}.npy": to_npy(np.arange(n)) for n in (1, 5, 0)}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            add_member(archive, name, data, compress=name == "5.npy")
    counts = set()
    for end in range(len(file.getvalue()) - 1):
        try:
            restored = dict(read_members(io.BytesIO(file.getvalue()[:end]), 10_000))
        except zipfile.BadZipFile:
            restored = {}
        assert restored == {name: members[name] for name in list(members)[: len(restored)]}
        counts.add(len(restored))
    assert counts == {0, 1, 2, 3}


def test_a_member_without_a_directory_cannot_be_larger_than_it_says():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        add_member(archive, "a.json", b"[" + b" " * 1000 + b"]", compress=False)
    data = bytearray(file.getvalue())
    data[22:26] = (1).to_bytes(4, "little")  # its size, which is stored as it is
    without_directory = io.BytesIO(data[: data.index(b"PK\1\2")])
    with pytest.raises(zipfile.BadZipFile):
        list(read_members(without_directory, 64))
