"""Arrays in a zip file; what NumPy reads and writes is in the tests of evidence."""

import io
import zipfile

import numpy as np

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
