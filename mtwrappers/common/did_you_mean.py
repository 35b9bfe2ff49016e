"""The hint at the end of a message about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """A question that suggests similar names; empty if there are none.

    It suggests up to three names, the closest first, and ignores case.

    >>> from mtwrappers.common.did_you_mean import did_you_mean
    >>> did_you_mean("mt1O", ["MT1", "MT10", "ML45"])
    "did you mean 'MT1' or 'MT10'?"
    >>> did_you_mean("CartPole", ["MT1", "MT10"])
    ''
    """
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    typed = str(name).casefold()
    close = [typed] if typed in folded else difflib.get_close_matches(typed, folded)
    if not close:
        return ""
    *first, last = [repr(folded[candidate]) for candidate in close]
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
