"""Three environments of classic control as one multi-task environment.

    pip install . 'gymnasium[classic-control]'
    python examples/classic_control.py

Observations of four, two and six numbers are padded with zeros to six. Action spaces must be
equal: Acrobot and MountainCar have three actions, so CartPole is given a third one, which does the
same as its first.
"""

from functools import partial

import gymnasium
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TransformAction

from mtwrappers import MultiEnvWrapper


def make_cart_pole() -> gymnasium.Env:
    """CartPole with three actions."""
    return TransformAction(gymnasium.make("CartPole-v1"), lambda a: a % 2, Discrete(3))


MAKERS = {
    "CartPole": make_cart_pole,
    "MountainCar": partial(gymnasium.make, "MountainCar-v0"),
    "Acrobot": partial(gymnasium.make, "Acrobot-v1"),
}
# The action for an observation, by task index: hold the pole up, or push along the swing.
POLICIES = [
    lambda obs: int(obs[2] + obs[3] > 0),
    lambda obs: 2 if obs[1] >= 0 else 0,
    lambda obs: 2 if obs[4] < 0 else 0,
]


def main() -> None:
    """Runs three episodes of each task with a simple rule."""
    env = MultiEnvWrapper(
        list(MAKERS.values()),
        task_names=list(MAKERS),
        unify="pad",
        select="round_robin",
        sample_tasks_on_reset=True,
    )
    print("observations:", env.observation_space["env_obs"].shape, "actions:", env.action_space)
    for episode in range(9):
        obs, info = env.reset(seed=0 if episode == 0 else None)
        total, ended = 0.0, False
        while not ended:
            action = POLICIES[obs["task_obs"]](obs["env_obs"])
            obs, reward, terminated, truncated, info = env.step(action)
            total += reward
            ended = terminated or truncated
        print(f"{info['task_name']:12} return {total:7.1f}")
    env.close()


if __name__ == "__main__":
    main()
