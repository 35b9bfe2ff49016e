"""MTSAC of metaworld-algorithms (JAX) on our MT10, in worker processes.

metaworld-algorithms needs Python 3.12; see docs/guides/libraries.md.

    pip install '.[metaworld]'
    pip install 'metaworld-algorithms[cuda13] @ git+https://github.com/rainx0r/metaworld-algorithms@30c9991'
    python examples/metaworld_algorithms_mtsac.py

Their own script with `OursConfig` in place of `MetaworldConfig`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import orbax.checkpoint as ocp
from metaworld_algorithms.config.networks import ContinuousActionPolicyConfig, QValueFunctionConfig
from metaworld_algorithms.config.nn import VanillaNetworkConfig
from metaworld_algorithms.config.optim import OptimizerConfig
from metaworld_algorithms.config.rl import OffPolicyTrainingConfig
from metaworld_algorithms.envs import MetaworldConfig
from metaworld_algorithms.rl.algorithms import MTSACConfig
from metaworld_algorithms.run import Run


@dataclass(frozen=True)
class OursConfig(MetaworldConfig):
    """The configuration of metaworld-algorithms, with our id and worker processes."""

    workers: int = 2

    def spawn(self, seed: int = 1) -> Any:
        """Makes our environments for training and evaluation."""
        return gymnasium.make_vec(
            f"mtwrappers:mtwrappers/{self.env_id}-v0",
            workers=self.workers,
            seed=seed,
            use_one_hot=self.use_one_hot,
            terminate_on_success=self.terminate_on_success,
            max_episode_steps=self.max_episode_steps,
            num_goals=self.num_goals,
            reward_function_version=self.reward_func_version,
            reward_normalization_method=self.reward_normalization_method,
            normalize_observations=self.normalize_observations,
        )


def main() -> None:
    """Trains, evaluates and writes checkpoints; with ``--resume`` from the last one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="0: on Meta-World's own ids")
    parser.add_argument("--steps", type=int, default=20_000_000, help="of all ten environments")
    parser.add_argument("--evaluation-episodes", type=int, default=50, help="of each class")
    parser.add_argument("--evaluate-every", type=int, default=400, help="in episodes")
    parser.add_argument("--warmstart-steps", type=int, default=4000, help="of each environment")
    parser.add_argument("--batch-size", type=int, default=1280)
    parser.add_argument("--buffer-size", type=int, default=1_000_000)
    parser.add_argument("--max-episode-steps", type=int, default=500)
    parser.add_argument("--data-dir", type=Path, default=Path("run_results"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="run without an accelerator")
    args = parser.parse_args()

    env: dict[str, Any] = {
        "env_id": "MT10",
        "max_episode_steps": args.max_episode_steps,
        "evaluation_num_episodes": args.evaluation_episodes,
    }
    network = VanillaNetworkConfig(optimizer=OptimizerConfig(max_grad_norm=1.0))
    run = Run(
        run_name="mt10_mtsac",
        seed=args.seed,
        data_dir=args.data_dir,
        env=OursConfig(**env, workers=args.workers) if args.workers else MetaworldConfig(**env),
        algorithm=MTSACConfig(
            num_tasks=10,
            gamma=0.99,
            actor_config=ContinuousActionPolicyConfig(network_config=network),
            critic_config=QValueFunctionConfig(network_config=network),
            num_critics=2,
        ),
        training_config=OffPolicyTrainingConfig(
            total_steps=args.steps,
            evaluation_frequency=args.evaluate_every,
            warmstart_steps=args.warmstart_steps,
            buffer_size=args.buffer_size,
            batch_size=args.batch_size,
        ),
        checkpoint=True,
        resume=args.resume,
    )
    # Without it, many saves fail: docs/upstream/metaworld_algorithms_checkpoint_race.py.
    blocking = ocp.AsyncOptions(create_directories_asynchronously=False)
    ocp.CheckpointManagerOptions = partial(ocp.CheckpointManagerOptions, async_options=blocking)
    if args.cpu:
        jax.device_count = lambda backend=None: 1  # `start` refuses to run on processors alone
    run.start()


if __name__ == "__main__":
    main()
