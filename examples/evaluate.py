"""Success rates of a policy on MT10, and of a learner that adapts to goals it has never seen.

pip install '.[metaworld,cli]' && python examples/evaluate.py

It runs for about twenty seconds on two cores, prints two tables, and leaves them in ``results/`` as
JSON and plots.
"""

import os
from pathlib import Path

import gymnasium
import numpy as np

import mtwrappers
from mtwrappers.metaworld.experts import expert_actions

OUT = Path("results")


def many_tasks(episodes_per_task=10):
    """A policy is any callable from a batch of observations to a batch of actions.

    This one asks Meta-World's scripted expert of each environment's class, and errs.
    """
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", workers=os.cpu_count())
    _, infos = envs.reset(seed=0)
    names = infos["task_name"]
    rng = np.random.default_rng(0)

    def policy(observations):
        actions = expert_actions(names, observations)
        return np.clip(actions + rng.normal(0, 0.8, actions.shape), -1, 1)

    result = mtwrappers.evaluate(policy, envs, episodes_per_task, seed=0)
    envs.close()
    print(result)
    result.save(OUT / "mt10.json")
    title = f"MT10, scripted experts with noise, {episodes_per_task} episodes per task"
    result.plot(OUT / "mt10.png", title)


class Trilateration:
    """Walks at random until it adapts, then to the hidden goal that the rewards indicate.

    A reward is the negative distance ``d`` to the goal ``g``, and ``|p - g|^2 = d^2`` is linear in
    ``(g, |g|^2)``.
    """

    def __init__(self):
        self.goals = None
        self.rng = np.random.default_rng(0)

    def begin_trial(self):
        """Forgets the goals of the last trial."""
        self.goals = None

    def adapt(self, paths):
        """Takes the paths of each task."""
        self.goals = np.array([self.locate(task_paths) for task_paths in paths])

    def locate(self, paths):
        """The goal ``(2,)`` that explains the rewards of one task."""
        positions = np.concatenate([[*p["observations"][1:], p["next_observation"]] for p in paths])
        squared = np.concatenate([p["rewards"] for p in paths]) ** 2
        design = np.column_stack([-2 * positions, np.ones(len(positions))])
        return np.linalg.lstsq(design, squared - (positions**2).sum(axis=1), rcond=None)[0][:2]

    def __call__(self, observations):
        """Actions ``(N, 2)`` for positions ``(N, 2)``."""
        if self.goals is None:
            return self.rng.uniform(-0.1, 0.1, observations.shape)
        return np.clip(self.goals - observations, -0.1, 0.1)


def few_shots():
    """Two episodes to adapt on, then three that count; five trials of eight goals."""
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=8)
    result = mtwrappers.few_shot_evaluate(
        Trilateration(), envs, trials=5, adaptation_episodes=2, evaluation_episodes=3, seed=0
    )
    envs.close()
    print(result)
    result.save(OUT / "few_shot.json")
    result.plot(OUT / "few_shot.png", "Hidden goals, before and after adaptation")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    many_tasks()
    few_shots()
