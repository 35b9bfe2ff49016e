"""Trains Stable-Baselines3's PPO on MT10 and prints each task's success rate. About a minute.

    pip install 'mtwrappers[metaworld,sb3]'
    python examples/sb3_ppo.py

150,000 steps are enough to see it learn the easiest tasks, no more.
"""

import gymnasium
import torch
from stable_baselines3 import PPO

import mtwrappers


def main() -> None:
    """Trains on two workers, then evaluates on five goals of each task."""
    # Threads gain nothing on small networks, and would keep the workers from their cores.
    torch.set_num_threads(1)
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", workers=2)
    model = PPO("MlpPolicy", mtwrappers.as_sb3_vec_env(envs), n_steps=500, batch_size=500, seed=0)
    model.learn(150_000)
    result = mtwrappers.evaluate(
        lambda obs: model.predict(obs, deterministic=True)[0], envs, episodes_per_task=5
    )
    print(result)
    envs.close()


if __name__ == "__main__":
    main()
