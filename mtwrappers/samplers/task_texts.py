"""The texts that policies can take: the name and the description of each row's task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.journal import read_only

# Returns the task names of some rows' current episodes, given their indices and the last infos.
NamesOf: TypeAlias = Callable[[Sequence[int], Mapping[str, Any]], list[str]]


def has_everywhere(inner: MetaVectorEnv, name: str) -> bool:
    """Whether every environment has this attribute."""
    return all(inner.call("has_wrapper_attr", name))


def task_names(
    inner: MetaVectorEnv,
    infos: Mapping[str, Any],
    rows: Sequence[int] | None = None,
    group: Callable[[int], int] | None = None,
) -> list[str]:
    """The name of each environment's current task, from the infos of its reset or its group.

    Args:
        inner: The environments.
        infos: The infos of their reset.
        rows: The environments to name; by default all.
        group: Returns the index of an environment's group; by default from ``envs_per_task``.
    """
    rows = range(inner.num_envs) if rows is None else rows
    for key, form in (("task_name", "{}"), ("task_id", "task {}")):
        if key in infos and infos[f"_{key}"][list(rows)].all():
            return [form.format(infos[key][i]) for i in rows]
    if has_everywhere(inner, "task_name"):
        return [str(name) for name in inner.call_some(rows, "task_name")]
    group = group or (lambda i: i // inner.envs_per_task)
    return [f"task {group(i)}" for i in rows]


def read_texts(
    inner: MetaVectorEnv,
    texts: Sequence[str],
    rows: Sequence[int],
    names: Callable[[], list[str]],
    first: int,
) -> dict[str, list[str]]:
    """Reads the texts of episodes that begin in some rows from their environments.

    Args:
        inner: The environments, at the start of these episodes.
        texts: The members of `mtwrappers.samplers.policies.TEXTS` that the policy takes.
        rows: The environments that begin an episode.
        names: Returns the names of their tasks.
        first: The index of the first environment among all.

    Returns:
        A list with an entry for each row, by the name of the text.

    Raises:
        TypeError: If a ``task_description`` is not a string.
        ValueError: If the environments hide their tasks, or have no ``task_description``; the
            message names them.
    """
    found: dict[str, list[str]] = {}
    looked = inner.call_some(rows, _look, "descriptions" in texts)
    _refuse({first + i: one[0] for i, one in zip(rows, looked, strict=True)}, "task_names", texts)
    if "descriptions" in texts:
        lacking = {first + i: one[1] for i, one in zip(rows, looked, strict=True)}
        _refuse(lacking, "descriptions", texts)
        found["descriptions"] = [one[2] for one in looked]
        for i, text in zip(rows, found["descriptions"], strict=True):
            if not isinstance(text, str):
                raise TypeError(
                    f"task_description of environment {first + i} must be a string, got {text!r}"
                )
    if "task_names" in texts:
        found["task_names"] = names()
    return found


@read_only
def _look(env: Any, described: bool) -> tuple[str, str, Any]:
    """Reads one environment at an episode's start; runs in the environment's process.

    Returns:
        The reason why it hides its task, or ``""``; the reason why it has no description, or
        ``""``; and the description.
    """
    bottom = env.unwrapped
    hidden, lacking, text = "", "", None
    # Environments that hide their task raise AttributeError on access to these attributes.
    if hasattr(type(bottom), "task") and hasattr(type(bottom), "task_description"):
        try:
            bottom.task  # noqa: B018
        except AttributeError as exc:
            hidden = str(exc)
    if described and not hidden:
        try:
            text = env.get_wrapper_attr("task_description")
        except AttributeError:
            lacking = "they have no attribute task_description"
            if hasattr(type(bottom), "task_description"):
                try:
                    bottom.task_description  # noqa: B018
                except AttributeError as exc:
                    lacking = str(exc)
    return hidden, lacking, text


def _refuse(reasons: Mapping[int, str], what: str, texts: Sequence[str]) -> None:
    """Raises `ValueError` if there is a reason for any environment, by its index."""
    of = [i for i, reason in reasons.items() if reason]
    if not of:
        return
    asked = " and ".join(texts)
    which = ", ".join(map(str, of[:10])) + ", ..." * (len(of) > 10)
    if what == "task_names":
        raise ValueError(
            f"the policy takes {asked}, but environments {which} hide their tasks: {reasons[of[0]]}"
        )
    raise ValueError(
        f"the policy takes descriptions, but environments {which} have none: "
        f"{reasons[of[0]]}. Give each environment an attribute task_description, a string that is "
        "read when an episode begins, or let the policy take task_names instead"
    )
