"""The texts that policies may ask for: the name of each row's task, and its sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv

# The names of the tasks of some rows in their present episodes.
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
    """The name of each environment's present task, from infos of its reset, or of its group.

    Args:
        inner: The environments.
        infos: Of their reset.
        rows: The environments to name; all by default.
        group: The index of an environment's group, by ``envs_per_task`` by default.
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
    """The texts of the episodes that begin in some rows, from their environments.

    Args:
        inner: The environments, which stand at the start of these episodes.
        texts: Those that the policy takes, of `mtwrappers.samplers.policies.TEXTS`.
        rows: The environments that begin an episode.
        names: Returns the names of their tasks.
        first: The index of the first environment among all.

    Returns:
        An entry for each row, by the name of the text.

    Raises:
        TypeError: If a ``task_description`` is not a string.
        ValueError: If the environments hide their tasks, or have no ``task_description``; the
            message says which.
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
    """Looks at one environment at an episode's start; runs where the environment is.

    Returns:
        Why it hides its task, or nothing; why it has no description, or nothing; and this.
    """
    bottom = env.unwrapped
    hidden, lacking, text = "", "", None
    # Environments that hide their task have these attributes, and refuse them.
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
            f"the policy asks for {asked}, and environments {which} hide their tasks: "
            f"{reasons[of[0]]}"
        )
    raise ValueError(
        f"the policy asks for descriptions, and there are none of environments {which}: "
        f"{reasons[of[0]]}. Give each environment an attribute task_description, a string that is "
        "read when an episode begins, or let the policy take task_names instead"
    )
