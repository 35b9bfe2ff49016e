"""A curriculum of ten lines: practise the goals that are neither mastered nor hopeless.

    python examples/curriculum.py

Eight goals lie further and further from where the point begins, and an episode has twelve steps, so
that the last goals cannot be reached at all. A walk that gets better with practice visits them in
turn, with tasks drawn uniformly and with the curriculum below; what is printed is how many episodes
each goal got, and how many of them succeeded. It needs nothing but mtwrappers.
"""

from collections import Counter

import gymnasium
import numpy as np

from mtwrappers import EnvToMTEnv, PointGoalEnv

GOALS = [{"goal": (0.2 * i, 0.0)} for i in range(1, 9)]
EPISODES, STEPS = 400, 12


def frontier(num_tasks, last_task, rng, history):
    """Draws tasks in proportion to how uncertain their success is, p * (1 - p), and explores."""
    rates = history.success_rates  # shape (num_tasks,), NaN where a task was not played yet
    unplayed = np.flatnonzero(np.isnan(rates))
    if len(unplayed):
        return rng.choice(unplayed)
    weights = rates * (1 - rates) + 0.02
    return rng.choice(num_tasks, p=weights / weights.sum())


def practise(select):
    """Plays with a walk whose aim gets better with each success."""
    env = gymnasium.wrappers.TimeLimit(EnvToMTEnv(PointGoalEnv(), GOALS, select=select), STEPS)
    rng = np.random.default_rng(0)
    played, solved, skill = Counter(), Counter(), 0.0
    for episode in range(EPISODES):
        _, info = env.reset(seed=0 if episode == 0 else None, options={"resample_task": True})
        success, truncated = False, False
        while not truncated:
            step = 0.1 if rng.random() < 0.3 + 0.7 * skill else 0.0
            _, _, _, truncated, info = env.step(np.array([step, 0.0]))
            success = success or bool(info["success"])
        played[info["task_id"]] += 1
        solved[info["task_id"]] += success
        # Only what was hard and went well teaches anything.
        skill += 0.02 * success * (info["task_id"] / len(GOALS)) * (1 - skill)
    env.close()
    return played, solved, skill


if __name__ == "__main__":
    for name, select in (("uniform", "uniform"), ("frontier", frontier)):
        played, solved, skill = practise(select)
        print(f"{name}: skill {skill:.2f}")
        for task in range(len(GOALS)):
            print(f"  goal at {GOALS[task]['goal'][0]:.1f}: {solved[task]:3} of {played[task]:3}")
