"""Scores of the literature, and one's own: `Protocol` measures a policy as its fields say."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from mtwrappers.common.checks import check_choice, check_flag, check_index, check_string
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation import rules
from mtwrappers.evaluation.arguments import Function, check_given, fixed_by
from mtwrappers.evaluation.evaluate import evaluate
from mtwrappers.evaluation.few_shot import FewShotResult, few_shot_evaluate
from mtwrappers.evaluation.plan import PlannedEpisode, make_plan
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.rules import Rules
from mtwrappers.evaluation.trials import Trials, draw_states
from mtwrappers.metaworld.agent_view import by_our_names
from mtwrappers.metaworld.benchmarks import class_names, share_out
from mtwrappers.metaworld.pixels import without_frames
from mtwrappers.vector.base import MetaVectorEnv

# What `gymnasium.make_vec` takes, and `gymnasium.make` does not.
_OF_VECTORS = ("meta_batch_size", "envs_per_task")


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

    def on(self, benchmark: str, env_name: str | None = None) -> Protocol:
        """The same protocol on another benchmark.

        On one that its source does not have, its name says so: ``"lerobot-0.6 on MT10"``. Groups
        without a task there are left out, and the mean over groups where less than two remain. In
        few-shot evaluation there are as many trials as give each goal as many as before.

        Args:
            benchmark: ``"MT1"``, ``"MT10"``, ``"MT25"`` or ``"MT50"``; for meta-learning ``"ML1"``,
                ``"ML10"``, ``"ML25"`` or ``"ML45"``, also as ``"ML10-test"``.
            env_name: The class of MT1 and ML1, ``"reach-v3"`` by default.

        Raises:
            ValueError: If there is no such benchmark of its kind.
        """
        name, _, kind = check_string(benchmark, "benchmark").partition("-")
        if kind not in ("", self.kind):
            name = benchmark  # which is none
        return dataclasses.replace(self, **rules.on(rules.fields_of(self), name, env_name))

    def with_states(self) -> Protocol:
        """The same protocol with states in the place of frames, ``"-states"`` in its name.

        For policies that read states: what they score does not compare with what others see. A
        protocol without frames is returned as it is.
        """
        if self.observation == "state":
            return self
        return dataclasses.replace(self, **rules.with_states(rules.fields_of(self)))

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `gymnasium.make_vec` that the protocol fixes."""
        fixed = fixed_by(self, "make_vec")
        registered = ("benchmark", "kind")
        return {k: v for k, v in fixed.items() if v is not None and k not in registered}

    def make_vec(
        self, *, workers: int | None = None, frames: bool = True, **options: Any
    ) -> MetaVectorEnv:
        """The environments to measure on.

        Args:
            workers: How many worker processes; ``None`` steps here.
            frames: Whether to draw the frames that a protocol may show. Without, the environments
                are those of `with_states`, which play the same episodes, in much less time.
            **options: More arguments of `gymnasium.make_vec` for `env_id`, such as
                ``envs_per_task``, ``fast``, ``recurrent_info_in_obs`` or, where states are
                observed and goals too, ``task_encoding``. What the protocol fixes may be
                repeated, not changed.

        Raises:
            TypeError, ValueError: If an argument contradicts the protocol, or is none of those.
        """
        settings, rest = self._settle(options)
        if not check_flag(frames, "frames"):
            settings, rest = self.with_states().settings, without_frames(rest)
        envs: Any = gymnasium.make_vec(self.env_id, workers=workers, **settings, **rest)
        return envs  # type: ignore[no-any-return]

    def make(self, task: int | str = 0, **options: Any) -> gymnasium.Env[Any, Any]:
        """The single environment of a task, for a loop of one's own.

        It runs an episode of `plan` after
        ``reset(seed=one.seed, options={"task_state": one.task_state})``. In few-shot evaluation
        resets without these stay on the task, as the later episodes of a trial do.

        Args:
            task: The class, by its name or its index.
            **options: As for `make_vec`, as far as `gymnasium.make` has them.

        Raises:
            TypeError, ValueError: If there is no such task, an argument contradicts the protocol,
                or is none of those.
        """
        names = class_names(self.benchmark, self.kind, self.env_name)
        if isinstance(task, str):
            i = names.index(check_choice(task, names, "task"))
        else:
            i = check_index(task, len(names), "task")
        settings, rest = self._settle(options)
        settings = {name: value for name, value in settings.items() if name not in _OF_VECTORS}
        of_each = self.num_goals or 1
        settings["task_states"] = list(range(of_each * i, of_each * (i + 1)))
        if self.few_shot:
            settings["sample_tasks_on_reset"] = False
        return gymnasium.make(self.env_id, **settings, **rest)

    def plan(self, seed: int = 0, *, adapts: bool = True) -> list[PlannedEpisode]:
        """The episodes that `evaluate` runs with this seed; nothing is built for it.

        Args:
            seed: As for `evaluate`.
            adapts: In few-shot evaluation, whether the policy has ``adapt``. If it has, evaluation
                begins with a seeded reset; else a trial is one sequence of episodes.

        Returns:
            Each episode with its task, its task state and the seed of its reset. The episodes of a
            task stand in their order, and tasks in that of the benchmark. In few-shot evaluation
            trial follows trial (``trial % meta_batch_size`` is the task group), and the seed is
            ``None`` of an episode that follows the one before it.
        """
        seed = check_seed(seed)
        names = class_names(self.benchmark, self.kind, self.env_name)
        groups = self.meta_batch_size or len(names)
        continuous = self.goals == "continuous"
        shares = share_out(len(names), groups, self.num_goals or 1, continuous)
        tasks, states = [names[c] for c, _ in shares], [list(own) for _, own in shares]
        if not self.few_shot:
            choices = [{task: list(own)} for task, own in zip(tasks, states, strict=True)]
            return [one for row in make_plan(choices, self.episodes_per_task, seed) for one in row]
        design = Trials.of(self, adapts)
        drawn = draw_states(states, self.trials, seed)
        found = [
            one
            for trial, of_trial in enumerate(drawn)
            for phase in range(len(design.phases))
            for row in design.plan(trial, phase, tasks, of_trial, seed)
            for one in row
        ]
        return sorted(found, key=lambda one: (one.trial or 0, one.number))

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
            envs: What `make_vec` made, or a wrapper of it, or environments of `gymnasium.make_vec`
                with the same id and settings; made here (and closed) by default.
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
        measure: Any = few_shot_evaluate if self.few_shot else evaluate
        name: Function = "few_shot_evaluate" if self.few_shot else "evaluate"
        check_given(self, name, options)
        options |= {**fixed_by(self, name), "protocol": self.to_dict()}
        options.pop("max_episode_steps", None)
        with contextlib.ExitStack() as stack:
            if envs is None:
                envs = stack.enter_context(
                    contextlib.closing(self.make_vec(workers=workers, fast=fast))
                )
            elif workers is not None or fast != "auto":
                raise TypeError("workers and fast are for environments that are made here")
            result: EvaluationResult | FewShotResult = measure(policy, envs, seed=seed, **options)
        return result

    def _settle(self, options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the protocol fixes of `make_vec`, and the other arguments that were given."""
        given = by_our_names(options)
        check_given(self, "make_vec", given)
        fixed = fixed_by(self, "make_vec")
        return self.settings, {name: value for name, value in given.items() if name not in fixed}
