"""Fine-tuning through Continual World: a network learns one task after another, and forgets.

    pip install '.[metaworld,cli,torch]'
    python examples/continual_world.py --seeds 1

So that a phase needs 4,000 steps instead of a million, the network does not learn from rewards: it
imitates Meta-World's scripted expert of the current task, in states that both of them visit
(DAgger, Ross et al. 2011). As in Continual World, only the network is kept from earlier tasks.
Writes `continual_world.json`, and a picture beside it. A seed takes some six minutes on one core.

Results of three seeds: the success rate at the end of a phase is 0.64 on average, from 1.0
(faucet-close, handle-press-side, window-close) to 0.1 (peg-unplug-side), and most of it is lost
within the next phase or two. Forgetting is 0.59, and the average performance at the end 0.05.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from mtwrappers.continual.evaluate import continual_evaluate, single_task_baselines
from mtwrappers.continual.result import ContinualResult
from mtwrappers.evaluation import save_results
from mtwrappers.metaworld.experts import expert

BATCH, STEPS_PER_UPDATE = 128, 2


class Imitator:
    """Imitates the expert of the current task; an instance is a ``learn(steps)``.

    Args:
        env: Observations ``(O,)``; infos name the task and the phase.
        seed: Determines the network and what is drawn.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        torch.manual_seed(seed)
        self.rng, self.env, self.episodes = np.random.default_rng(seed), env, 0
        size, num_actions = env.observation_space.shape[0], env.action_space.shape[0]
        self.network = nn.Sequential(
            *(nn.Linear(size, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()),
            *(nn.Linear(256, num_actions), nn.Tanh()),
        )
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []
        self.obs, self.info = env.reset(seed=seed)
        self.phase = self.info["phase"]

    def __call__(self, steps: int) -> Callable[[np.ndarray], np.ndarray]:
        """Trains for ``steps`` steps and returns the policy."""
        for step in range(steps):
            if self.info["phase"] != self.phase:
                self.phase, self.seen = self.info["phase"], []
            act = expert_of(self.info["task_name"])
            wanted = np.clip(act(self.obs, self.obs[36:39]), -1, 1)
            self.seen.append((self.obs.astype(np.float32), wanted.astype(np.float32)))
            # The expert and the network take turns.
            action = wanted if self.episodes % 2 == 0 else self.policy(self.obs[None])[0]
            noisy = action + self.rng.normal(scale=0.1, size=action.shape)
            noisy = np.clip(noisy, -1, 1).astype(np.float32)
            self.obs, _, terminated, truncated, self.info = self.env.step(noisy)
            if terminated or truncated:
                self.obs, self.info = self.env.reset()
                self.episodes += 1
            if step % STEPS_PER_UPDATE == 0:
                self.update()
        return self.policy

    def update(self) -> None:
        """One step of gradient descent on states of this phase."""
        chosen = [self.seen[i] for i in self.rng.integers(len(self.seen), size=BATCH)]
        obs, wanted = (torch.from_numpy(np.stack(column)) for column in zip(*chosen, strict=True))
        loss = nn.functional.mse_loss(self.network(4 * obs), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def policy(self, obs: np.ndarray) -> np.ndarray:
        """Returns actions ``(N, 4)`` for observations ``(N, O)``."""
        with torch.no_grad():
            return self.network(4 * torch.from_numpy(obs.astype(np.float32))).numpy()


expert_of = functools.cache(expert)


def main(argv: Sequence[str] | None = None) -> ContinualResult:
    """Trains with each seed, prints the table, and writes the results and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps-per-task", type=int, default=4_000)
    parser.add_argument("--evaluations-per-phase", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=5, help="of each phase and evaluation")
    parser.add_argument("--horizon", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("continual_world.json"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    make = functools.partial(
        gymnasium.make,
        "mtwrappers/CW10-v0",
        steps_per_task=args.steps_per_task,
        max_episode_steps=args.horizon,
    )
    settings = {"episodes_per_phase": args.episodes}
    baselines, runs = [], []
    for seed in range(args.seeds):
        learner = functools.partial(Imitator, seed=seed)
        arguments = learner, make, args.evaluations_per_phase
        for results, evaluate in ((runs, continual_evaluate), (baselines, single_task_baselines)):
            seed_results = evaluate(*arguments, **settings)
            results += [result.described(training_seed=seed) for result in seed_results]
        print(f"seed {seed}: {runs[-1].score} at the end")
    result = ContinualResult(runs, baselines)
    print(result)
    save_results(args.out, [*runs, *baselines])
    result.plot(
        args.out.with_suffix(".png"),
        "CW10 with reduced budgets: fine-tuning by imitation of scripted experts",
        f"{args.steps_per_task:,} steps per task instead of 1,000,000; {args.seeds} seeds; "
        f"{args.episodes} episodes per point",
    )
    return result


if __name__ == "__main__":
    main()
