"""RL2 on bandits in a single file: a network that learns to explore.

    pip install '.[torch]'
    python examples/rl2_bandit.py --seed 1

RL2 (Duan et al. 2016, arXiv:1611.02779): a recurrent policy observes its last action and its last
reward, and keeps its memory during a trial, here ten pulls of a bandit with five arms. It is
trained with PPO on bandits that are drawn anew for each trial. Afterwards it is compared on new
bandits with Thompson sampling and with the policy that is optimal for this distribution of bandits,
whose expected return is also computed exactly.
"""

import argparse
import functools
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import mtwrappers
from mtwrappers import VectorRL2Observation
from mtwrappers.evaluation import EvaluationResult

# Pairs of the successes and failures of each arm, in ascending order.
Counts = tuple[tuple[int, int], ...]


class RL2(nn.Module):
    """A policy and a value function with a memory.

    Args:
        arms: The number of arms.
        hidden: The size of the memory.
    """

    def __init__(self, arms: int, hidden: int = 64) -> None:
        super().__init__()
        self.gru = nn.GRU(arms + 3, hidden)  # a zero, the last action and reward, and an end
        self.action = nn.Linear(hidden, arms)
        self.value = nn.Linear(hidden, 1)
        self.memory: torch.Tensor | None = None

    def policy(
        self, obs: torch.Tensor, memory: torch.Tensor | None = None
    ) -> tuple[Categorical, torch.Tensor, torch.Tensor]:
        """Actions and values ``(T, N)`` for observations ``(T, N, O)``, and the last memory."""
        features, memory = self.gru(obs, memory)
        return Categorical(logits=self.action(features)), self.value(features)[..., 0], memory

    # `evaluate` calls these methods.

    def reset(self, mask: np.ndarray) -> None:
        """Empties the memory of the environments in which a trial begins, ``(N,)`` bool."""
        if self.memory is not None:
            self.memory[:, mask] = 0

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """The most probable actions ``(N,)`` for observations ``(N, O)``."""
        policy, _, self.memory = self.policy(tensor(observations)[None], self.memory)
        return policy.logits[0].argmax(-1).numpy()


class Counting:
    """A policy that counts the successes and failures of each arm."""

    counts: np.ndarray | None = None  # (N, arms, 2)

    def reset(self, mask: np.ndarray) -> None:
        """Forgets the counts of the environments in which a trial begins, ``(N,)`` bool."""
        if self.counts is not None:
            self.counts[mask] = 0

    def count(self, observations: np.ndarray) -> np.ndarray:
        """Adds the last pulls, and returns the counts of all arms, ``(N, arms, 2)``."""
        pulled, rewards = observations[:, 1:-2], observations[:, -2:-1]
        if self.counts is None:
            self.counts = np.zeros((*pulled.shape, 2))
        self.counts += np.stack([pulled * rewards, pulled * (1 - rewards)], axis=-1)
        return self.counts


class Thompson(Counting):
    """Draws a mean for each arm from its posterior, and pulls the arm with the largest."""

    def __call__(self, observations: np.ndarray, rng: np.ndarray) -> np.ndarray:
        """Actions ``(N,)`` for observations ``(N, O)``, with a generator for each row."""
        counts = self.count(observations)
        draws = [row.beta(*(1 + count.T)) for row, count in zip(rng, counts, strict=True)]
        return np.argmax(draws, axis=1)


