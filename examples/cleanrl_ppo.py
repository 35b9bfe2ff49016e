"""PPO on MT10 in a single file, in the style of CleanRL. About a minute on two cores.

    pip install '.[metaworld,torch]'
    python examples/cleanrl_ppo.py

Prints the success rates of each iteration's own episodes. For rates that others can trust train
much longer, and evaluate with `mtwrappers.evaluate`.
"""

import argparse
from collections import defaultdict

import gymnasium
import numpy as np
import torch
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
        self.value = self.network(obs_size, 1, 1.0)
        self.mean = self.network(obs_size, action_size, 0.01)
        self.log_std = nn.Parameter(torch.zeros(action_size))

    @staticmethod
    def network(size_in: int, size_out: int, gain: float) -> nn.Sequential:
        """Orthogonal weights and no biases to begin with."""
        layers = [nn.Linear(size_in, 64), nn.Linear(64, 64), nn.Linear(64, size_out)]
        for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def policy(self, obs: torch.Tensor) -> Normal:
        """The distribution of actions, ``(..., A)``, for observations ``(..., O)``."""
        return Normal(self.mean(obs), self.log_std.exp())


def tensor(array: np.ndarray) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(array, dtype=torch.float32)


def main(argv: list[str] | None = None) -> list[dict[str, object]]:
    """Trains, and returns the statistics of every finished episode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default="mtwrappers/MT10-v0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--num-steps", type=int, default=500, help="an environment and iteration")
    parser.add_argument("--episode-steps", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--minibatches", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    args = parser.parse_args(argv)

    # Threads gain nothing on small networks, and would keep the workers from their cores.
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    # It records episode statistics and begins new episodes in the step that ends one, by default.
    envs = gymnasium.make_vec(args.id, workers=2, max_episode_steps=args.episode_steps)
    n, t_max = envs.num_envs, args.num_steps
    low, high = envs.single_action_space.low, envs.single_action_space.high
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)

    episodes: list[dict[str, object]] = []
    obs = tensor(envs.reset(seed=args.seed)[0])
    for iteration in range(args.iterations):
        batch = {
            "obs": torch.zeros(t_max, n, *obs.shape[1:]),
            "actions": torch.zeros(t_max, n, *low.shape),
            "log_probs": torch.zeros(t_max, n),
            "values": torch.zeros(t_max + 1, n),
            "rewards": torch.zeros(t_max, n),
            "dones": torch.zeros(t_max, n),
        }
        first = len(episodes)
        for t in range(t_max):
            with torch.no_grad():
                policy = agent.policy(obs)
                action = policy.sample()
                batch["values"][t] = agent.value(obs).squeeze(-1)
            batch["obs"][t], batch["actions"][t] = obs, action
            batch["log_probs"][t] = policy.log_prob(action).sum(-1)
            next_obs, rewards, terminated, truncated, infos = envs.step(
                action.numpy().clip(low, high)
            )
            done = terminated | truncated
            reward = tensor(rewards)
            if done.any():
                # A cut episode would have gone on: its last observation's value is still to come.
                cut = np.flatnonzero(truncated & ~terminated)
                if len(cut):
                    last = tensor(np.stack(infos["final_obs"][cut]))
                    with torch.no_grad():
                        reward[cut] += args.gamma * agent.value(last).squeeze(-1)
                final = infos["final_info"]
                for i in np.flatnonzero(final["_episode"]):
                    entry = {key: float(final["episode"][key][i]) for key in "rlt"}
                    success = bool(final["success"][i])
                    episodes.append({"task": final["task_name"][i], "success": success, **entry})
            batch["rewards"][t], batch["dones"][t] = reward, tensor(done)
            obs = tensor(next_obs)

        with torch.no_grad():
            batch["values"][t_max] = agent.value(obs).squeeze(-1)
        advantages = torch.zeros(t_max, n)
        advantage = torch.zeros(n)
        values, going_on = batch["values"], 1 - batch["dones"]
        for t in reversed(range(t_max)):
            delta = batch["rewards"][t] + args.gamma * values[t + 1] * going_on[t] - values[t]
            advantage = delta + args.gamma * args.gae_lambda * going_on[t] * advantage
            advantages[t] = advantage
        flat = {key: batch[key].flatten(0, 1) for key in ("obs", "actions", "log_probs")}
        flat["advantages"] = advantages.flatten()
        flat["returns"] = (advantages + values[:-1]).flatten()

        for _ in range(args.epochs):
            for rows in np.array_split(rng.permutation(t_max * n), args.minibatches):
                part = {key: value[rows] for key, value in flat.items()}
                policy = agent.policy(part["obs"])
                ratio = (policy.log_prob(part["actions"]).sum(-1) - part["log_probs"]).exp()
                a = part["advantages"]
                a = (a - a.mean()) / (a.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                policy_loss = -torch.min(a * ratio, a * clipped).mean()
                value_loss = 0.5 * (agent.value(part["obs"]).squeeze(-1) - part["returns"]) ** 2
                optimizer.zero_grad()
                (policy_loss + 0.5 * value_loss.mean()).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

        rates = defaultdict(list)
        for episode in episodes[first:]:
            rates[episode["task"]].append(episode["success"])
        mean = np.mean([episode["r"] for episode in episodes[first:]] or [np.nan])
        solved = [f"{task} {np.mean(rate):.0%}" for task, rate in rates.items() if any(rate)]
        print(f"iteration {iteration}: return {mean:.0f}; success: {', '.join(solved) or 'none'}")
    envs.close()
    return episodes


if __name__ == "__main__":
    main()
