"""MAML on HalfCheetahDir in a single file: one gradient step turns a half cheetah around.

    pip install '.[mujoco,torch]'
    python examples/maml_half_cheetah.py --seed 1 --out maml-cheetah-seed1

Model-agnostic meta-learning (Finn et al. 2017, arXiv:1703.03400): the weights are trained so that
one step of policy gradient, on twenty episodes of a task, makes a good policy for that task. The
two tasks are to run forwards and backwards; no observation says which. The outer step is that of
PPO through the inner one, second derivatives included, as in ProMP (Rothfuss et al. 2018,
arXiv:1810.06784) but without its gradient estimator. The mean returns of the episodes before and
after the inner step go to ``returns.csv``. Afterwards, adaptation is measured on new episodes.
"""

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

import mtwrappers
from mtwrappers import LinearFeatureBaseline, MetaSampleProcessor, MetaSampler
from mtwrappers.evaluation import EvaluationResult

ENV_ID, SOURCE = "mtwrappers/HalfCheetahDir-v0", "promp"  # 17 numbers, 100 steps
TASKS = [{"direction": -1.0}, {"direction": 1.0}]
OBS, ACTION, HIDDEN = 17, 6, 64


class MAML(nn.Module):
    """A Gaussian policy of two hidden layers, which acts in ``M`` tasks with weights for each.

    Args:
        step_size: The size of the inner step.
    """

    def __init__(self, step_size: float = 0.1) -> None:
        super().__init__()
        self.step_size = step_size
        self.meta = nn.ParameterList()  # the meta-learnt weights
        for *sizes, gain in ((OBS, HIDDEN, 1.0), (HIDDEN, HIDDEN, 1.0), (HIDDEN, ACTION, 0.01)):
            layer = nn.init.orthogonal_(torch.empty(sizes), gain)
            self.meta += [layer, torch.zeros(1, sizes[1])]
        self.meta.append(torch.full((1, ACTION), -0.5))
        self.processor = MetaSampleProcessor(
            LinearFeatureBaseline(), discount=0.99, gae_lambda=0.97, normalize_adv=True
        )
        self.begin_trial()

    def policy(self, weights: Sequence[torch.Tensor], obs: torch.Tensor) -> Normal:
        """Actions ``(M, S, A)`` for observations ``(M, S, O)``, by the weights of each task."""
        *layers, log_std = weights
        x = obs.clamp(-10, 10)
        for i in range(0, len(layers), 2):
            x = (x.tanh() if i else x) @ layers[i] + layers[i + 1]
        return Normal(x, log_std.exp().expand_as(x), validate_args=False)

    def log_prob(
        self, weights: Sequence[torch.Tensor], batch: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        """The log-probabilities of a batch's actions, ``(M, S)``."""
        return self.policy(weights, batch["observations"]).log_prob(batch["actions"]).sum(-1)

    def batch(self, paths: Any) -> dict[str, torch.Tensor]:
        """The steps of ``M`` tasks' trajectories, ``(M, S, ...)``, with their advantages."""
        batches = self.processor.process_samples(paths)
        keys = ("observations", "actions", "advantages")
        return {key: tensor([task[key] for task in batches]) for key in keys}

    def adapted(self, batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """The weights of each task, ``(M, ...)``, after a step of policy gradient."""
        num_tasks = len(batch["advantages"])
        weights = [layer.expand(num_tasks, *layer.shape) for layer in self.meta]
        loss = -(self.log_prob(weights, batch) * batch["advantages"]).mean(1).sum()
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        return [w - self.step_size * g for w, g in zip(weights, gradients, strict=True)]

    # `few_shot_evaluate` and training call these methods.

    def begin_trial(self) -> None:
        """Discards the adaptation to tasks."""
        self.weights = [layer.detach()[None] for layer in self.meta]

    def adapt(self, paths: Any) -> None:
        """Adapts to the tasks of these trajectories."""
        self.weights = [layer.detach() for layer in self.adapted(self.batch(paths))]

    @torch.no_grad()
    def get_actions(self, observations: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Actions ``(M, K, A)`` for observations ``(M, K, O)``."""
        actions = self.policy(self.weights, tensor(observations)).sample()
        return actions.numpy(), {}


def tensor(values: Any) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def mean_return(paths: Mapping[int, Sequence[dict[str, Any]]]) -> float:
    """The mean of the sums of rewards over the episodes of all tasks."""
    return float(np.mean([path["rewards"].sum() for task in paths.values() for path in task]))


def parser() -> argparse.ArgumentParser:
    """The hyperparameters, and where files go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--episodes", type=int, default=20, help="per task, before and after")
    parser.add_argument("--steps", type=int, default=100, help="of an episode")
    parser.add_argument("--step-size", type=float, default=0.1, help="of the inner step")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="of the outer steps")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--trials", type=int, default=5, help="of the evaluation")
    parser.add_argument("--out", type=Path, default=Path("maml-cheetah"))
    return parser


def train(args: argparse.Namespace) -> MAML:
    """Trains, and writes ``returns.csv`` and ``weights.npz``."""
    torch.manual_seed(args.seed)
    agent = MAML(args.step_size)
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate)
    make = partial(gymnasium.make, ENV_ID, source=SOURCE)
    sizes = args.episodes, len(TASKS), args.steps
    sampler = MetaSampler(make, agent, *sizes, envs_per_task=args.episodes, seed=args.seed)
    rows = []
    for iteration in range(args.iterations):
        sampler.update_tasks(TASKS)
        agent.begin_trial()
        paths_before = sampler.obtain_samples()
        pre_batch = agent.batch(paths_before)
        agent.weights = [layer.detach() for layer in agent.adapted(pre_batch)]
        paths_after = sampler.obtain_samples()
        post_batch = agent.batch(paths_after)
        with torch.no_grad():
            old = agent.log_prob(agent.weights, post_batch)
        for _ in range(args.epochs):
            ratio = (agent.log_prob(agent.adapted(pre_batch), post_batch) - old).exp()
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            advantage = post_batch["advantages"]
            loss = -torch.min(advantage * ratio, advantage * clipped).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        rows.append((iteration, mean_return(paths_before), mean_return(paths_after)))
        print("iteration {}: return {:.1f} before, {:.1f} after".format(*rows[-1]), flush=True)
    sampler.close()
    save(args.out, agent, rows)
    return agent


def save(folder: Path, agent: MAML, rows: Iterable[tuple[int, float, float]]) -> None:
    """Writes the weights and the returns of training."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "weights.npz", **{key: w.numpy() for key, w in agent.state_dict().items()})
    with open(folder / "returns.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("iteration", "before", "after"))
        writer.writerows(rows)


def evaluate(agent: MAML, args: argparse.Namespace) -> EvaluationResult:
    """Adapts to each direction in new episodes, and measures returns before and after.

    Writes ``results.json`` and ``results.npz``, with which `mtwrappers verify` replays them.
    """
    torch.manual_seed(0)
    envs = gymnasium.make_vec(ENV_ID, num_envs=len(TASKS), source=SOURCE)
    trials = [TASKS] * args.trials
    result: EvaluationResult = mtwrappers.few_shot_evaluate(
        agent, envs, trials, args.episodes, evidence=args.out / "results.npz"
    )
    envs.close()
    result = result.described(policy="maml", training_seed=args.seed)
    result.save(args.out / "results.json")
    return result


def main(argv: list[str] | None = None) -> None:
    """Trains and evaluates."""
    args = parser().parse_args(argv)
    torch.set_num_threads(1)  # more gain nothing on small networks
    print(evaluate(train(args), args))


if __name__ == "__main__":
    main()
