"""RL2 on ML1-reach in a single file: a policy with a memory, for hidden goals.

    pip install '.[metaworld,torch]'
    python examples/rl2_ml1.py --seed 1 --out rl2-seed1

RL2 (Duan et al. 2016, arXiv:1611.02779): a recurrent policy observes its last action, its last
reward and the ends of episodes, and keeps its memory during all episodes of a trial, which has one
goal. It is trained with PPO. Afterwards it is evaluated on the goals of ML1-test, which were not
trained on, under `metaworld-3.1-ml on ML1`.

Two things make it adapt. A trial of training is about as long as one of the protocol: each
iteration collects two episodes, and most trials go on in the next iteration. And the rewards that
it learns from are sharpened, so that they are small anywhere but near the goal.
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
    protocols,
)
from mtwrappers.evaluation import EvaluationResult

PROTOCOL = protocols["metaworld-3.1-ml"].on("ML1", "reach-v3")
ACTION = 4
OBS = 39 + ACTION + 2  # with the last action and reward, and whether an episode has ended
REWARD = OBS - 2
REPEAT = 10  # steps per action: a longer move changes the reward by more


class RL2(nn.Module):
    """A Gaussian policy with a memory, which takes each action for `REPEAT` steps.

    Args:
        hidden: The size of the memory.
        std: The standard deviation of actions.
        observes_rewards: Whether it observes its last reward, or always the mean of training. It
            cannot adapt without.
    """

    def __init__(
        self, hidden: int = 128, std: float = 0.3, *, observes_rewards: bool = True
    ) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(OBS, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden)
        self.action = nn.Linear(hidden, ACTION)
        nn.init.orthogonal_(self.encoder[0].weight, 2**0.5)
        nn.init.orthogonal_(self.action.weight, 0.01)
        nn.init.zeros_(self.action.bias)
        self.register_buffer("noise", torch.full((ACTION,), std))
        self.register_buffer("mean", torch.zeros(OBS))
        self.register_buffer("std", torch.ones(OBS))
        self.observes_rewards = observes_rewards
        self.begin_trial()

    def policy(
        self, obs: torch.Tensor, memory: torch.Tensor | None = None
    ) -> tuple[Normal, torch.Tensor]:
        """Actions ``(T, N, A)`` for observations ``(T, N, O)``, and the memory after them."""
        seen = ((obs - self.mean) / self.std).clamp(-5, 5)
        features, memory = self.gru(self.encoder(seen), memory)
        return Normal(self.action(features), self.noise, validate_args=False), memory

    # `few_shot_evaluate` calls the following methods.

    def begin_trial(self) -> None:
        """Empties the memory."""
        self.memory: torch.Tensor | None = None

    def reset(self, mask: np.ndarray) -> None:
        """Makes the policy choose a new action where an episode begins, ``(N,)`` bool."""
        if self.memory is not None:
            self.age[mask] = 0

    @torch.no_grad()
    def __call__(self, observations: np.ndarray, rng: np.ndarray) -> np.ndarray:
        """Actions ``(N, A)`` for observations ``(N, O)``, drawn as in training."""
        if self.memory is None:
            n = len(observations)
            self.memory = torch.zeros(1, n, self.gru.hidden_size)
            self.age, self.chosen = np.zeros(n, int), np.zeros((n, ACTION), np.float32)
        due = np.flatnonzero(self.age % REPEAT == 0)
        if len(due):
            obs = tensor(observations[due])[None]
            if not self.observes_rewards:
                obs[..., REWARD] = self.mean[REWARD]
            policy, memory = self.policy(obs, self.memory[:, due])
            self.memory[:, due] = memory
            noise = tensor([generator.standard_normal(ACTION) for generator in rng[due]])
            self.chosen[due] = (policy.mean[0] + noise * policy.stddev[0]).clamp(-1, 1)
        self.age += 1
        return self.chosen.copy()


def tensor(values: object) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters, and where files go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=120)
    parser.add_argument("--tasks", type=int, default=20, help="at a time")
    parser.add_argument("--trials", type=int, default=2, help="per task")
    parser.add_argument("--episodes", type=int, default=2, help="per iteration")
    parser.add_argument("--parts", type=int, default=5, help="of a trial, on average: iterations")
    parser.add_argument("--horizon", type=int, default=500, help="steps of an episode")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--sharpness", type=int, default=4, help="the power of rewards")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--minibatches", type=int, default=3)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--snapshots", type=int, default=3, help="number of times to save weights")
    parser.add_argument("--out", type=Path, default=Path("rl2"))
    parser.add_argument("--evaluate", type=Path, help="only evaluate these weights")
    parser.add_argument("--unadapted", action="store_true", help="evaluate without its rewards")
    return parser


def train(args: argparse.Namespace) -> None:
    """Trains, and saves ``weights-STEPS.npz``, where ``STEPS`` counts those of all environments."""
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
        reward_divisor=10,  # the maximum reward
    )
    n, t_max = envs.num_envs, args.episodes * args.horizon // REPEAT
    goals = envs.unwrapped.get_attr("task_states")[:: args.trials]  # each group has its own
    agent = RL2()
    optimizer = torch.optim.Adam(agent.parameters(), args.learning_rate, eps=1e-5)
    processor = MetaSampleProcessor(
        LinearFeatureBaseline(), discount=0.95, gae_lambda=0.95, normalize_adv=True
    )
    seen = RunningMeanStd(shape=(OBS,))
    tasks, now = [0] * args.tasks, np.zeros((n, OBS))
    memory = torch.zeros(1, n, agent.gru.hidden_size)
    saved = np.linspace(0, args.iterations, args.snapshots + 1).round()
    args.out.mkdir(parents=True, exist_ok=True)
    for iteration in range(args.iterations + 1):
        obs = np.zeros((n, t_max, OBS), np.float32)
        actions = np.zeros((n, t_max, ACTION), np.float32)
        log_probs, rewards = torch.zeros(n, t_max), np.zeros((n, t_max))
        # The tasks that begin a trial with a new goal.
        new = rng.random(args.tasks) < (1 / args.parts if iteration else 1)
        for i in np.flatnonzero(new):
            tasks[i] = int(rng.choice(goals[i]))
        begins = new.repeat(args.trials)
        envs.set_tasks(tasks)
        first, _ = envs.reset(seed=args.seed if iteration == 0 else None)
        # The others have observed how their last episode ended.
        now = np.where(begins[:, None], first, now)
        memory[:, begins] = 0
        first_memory = memory
        for t in range(t_max):
            with torch.no_grad():
                policy, memory = agent.policy(tensor(now)[None], memory)
                action = policy.sample()
            obs[:, t], actions[:, t] = now, action[0]
            log_probs[:, t] = policy.log_prob(action)[0].sum(-1)
            for _ in range(REPEAT):
                now, reward, *_ = envs.step(actions[:, t].clip(-1, 1))
                rewards[:, t] += reward / REPEAT

        # A trajectory has several episodes, since information from one is useful in the next.
        # The baseline is fitted to the trials of each goal, to where the hand is and when: it knows
        # of each goal what the policy has to find out.
        paths = [
            {"observations": o[:, :3], "actions": a, "rewards": 10 * (r / 10) ** args.sharpness}
            for o, a, r in zip(obs, actions, rewards, strict=True)
        ]
        by_task = [paths[i : i + args.trials] for i in range(0, n, args.trials)]
        batches = processor.process_samples(by_task)
        advantages = tensor([batch["advantages"] for batch in batches]).reshape(n, t_max)

        if iteration:
            for _ in range(args.epochs):
                for rows in np.array_split(rng.permutation(n), args.minibatches):
                    observed = tensor(obs[rows]).transpose(0, 1)
                    policy, _ = agent.policy(observed, first_memory[:, rows])
                    taken = tensor(actions[rows]).transpose(0, 1)
                    ratio = (policy.log_prob(taken).sum(-1).T - log_probs[rows]).exp()
                    clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                    loss = -torch.min(advantages[rows] * ratio, advantages[rows] * clipped).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                    optimizer.step()
            means = rewards.reshape(n, args.episodes, -1).mean((0, 2))
            print(
                f"iteration {iteration}: reward",
                ", ".join(f"{mean:.2f}" for mean in means),
                flush=True,
            )
        # The first iteration collects these alone; then they change slowly.
        seen.update(obs.reshape(-1, OBS).astype(np.float64))
        agent.mean[:], agent.std[:] = tensor(seen.mean), tensor(seen.var).sqrt() + 1e-3
        if iteration in saved:
            steps = (iteration + 1) * n * t_max * REPEAT
            arrays = {name: value.numpy() for name, value in agent.state_dict().items()}
            np.savez(args.out / f"weights-{steps}.npz", **arrays)
    envs.close()


def evaluate(weights: Path, seed: int, observes_rewards: bool = True) -> EvaluationResult:
    """Measures success on the goals of ML1-test, from the first episode of a trial to the last.

    Writes ``results.json`` and ``results.npz`` into ``evaluated-STEPS`` beside the weights, or
    into ``unadapted-STEPS`` if it does not observe its rewards.
    """
    agent = RL2(observes_rewards=observes_rewards)
    agent.load_state_dict(
        {name: torch.as_tensor(array) for name, array in np.load(weights).items()}
    )
    steps = int(weights.stem.rpartition("-")[2])
    folder = weights.parent / f"{'evaluated' if observes_rewards else 'unadapted'}-{steps}"
    folder.mkdir(exist_ok=True)
    envs = VectorRL2Observation(PROTOCOL.make_vec(), reward_divisor=10)
    result: EvaluationResult = PROTOCOL.evaluate(agent, envs, evidence=folder / "results.npz")
    envs.close()
    name = "rl2" if observes_rewards else "rl2-unadapted"
    result = result.described(policy=name, training_seed=seed, training_steps=steps)
    result.save(folder / "results.json")
    return result


def main(argv: list[str] | None = None) -> None:
    """Trains, and evaluates the last weights; or evaluates those that were given."""
    args = parser().parse_args(argv)
    torch.set_num_threads(1)  # more gain nothing on small networks
    if args.evaluate is None:
        train(args)
    weights = args.evaluate or max(args.out.glob("weights-*.npz"), key=os.path.getmtime)
    print(evaluate(weights, args.seed, not args.unadapted))


if __name__ == "__main__":
    main()
