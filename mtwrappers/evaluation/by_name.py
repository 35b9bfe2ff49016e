"""Dicts by the names of something, whose errors suggest a name."""

from __future__ import annotations

from typing import Never, TypeVar

from mtwrappers.common.did_you_mean import did_you_mean

V = TypeVar("V")


class ByName(dict[str, V]):
    """A dict by names; the error of an unknown name suggests similar ones, or lists all.

    Subclasses say what has these names.

    >>> from mtwrappers.evaluation.by_name import ByName
    >>> ByName(reach=1)["raech"]
    Traceback (most recent call last):
    ...
    KeyError: "no name 'raech'; did you mean 'reach'?"
    """

    noun = "name"

    def __missing__(self, name: object) -> Never:
        hint = did_you_mean(name, self) or f"choose from {', '.join(map(repr, self))}"
        raise KeyError(f"no {self.noun} {name!r}; {hint}")


class ByTask(ByName[V]):
    """Values by the names of tasks."""

    noun = "task"


class ByMetric(ByName[V]):
    """Values by the names of metrics."""

    noun = "metric"


class ByMean(ByName[V]):
    """Values by the names of means."""

    noun = "mean"
