"""RL2 on ML1-reach in a single file: a policy whose memory finds a hidden goal.

    pip install '.[metaworld,torch]'
    python examples/rl2_ml1.py --seed 1 --out rl2-seed1

RL2 (Duan et al. 2016, arXiv:1611.02779): a recurrent policy observes its last action, its last
reward and the ends of episodes, and keeps its memory during all episodes of a trial, which has one
goal. It is trained with PPO on whole trials, so it learns to search in order to find. Afterwards it
is evaluated on the goals of ML1-test, which were not trained on, under `metaworld-3.1-ml on ML1`.
"""

import argparse
import os
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import nn
from torch.distributions import Normal

from mtwrappers import (
    LinearFeatureBaseline,
    MetaSampleProcessor,
    VectorRL2Observation,
    compare,
    protocols,
)
from mtwrappers.evaluation import FewShotResult

PROTOCOL = protocols["metaworld-3.1-ml"].on("ML1", "reach-v3")
ACTION = 4
OBS = 39 + ACTION + 2  # with the last action and reward, and whether an episode has ended


class RL2(nn.Module):
    """A Gaussian policy with a memory."""

    def __init__(self, hidden: int = 64, std: float = 0.7) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(OBS, hidden), nn.Tanh())
        self.gru = nn.GRU(hidden, hidden)
        self.action = nn.Linear(hidden, ACTION)
        nn.init.orthogonal_(self.action.weight, 0.01)
        nn.init.zeros_(self.action.bias)
        self.register_buffer("noise", torch.full((ACTION,), std))
        self.register_buffer("mean", torch.zeros(OBS))
        self.register_buffer("std", torch.ones(OBS))
        self.begin_trial()

    def policy(
        self, obs: torch.Tensor, memory: torch.Tensor | None = None
    ) -> tuple[Normal, torch.Tensor]:
        """Actions ``(T, N, A)`` for observations ``(T, N, O)``, and the memory after them."""
        seen = ((obs - self.mean) / self.std).clamp(-5, 5)
        found, memory = self.gru(self.encoder(seen), memory)
        return Normal(self.action(found), self.noise, validate_args=False), memory

    # What `few_shot_evaluate` calls, and training too.

    def begin_trial(self) -> None:
        """Empties the memory."""
        self.memory: torch.Tensor | None = None

    @torch.no_grad()
    def act(self, observations: np.ndarray) -> Normal:
        """The distributions of the next actions ``(N, A)``, and one step of memory."""
        policy, self.memory = self.policy(tensor(observations)[None], self.memory)
        return policy

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions ``(N, A)`` for observations ``(N, O)``: the means, within their bounds."""
        return self.act(observations).mean[0].numpy().clip(-1, 1)


def tensor(values: object) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters, and where files go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=80)
    parser.add_argument("--tasks", type=int, default=10, help="per iteration")
    parser.add_argument("--trials", type=int, default=5, help="per task")
    parser.add_argument("--episodes", type=int, default=2, help="per trial")
    parser.add_argument("--horizon", type=int, default=60, help="steps of an episode")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--minibatches", type=int, default=2)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--snapshots", type=int, default=4, help="how often weights are saved")
    parser.add_argument("--out", type=Path, default=Path("rl2"))
    parser.add_argument("--evaluate", type=Path, help="only evaluate these weights")
    return parser


def train(args: argparse.Namespace) -> None:
    """Trains, and saves ``weights-STEPS.npz``, where ``STEPS`` counts those of all environments."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    envs = VectorRL2Observation(
        gymnasium.make_vec(
            "mtwrappers/ML1-train-v0",
            env_name="reach-v3",
            meta_batch_size=args.tasks,
            envs_per_task=args.trials,
            max_episode_steps=args.horizon,
        ),
        reward_divisor=10,  # the largest reward
    )
    n, t_max = envs.num_envs, args.episodes * args.horizon
    goals = envs.unwrapped.get_attr("task_states")[:: args.trials]  # each group has its own
    agent = RL2()
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    processor = MetaSampleProcessor(
        LinearFeatureBaseline(), discount=0.98, gae_lambda=0.95, normalize_adv=True
    )
    seen = RunningMeanStd(shape=(OBS,))
    saved = np.linspace(0, args.iterations, args.snapshots + 1).round()
    args.out.mkdir(parents=True, exist_ok=True)
    for iteration in range(args.iterations + 1):
        obs = np.zeros((n, t_max, OBS), np.float32)
        actions = np.zeros((n, t_max, ACTION), np.float32)
        log_probs, rewards = torch.zeros(n, t_max), np.zeros((n, t_max))
        envs.set_tasks([int(rng.choice(own)) for own in goals])
        now, _ = envs.reset(seed=args.seed if iteration == 0 else None)
        agent.begin_trial()
        for t in range(t_max):
            policy = agent.act(now)
            action = policy.sample()
            obs[:, t], actions[:, t] = now, action[0]
            log_probs[:, t] = policy.log_prob(action)[0].sum(-1)
            now, rewards[:, t], *_ = envs.step(actions[:, t].clip(-1, 1))

        # A trial is one long path: what is found in an episode is worth something in the next.
        # The baseline is fitted to the trials of each goal, so it knows what the policy does not.
        paths = [
            {"observations": o, "actions": a, "rewards": r}
            for o, a, r in zip(obs, actions, rewards, strict=True)
        ]
        by_task = [paths[i : i + args.trials] for i in range(0, n, args.trials)]
        batches = processor.process_samples(by_task)
        advantages = tensor([batch["advantages"] for batch in batches]).reshape(n, t_max)

        if iteration:
            for _ in range(args.epochs):
                for rows in np.array_split(rng.permutation(n), args.minibatches):
                    policy, _ = agent.policy(tensor(obs[rows]).transpose(0, 1))
                    taken = tensor(actions[rows]).transpose(0, 1)
                    ratio = (policy.log_prob(taken).sum(-1).T - log_probs[rows]).exp()
                    clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                    loss = -torch.min(advantages[rows] * ratio, advantages[rows] * clipped).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                    optimizer.step()
            each = rewards.reshape(n, args.episodes, -1).mean((0, 2))
            print(
                f"iteration {iteration}: reward",
                ", ".join(f"{own:.2f}" for own in each),
                flush=True,
            )
        # The first iteration collects these alone; then they change slowly.
        seen.update(obs.reshape(-1, OBS).astype(np.float64))
        agent.mean[:], agent.std[:] = tensor(seen.mean), tensor(seen.var).sqrt() + 1e-3
        if iteration in saved:
            steps = (iteration + 1) * n * t_max
            arrays = {name: value.numpy() for name, value in agent.state_dict().items()}
            np.savez(args.out / f"weights-{steps}.npz", **arrays)
    envs.close()


