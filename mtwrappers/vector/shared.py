"""The memory that a parallel executor shares with its workers.

It is an anonymous file that is handed over the pipe: it has no name, so no process can leave it
behind, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mtwrappers.vector.infos import Cells
from mtwrappers.vector.layout import BatchLayout

INFO_SLOTS = 64
_WORD = 8  # bytes for an element of an action, whatever its dtype


class SharedArrays:
    """Views of one shared buffer: actions in; observations, rewards, flags and infos out.

    Args:
        fd: The file, at least `nbytes` long. It stays open.
        observation_space: The space of one observation.
        action_size: How many numbers an action has; 0 where actions go through the pipe.
        n: How many environments.
    """

    def __init__(self, fd: int, observation_space: Space[Any], action_size: int, n: int) -> None:
        self._n, self._action_size = n, action_size
        self.layout = BatchLayout(observation_space, n)
        buffer = memoryview(mmap.mmap(fd, self.nbytes(observation_space, action_size, n)))
        sizes = self._sizes(self.layout, action_size, n)
        parts, offset = [], 0
        for size in sizes:
            parts.append(buffer[offset : offset + size])
            offset += size
        self.obs = self.layout.views(parts[0])
        self._actions = parts[1]
        self.rewards = np.frombuffer(parts[2], np.float64, n)
        self.terminated = np.frombuffer(parts[3], np.bool_, n)
        self.truncated = np.frombuffer(parts[4], np.bool_, n)
        self.cells = Cells(parts[5], INFO_SLOTS, n)

    @staticmethod
    def _sizes(layout: BatchLayout, action_size: int, n: int) -> list[int]:
        flags = -(-n // 64) * 64
        actions = -(-_WORD * n * action_size // 64) * 64
        return [layout.nbytes, actions, _WORD * flags, flags, flags, Cells.nbytes(INFO_SLOTS, n)]

    @classmethod
    def nbytes(cls, observation_space: Space[Any], action_size: int, n: int) -> int:
        """How long the file must be."""
        return sum(cls._sizes(BatchLayout(observation_space, n), action_size, n))

    def actions(self, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """The actions of all environments, shape ``(n, *shape)``, as ``dtype``."""
        count = self._n * self._action_size
        return np.frombuffer(self._actions, dtype, count).reshape(self._n, *shape)


def anonymous_file(nbytes: int) -> int:
    """The descriptor of a file of zeros that has no name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("mtwrappers")
    else:
        fd, path = tempfile.mkstemp(prefix="mtwrappers")
        os.unlink(path)
    os.ftruncate(fd, max(nbytes, 1))
    return fd
