"""A multi-task benchmark of chosen classes, which Meta-World itself has only for meta-learning."""

from __future__ import annotations

import metaworld


class CustomMT(metaworld.Benchmark):  # type: ignore[misc] # metaworld has no usable types
    """Built by `mtwrappers.metaworld.make_benchmark`."""

    def __init__(self) -> None:
        raise TypeError("use mtwrappers.metaworld.make_benchmark('CustomMT', train_classes=[...])")
