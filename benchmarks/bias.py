"""Compares Meta-World's few-shot score with ours, by a policy whose true success rate is known.

On ML10's test classes (5 classes of 40 goals, each goal once), the policy acts as the scripted
expert on some of the goals that the expert solves, and stands still on all other goals. A hash of
the goal selects them. So it always solves a known share of the goals, and never the others.
`metaworld.evaluation.metalearning_evaluation` evaluates it on Meta-World's environments, and the
protocol ``metaworld-3.1-ml``, which is `few_shot_evaluate`, on ours, with the same goals.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import gymnasium
import metaworld
import numpy as np
from metaworld.evaluation import metalearning_evaluation
from numpy.typing import NDArray

from mtwrappers import evaluate, protocols
from mtwrappers.evaluation import EvaluationResult, Observer, PlannedEpisode
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.experts import expert

RATES = (0.1, 0.2, 0.35, 0.5)
CLASSES, GOALS, GROUPS, EVALUATIONS, EPISODES = 5, 40, 20, 10, 3
SEED = 0
OURS: dict[str, Any] = {"num_goals": GOALS, "seed": SEED}
STILL = np.zeros(4, np.float32)

# A goal is its class's name and the bytes of its random vector.
Goal = tuple[str, bytes]
Act = Callable[[NDArray[Any]], NDArray[np.float32]]


def list_goals() -> list[Goal]:
    """The goals in the order of our task states."""
    tasks = make_benchmark("ML10", **OURS).test_tasks
    return [(task.env_name, pickle.loads(task.data)["rand_vec"].tobytes()) for task in tasks]


def hash_goal(goal: Goal) -> str:
    """The hash by which goals are selected."""
    return hashlib.sha256(goal[0].encode() + goal[1]).hexdigest()


class ExpertPolicy(Observer):
    """The experts of the classes that our environments are on."""

    def __init__(self, envs: Any) -> None:
        self._envs, self._act = envs, [lambda obs: STILL] * envs.num_envs

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Takes the expert of the class, with the goal that observations hide."""
        self._act[i] = make_expert(episode.task, self._envs.call_some([i], "goal")[0])

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


def make_expert(task: str, goal: NDArray[np.float64]) -> Act:
    """The expert of a class, with its goal, which observations hide."""
    act = expert(task)
    return lambda obs: act(obs, goal)


def list_solvable_goals(workers: int) -> list[Goal]:
    """The goals that experts solve and that are not solved by standing still."""
    goals = list_goals()
    options = {**OURS, "terminate_on_success": True, "sample_tasks_on_reset": True}
    with closing(gymnasium.make_vec("mtwrappers/ML10-test-v0", workers=workers, **options)) as envs:
        policy = ExpertPolicy(envs)
        expert_result = evaluate(policy, envs, GOALS, observers=[policy])
        still_result = evaluate(lambda obs: np.tile(STILL, (len(obs), 1)), envs, GOALS)
    solvable = []
    for episode, still in zip(expert_result.episodes, still_result.episodes, strict=True):
        assert episode.task_state is not None
        assert episode.task_state == still.task_state
        if episode.success_once and not still.success_once:
            solvable.append(goals[episode.task_state])
    return solvable


def select_goals(rate: float, solvable: Sequence[Goal]) -> set[Goal]:
    """Selects the goals to solve: the same share of each class, with the smallest hashes.

    Raises:
        ValueError: If a class has too few solvable goals.
    """
    num_goals = round(rate * GOALS)
    selected: set[Goal] = set()
    for task in dict.fromkeys(task for task, _ in solvable):
        ranked = sorted((goal for goal in solvable if goal[0] == task), key=hash_goal)
        if len(ranked) < num_goals:
            raise ValueError(
                f"{task}: the expert solves {len(ranked)} goals, a rate of {rate} needs {num_goals}"
            )
        selected.update(ranked[:num_goals])
    return selected


class KnownRatePolicy:
    """A policy that solves the selected goals, and no other.

    Subclasses implement `get_goals`, and the methods by which an evaluation calls the policy.
    """

    def __init__(self, envs: Any, selected: set[Goal]) -> None:
        self._envs, self._selected = envs, selected
        self._act: list[Act] = [lambda obs: STILL] * envs.num_envs

    def get_goals(self, indices: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        """The current goals of some environments, and their positions."""
        raise NotImplementedError

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Lets the expert act in the environments that were reset to a selected goal."""
        indices = np.flatnonzero(mask).tolist()
        for i, (goal, position) in zip(indices, self.get_goals(indices), strict=True):
            if goal in self._selected:
                self._act[i] = make_expert(goal[0], position)
            else:
                self._act[i] = lambda obs: STILL

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


class MetaWorldPolicy(KnownRatePolicy):
    """The policy in Meta-World's environments, with the methods that its evaluation calls."""

    def get_goals(self, indices: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        names = {cls.__name__: name for name, cls in metaworld.ALL_V3_ENVIRONMENTS.items()}
        goals = []
        for i in indices:
            env = self._envs.envs[i].unwrapped
            goal = names[env.task_name], env._last_rand_vec.tobytes()
            goals.append((goal, env._target_pos.copy()))
        return goals

    eval_action = KnownRatePolicy.__call__

    def init(self) -> None: ...


class FewShotPolicy(KnownRatePolicy):
    """The policy in our environments; it has nothing to adapt."""

    def __init__(self, envs: Any, selected: set[Goal]) -> None:
        super().__init__(envs, selected)
        self._goals = list_goals()

    def get_goals(self, indices: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        task_states = self._envs.call_some(indices, "get_task_state")
        positions = self._envs.call_some(indices, "goal")
        goals = [self._goals[task_state] for task_state in task_states]
        return list(zip(goals, positions, strict=True))

    def begin_trial(self) -> None: ...

    def adapt(self, paths: Any) -> None: ...


def evaluate_by_metaworld(selected: set[Goal]) -> float:
    """The success rate that Meta-World reports, without adaptation, which would change nothing."""
    options = {"meta_batch_size": GROUPS, "total_tasks_per_cls": GOALS, "seed": SEED}
    with closing(metaworld.make_ml_envs_test("ML10", **options)) as envs:
        policy = MetaWorldPolicy(envs, selected)
        rate, _, _ = metalearning_evaluation(
            policy, envs, EVALUATIONS, adaptation_steps=0, evaluation_episodes=EPISODES
        )
    return rate


def evaluate_by_protocol(selected: set[Goal], workers: int) -> EvaluationResult:
    """Our result: a fixed number of episodes of every goal.

    A trial has one episode for adaptation, as a few-shot protocol needs at least one.
    """
    protocol = protocols["metaworld-3.1-ml"].variant("no adaptation", adaptation_episodes=1)
    with closing(protocol.make_vec(workers=workers)) as envs:
        result: EvaluationResult = protocol.evaluate(FewShotPolicy(envs, selected), envs)
    return result


def measure_row(rate: float, solvable: Sequence[Goal], workers: int) -> dict[str, Any]:
    """The true rate, Meta-World's, and ours with its interval."""
    selected = select_goals(rate, solvable)
    result = evaluate_by_protocol(selected, workers)
    assert result.headline is not None
    estimate = result.headline["mean over tasks"]
    row = {
        "true rate": len(selected) / (CLASSES * GOALS),
        "Meta-World": evaluate_by_metaworld(selected),
        "ours": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "episodes": len(result.episodes),
    }
    print(row, flush=True)
    return row


def measure_rows(workers: int) -> list[dict[str, Any]]:
    """A row for each true rate."""
    solvable = list_solvable_goals(workers)
    return [measure_row(rate, solvable, workers) for rate in RATES]
