"""The command line: ``mtwrappers rollout``, ``verify``, ``compare`` and so on."""

from mtwrappers.common.command import imported_by_command

with imported_by_command():
    from mtwrappers.cli.main import main

__all__ = ["main"]
