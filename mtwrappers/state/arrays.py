"""Arrays and JSON in a zip file; an array is a ``.npy`` member, as `numpy.savez` writes it.

Untrusted files are safe to read: nothing in them is run, sizes are checked before allocation, and
anything but a plain array raises an exception.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from mtwrappers.common.types import AnyArray

_NPY, _JSON = ".npy", ".json"
# The header that `to_npy` writes: a dtype without fields, the order in memory, and a shape.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][a-zA-Z]\d{0,9}(?:\[\w+\])?)', "
    rb"'fortran_order': (False|True), 'shape': \(((?:\d{1,19},? ?){0,64})\), \} *\n",
    re.DOTALL,
)
_PER_CHARACTER = 64  # bytes of memory that a character of JSON can take
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal arrays make equal files
# The header of each member of a zip file: how it is compressed, its CRC, its size compressed and
# not, and the lengths of its name and of a further field.
_LOCAL = struct.Struct("<4x4xH4x3I2H")


def add_member(archive: zipfile.ZipFile, name: str, data: bytes, *, compress: bool) -> None:
    """Writes bytes into a zip file under a name."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    # Higher levels hardly compress the numbers of a policy any better.
    archive.writestr(zipfile.ZipInfo(name, _DATE), data, method, compresslevel=1)


def read_members(file: BinaryIO, max_bytes: int | None) -> Iterator[tuple[str, bytes]]:
    """Reads the names of a zip file's members, arrays and JSON, and the bytes of each.

    Of a file without a directory, which a killed process leaves, it reads the complete members.

    Args:
        file: The file.
        max_bytes: The memory that all of them may take: the arrays, and 64 bytes for each character
            of JSON; ``None`` if nothing may be compressed.

    Raises:
        Exception: If ``file`` is not such a file, or is too large.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        members = list(_read_complete_members(file, max_bytes))
        if not members:
            raise
        yield from members
        return
    with archive:
        _check_sizes(archive.infolist(), max_bytes)
        for info in archive.infolist():
            with archive.open(info) as member:
                yield info.filename, member.read(info.file_size + 1)


def _read_complete_members(file: BinaryIO, max_bytes: int | None) -> Iterator[tuple[str, bytes]]:
    """Reads the complete members of a file without a directory."""
    members: list[tuple[zipfile.ZipInfo, bytes]] = []
    file.seek(0)
    while len(head := file.read(_LOCAL.size)) == _LOCAL.size and head[:4] == b"PK\3\4":
        method, crc, compressed, size, name_length, field_length = _LOCAL.unpack(head)
        name = file.read(name_length)
        file.read(field_length)
        data = file.read(compressed)
        if len(name) + len(data) < name_length + compressed:
            break  # cut off in the middle
        info = zipfile.ZipInfo(name.decode())
        info.compress_type, info.CRC, info.file_size = method, crc, size
        members.append((info, data))
    _check_sizes([info for info, _ in members], max_bytes)
    for info, data in members:
        if info.compress_type == zipfile.ZIP_DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, info.file_size + 1)
        # A size that is too small would have passed the check of sizes.
        if data and len(data) == info.file_size and zlib.crc32(data) == info.CRC:
            yield info.filename, data


def _check_sizes(members: Sequence[zipfile.ZipInfo], max_bytes: int | None) -> None:
    """Checks the names, compression and sizes that a file declares, before it is read."""
    names = Counter(info.filename for info in members)
    methods = (zipfile.ZIP_STORED,) + ((zipfile.ZIP_DEFLATED,) if max_bytes is not None else ())
    needed = 0
    for info in members:
        is_text = info.filename.endswith(_JSON)
        if names[info.filename] > 1 or not (is_text or info.filename.endswith(_NPY)):
            raise ValueError(f"{info.filename!r} is not an array or JSON, or occurs twice")
        if info.compress_type not in methods:
            how = " by another method than deflate" if zipfile.ZIP_DEFLATED in methods else ""
            raise ValueError(f"{info.filename!r} is compressed{how}")
        needed += estimate_memory(info.filename, info.file_size)
    if max_bytes is not None and needed > max_bytes:
        raise ValueError(
            f"it takes up to {needed:,} bytes of memory, but max_bytes is {max_bytes:,}"
        )


def estimate_memory(name: str, size: int) -> int:
    """The memory in bytes that a member of ``size`` bytes counts as when it is read."""
    return size * (_PER_CHARACTER if name.endswith(_JSON) else 1)


def is_plain(array: AnyArray | np.generic) -> bool:
    """Whether an array or scalar can be stored: it has no objects, fields or masks."""
    if type(array) is not np.ndarray and not isinstance(array, np.generic):
        return False
    return _is_plain(array.dtype, array.dtype.str, array.size)


def _is_plain(dtype: np.dtype[Any], name: str, count: int) -> bool:
    """Whether ``name`` describes ``dtype`` completely."""
    # An array could have any number of elements of size zero.
    return (
        dtype.str == name
        and np.dtype(name) == dtype
        and not dtype.hasobject
        and (dtype.itemsize > 0 or count <= 1)
    )


def to_npy(array: AnyArray) -> bytes:
    """Returns a plain array as the bytes of an ``.npy`` file, in its memory order."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, (1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_npy(name: str, data: bytes) -> AnyArray:
    """Returns a read-only view of the array that `to_npy` converted to ``data``.

    Raises:
        ValueError, TypeError: If ``data`` is not from `to_npy`; messages begin with ``name``.
    """
    header = _HEADER.match(data)
    if header is None:
        raise ValueError(f"{name!r} must be a plain array, got {data[:80]!r}")
    dtype_name, fortran_order = header[1].decode(), header[2] == b"True"
    dtype, shape = np.dtype(dtype_name), tuple(int(n) for n in header[3].split(b",") if n.strip())
    count = math.prod(shape)
    if not _is_plain(dtype, dtype_name, count):
        raise ValueError(f"{name!r} must be a plain array, got {count} of {dtype_name!r}")
    if len(data) - header.end() != count * dtype.itemsize:
        raise ValueError(f"the size of {name!r} does not match its shape {shape}")
    order: Any = "F" if fortran_order else "C"
    array: AnyArray = np.ndarray(shape, dtype, data, header.end(), None, order)
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name!r} must have bools that are 0 or 1")  # NumPy takes it for granted
    return array
