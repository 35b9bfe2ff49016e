"""A half cheetah that must run at a given velocity: multi-task MuJoCo.

    pip install '.[mujoco]'
    python examples/locomotion_goal_velocity.py

The tasks are those of Finn et al. (2017, arXiv:1703.03400), with velocities from 0 to 2 m/s.
"""

import gymnasium
import numpy as np

from mtwrappers import MetaParallelEnvExecutor

ROLLOUTS, STEPS = 4, 100


class GoalVelocity(gymnasium.Wrapper):
    """Rewards the negative distance, in m/s, to a velocity that the agent cannot see."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.goal = 1.0

    def sample_tasks(self, n_tasks: int) -> list[dict[str, float]]:
        """Draws velocities from the environment's own random stream."""
        return [{"velocity": v} for v in self.np_random.uniform(0, 2, n_tasks).tolist()]

    def set_task(self, task: dict[str, float]) -> None:
        """Sets the target velocity."""
        self.goal = task["velocity"]

    def reset(self, *, seed=None, options=None):
        """Begins at rest, with the same infos as a step."""
        obs, _ = self.env.reset(seed=seed, options=options)
        return obs, {"goal": self.goal, "velocity": 0.0}

    def step(self, action):
        """Steps the cheetah and replaces its reward."""
        obs, _, terminated, truncated, info = self.env.step(action)
        velocity = float(info["x_velocity"])
        reward = float(info["reward_ctrl"]) - abs(velocity - self.goal)
        return obs, reward, terminated, truncated, {"goal": self.goal, "velocity": velocity}


def make() -> gymnasium.Env:
    """Makes a cheetah, in a worker process."""
    return GoalVelocity(gymnasium.make("HalfCheetah-v5"))


def main() -> None:
    """Runs random actions on four velocities, and prints the error of each."""
    single = make()
    single.reset(seed=0)
    tasks = single.sample_tasks(4)
    single.close()
    envs = MetaParallelEnvExecutor(make, len(tasks), ROLLOUTS, max_path_length=STEPS, workers=2)
    envs.set_tasks(tasks)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    returns = np.zeros(envs.num_envs)
    for _ in range(STEPS):
        returns += envs.step(envs.action_space.sample())[1]
    for task, mean in zip(tasks, returns.reshape(len(tasks), ROLLOUTS).mean(axis=1), strict=True):
        print(f"goal {task['velocity']:.2f} m/s: return {mean:7.1f}")
    envs.close()


if __name__ == "__main__":
    main()
