"""The hint at the end of a message about an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question that suggests similar known names; empty if there are none.

    It suggests up to three names, the closest first, and ignores case.

    >>> from mtwrappers.common.did_you_mean import did_you_mean
    >>> did_you_mean("mt1O", ["MT1", "MT10", "ML45"])
    "did you mean 'MT1' or 'MT10'?"
    >>> did_you_mean("CartPole", ["MT1", "MT10"])
    ''
    """
    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(one.casefold(), one)
    given = str(name).casefold()
    close = [given] if given in folded else difflib.get_close_matches(given, folded)
    if not close:
        return ""
    *others, last = [repr(folded[one]) for one in close]
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
