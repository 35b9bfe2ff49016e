"""The texts that policies can take: the name and the description of each row's task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv

# Returns the task names of some rows' current episodes, given their indices and the last infos.
TaskNamer: TypeAlias = Callable[[Sequence[int], Mapping[str, Any]], list[str]]


def has_everywhere(envs: MetaVectorEnv, name: str) -> bool:
    """Whether every environment has this attribute."""
    return all(envs.call("has_wrapper_attr", name))


def task_names(
    envs: MetaVectorEnv,
    infos: Mapping[str, Any],
    rows: Sequence[int] | None = None,
    group: Callable[[int], int] | None = None,
) -> list[str]:
    """The name of each environment's current task, from the infos of its reset or its group.

    Each is its ``task_name`` in infos, or else its ``task_id`` there, or else its attribute
    ``task_name``; an environment that has none of these is named by the index of its group.

    Args:
        envs: The environments.
        infos: The infos of their reset.
        rows: The environments to name; by default all.
        group: Returns the index of an environment's group; by default from ``envs_per_task``.
    """
    rows = range(envs.num_envs) if rows is None else rows
    names: dict[int, str] = {}
    for key, form in (("task_name", "{}"), ("task_id", "task {}")):
        for i in rows if key in infos else ():
            if i not in names and infos[f"_{key}"][i]:
                names[i] = form.format(infos[key][i])
    unnamed = [i for i in rows if i not in names]
    has_name = envs.call_some(unnamed, "has_wrapper_attr", "task_name") if unnamed else []
    named = [i for i, has in zip(unnamed, has_name, strict=True) if has]
    if named:
        names.update(zip(named, map(str, envs.call_some(named, "task_name")), strict=True))
    group = group or (lambda i: i // envs.envs_per_task)
    return [names.get(i, f"task {group(i)}") for i in rows]


def read_texts(
    envs: MetaVectorEnv,
    texts: Sequence[str],
    rows: Sequence[int],
    names: Callable[[], list[str]],
) -> dict[str, list[str]]:
    """Reads the texts of episodes that begin in some rows from their environments.

    Args:
        envs: The environments, at the start of these episodes.
        texts: The members of `mtwrappers.samplers.policies.TEXTS` that the policy takes.
        rows: The environments that begin an episode.
        names: Returns the names of their tasks.

    Returns:
        A list with an entry for each row, by the name of the text.

    Raises:
        TypeError: If a ``task_description`` is not a string.
        ValueError: If an environment hides its task, or has no ``task_description``.
    """
    descriptions = envs.call_some(rows, _read_description, texts)
    entries = {"descriptions": descriptions} if "descriptions" in texts else {}
    if "task_names" in texts:
        entries["task_names"] = names()
    return entries


@read_only
def _read_description(env: Any, texts: Sequence[str]) -> str | None:
    """The description of an environment's task, if it is in ``texts``.

    It runs in the environment's process, also to find out whether the environment hides its task:
    then it raises AttributeError on access to its attributes ``task`` and ``task_description``.
    """
    bottom = env.unwrapped
    has_description = hasattr(type(bottom), "task_description")
    if has_description and hasattr(type(bottom), "task"):
        try:
            bottom.task  # noqa: B018
        except AttributeError as exc:
            taken = " and ".join(texts)
            raise ValueError(f"the policy takes {taken}, but {exc}") from exc
    if "descriptions" not in texts:
        return None
    try:
        text = env.get_wrapper_attr("task_description")
    except AttributeError as exc:
        why = exc if has_description else "it has no attribute task_description"
        raise ValueError(
            f"the policy takes descriptions, and this environment has none: {why}. Give each "
            "environment an attribute task_description, a string that is read when an episode "
            "begins, or let the policy take task_names instead"
        ) from exc
    if not isinstance(text, str):
        raise TypeError(f"task_description must be a string, got {text!r}")
    return text
