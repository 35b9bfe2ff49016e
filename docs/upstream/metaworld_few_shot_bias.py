"""metaworld 3.1.1: metalearning_evaluation counts solved goals too often.

The environment stands for one class of ML10-test in four environments, each with a goal of its
own. A solved goal ends its episode at the first step, an unsolved one at the 20th. Which goals are
solved is drawn before anything runs.

Cause: ``evaluation`` (metaworld/evaluation.py, lines 54 and 66 to 81) counts the first
``num_episodes`` episodes that finish in a class, whichever of its environments they come from, and
after a success the same goal starts again.

Suggested change: count a fixed number of episodes per environment, not per class. MT benchmarks are
not affected, because they have one environment per class.
"""

from importlib.metadata import version

import gymnasium as gym
import numpy as np
from metaworld.evaluation import metalearning_evaluation

RATE, ENVIRONMENTS, EVALUATIONS = 0.35, 4, 500
rng = np.random.default_rng(0)
drawn = []


class Goals(gym.Env):
    task_name, terminate_on_success = "SawyerReachEnvV3", True
    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def toggle_sample_tasks_on_reset(self, on):
        pass

    def toggle_terminate_on_success(self, on):
        pass

    def sample_tasks(self):
        self.solved = rng.random() < RATE
        drawn.append(self.solved)

    def reset(self, seed=None, options=None):
        self.steps = 0
        return np.zeros(1), {"success": 0.0}

    def step(self, action):
        self.steps += 1
        return np.zeros(1), 0.0, self.solved, self.steps == 20, {"success": float(self.solved)}


class Agent:
    def init(self):
        pass

    def reset(self, mask):
        pass

    def eval_action(self, observations):
        return np.zeros((len(observations), 1), np.float32)


envs = gym.vector.SyncVectorEnv(
    [lambda: gym.wrappers.RecordEpisodeStatistics(Goals())] * ENVIRONMENTS,
    autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
)
counted, _, _ = metalearning_evaluation(Agent(), envs, EVALUATIONS, 0, evaluation_episodes=3)
true = float(np.mean(drawn))
print("metaworld", version("metaworld"))
print(f"goals that are solved: {true:.3f}, counted: {counted:.3f}")
print("fault:", "yes" if counted > true + 0.1 else "no")
