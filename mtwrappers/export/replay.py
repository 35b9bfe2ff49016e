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
    name_actions,
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
from mtwrappers.samplers.bar import Advance, ProgressBar
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
        clipped: The number of episodes with actions outside of [-1, 1], which are clipped as the
            environments do.
        difference: The largest relative difference between the return of an episode and that of its
            result: 0.0 if all are equal to the last bit.
    """

    episodes: int
    steps: int
    rounded_from: str | None
    clipped: int
    difference: float

    def __str__(self) -> str:
        """How the stored actions and the replay compare with those of the result."""
        clipped = ""
        if self.clipped:
            clipped = f"actions clipped to [-1, 1] in {self.clipped:,} of {self.episodes:,} "
            clipped += "episodes, as the environments do; "
        if self.rounded_from is None:
            return f"{clipped}all replayed bit for bit"
        returns = "returns are equal"
        if self.difference:
            returns = f"returns differ by up to {self.difference:.0e} (relative)"
        return (
            f"{clipped}actions converted from {self.rounded_from} to float32: success unchanged in "
            f"{self.episodes:,} of {self.episodes:,} episodes, {returns}"
        )


def export(
    result: str | os.PathLike[str], dataset: Dataset, *, successes: bool = False
) -> Exported:
    """Verifies a result, and replays its episodes into a dataset.

    The dataset has actions of float32, within [-1, 1]. Its environment, seeds, task states and
    actions give the same episodes again. If the recorded actions are float32, they are the result's
    to the last bit, but for those outside of [-1, 1], which are clipped as the environments do. Of
    another dtype they are rounded: success, length and steps to success are then equal, and returns
    differ by rounding. The dataset appears when it is complete: an interruption or a kill
    leaves nothing of it.

    Args:
        result: A file from `EvaluationResult.save`, with its evidence beside it.
        dataset: Where to.
        successes: Whether to store successful episodes alone, each until its first success, which
            terminates it.

    Returns:
        The numbers of episodes and steps, and how actions and returns differ from those of the
        result; see `Exported`.

    Raises:
        ExportError: If the result is not one of Meta-World's tasks, is of a few-shot evaluation, or
            has no success to export; or if an episode differs when it is replayed, or with rounded
            actions succeeds at another step.
        EvidenceError, OSError, VerificationError: As in `verify`.
    """
    claim = read_claim(result)
    kwargs = _kwargs(claim, dataset, successes)
    lengths = _choose_lengths(claim, successes)
    num_steps = sum(lengths.values())
    _check_memory(dataset, max(lengths.values()))
    with _unfinished_folder(dataset.path) as folder:
        with contextlib.ExitStack() as stack:
            verification = verify(result, workers=cores(), progress=True)
            if not verification.ok:
                raise ExportError(f"{os.fspath(result)} is false: {verification.difference}")
            [evidence] = evidence_files(evidence_beside(result), 1)
            claim, recorded = verification.result, read_evidence(evidence)
            environments, design = claim.environments, claim.design
            assert environments is not None  # it was verified
            assert design is not None
            with contextlib.closing(remake(environments, design, claim.episodes)) as envs:
                planned = plan_episodes(envs, design).episodes
            try:
                env = gymnasium.make(f"mtwrappers:{environments.id}", **kwargs)
            except (TypeError, ValueError) as exc:
                raise ExportError(full_message(exc)) from None
            stack.callback(env.close)
            advance = stack.enter_context(ProgressBar(True).track("exported steps", num_steps))
            recorder = _EpisodeRecorder(env, advance)
            dtype = next(iter(recorded.values())).dtype  # of all of them
            rounded_from = None if dtype == np.float32 else str(dtype)

            def replay_episodes() -> Iterator[Replayed]:
                for episode, plan in zip(claim.episodes, planned, strict=True):
                    if episode.place in lengths:
                        actions = recorded[name_actions(episode)][: lengths[episode.place]]
                        yield recorder.replay(plan, episode, actions, successes)

            about = _describe_dataset(claim, dataset, successes, rounded_from)
            written = dataset.write(folder, env, replay_episodes(), about)
        written.rename(dataset.path)  # at the end, since Ctrl-C says that nothing was written
    return Exported(
        len(lengths), num_steps, rounded_from, recorder.num_clipped, recorder.difference
    )


def _choose_lengths(claim: EvaluationResult, successes: bool) -> dict[Any, int]:
    """The number of steps to store of each episode that is stored, by the episode's place."""
    lengths = {}
    for episode in claim.episodes:
        if length := episode.steps_to_success if successes else episode.length:
            lengths[episode.place] = length
    if not lengths:
        raise ExportError("no episode is a success, so there is nothing to export")
    return lengths


def _check_memory(dataset: Dataset, length: int) -> None:
    """Raises `ExportError` if the frames of an episode of ``length`` steps would be too large."""
    frames = dataset.frames
    size = (length + 1) * len(frames.cameras) * frames.size**2 * 3
    if frames.observation != "state" and size > _MAX_FRAMES:
        raise ExportError(
            f"the frames of an episode of {length} steps would take {size / 2**30:.1f} GB of "
            f"memory, above the limit of {_MAX_FRAMES // 2**30} GB: choose a smaller size or "
            "fewer cameras"
        )


def _describe_dataset(
    claim: EvaluationResult, dataset: Dataset, successes: bool, rounded_from: str | None
) -> dict[str, Any]:
    """The facts that the dataset says about itself, ready for JSON."""
    return {
        "policy": claim.description.policy or "unnamed",
        "protocol": None if claim.protocol is None else claim.protocol.label,
        "score": claim.score,
        "evidence": claim.evidence,
        "successes": successes,
        "rounded_from": rounded_from,
        "requirements": [
            f"{package}=={version(package)}" for package in (*PACKAGES, *dataset.packages)
        ],
    }


