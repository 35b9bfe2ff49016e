"""Scores of the literature, and one's own: `Protocol` measures a policy as its fields say."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from mtwrappers.checks import check_string
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.few_shot import FewShotResult, few_shot_evaluate
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.rules import LIST_OF_GOALS, Rules
from mtwrappers.metaworld.pixels import without_frames
from mtwrappers.vector.base import MetaVectorEnv


@dataclass(frozen=True)
class Protocol(Rules):
    """A way to measure success on Meta-World, whole: two scores compare if theirs are equal.

    Those of the literature are `mtwrappers.protocols`. Make a variant under another name, as in
    ``dataclasses.replace(protocol, name="mine", episodes_per_task=5)``.

    >>> import dataclasses, numpy as np
    >>> from mtwrappers import protocols
    >>> one = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    >>> quick = dataclasses.replace(one, name="mine", episodes_per_task=2, max_episode_steps=9)
    >>> result = quick.evaluate(lambda obs: np.zeros((len(obs), 4)))
    >>> result.headline["tasks"].value, result.protocol["name"]
    (0.0, 'mine')
    """

    @property
    def env_id(self) -> str:
        """The id of the environments."""
        split = f"-{self.kind}" if self.benchmark.startswith("ML") else ""
        return f"mtwrappers/{self.benchmark}{split}-v0"

    def on(self, benchmark: str, env_name: str | None = None) -> Protocol:
        """The same protocol on another benchmark.

        Args:
            benchmark: One of ``benchmarks``; ``"ML10-test"`` is understood too.
            env_name: The class of MT1 and ML1.

        Raises:
            ValueError: If the protocol is not for that benchmark.
        """
        name, _, kind = check_string(benchmark, "benchmark").partition("-")
        if name not in self.benchmarks or kind not in ("", self.kind):
            split = f"-{self.kind}" if self.kind == "test" else ""
            known = ", ".join(f"{one}{split}" for one in self.benchmarks)
            raise ValueError(f"{self.name} is for {known}, got {benchmark!r}")
        return dataclasses.replace(self, benchmark=name, env_name=env_name)

    def with_states(self) -> Protocol:
        """The same protocol with states in the place of frames, ``"-states"`` after its name.

        For policies that read states: what they score does not compare with what others see. A
        protocol without frames is returned as it is.
        """
        if self.observation == "state":
            return self
        name = f"{self.name}-states"
        return dataclasses.replace(
            self, name=name, observation="state", camera_name=None, image_size=None
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make_vec` that the protocol fixes."""
        height, width = self.image_size or (None, None)
        found: dict[str, Any] = {
            "seed": self.goals_seed,
            "goals": self.goals,
            "num_goals": self.num_goals and LIST_OF_GOALS,
            "total_tasks_per_cls": self.num_goals,
            "env_name": self.env_name,
            "meta_batch_size": self.meta_batch_size or None,
            "max_episode_steps": self.env_steps,
            "action_repeat": self.action_repeat,
            "idle_steps": self.idle_steps,
            "terminate_on_success": self.terminate_on_success,
            "reward_function_version": self.reward_function_version,
            "task_encoding": self.task_encoding,
            "observation": None if self.observation == "state" else self.observation,
            "camera_name": self.camera_name,
            "height": height,
            "width": width,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def _shown(self) -> dict[str, Any]:
        """What the agent sees. Everybody's frames are upright and have shadows."""
        drawn = {} if self.observation == "state" else {"upright": True, "shadows": True}
        return {"observation": self.observation, **drawn}

    def make_vec(
        self, *, workers: int | None = None, frames: bool = True, **options: Any
    ) -> MetaVectorEnv:
        """The environments to measure on.

        Args:
            workers: How many worker processes; ``None`` steps here.
            frames: Whether to draw the frames that a protocol may show. Without, the environments
                are those of `with_states`, which play the same episodes, in much less time.
            **options: More arguments of `gymnasium.make_vec` for `env_id`, such as
                ``envs_per_task``, ``fast`` or ``recurrent_info_in_obs``. What the protocol fixes
                may be repeated, not changed.

        Raises:
            TypeError, ValueError: If an argument contradicts the protocol, or is none of those.
        """
        fixed = self.settings
        closed = {
            **dict.fromkeys(("num_goals", "total_tasks_per_cls", "env_name", "meta_batch_size")),
            **{"benchmark": self.benchmark, "kind": self.kind},
            **{"use_one_hot": self.task_encoding == "onehot", "train_classes": None},
            **{"test_classes": None, **self._shown, **fixed},
        }
        if self.few_shot:
            closed["envs_per_task"] = 1  # how a trial is shared out would depend on it
        for name in closed.keys() & options.keys():
            self._agree(name, closed[name], options[name])
        rest = {name: value for name, value in options.items() if name not in closed}
        if not frames:
            fixed, rest = self.with_states().settings, without_frames(rest)
        envs: Any = gymnasium.make_vec(self.env_id, workers=workers, **fixed, **rest)
        return envs  # type: ignore[no-any-return]

    def evaluate(
        self,
        policy: Any,
        envs: Any = None,
        *,
        workers: int | None = None,
        fast: bool | Literal["auto"] = "auto",
        seed: int = 0,
        **options: Any,
    ) -> EvaluationResult | FewShotResult:
        """Measures a policy.

        Args:
            policy: As `mtwrappers.evaluate` takes it, or `mtwrappers.few_shot_evaluate` where the
                protocol is few-shot.
            envs: What `make_vec` made, or a wrapper of it; made here (and closed) by default.
            workers: How many worker processes, for environments that are made here.
            fast: Likewise, see `make_vec`.
            seed: The order of the goals, or the goals themselves where they are continuous.
            **options: More arguments of those functions, such as ``observers``, ``evidence`` or
                ``progress``. What the protocol fixes may be repeated, not changed.

        Returns:
            The result, with the protocol in it.

        Raises:
            TypeError, ValueError: As those functions do; or if the environments or an argument
                contradict the protocol.
        """
        fixed: dict[str, Any] = {"episodes_per_task": self.episodes_per_task}
        if self.few_shot:
            fixed = {
                "trials": self.trials,
                "adaptation_episodes": self.adaptation_episodes,
                "evaluation_episodes": self.episodes_per_task,
            }
        for name in fixed.keys() & options.keys():
            self._agree(name, fixed[name], options.pop(name))
        if (steps := options.pop("max_episode_steps", None)) is not None:
            self._agree("max_episode_steps", self.env_steps, steps)
        measure: Any = few_shot_evaluate if self.few_shot else evaluate
        with contextlib.ExitStack() as stack:
            if envs is None:
                envs = stack.enter_context(
                    contextlib.closing(self.make_vec(workers=workers, fast=fast))
                )
            elif workers is not None or fast != "auto":
                raise TypeError("workers and fast are for environments that are made here")
            else:
                self._check_envs(envs)
            result: EvaluationResult | FewShotResult = measure(
                policy, envs, seed=seed, protocol=self.to_dict(), **fixed, **options
            )
        return result

    def _agree(self, name: str, expected: Any, got: Any) -> None:
        if got != expected:
            raise ValueError(f"{self.name} fixes {name}={expected!r}, got {got!r}")

    def _check_envs(self, envs: Any) -> None:
        """Refuses environments that this protocol did not make."""
        spec = getattr(getattr(envs, "unwrapped", envs), "spec", None)
        default = {"observation": "state", "upright": True, "shadows": True}
        made = {} if spec is None else {**default, **spec.kwargs, "id": spec.id}
        for name, expected in {"id": self.env_id, **self._shown, **self.settings}.items():
            if name not in made or made[name] != expected:
                raise ValueError(
                    f"{self.name} needs environments of its make_vec, with {name}={expected!r}; "
                    f"got {made.get(name)!r} in {envs}"
                )
