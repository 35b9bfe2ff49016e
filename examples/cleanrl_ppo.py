"""PPO on MT10 in a single file, in the style of CleanRL. About a minute on two cores.

    pip install '.[metaworld,torch]'
    python examples/cleanrl_ppo.py

Prints the success rate per class over each iteration's own episodes, where an episode counts if
any of its steps was a success. After this minute (100,000 steps) drawer-close-v3 and often reach-v3
succeed, the others hardly ever. `python -m benchmarks.learning` trains longer, on easier classes,
and plots learning curves.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import nn
from torch.distributions import Normal

import mtwrappers  # noqa: F401 (registers the ids)


class Agent(nn.Module):
    """A Gaussian policy and a value, each a network of two hidden layers.

    Args:
        obs_size: ``O``.
        action_size: ``A``.
    """

    def __init__(self, obs_size: int, action_size: int) -> None:
        super().__init__()
        self.critic = self.network(obs_size, 1, 1.0)
        self.mean = self.network(obs_size, action_size, 0.01)
        self.log_std = nn.Parameter(torch.zeros(action_size))
        self.seen = RunningMeanStd(shape=(obs_size,))  # goals differ by centimetres

    @staticmethod
    def network(size_in: int, size_out: int, gain: float) -> nn.Sequential:
        """Orthogonal weights and no biases to begin with."""
        layers = [nn.Linear(size_in, 64), nn.Linear(64, 64), nn.Linear(64, size_out)]
        for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def normalized(self, obs: torch.Tensor) -> torch.Tensor:
        """Normalizes observations, ``(..., O)``, by the mean and variance so far."""
        return ((obs - tensor(self.seen.mean)) / tensor(self.seen.var + 1e-6).sqrt()).clamp(-5, 5)

    def policy(self, obs: torch.Tensor) -> Normal:
        """The distribution of actions, ``(..., A)``, for observations ``(..., O)``."""
        return Normal(self.mean(self.normalized(obs)), self.log_std.exp(), validate_args=False)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """The values, ``(...)``, of observations ``(..., O)``."""
        return self.critic(self.normalized(obs)).squeeze(-1)


def tensor(array: np.ndarray) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(array, dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default="mtwrappers/MT10-v0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--num-steps", type=int, default=1000, help="per environment and iteration")
    parser.add_argument("--episode-steps", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--minibatches", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--reward-scale", type=float, default=0.01, help="for values near 1")
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    return parser


def train(
    envs: gymnasium.vector.VectorEnv,
    names: Sequence[str],
    args: argparse.Namespace,
    seconds: float = np.inf,
) -> list[dict[str, Any]]:
    """Trains on environments that begin a new episode in the step that ends one.

    Args:
        envs: ``N`` environments with autoreset mode ``SAME_STEP``, whose infos have ``success``.
        names: the task name of each environment.
        args: the hyperparameters, as `parser` has them.
        seconds: training ends with the iteration in which this time is reached.

    Returns:
        A dict per finished episode: ``task`` (its name), ``return``, ``success`` (whether at any
        step), ``seconds`` since training began and ``steps`` of all environments until then.
    """
    # Threads do not speed up small networks, and would compete with the workers for cores.
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    n, t_max = envs.num_envs, args.num_steps
    low, high = envs.single_action_space.low, envs.single_action_space.high
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)

    episodes: list[dict[str, Any]] = []
    returns, solved = np.zeros(n), np.zeros(n)
    start = time.perf_counter()
    obs = tensor(envs.reset(seed=args.seed)[0])
    for iteration in range(args.iterations):
        batch = {
            "obs": torch.zeros(t_max, n, *obs.shape[1:]),
            "actions": torch.zeros(t_max, n, *low.shape),
            "log_probs": torch.zeros(t_max, n),
            "rewards": torch.zeros(t_max, n),
            "dones": torch.zeros(t_max, n),
        }
        first = len(episodes)
        for t in range(t_max):
            with torch.no_grad():
                policy = agent.policy(obs)
                action = policy.sample()
            batch["obs"][t], batch["actions"][t] = obs, action
            batch["log_probs"][t] = policy.log_prob(action).sum(-1)
            next_obs, rewards, terminated, truncated, infos = envs.step(
                action.numpy().clip(low, high)
            )
            done = terminated | truncated
            reward = args.reward_scale * tensor(rewards)
            # An environment that begins a new episode has no success yet.
            success = np.array(infos.get("success", np.zeros(n)), dtype=float)
            if done.any():
                success[done] = infos["final_info"]["success"][done]
                # A truncated episode would have continued: bootstrap from its last observation.
                cut = np.flatnonzero(truncated & ~terminated)
                if len(cut):
                    last = tensor(np.stack(infos["final_obs"][cut]))
                    with torch.no_grad():
                        reward[cut] += args.gamma * agent.value(last)
            returns += rewards
            solved = np.maximum(solved, success)
            now = {
                "seconds": time.perf_counter() - start,
                "steps": (iteration * t_max + t + 1) * n,
            }
            episodes += [
                {"task": names[i], "return": returns[i], "success": bool(solved[i]), **now}
                for i in np.flatnonzero(done)
            ]
            returns[done] = solved[done] = 0
            batch["rewards"][t], batch["dones"][t] = reward, tensor(done)
            obs = tensor(next_obs)

        with torch.no_grad():
            values = agent.value(torch.cat([batch["obs"], obs[None]]))
        advantages = torch.zeros(t_max, n)
        advantage = torch.zeros(n)
        going_on = 1 - batch["dones"]
        for t in reversed(range(t_max)):
            delta = batch["rewards"][t] + args.gamma * values[t + 1] * going_on[t] - values[t]
            advantage = delta + args.gamma * args.gae_lambda * going_on[t] * advantage
            advantages[t] = advantage
        flat = {key: batch[key].flatten(0, 1) for key in ("obs", "actions", "log_probs")}
        flat["returns"] = (advantages + values[:-1]).flatten()
        # The same scale in every task; otherwise only tasks with large rewards are learnt.
        advantages = (advantages - advantages.mean(0)) / (advantages.std(0) + 1e-8)
        flat["advantages"] = advantages.flatten()

        for _ in range(args.epochs):
            for rows in np.array_split(rng.permutation(t_max * n), args.minibatches):
                minibatch = {key: value[rows] for key, value in flat.items()}
                policy = agent.policy(minibatch["obs"])
                ratio = (
                    policy.log_prob(minibatch["actions"]).sum(-1) - minibatch["log_probs"]
                ).exp()
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                advantage = minibatch["advantages"]
                loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                loss += 0.25 * ((agent.value(minibatch["obs"]) - minibatch["returns"]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        agent.seen.update(flat["obs"].numpy())

        rates = defaultdict(list)
        for episode in episodes[first:]:
            rates[episode["task"]].append(episode["success"])
        mean = np.mean([episode["return"] for episode in episodes[first:]] or [np.nan])
        successes = [f"{task} {np.mean(rate):.0%}" for task, rate in rates.items() if any(rate)]
        rates = ", ".join(successes) or "none"
        print(f"iteration {iteration}: return {mean:.0f}; success: {rates}", flush=True)
        if time.perf_counter() - start > seconds:
            break
    return episodes


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Trains on a registered id, and returns its episodes."""
    args = parser().parse_args(argv)
    envs = gymnasium.make_vec(args.id, workers=2, max_episode_steps=args.episode_steps)
    names = envs.reset(seed=args.seed)[1]["task_name"]
    episodes = train(envs, names, args)
    envs.close()
    return episodes


if __name__ == "__main__":
    main()
