"""Numbers of things in messages."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """Formats a number with its noun, which gets an "s" unless the number is 1.

    >>> from mtwrappers.common.plural import format_count
    >>> format_count(1, "episode"), format_count(5000, "step")
    ('1 episode', '5,000 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
