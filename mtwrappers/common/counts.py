"""Numbers with their nouns, for printed text."""

from __future__ import annotations


def format_count(number: int, noun: str) -> str:
    """A number with its noun, which gets an ``s`` unless the number is 1.

    >>> from mtwrappers.common.counts import format_count
    >>> format_count(1, "episode"), format_count(1000, "episode")
    ('1 episode', '1,000 episodes')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_range(noun: str, first: int, last: int) -> str:
    """A noun with the first and the last of its consecutive numbers.

    >>> from mtwrappers.common.counts import format_range
    >>> format_range("task", 0, 0), format_range("task", 2, 3)
    ('task 0', 'tasks 2 to 3')
    """
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"
