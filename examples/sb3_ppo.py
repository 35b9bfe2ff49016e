"""Trains Stable-Baselines3's PPO on MT10, and evaluates it before and after. About a minute.

    pip install '.[metaworld,sb3]'
    python examples/sb3_ppo.py

What to expect of 150,000 steps: drawer-close is solved, and the mean return over the tasks is about
three times that of the untrained policy, because the hand has learnt to move to some of the
objects. The other tasks take PPO millions of steps.
"""

import gymnasium
import torch
from stable_baselines3 import PPO

import mtwrappers


def main(steps: int = 150_000, episodes_per_task: int = 5) -> None:
    """Trains on two workers; evaluates on some goals of each task."""
    # Threads gain nothing on small networks, and would keep the workers from their cores.
    torch.set_num_threads(1)
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)
    # Rewards of one scale in every task: otherwise the largest ones alone are learnt.
    venv = mtwrappers.as_sb3_vec_env(mtwrappers.VectorNormalizeRewardPerTask(envs))
    model = PPO("MlpPolicy", venv, n_steps=500, batch_size=500, learning_rate=1e-3, seed=0)

    def policy(observations):
        return model.predict(observations, deterministic=True)[0]

    # The evaluation sees the environments' own rewards.
    before = mtwrappers.evaluate(policy, envs, episodes_per_task)
    model.learn(steps)
    after = mtwrappers.evaluate(policy, envs, episodes_per_task)
    envs.close()

    print(f"{'':24}{'return before':>16}{'after':>9}{'success':>10}")
    rows = {task: (before.per_task[task], after.per_task[task]) for task in after.tasks}
    rows["mean"] = before.overall["mean"], after.overall["mean"]
    for name, (old, new) in rows.items():
        success = f"{new['success_once'].value:.0%}"
        print(f"{name:24}{old['return'].value:16.0f}{new['return'].value:9.0f}{success:>10}")


if __name__ == "__main__":
    main()
