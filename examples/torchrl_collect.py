"""Collects MT10 with TorchRL: ten classes side by side, and what is in a batch.

    pip install '.[metaworld,torchrl]'
    python examples/torchrl_collect.py

What to expect, within a quarter of a minute: the shape of a batch, (classes, steps), and its
entries; for each class the mean return and success rate of two episodes of random actions, which
hardly ever succeed; and that the next observation of an episode's last step is the episode's own,
not the first of the episode that has begun: in no step does the hand move by more than a
centimetre.
"""

import gymnasium
import torch
from torchrl.collectors import Collector
from torchrl.envs import RewardSum

from mtwrappers import as_torchrl_env

EPISODE_STEPS = 100


def main() -> None:
    """Collects two episodes of each class, and prints what is in them."""
    envs = gymnasium.make_vec(
        "mtwrappers:mtwrappers/MT10-v0", max_episode_steps=EPISODE_STEPS, num_goals=10
    )
    names = envs.reset(seed=0)[1]["task_name"]
    env = as_torchrl_env(envs).append_transform(RewardSum())
    env.set_seed(0)
    torch.manual_seed(0)
    collector = Collector(env, frames_per_batch=10 * EPISODE_STEPS, total_frames=20 * EPISODE_STEPS)
    batch = torch.cat(list(collector), dim=-1)
    collector.shutdown()

    next_steps = batch["next"]
    print(f"batch of shape {tuple(batch.shape)} with: {', '.join(sorted(next_steps.keys()))}")
    for i, name in enumerate(names):
        last = next_steps[i][next_steps["done"][i].squeeze(-1)]  # an entry per episode
        mean, rate = last["episode_reward"].mean(), last["success"].double().mean()
        print(f"{name:24} return {mean:7.2f}, success {rate:.0%}")
    hand = (next_steps["observation"] - batch["observation"])[..., :3].norm(dim=-1)
    print(f"longest move of the hand in a step: {hand.max():.3f} m")


if __name__ == "__main__":
    main()
