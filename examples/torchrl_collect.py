"""Collects MT10 with TorchRL: ten classes side by side, and the return of every episode.

    pip install 'mtwrappers[metaworld,torchrl]'
    python examples/torchrl_collect.py

The next observation of an episode's last step is the episode's own, not the first of the episode
that has begun.
"""

import gymnasium
import torch
from torchrl.collectors import Collector
from torchrl.envs import RewardSum

from mtwrappers import as_torchrl_env

EPISODE_STEPS = 100


def main() -> None:
    """Collects two episodes of each class and prints the mean returns of random actions."""
    envs = gymnasium.make_vec(
        "mtwrappers:mtwrappers/MT10-v0", max_episode_steps=EPISODE_STEPS, num_goals=10
    )
    names = envs.reset(seed=0)[1]["task_name"]
    env = as_torchrl_env(envs).append_transform(RewardSum())
    env.set_seed(0)
    torch.manual_seed(0)
    collector = Collector(env, frames_per_batch=10 * EPISODE_STEPS, total_frames=20 * EPISODE_STEPS)
    returns = torch.cat(
        [batch["next", "episode_reward"][:, -1] for batch in collector], dim=-1
    )  # shape (10, 2): a class, an episode
    collector.shutdown()
    for name, both in zip(names, returns, strict=True):
        print(f"{name:24} {both.mean().item():8.2f}")


if __name__ == "__main__":
    main()
