"""One policy for Meta-World, MuJoCo's robots and classic control at once, trained with PPO.

    pip install '.[metaworld,torch,cli]'
    python examples/mixed_environments.py

Six environments with 3 to 39 numbers in an observation and 1 to 6 in an action look the same to the
policy: they are padded, and the mask of padded actions keeps these out of its loss. The script
prints the mean return per task, and plots it to mixed_environments.png. After three minutes on two
cores, with about 50,000 steps of each task, the pole stands for all of its 500 steps, the arm
reaches its goal, and the hopper stands for a while. The pendulum and the cheetah take longer.

`--dm-control` adds two tasks of DeepMind Control, after
`pip install '.[metaworld,dm-control,torch,cli]'`, or `'.[dm-control]'` on top of the first.
"""

import argparse
import time
from collections import defaultdict

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers import FlattenObservation, RescaleAction, TransformAction
from torch import nn
from torch.distributions import Normal

from mtwrappers import VectorNormalizeObservationPerTask, VectorNormalizeRewardPerTask


def make_cart_pole(render_mode: str | None = None) -> gymnasium.Env:
    """CartPole with one number per action; the larger one selects the action."""
    env = gymnasium.make("CartPole-v1", render_mode=render_mode)
    return TransformAction(env, np.argmax, Box(-1, 1, (2,)))


def make_pendulum(render_mode: str | None = None) -> gymnasium.Env:
    """Pendulum with actions in [-1, 1], as the others have, instead of [-2, 2]."""
    env = gymnasium.make("Pendulum-v1", render_mode=render_mode)
    return RescaleAction(env, np.float32(-1), np.float32(1))


def make_dm_control(task: str, render_mode: str | None = None) -> gymnasium.Env:
    """A task of DeepMind Control, through Shimmy, with observations in one array."""
    import shimmy

    gymnasium.register_envs(shimmy)
    env = gymnasium.make(f"dm_control/{task}-v0", render_mode=render_mode)
    return FlattenObservation(env)


gymnasium.register("BoxCartPole-v1", entry_point=make_cart_pole)
gymnasium.register("RescaledPendulum-v1", entry_point=make_pendulum)
gymnasium.register("FlatControl-v0", entry_point=make_dm_control)
# By task name: the suite, the id, and the id's arguments.
TASKS = {
    "reach": ("Meta-World", "mtwrappers/MT1-v0", {"env_name": "reach-v3"}),
    "drawer-close": ("Meta-World", "mtwrappers/MT1-v0", {"env_name": "drawer-close-v3"}),
    "half-cheetah": ("MuJoCo", "HalfCheetah-v5", {}),
    "hopper": ("MuJoCo", "Hopper-v5", {}),
    "pendulum": ("classic control", "RescaledPendulum-v1", {}),
    "cart-pole": ("classic control", "BoxCartPole-v1", {}),
}
DM_CONTROL = {
    name: ("DeepMind Control", "FlatControl-v0", {"task": name})
    for name in ("walker-stand", "cheetah-run")
}
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


class Agent(nn.Module):
    """A Gaussian policy with a standard deviation per task, and a value; ``M`` tasks."""

    def __init__(self, obs_size: int, action_size: int, num_tasks: int) -> None:
        super().__init__()
        self.actor, self.critic = network(obs_size, action_size, 0.01), network(obs_size, 1, 1.0)
        self.log_std = nn.Parameter(torch.full((num_tasks, action_size), -0.5))

    def policy(self, obs: torch.Tensor) -> Normal:
        """The distribution of actions, ``(..., A)``, for observations ``(..., O + M)``."""
        log_std = obs[..., -len(self.log_std) :] @ self.log_std  # of the task of the one-hot
        return Normal(self.actor(obs), log_std.exp(), validate_args=False)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """The values, ``(...)``, of observations ``(..., O + M)``."""
        return self.critic(obs).squeeze(-1)


