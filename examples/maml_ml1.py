"""MAML on ML1-reach in a single file: a policy that finds a hidden goal with one gradient step.

    pip install '.[metaworld,torch]'
    python examples/maml_ml1.py --seed 1 --out maml-seed1

Model-agnostic meta-learning (Finn et al. 2017, arXiv:1703.03400): the weights are trained so that
one step of policy gradient, on a few episodes of a task, makes a good policy for that task. The
outer step is that of PPO through the inner one, second derivatives included. Afterwards the policy
is evaluated on the goals of ML1-test, which were not trained on, under `metaworld-3.1-ml on ML1`.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import nn
from torch.distributions import Normal

from mtwrappers import (
    LinearFeatureBaseline,
    MetaSampleProcessor,
    MetaSampler,
    MetaWorldSetTaskEnv,
    protocols,
)
from mtwrappers.evaluation import EvaluationResult

PROTOCOL = protocols["metaworld-3.1-ml"].on("ML1", "reach-v3")
OBS, ACTION, HIDDEN = 39, 4, 64


class MAML(nn.Module):
    """A Gaussian policy of two hidden layers, which acts in ``M`` tasks with weights for each.

    Args:
        horizon: Adaptation looks at so many steps of each episode, the first ones.
        step_size: Of the inner step.
        std: Of the actions, in the beginning.
    """

    def __init__(self, horizon: int = 75, step_size: float = 0.2, std: float = 0.7) -> None:
        super().__init__()
        self.register_buffer("horizon", torch.tensor(horizon))
        self.register_buffer("step_size", torch.tensor(step_size))
        self.meta = nn.ParameterList()  # the meta-learnt weights
        for *sizes, gain in (
            (OBS, HIDDEN, 2**0.5),
            (HIDDEN, HIDDEN, 2**0.5),
            (HIDDEN, ACTION, 0.01),
        ):
            layer = nn.init.orthogonal_(torch.empty(sizes), gain)
            self.meta += [layer, torch.zeros(1, sizes[1])]
        self.meta.append(torch.full((1, ACTION), std).log())
        self.register_buffer("mean", torch.zeros(OBS))
        self.register_buffer("std", torch.ones(OBS))
        self.processor = MetaSampleProcessor(
            LinearFeatureBaseline(), discount=0.9, gae_lambda=0.9, normalize_adv=True
        )
        self.dtype = np.float32  # of actions
        self.begin_trial()

    def policy(self, weights: Sequence[torch.Tensor], obs: torch.Tensor) -> Normal:
        """Actions ``(M, S, A)`` for observations ``(M, S, O)``, by the weights of each task."""
        *layers, log_std = weights
        x = ((obs - self.mean) / self.std).clamp(-5, 5)
        for i in range(0, len(layers), 2):
            x = (x.tanh() if i else x) @ layers[i] + layers[i + 1]
        return Normal(x, log_std.exp().expand_as(x), validate_args=False)

    def batch(self, paths: Any) -> dict[str, torch.Tensor]:
        """The steps of ``M`` tasks' trajectories, ``(M, S, ...)``, with their advantages."""
        tasks = paths.values() if isinstance(paths, Mapping) else paths
        keys = ("observations", "actions", "rewards")
        cut = [
            [{key: path[key][: self.horizon] for key in keys} for path in task_paths]
            for task_paths in tasks
        ]
        data = self.processor.process_samples(cut)
        return {key: tensor([samples[key] for samples in data]) for key in (*keys, "advantages")}

    def adapted(self, batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """The weights of each task, ``(M, ...)``, after a step of policy gradient."""
        weights = [w.expand(len(batch["rewards"]), *w.shape) for w in self.meta]
        log_prob = self.log_prob(weights, batch)
        loss = -(log_prob * batch["advantages"]).mean(1).sum()
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        return [w - self.step_size * g for w, g in zip(weights, gradients, strict=True)]

    def log_prob(
        self, weights: Sequence[torch.Tensor], batch: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        """The log-probabilities of a batch's actions, ``(M, S)``."""
        return self.policy(weights, batch["observations"]).log_prob(batch["actions"]).sum(-1)

    # `few_shot_evaluate` and training call these methods.

    def begin_trial(self) -> None:
        """Discards the adaptation to tasks."""
        self.weights = [w.detach()[None] for w in self.meta]

    def adapt(self, paths: Any) -> None:
        """Adapts to the tasks of these trajectories."""
        self.weights = [w.detach() for w in self.adapted(self.batch(paths))]

    @torch.no_grad()
    def get_actions(self, observations: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Actions ``(M, K, A)`` for observations ``(M, K, O)``."""
        actions = self.policy(self.weights, tensor(observations)).sample()
        return actions.numpy().astype(self.dtype), {}


def tensor(values: Any) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters, and where files go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=10, help="per iteration")
    parser.add_argument("--episodes", type=int, default=10, help="per task, before and after")
    parser.add_argument("--horizon", type=int, default=75, help="steps of an episode")
    parser.add_argument("--step-size", type=float, default=0.2, help="of the inner step")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="of the outer steps")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--snapshots", type=int, default=1, help="number of times to save weights")
    parser.add_argument("--out", type=Path, default=Path("maml"))
    parser.add_argument("--evaluate", type=Path, help="only evaluate these weights")
    return parser


def train(args: argparse.Namespace) -> None:
    """Trains, and saves ``weights-STEPS.npz``, where ``STEPS`` counts those of all environments."""
    torch.manual_seed(args.seed)
    agent = MAML(args.horizon, args.step_size)
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    env = MetaWorldSetTaskEnv("ML1", "train", env_name="reach-v3", max_episode_steps=None)
    sizes = args.episodes, args.tasks, args.horizon
    sampler = MetaSampler(
        env, agent, *sizes, envs_per_task=(args.episodes + 1) // 2, seed=args.seed
    )
    seen = RunningMeanStd(shape=(OBS,))
    saved = np.linspace(0, args.iterations, args.snapshots + 1).round()
    args.out.mkdir(parents=True, exist_ok=True)
    for iteration in range(args.iterations + 1):
        sampler.update_tasks()
        agent.begin_trial()
        pre_batch = agent.batch(sampler.obtain_samples())
        if iteration:
            agent.weights = [w.detach() for w in agent.adapted(pre_batch)]
            post_batch = agent.batch(sampler.obtain_samples())
            with torch.no_grad():
                old = agent.log_prob(agent.weights, post_batch)
            for _ in range(args.epochs):
                ratio = (agent.log_prob(agent.adapted(pre_batch), post_batch) - old).exp()
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                advantage = post_batch["advantages"]
                loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                optimizer.step()
            means = [float(batch["rewards"].mean()) for batch in (pre_batch, post_batch)]
            print(
                f"iteration {iteration}: reward {means[0]:.2f} before, {means[1]:.2f} after",
                flush=True,
            )
        # The first iteration collects these alone; then they change slowly.
        seen.update(pre_batch["observations"].flatten(0, 1).numpy())
        agent.mean[:], agent.std[:] = tensor(seen.mean), tensor(seen.var).sqrt() + 1e-3
        if iteration in saved:
            steps = sampler.total_timesteps_sampled
            arrays = {name: value.numpy() for name, value in agent.state_dict().items()}
            np.savez(args.out / f"weights-{steps}.npz", **arrays)
    sampler.close()


def evaluate(weights: Path, seed: int) -> EvaluationResult:
    """Adapts to the goals of ML1-test, and measures success before and after.

    Writes ``results.json`` and ``results.npz`` into ``evaluated-STEPS`` beside the weights.
    """
    torch.manual_seed(0)
    agent = MAML()
    agent.dtype = np.float16  # half the evidence
    agent.load_state_dict(
        {name: torch.as_tensor(array) for name, array in np.load(weights).items()}
    )
    steps = int(weights.stem.rpartition("-")[2])
    folder = weights.parent / f"evaluated-{steps}"
    folder.mkdir(exist_ok=True)
    result: EvaluationResult = PROTOCOL.evaluate(agent, evidence=folder / "results.npz")
    result = result.described(policy="maml", training_seed=seed, training_steps=steps)
    result.save(folder / "results.json")
    return result


def main(argv: list[str] | None = None) -> None:
    """Trains, and evaluates the last weights; or evaluates those that were given."""
    args = parser().parse_args(argv)
    torch.set_num_threads(1)  # more gain nothing on small networks
    if args.evaluate is None:
        train(args)
    weights = args.evaluate or max(args.out.glob("weights-*.npz"), key=os.path.getmtime)
    print(evaluate(weights, args.seed))


if __name__ == "__main__":
    main()
