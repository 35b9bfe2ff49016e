"""Trains PPO of RLlib (its new API stack) on MT10: the ten classes at once. About a minute.

    pip install '.[metaworld,rllib]'
    python examples/rllib_ppo.py

RLlib's env runners need a vector environment of exactly ``num_envs_per_env_runner`` environments in
the autoreset mode NEXT_STEP; of another mode they store wrong steps, without an error. Without
``gym_env_vectorize_mode`` each environment switches between the ten classes, and there may be any
number of them. The module before the id is imported in the process in which RLlib makes the
environment, which registers it.

The lines marked "scale" are all that a cluster needs: where Ray is, how many env runners there are,
and that a runner that dies is restarted while training continues with the others.

After three iterations of 20 episodes, returns differ between the classes by a factor of a hundred.
The policy has not learnt anything yet; that takes hundreds of iterations.
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

EPISODE_STEPS, ITERATIONS = 100, 3


def log_return(episode, metrics_logger, **_):
    """Logs the return of an episode under the name of its task."""
    name = episode.get_infos(-1)["task_name"]
    metrics_logger.log_value(("return", name), episode.get_return(), window=2)


def main() -> None:
    """Trains, and prints RLlib's results of each iteration and class."""
    # Scale: ray.init(address="auto") joins a running cluster.
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    config = (
        PPOConfig()
        .environment(
            "mtwrappers:mtwrappers/MT10-v0",
            env_config={"autoreset_mode": "NextStep", "max_episode_steps": EPISODE_STEPS},
        )
        .env_runners(
            num_env_runners=2,  # scale: one CPU each
            num_envs_per_env_runner=10,
            gym_env_vectorize_mode="vector_entry_point",
            batch_mode="complete_episodes",
        )
        .training(train_batch_size_per_learner=20 * EPISODE_STEPS, num_epochs=2, minibatch_size=250)
        .fault_tolerance(restart_failed_env_runners=True)  # scale
        .callbacks(on_episode_end=log_return)
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    for iteration in range(ITERATIONS):
        result = algorithm.train()
        run, learnt = result["env_runners"], result["learners"]["default_policy"]
        print(
            f"iteration {iteration}: {run['num_episodes']:.0f} episodes of mean length "
            f"{run['episode_len_mean']:.0f}, mean return {run['episode_return_mean']:.2f}, "
            f"policy entropy {learnt['entropy']:.3f}"
        )
    for name, value in run["return"].items():
        print(f"{name:24} return {value:7.2f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