def evaluate(weights: Path, seed: int) -> FewShotResult:
    """Measures success on the goals of ML1-test, from the first episode of a trial to the last.

    Writes ``results.json`` and ``results.npz`` into ``evaluated-STEPS`` beside the weights.
    """
    torch.manual_seed(0)
    agent = RL2()
    agent.load_state_dict({name: torch.as_tensor(own) for name, own in np.load(weights).items()})
    steps = int(weights.stem.rpartition("-")[2])
    out = weights.parent / f"evaluated-{steps}"
    out.mkdir(exist_ok=True)
    envs = VectorRL2Observation(PROTOCOL.make_vec(), reward_divisor=10)
    result = PROTOCOL.evaluate(
        agent,
        envs,
        evidence=out / "results.npz",
        policy_name="rl2",
        training_seed=seed,
        training_steps=steps,
    )
    envs.close()
    result.save(out / "results.json")
    return result


def main(argv: list[str] | None = None) -> None:
    """Trains, and evaluates the last weights; or evaluates those that were given."""
    args = parser().parse_args(argv)
    if args.evaluate is None:
        train(args)
    weights = args.evaluate or max(args.out.glob("weights-*.npz"), key=os.path.getmtime)
    result = evaluate(weights, args.seed)
    print(result)
    print(compare({"unadapted": [result.unadapted], "adapted": [result]})[0])


if __name__ == "__main__":
    main()