def network(size_in: int, size_out: int, gain: float) -> nn.Sequential:
    """Two hidden layers, with orthogonal weights to begin with."""
    layers = [nn.Linear(size_in, 128), nn.Linear(128, 128), nn.Linear(128, size_out)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def make_envs(tasks: dict, envs_per_task: int, workers: int) -> gymnasium.vector.VectorEnv:
    """Makes all tasks side by side, with observations and rewards of the same scale."""
    suites, ids, env_kwargs = zip(*tasks.values(), strict=True)
    envs = gymnasium.make_vec(
        "mtwrappers:mtwrappers/MultiEnv-v0",
        env_ids=ids,
        env_kwargs=env_kwargs,
        task_names=list(tasks),
        action_repeat=[4 if suite == "DeepMind Control" else 1 for suite in suites],
        unify="pad",
        envs_per_task=envs_per_task,
        workers=workers,
    )
    return VectorNormalizeRewardPerTask(VectorNormalizeObservationPerTask(envs), gamma=GAMMA)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """Float32, and no entry far from all others."""
    return torch.as_tensor(array, dtype=torch.float32).clamp(-10, 10)


def log_prob(policy: Normal, actions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Of actions ``(..., A)``, without the padded ones."""
    return (policy.log_prob(actions) * mask).sum(-1)


@torch.no_grad()
def collect(agent, envs, obs, mask, steps, returns):
    """Runs some steps.

    Returns:
        The last observations, and of all steps the observations, actions, log-probabilities,
        advantages and targets of values, ``(steps, N, ...)``.
    """
    seen = defaultdict(list)
    for _ in range(steps):
        policy = agent.policy(obs)
        actions = policy.sample()
        following, rewards, terminated, truncated, infos = envs.step(actions.clamp(-1, 1).numpy())
        rewards = as_tensor(rewards)
        for i in np.flatnonzero(terminated | truncated):
            task = infos["final_info"]["task_name"][i]
            returns[task].append(infos["final_info"]["episode"]["r"][i])
            if not terminated[i]:  # bootstrap beyond the horizon
                rewards[i] += GAMMA * agent.value(as_tensor(infos["final_obs"][i]))
        seen["obs"].append(obs)
        seen["actions"].append(actions)
        seen["log_probs"].append(log_prob(policy, actions, mask))
        seen["values"].append(agent.value(obs))
        seen["rewards"].append(rewards)
        seen["goes_on"].append(as_tensor(~(terminated | truncated)))
        obs = as_tensor(following)
    stacked = {name: torch.stack(rows) for name, rows in seen.items()}
    values = torch.cat([stacked["values"], agent.value(obs)[None]])
    advantages, advantage = torch.zeros_like(values[:-1]), 0.0
    for t in reversed(range(steps)):
        goes_on = stacked["goes_on"][t]
        error = stacked["rewards"][t] + GAMMA * values[t + 1] * goes_on - values[t]
        advantage = error + GAMMA * LAMBDA * goes_on * advantage
        advantages[t] = advantage
    targets = advantages + values[:-1]
    spread = advantages.std() + 1e-8
    visited = stacked["obs"], stacked["actions"], stacked["log_probs"]
    return obs, (*visited, advantages / spread, targets)


def update(agent, optimizer, batch, mask, epochs: int, minibatches: int) -> None:
    """PPO's update (Schulman et al. 2017, arXiv:1707.06347, equation 7)."""
    steps, n = batch[-1].shape
    flat = [column.flatten(0, 1) for column in (*batch, mask.expand(steps, *mask.shape))]
    for _ in range(epochs):
        for rows in torch.randperm(steps * n).chunk(minibatches):
            obs, actions, old_log_probs, advantages, targets, real = (
                column[rows] for column in flat
            )
            policy = agent.policy(obs)
            ratio = (log_prob(policy, actions, real) - old_log_probs).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.minimum(ratio * advantages, clipped * advantages).mean()
            loss = 0.5 * (agent.value(obs) - targets).square().mean() - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def plot(tasks: dict, curves: dict[str, list[tuple[int, float]]], path: str) -> None:
    """Writes an image with a curve per task, ``(environment steps, mean return)``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (2, len(tasks) // 2)
    figure, axes = plt.subplots(*size, figsize=(4 * size[1], 6), layout="constrained")
    for axis, (task, (suite, *_)) in zip(axes.flat, tasks.items(), strict=True):
        if task in curves:
            axis.plot(*zip(*curves[task], strict=True))
        axis.set(title=f"{task} ({suite})", xlabel="steps of this task", ylabel="return")
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Trains for some minutes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--envs-per-task", type=int, default=4)
    parser.add_argument("--steps", type=int, default=128, help="per environment and iteration")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dm-control", action="store_true", help="with tasks of DeepMind Control")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # more do not speed up small networks
    tasks = TASKS | (DM_CONTROL if args.dm_control else {})
    envs = make_envs(tasks, args.envs_per_task, args.workers)
    obs, infos = envs.reset(seed=args.seed)
    obs, mask = as_tensor(obs), as_tensor(infos["action_mask"])
    agent = Agent(obs.shape[1], mask.shape[1], len(tasks))
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    curves = defaultdict(list)
    begin, iteration = time.monotonic(), 0
    while iteration == 0 or time.monotonic() - begin < 60 * args.minutes:
        returns = defaultdict(list)
        obs, batch = collect(agent, envs, obs, mask, args.steps, returns)
        update(agent, optimizer, batch, mask, epochs=6, minibatches=8)
        iteration += 1
        steps = iteration * args.steps * args.envs_per_task
        for task, task_returns in returns.items():
            curves[task].append((steps, float(np.mean(task_returns))))
        if iteration % 10 == 0:
            means = {task: np.mean([r for _, r in points[-5:]]) for task, points in curves.items()}
            rewards = ", ".join(f"{task} {means[task]:.0f}" for task in tasks if task in means)
            print(f"{steps} steps of each task: {rewards}", flush=True)
    envs.close()
    plot(tasks, curves, "mixed_environments.png")
    for task, points in curves.items():
        task_means = [mean for _, mean in points]
        n = max(len(task_means) // 5, 1)
        first, last = np.mean(task_means[:n]), np.mean(task_means[-n:])
        print(f"{task}: {first:.0f} at first, {last:.0f} at last")


if __name__ == "__main__":
    main()
