"""Trains PPO of RLlib (its new API stack) for one iteration on MT10.

    pip install 'mtwrappers[metaworld,rllib]'
    python examples/rllib_ppo.py

The module in front of the id registers it where RLlib makes the environment, which may be another
process. Each environment moves between the ten classes, from episode to episode.
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

EPISODE_STEPS = 100


def main() -> None:
    """Trains an iteration of 20 episodes, and prints what RLlib reports of it."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    config = (
        PPOConfig()
        .environment(
            "mtwrappers:mtwrappers/MT10-v0",
            env_config={"max_episode_steps": EPISODE_STEPS, "num_goals": 10},
        )
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4, batch_mode="complete_episodes")
        .training(train_batch_size_per_learner=20 * EPISODE_STEPS, num_epochs=2, minibatch_size=250)
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    played, learnt = result["env_runners"], result["learners"]["default_policy"]
    print(f"episodes: {played['num_episodes']:.0f}")
    print(f"mean length: {played['episode_len_mean']:.0f}")
    print(f"mean return: {played['episode_return_mean']:.2f}")
    print(f"policy entropy: {learnt['entropy']:.3f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