def _kwargs(claim: EvaluationResult, dataset: Dataset, successes: bool) -> dict[str, Any]:
    """The arguments of the single environment that runs the episodes of a result."""
    environments, design = claim.environments, claim.design
    is_metaworld = environments is not None and "benchmark" in environments.kwargs
    if environments is None or not is_metaworld or design is None or design.phases:
        raise ExportError("only evaluations on Meta-World's benchmarks can be exported")
    if design.trials:
        raise ExportError("the episodes of few-shot trials follow from one another: export none")
    kwargs = {name: value for name, value in environments.kwargs.items() if name in _KEPT}
    kwargs = {"max_episode_steps": EPISODE_STEPS, **kwargs, **dataset.kwargs}
    return {**kwargs, "terminate_on_success": True} if successes else kwargs


@dataclass(frozen=True)
class _Step:
    """A step of a replayed episode, but for its observation."""

    action: NDArray[np.float32]
    reward: Any
    terminated: bool
    truncated: bool
    success: bool


class _EpisodeRecorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Replays episodes, and keeps what the current one returns.

    Args:
        env: The environment.
        advance: Called with the number of steps of each replayed episode as they are taken.

    Attributes:
        difference: The largest relative difference between the return of a replayed episode and
            that of its result.
        num_clipped: The number of episodes whose actions were clipped.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], advance: Advance) -> None:
        super().__init__(env)
        self.difference, self.num_clipped = 0.0, 0
        self._advance = advance
        self._envs = MetaIterativeEnvExecutor([lambda: self], 1)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self._observations: list[Any] = [obs]
        self._steps: list[_Step] = []
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(obs)
        self._steps.append(
            _Step(action, reward, terminated, truncated, success=bool(info["success"]))
        )
        return obs, reward, terminated, truncated, info

    def _run_episode(self, planned: PlannedEpisode, actions: NDArray[Any]) -> Episode:
        """Runs an episode with its actions."""
        plan = Plan(Design(), (Stage([[planned]]),))
        [episode] = replay(self._envs, plan, {name_actions(planned): actions})
        return episode

    def replay(
        self, planned: PlannedEpisode, claimed: Episode, actions: NDArray[Any], successes: bool
    ) -> Replayed:
        """Runs an episode with the actions that a dataset stores, and compares it.

        Args:
            planned: The seed and the task of the episode.
            claimed: Its numbers in the result.
            actions: Its recorded actions, of any dtype.
            successes: Whether it ends with its first success.

        Raises:
            ExportError: If it differs from the result, except for the return of one whose actions
                were rounded.
        """
        is_rounded = actions.dtype != np.float32
        stored_actions = actions.astype(np.float32).clip(-1.0, 1.0)
        is_clipped = bool((np.abs(actions) > 1).any())
        is_exact = not is_rounded and not is_clipped
        expected: Episode | None = claimed
        if successes:  # the result has no return of an episode that ends with its first success
            expected = None if is_exact else self._run_episode(planned, actions)
        replayed = self._run_episode(planned, stored_actions)
        reason = "" if is_exact else _describe_conversion(actions)
        if successes and (replayed.length, replayed.success_final) != (len(actions), True):
            raise ExportError(
                f"{describe_episode(claimed)} does not succeed at step {len(actions)} in the "
                f"replay{reason}"
            )
        if expected is not None:  # otherwise it has the actions of the verified episode
            difference = compare_episodes(expected, replayed, math.inf if is_rounded else 0.0)
            if isinstance(difference, str):
                raise ExportError(f"{difference}{reason}")
            self.difference = max(self.difference, difference)
        self.num_clipped += is_clipped
        self._advance(len(actions))
        about = {
            "seed": planned.seed,
            "task_name": claimed.task,
            "task_description": getattr(self.unwrapped, "task_description", None),
            "task_state": claimed.task_state,
            "rand_vec": self.env.get_wrapper_attr("rand_vec").tolist(),
            "number": claimed.number,
        }
        return Replayed(
            {name: value for name, value in about.items() if value is not None},
            successes=np.array([step.success for step in self._steps]),
            data={
                "actions": np.array([step.action for step in self._steps]),
                "rewards": np.array([step.reward for step in self._steps]),
                "terminations": np.array([step.terminated for step in self._steps]),
                "truncations": np.array([step.truncated for step in self._steps]),
                "observations": _stack(self._observations),
            },
        )


def _describe_conversion(actions: NDArray[Any]) -> str:
    return (
        f"; a dataset has actions of float32 in [-1, 1], and its own are {actions.dtype} "
        f"in [{actions.min():.3g}, {actions.max():.3g}]"
    )


def _stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        keys = observations[0]
        return {key: _stack([obs[key] for obs in observations]) for key in keys}
    return np.stack(observations)


@contextlib.contextmanager
def _unfinished_folder(path: Path) -> Iterator[Path]:
    """A folder for a dataset that is not complete, removed in any case; a kill's at the next."""
    if os.path.lexists(path):  # a link into nowhere too
        raise ExportError(f"{path} exists: choose another name, or delete it")
    new_parents = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.with_name(hidden_name(path.name, ".unfinished"))
    if folder.is_symlink():
        remove(folder)
    folder.mkdir(exist_ok=True)
    with locked(folder) as free:
        if not free:
            raise ExportError(f"another export is writing {path}: wait until it has ended")
        try:
            for path_within in folder.iterdir():
                remove(path_within)
            yield folder
        finally:
            remove(folder)
            with contextlib.suppress(OSError):  # the first that is not empty
                for parent in new_parents:
                    parent.rmdir()
