"""Reference results that come with the package, for comparisons."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.result import REFERENCE_PREFIX, EvaluationResult

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
# The wheel has only the results. A clone has them with their actions and the way they were made;
# without its pyproject.toml, a folder of this name beside the package is another's.
_PLACES = (
    _HERE / "reference_results",
    *([_ROOT / "benchmarks/reference"] if (_ROOT / "pyproject.toml").is_file() else []),
)


def reference(name: str, like: EvaluationResult | None = None) -> dict[str, EvaluationResult]:
    """Returns the package's results of a method, by name, ready for `compare`.

    They say in print and in comparisons that they are references, and cannot be runs of a method
    that has other results.

    ``benchmarks/reference/README.md`` of the repository lists them, with the commands that made
    them, and has the actions of their episodes.

    Args:
        name: A method, such as ``"experts"`` (Meta-World's scripted experts) or ``"random"``; or
            one result of it, such as ``"experts/metaworld-3.1-MT10"``.
        like: A result; return only results of the same protocol. If that observes frames, this
            includes its form with states, whose scores `compare` only accepts with ``force``.

    Raises:
        ValueError: If there are none; the message names the available ones.

    >>> from mtwrappers.evaluation import reference
    >>> list(reference("experts/metaworld-3.1-MT10"))
    ['experts/metaworld-3.1-MT10']
    """
    files = _files()
    if not files:
        raise ValueError(
            f"this installation has no reference results, so none of {name!r}: install mtwrappers "
            "from its wheel, or from a clone of its repository with benchmarks/reference"
        )
    of_name = [label for label in files if name in (label, label.partition("/")[0])]
    if not of_name:
        raise ValueError(f"there are no reference results of {name!r}; {_suggest(name, files)}")
    results = {label: _load(label, files[label]) for label in of_name}
    if like is None:
        return results
    protocol = like.protocol
    alike = {
        label: result
        for label, result in results.items()
        if protocol is not None and _follows(result, protocol)
    }
    if not alike:
        by = "without a protocol"
        if protocol is not None:
            settings = protocol.settings
            by = f"by {protocol.label} on {settings.benchmark} {settings.env_name or ''}".strip()
        nearest = _sort_by_common_tasks(results, like)
        force = ""
        if {*results[nearest[0]].tasks} & {*like.tasks}:
            argument = f"{REFERENCE_PREFIX}{nearest[0]}"
            force = f"; or name one and use force, on the command line {argument} --force"
        raise ValueError(
            f"no reference result of {name!r} was measured {by}; evaluate by the protocol of one "
            f"of these: {', '.join(nearest)}{force}"
        )
    return alike


def _sort_by_common_tasks(
    results: Mapping[str, EvaluationResult], like: EvaluationResult
) -> list[str]:
    """The names of results, those first that have the most tasks of ``like``, and few others."""

    def key(label: str) -> tuple[int, int]:
        tasks = {*results[label].tasks}
        return -len(tasks & {*like.tasks}), len(tasks)

    return sorted(results, key=key)


def _suggest(name: str, labels: Collection[str]) -> str:
    """The hint for a name of which there are no results: similar names, or all that fit."""
    bare_name = name.removeprefix(REFERENCE_PREFIX)
    if bare_name in {label for path in labels for label in (path, path.partition("/")[0])}:
        return f"pass {bare_name!r}, because {REFERENCE_PREFIX} is for the command line"
    method = name.partition("/")[0]
    choices = [label for label in labels if label.startswith(f"{method}/")]
    hint = did_you_mean(name, choices)
    if not choices:
        choices = sorted({label.partition("/")[0] for label in labels})
        hint = did_you_mean(method, choices)
    return hint or f"choose from {choices}"


def _load(label: str, path: Path) -> EvaluationResult:
    """A result that says in print and in comparisons that it is a reference."""
    return dataclasses.replace(EvaluationResult.load(path), reference=label)


def _files() -> dict[str, Path]:
    """All files of results by ``METHOD/NAME``."""
    for folder in _PLACES:
        if paths := sorted(folder.glob("*/*/results.json")):
            return {"/".join(path.parts[-3:-1]): path for path in paths}
    return {}


def _follows(result: EvaluationResult, protocol: Protocol) -> bool:
    """Whether a result has this protocol, apart from the observation."""
    if result.protocol is None:
        return False
    return result.protocol.with_states() == protocol.with_states()
