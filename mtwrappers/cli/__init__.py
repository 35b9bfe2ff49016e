"""The command line: ``mtwrappers list``, ``rollout`` and ``verify-fast``."""

from mtwrappers.cli.main import main

__all__ = ["main"]
