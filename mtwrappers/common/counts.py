"""Numbers with their nouns, for printed text."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """A number with its noun, which gets an ``s`` unless the number is 1.

    >>> from mtwrappers.common.counts import format_count
    >>> format_count(1, "episode"), format_count(1000, "episode")
    ('1 episode', '1,000 episodes')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"
