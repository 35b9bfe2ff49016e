"""Meta-World's few-shot score beside ours, for a policy whose true success rate is known.

On ML10's test classes (5 classes of 40 goals, each goal once) the policy lets the scripted expert
act on some goals, and stands still on the others. Which, a hash of the goal decides, among the
goals that the expert does solve. So it solves a known share of the goals always, and the others
never. `metaworld.evaluation.metalearning_evaluation` plays it on Meta-World's own environments, and
the protocol ``metaworld-3.1-ml``, which is `few_shot_evaluate`, on ours: on the same goals.
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


def goals() -> list[Goal]:
    """The goals in the order of our task states."""
    tasks = make_benchmark("ML10", **OURS).test_tasks
    return [(t.env_name, pickle.loads(t.data)["rand_vec"].tobytes()) for t in tasks]


def hashed(goal: Goal) -> str:
    """What decides on a goal."""
    return hashlib.sha256(goal[0].encode() + goal[1]).hexdigest()


class Expert(Observer):
    """The experts in our environments, to see which goals they solve."""

    def __init__(self, envs: Any) -> None:
        self._envs, self._act = envs, [lambda obs: STILL] * envs.num_envs

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Takes the expert of the class, with the goal that observations hide."""
        self._act[i] = acting(episode.task, self._envs.call_some([i], "goal")[0])

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


def acting(task: str, goal: NDArray[np.float64]) -> Act:
    """The expert of a class, which sees its goal."""
    act = expert(task)
    return lambda obs: act(obs, goal)


def solvable(workers: int) -> list[Goal]:
    """The goals that experts solve and that are not solved by standing still."""
    every, solved = goals(), []
    sizes = {**OURS, "terminate_on_success": True, "sample_tasks_on_reset": True}
    with closing(gymnasium.make_vec("mtwrappers/ML10-test-v0", workers=workers, **sizes)) as envs:
        play = Expert(envs)
        with_expert = evaluate(play, envs, GOALS, observers=[play])
        still = evaluate(lambda obs: np.tile(STILL, (len(obs), 1)), envs, GOALS)
    for one, other in zip(with_expert.episodes, still.episodes, strict=True):
        assert one.task_state is not None
        assert one.task_state == other.task_state
        if one.success_once and not other.success_once:
            solved.append(every[one.task_state])
    return solved


def solved_at(rate: float, able: Sequence[Goal]) -> set[Goal]:
    """The goals to solve: of each class the same share, those with the smallest hashes."""
    wanted = round(rate * GOALS)
    chosen: set[Goal] = set()
    for task in dict.fromkeys(task for task, _ in able):
        ranked = sorted((goal for goal in able if goal[0] == task), key=hashed)
        if len(ranked) < wanted:
            raise ValueError(f"{task}: expert solves {len(ranked)} goals, {wanted} are needed")
        chosen.update(ranked[:wanted])
    return chosen


class Part:
    """A policy that solves some goals. Subclasses say which goal an environment is on."""

    def __init__(self, envs: Any, solves: set[Goal]) -> None:
        self._envs, self._solves = envs, solves
        self._act: list[Act] = [lambda obs: STILL] * envs.num_envs

    def present(self, which: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        """The goal of each environment, and its position."""
        raise NotImplementedError

    def reset(self, mask: NDArray[np.bool_]) -> None:
        """Chooses what acts in those environments."""
        which = np.flatnonzero(mask).tolist()
        for i, (goal, position) in zip(which, self.present(which), strict=True):
            acts = goal in self._solves
            self._act[i] = acting(goal[0], position) if acts else lambda obs: STILL

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])


class Upstream(Part):
    """Under Meta-World's names."""

    def present(self, which: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        names = {c.__name__: name for name, c in metaworld.ALL_V3_ENVIRONMENTS.items()}
        found = []
        for i in which:
            env = self._envs.envs[i].unwrapped
            goal = names[env.task_name], env._last_rand_vec.tobytes()
            found.append((goal, env._target_pos.copy()))
        return found

    eval_action = Part.__call__

    def init(self) -> None: ...


class Ours(Part):
    """A policy that has nothing to learn."""

    every = goals()

    def present(self, which: list[int]) -> list[tuple[Goal, NDArray[np.float64]]]:
        states = self._envs.call_some(which, "get_task_state")
        positions = self._envs.call_some(which, "goal")
        return [(self.every[state], at) for state, at in zip(states, positions, strict=True)]

    def begin_trial(self) -> None: ...

    def adapt(self, paths: Any) -> None: ...


def counted_by_meta_world(solves: set[Goal]) -> float:
    """The success rate that Meta-World counts. Adaptation would change nothing: there is none."""
    sizes = {"meta_batch_size": GROUPS, "total_tasks_per_cls": GOALS, "seed": SEED}
    with closing(metaworld.make_ml_envs_test("ML10", **sizes)) as envs:
        policy = Upstream(envs, solves)
        rate, _, _ = metalearning_evaluation(
            policy, envs, EVALUATIONS, adaptation_steps=0, evaluation_episodes=EPISODES
        )
    return rate


def counted_by_us(solves: set[Goal], workers: int) -> EvaluationResult:
    """Ours: three episodes of every goal, decided beforehand. One to adapt on is the least."""
    protocol = protocols["metaworld-3.1-ml"].variant("no adaptation", adaptation_episodes=1)
    with closing(protocol.make_vec(workers=workers)) as envs:
        result: EvaluationResult = protocol.evaluate(Ours(envs, solves), envs)
    return result


def row(rate: float, able: Sequence[Goal], workers: int) -> dict[str, Any]:
    """True rate, Meta-World's count, and ours with its interval."""
    solves = solved_at(rate, able)
    ours = counted_by_us(solves, workers)
    assert ours.headline is not None
    estimate = ours.headline["mean over tasks"]
    found = {
        "true rate": len(solves) / (CLASSES * GOALS),
        "Meta-World": counted_by_meta_world(solves),
        "ours": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "episodes": len(ours.episodes),
    }
    print(found, flush=True)
    return found


def rows(workers: int) -> list[dict[str, Any]]:
    """A row for each rate."""
    able = solvable(workers)
    return [row(rate, able, workers) for rate in RATES]
