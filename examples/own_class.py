"""A custom class, as a multi-task environment and as a batch of tasks.

    pip install .
    python examples/own_class.py

The task is a temperature, to which a house is to be heated.
"""

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers import EnvToMTEnv, MetaIterativeEnvExecutor


class House(gymnasium.Env):
    """Observes the temperature, in degrees Celsius; the action heats or cools by up to one."""

    observation_space = Box(-50, 80, (1,), np.float64)
    action_space = Box(-1, 1, (1,), np.float64)
    target = 20.0

    def set_task(self, task):
        """Sets the target temperature."""
        self.target = task

    def reset(self, *, seed=None, options=None):
        """Starts at ten to fifteen degrees."""
        super().reset(seed=seed)
        self.degrees = self.np_random.uniform(10, 15, 1)
        return self.degrees.copy(), {"success": False}

    def step(self, action):
        """Heats; the reward is the negative distance to the target."""
        self.degrees = np.clip(self.degrees + np.clip(action, -1, 1), -50, 80)
        distance = abs(float(self.degrees[0]) - self.target)
        return self.degrees.copy(), -distance, False, False, {"success": distance < 0.5}


TEMPERATURES = [16.0, 18.0, 20.0, 22.0]


def main() -> None:
    """Heats to each temperature, first in sequence, then side by side."""
    # One environment that switches tasks, and returns the task in its observation.
    env = EnvToMTEnv(
        House(),
        TEMPERATURES,
        task_obs=lambda target: np.array([target]),
        task_observation_space=Box(0, 40, (1,), np.float64),
    )
    for index in range(len(TEMPERATURES)):
        obs, info = env.reset(seed=0, options={"task_state": index})
        for _ in range(15):
            obs, _, _, _, info = env.step(obs["task_obs"] - obs["env_obs"])
        print(f"task {info['task_id']}: {obs['env_obs'][0]:.1f} degrees, {info['success']}")

    # All tasks in a vector environment, two houses each; the task is hidden.
    envs = MetaIterativeEnvExecutor(House, len(TEMPERATURES), 2, max_path_length=15)
    envs.set_tasks(TEMPERATURES)
    envs.reset(seed=0)
    returns = sum(envs.step(np.ones((8, 1)))[1] for _ in range(15))
    print("returns of constant heating:", returns.reshape(4, 2).mean(axis=1).round(1).tolist())
    envs.close()


if __name__ == "__main__":
    main()