class Optimal(Counting):
    """Maximizes the expected return of the trial.

    Args:
        pulls: The number of pulls of a trial.
    """

    def __init__(self, pulls: int) -> None:
        self.pulls = pulls

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions ``(N,)`` for observations ``(N, O)``."""
        counts = self.count(observations).astype(int)
        return np.array([self.choose(row.tolist()) for row in counts])

    def choose(self, counts: list[list[int]]) -> int:
        """The arm to pull."""
        pulls_left = self.pulls - sum(map(sum, counts))
        arms = tuple((successes, failures) for successes, failures in counts)
        return max(range(len(arms)), key=lambda arm: expected_return(arms, arm, pulls_left))


def expected_return(arms: Counts, arm: int, pulls_left: int) -> float:
    """The expected return of a pull of an arm, and of optimal ones afterwards."""
    successes, failures = arms[arm]
    mean = (1 + successes) / (2 + successes + failures)
    other_arms = arms[:arm] + arms[arm + 1 :]
    after_success = optimal_return(
        tuple(sorted((*other_arms, (successes + 1, failures)))), pulls_left - 1
    )
    after_failure = optimal_return(
        tuple(sorted((*other_arms, (successes, failures + 1)))), pulls_left - 1
    )
    return mean * (1 + after_success) + (1 - mean) * after_failure


@functools.cache
def optimal_return(arms: Counts, pulls_left: int) -> float:
    """The expected return of ``pulls_left`` optimal pulls, by dynamic programming."""
    if pulls_left == 0:
        return 0.0
    different = {counts: arm for arm, counts in enumerate(arms)}.values()
    return max(expected_return(arms, arm, pulls_left) for arm in different)


def tensor(values: object) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters, and where files go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--pulls", type=int, default=10, help="of a trial")
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--trials", type=int, default=500, help="per iteration")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--evaluations", type=int, default=1_000, help="trials")
    parser.add_argument("--out", type=Path, default=Path("rl2-bandit"))
    return parser


def make_envs(args: argparse.Namespace) -> VectorRL2Observation:
    """Makes bandits, each of which is drawn anew for each trial."""
    envs = gymnasium.make_vec(
        "mtwrappers/Bandit-v0",
        num_envs=args.trials,
        meta_batch_size=1,  # one group, since all draw from the same distribution
        arms=args.arms,
        max_episode_steps=args.pulls,
    )
    return VectorRL2Observation(envs)


def train(args: argparse.Namespace) -> RL2:
    """Trains, and prints the mean return of each iteration."""
    torch.manual_seed(args.seed)
    envs = make_envs(args)
    agent = RL2(args.arms)
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate)
    now, _ = envs.reset(seed=args.seed)
    for iteration in range(args.iterations):
        obs, actions, rewards, log_probs = [], [], [], []
        memory = None
        for _ in range(args.pulls):  # a trial of each; then the environments begin the next
            with torch.no_grad():
                policy, _, memory = agent.policy(tensor(now)[None], memory)
                action = policy.sample()
            obs.append(now)
            actions.append(action[0])
            log_probs.append(policy.log_prob(action)[0])
            now, reward, *_ = envs.step(action[0].numpy())
            rewards.append(reward)
        batch, taken, old = tensor(obs), torch.stack(actions), torch.stack(log_probs)
        returns = tensor(np.cumsum(rewards[::-1], axis=0)[::-1].copy())  # to go
        with torch.no_grad():
            advantages = returns - agent.policy(batch)[1]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(args.epochs):
            policy, values, _ = agent.policy(batch)
            ratio = (policy.log_prob(taken) - old).exp()
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            loss = -torch.min(advantages * ratio, advantages * clipped).mean()
            loss = loss + 0.1 * (returns - values).square().mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
            optimizer.step()
        if iteration % 20 == 19:
            print(f"iteration {iteration}: return {np.sum(rewards, axis=0).mean():.2f}", flush=True)
    envs.close()
    return agent


def evaluate(policy: object, name: str, args: argparse.Namespace) -> EvaluationResult:
    """Plays new bandits, the same for every policy, and writes the result."""
    envs = make_envs(args)
    args.out.mkdir(parents=True, exist_ok=True)
    result: EvaluationResult = mtwrappers.evaluate(
        policy, envs, args.evaluations, seed=1_000_000, evidence=args.out / f"{name}.npz"
    )
    envs.close()
    result = result.described(policy=name, training_seed=args.seed)
    result.save(args.out / f"{name}.json")
    return result


def main(argv: list[str] | None = None) -> None:
    """Trains, and compares."""
    args = parser().parse_args(argv)
    torch.set_num_threads(1)  # more gain nothing on small networks
    policies = {"rl2": train(args), "thompson": Thompson(), "optimal": Optimal(args.pulls)}
    for name, policy in policies.items():
        print(f"{name}: return {evaluate(policy, name, args).overall['mean over tasks']['return']}")
    exact = optimal_return(((0, 0),) * args.arms, args.pulls)
    print(f"the expected return of the optimal policy is {exact:.3f}")


if __name__ == "__main__":
    main()
