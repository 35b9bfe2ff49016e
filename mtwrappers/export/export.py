"""Exports a result: its episodes are replayed with observations, and stored as a dataset."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.cores import cores
from mtwrappers.common.errors import full_message
from mtwrappers.common.registration import EPISODE_STEPS
from mtwrappers.evaluation.claims import read_claim
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import (
    evidence_beside,
    evidence_files,
    name_of,
    read_evidence,
)
from mtwrappers.evaluation.origin import PACKAGES, SCORED
from mtwrappers.evaluation.plan import Design, Plan, PlannedEpisode, Stage, plan_episodes
from mtwrappers.evaluation.remake import remake
from mtwrappers.evaluation.replay import compare_episodes, describe_episode, replay
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.verification import verify
from mtwrappers.export.datasets import Dataset, ExportError, Replayed
from mtwrappers.metaworld.upstream_names import UPSTREAM_NAMES
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.state.files import hidden_name, locked, remove
from mtwrappers.vector.make import MetaIterativeEnvExecutor

# The largest size of an episode's frames, in bytes: a library takes a whole episode at once.
_MAX_FRAMES = 2**30
# The arguments that a dataset's environment takes from a result: what determines an episode, and
# how observations identify the task.
_KEPT = {*SCORED, *UPSTREAM_NAMES, "task_encoding", "descriptions"} - {"meta_batch_size"}


@dataclass(frozen=True)
class Exported:
    """What was written into a dataset.

    Args:
        episodes: The number of episodes.
        steps: The number of their steps.
        rounded_from: The dtype of the recorded actions if it was another than float32, else
            ``None``.
        difference: The largest relative difference between the return of an episode and that of its
            result: 0.0 if all are equal to the last bit.
    """

    episodes: int
    steps: int
    rounded_from: str | None
    difference: float


def export(
    result: str | os.PathLike[str], dataset: Dataset, *, successes: bool = False
) -> Exported:
    """Verifies a result, and replays its episodes into a dataset.

    The dataset has actions of float32, within [-1, 1]. Its environment, seeds, task states and
    actions give the same episodes again. If the recorded actions are float32, they are the result's
    to the last bit. Others are rounded: success, length and steps to success are then equal, and
    returns differ by rounding. The dataset appears when it is complete: an interruption or a kill
    leaves nothing of it.

    Args:
        result: A file from `EvaluationResult.save`, with its evidence beside it.
        dataset: Where to.
        successes: Whether to store successful episodes alone, each until its first success, which
            terminates it.

    Returns:
        The numbers of episodes and steps, and whether actions were rounded; see `Exported`.

    Raises:
        ExportError: If the result is not one of Meta-World's tasks, is of a few-shot evaluation, or
            has no success to export; or if an episode differs when it is replayed, or with rounded
            actions succeeds at another step.
        EvidenceError, OSError, VerificationError: As in `verify`.
    """
    claim = read_claim(result)
    kwargs = _kwargs(claim, dataset, successes)
    ends = ((x.place, x.steps_to_success if successes else x.length) for x in claim.episodes)
    lengths = {place: length for place, length in ends if length}
    if not lengths:
        raise ExportError("no episode is a success, so there is nothing to export")
    longest, frames = max(lengths.values()), dataset.frames
    size = (longest + 1) * len(frames.cameras) * frames.size**2 * 3
    if frames.observation != "state" and size > _MAX_FRAMES:
        raise ExportError(
            f"the frames of an episode of {longest} steps would take {size / 2**30:.1f} GB of "
            f"memory, and at most {_MAX_FRAMES // 2**30} GB may be: choose a smaller size or "
            "fewer cameras"
        )
    with _beside(dataset.path) as place:
        with contextlib.ExitStack() as stack:
            found = verify(result, workers=cores(), progress=True)
            if not found.ok:
                raise ExportError(f"{os.fspath(result)} is false: {found.difference}")
            [evidence] = evidence_files(evidence_beside(result), 1)
            claim, recorded = found.result, read_evidence(evidence)
            made, design = claim.environments, claim.design
            assert made is not None  # it was verified
            assert design is not None
            with contextlib.closing(remake(made, design, claim.episodes)) as envs:
                planned = plan_episodes(envs, design).episodes
            try:
                env = gymnasium.make(f"mtwrappers:{made.id}", **kwargs)
            except (TypeError, ValueError) as exc:
                raise ExportError(full_message(exc)) from None
            stack.callback(env.close)
            advance = stack.enter_context(ProgressBar(True).of("exported episodes", len(lengths)))
            recorder = _Recorder(env)
            dtype = next(iter(recorded.values())).dtype  # of all of them
            rounded_from = None if dtype == np.float32 else str(dtype)

            def episodes() -> Iterator[Replayed]:
                for one, again in zip(claim.episodes, planned, strict=True):
                    if one.place in lengths:
                        actions = recorded[name_of(one)][: lengths[one.place]]
                        yield recorder.replay(again, one, actions, successes)
                        advance(1)

            about = {
                "policy": claim.description.policy or "unnamed",
                "protocol": None if claim.protocol is None else claim.protocol.label,
                "score": claim.score,
                "evidence": claim.evidence,
                "successes": successes,
                "rounded_from": rounded_from,
                "requirements": [f"{x}=={version(x)}" for x in (*PACKAGES, *dataset.packages)],
            }
            written = dataset.write(place, env, episodes(), about)
        written.rename(dataset.path)  # at the end, since Ctrl-C says that nothing was written
    return Exported(len(lengths), sum(lengths.values()), rounded_from, recorder.difference)


def _kwargs(claim: EvaluationResult, dataset: Dataset, successes: bool) -> dict[str, Any]:
    """The arguments of the single environment that runs the episodes of a result."""
    made, design = claim.environments, claim.design
    if made is None or design is None or "benchmark" not in made.kwargs or design.phases:
        raise ExportError("only evaluations on Meta-World's benchmarks can be exported")
    if design.trials:
        raise ExportError("the episodes of few-shot trials follow from one another: export none")
    kwargs = {name: value for name, value in made.kwargs.items() if name in _KEPT}
    kwargs = {"max_episode_steps": EPISODE_STEPS, **kwargs, **dataset.kwargs}
    return {**kwargs, "terminate_on_success": True} if successes else kwargs


class _Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps what the current episode returns.

    ``difference`` is the largest relative difference between the return of a replayed episode and
    that of its result.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.difference = 0.0
        self._envs = MetaIterativeEnvExecutor([lambda: self], 1)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self._observations: list[Any] = [obs]
        self._steps: list[tuple[Any, ...]] = []
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._observations.append(result[0])
        self._steps.append((action, *result[1:4], bool(result[4]["success"])))
        return result

    def _play(self, planned: PlannedEpisode, actions: NDArray[Any]) -> Episode:
        """Runs an episode with its actions."""
        plan = Plan(Design(), (Stage([[planned]]),))
        [episode] = replay(self._envs, plan, {name_of(planned): actions})
        return episode

    def replay(
        self, planned: PlannedEpisode, one: Episode, actions: NDArray[Any], successes: bool
    ) -> Replayed:
        """Runs an episode with the actions that a dataset stores, and compares it."""
        stored, rounds = actions.astype(np.float32).clip(-1.0, 1.0), actions.dtype != np.float32
        as_stored = not rounds and np.array_equal(stored, actions)
        expected = one
        if successes and not as_stored:
            expected = self._play(planned, actions)  # until the first success
        again = self._play(planned, stored)
        why = ""
        if not as_stored:
            why = (
                f"; a dataset has actions of float32 in [-1, 1], and its own are {actions.dtype} "
                f"in [{actions.min():.3g}, {actions.max():.3g}]"
            )
        if successes and (again.length, again.success_final) != (len(actions), True):
            raise ExportError(
                f"{describe_episode(one)} does not succeed at step {len(actions)} in the "
                f"replay{why}"
            )
        if not (successes and as_stored):  # which has the actions of the verified episode
            difference = compare_episodes(expected, again, math.inf if rounds else 0.0)
            if isinstance(difference, str):
                raise ExportError(f"{difference}{why}")
            self.difference = max(self.difference, difference)
        about = {
            "seed": planned.seed,
            "task_name": one.task,
            "task_description": getattr(self.unwrapped, "task_description", None),
            "task_state": one.task_state,
            "rand_vec": self.env.get_wrapper_attr("rand_vec").tolist(),
            "number": one.number,
        }
        about = {name: value for name, value in about.items() if value is not None}
        columns = map(np.array, zip(*self._steps, strict=True))
        names = ("actions", "rewards", "terminations", "truncations", "successes")
        data = dict(zip(names, columns, strict=True))
        data["observations"] = _stacked(self._observations)
        return Replayed(about, successes=data.pop("successes"), data=data)


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        keys = observations[0]
        return {key: _stacked([obs[key] for obs in observations]) for key in keys}
    return np.stack(observations)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder for a dataset that is not complete, removed in any case; a kill's at the next."""
    if os.path.lexists(path):  # a link into nowhere too
        raise ExportError(f"{path} exists: choose another name, or delete it")
    new = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.with_name(hidden_name(path.name, ".unfinished"))
    if folder.is_symlink():
        remove(folder)
    folder.mkdir(exist_ok=True)
    with locked(folder) as free:
        if not free:
            raise ExportError(f"another export is writing {path}: wait until it has ended")
        try:
            for left in folder.iterdir():
                remove(left)
            yield folder
        finally:
            remove(folder)
            with contextlib.suppress(OSError):  # the first that is not empty
                for parent in new:
                    parent.rmdir()
