"""The command line: ``mtwrappers rollout``, ``verify``, ``compare`` and so on."""

from mtwrappers.cli.main import main

__all__ = ["main"]
