"""Multi-task SAC on MT10 in a single file, in the style of CleanRL.

    pip install '.[metaworld,torch]'
    python examples/sac_mt10.py

Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905) with one temperature per task (Yu et al.
2020, arXiv:1910.10897). One policy and two critics of 3 x 256 units see the one-hot of the task.
The same command continues a run that was stopped or killed, with the same numbers as if it had
not been. At the end it evaluates the policy of several points of the run under the protocol
``metaworld-3.1``. "What learners reach" has the results.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

import mtwrappers

OURS = Path(__file__).parents[1] / "benchmarks/reference/mtsac/weights-seed1.npz"
OBS, ACTIONS = 39, 4  # the sizes of Meta-World's observation, without the one-hot, and action


class Network(nn.Module):
    """Three hidden layers with ReLU (He et al. 2015), and a last layer that begins near zero.

    Args:
        size_in: of its inputs.
        size_out: of its outputs.
        args: the hyperparameters ``width`` and ``precision``.
    """

    def __init__(self, size_in: int, size_out: int, args: argparse.Namespace) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in (size_in, args.width, args.width):
            layers += [nn.Linear(size, args.width), nn.ReLU()]
            nn.init.kaiming_uniform_(layers[-2].weight, nonlinearity="relu")
            nn.init.zeros_(layers[-2].bias)
        self.hidden, self.last = nn.Sequential(*layers), nn.Linear(args.width, size_out)
        nn.init.uniform_(self.last.weight, -1e-3, 1e-3)
        nn.init.uniform_(self.last.bias, -1e-3, 1e-3)
        self.bfloat16 = args.precision == "bfloat16"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs ``(B, size_out)`` float32 for inputs ``(B, size_in)`` float32."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bfloat16):
            features = self.hidden(x)
        return self.last(features.float())  # values of several hundred need float32


class Actor(Network):
    """A Gaussian policy squashed by tanh.

    Args:
        num_tasks: ``M``, the size of the one-hot.
        args: as for `Network`.
    """

    def __init__(self, num_tasks: int, args: argparse.Namespace) -> None:
        super().__init__(OBS + num_tasks, 2 * ACTIONS, args)

    def policy(self, obs: torch.Tensor) -> Normal:
        """The distribution before tanh for normalized observations, ``(B, O)``."""
        mean, log_std = self(obs).chunk(2, dim=-1)
        return Normal(mean, log_std.clamp(-20, 2).exp(), validate_args=False)

    def sample(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions, ``(B, 4)``, and the logarithms of their densities, ``(B,)``."""
        policy = self.policy(obs)
        x = policy.rsample()
        # log(1 - tanh(x)^2), without cancellation.
        slope = 2 * (np.log(2) - x - nn.functional.softplus(-2 * x))
        return x.tanh(), (policy.log_prob(x) - slope).sum(-1)


class Critic(Network):
    """The value of an action; arguments as for `Actor`."""

    def __init__(self, num_tasks: int, args: argparse.Namespace) -> None:
        super().__init__(OBS + num_tasks + ACTIONS, 1, args)

    def value(self, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """The values, ``(B,)``."""
        return self(torch.cat([obs, actions], -1)).squeeze(-1)


class Learner(nn.Module):
    """The networks, their optimizers, and the update.

    Args:
        num_tasks: ``M``.
        args: the hyperparameters, as `parser` has them.
    """

    def __init__(self, num_tasks: int, args: argparse.Namespace) -> None:
        super().__init__()
        self.args, self.num_tasks = args, num_tasks
        self.actor = Actor(num_tasks, args)
        self.critics = nn.ModuleList(Critic(num_tasks, args) for _ in range(2))
        self.targets = nn.ModuleList(Critic(num_tasks, args) for _ in range(2))
        self.targets.load_state_dict(self.critics.state_dict())
        self.targets.requires_grad_(False)
        self.updates = 0
        self.log_alpha = nn.Parameter(torch.zeros(num_tasks))  # of the temperatures
        self.optimizers = [
            torch.optim.Adam(parameters, args.learning_rate, eps=1e-5, fused=True)
            for parameters in (
                list(self.actor.parameters()),
                list(self.critics.parameters()),
                [self.log_alpha],
            )
        ]

    def update(
        self,
        obs: torch.Tensor,
        next_obs: torch.Tensor,
        actions: torch.Tensor,
        rewards: torch.Tensor,
        terminated: torch.Tensor,
    ) -> dict[str, Any]:
        """Takes one step of each optimizer on equally many rows per task, ordered by task.

        Args:
            obs: normalized, with the one-hot, ``(B, O)`` float32.
            next_obs: those after the step, normalized with the same statistics.
            actions: ``(B, 4)``.
            rewards: ``(B,)``.
            terminated: ``(B,)`` float32. A truncated step is not terminated: its value goes on
                with that of the episode's last observation.

        Returns:
            The losses and the mean value.
        """
        args = self.args
        rows_per_task = len(obs) // self.num_tasks
        alpha = self.log_alpha.detach().exp().repeat_interleave(rows_per_task)

        with torch.no_grad():
            next_actions, next_log_probs = self.actor.sample(next_obs)
            values = torch.min(*(target.value(next_obs, next_actions) for target in self.targets))
            values = values - alpha * next_log_probs
            wanted = rewards + args.gamma * (1 - terminated) * values
        estimates = [critic.value(obs, actions) for critic in self.critics]
        critic_loss = sum(((estimate - wanted) ** 2).mean() for estimate in estimates)
        self.step(1, critic_loss, self.critics)

        # Each task's temperature rises if the policy's entropy is below the target, -4, and falls
        # if it is above.
        excess = next_log_probs.view(self.num_tasks, rows_per_task).mean(1) - ACTIONS
        self.step(2, -(self.log_alpha * excess).mean())
        losses = {"critic_loss": critic_loss, "value": wanted.mean()}

        self.updates += 1
        if self.updates % args.policy_delay == 0:
            self.critics.requires_grad_(False)  # the policy's gradient only passes through them
            new_actions, log_probs = self.actor.sample(obs)
            values = torch.min(*(critic.value(obs, new_actions) for critic in self.critics))
            losses["actor_loss"] = (alpha * log_probs - values).mean()
            self.step(0, losses["actor_loss"], self.actor)
            self.critics.requires_grad_(True)

        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.targets.parameters()), list(self.critics.parameters()), args.tau
            )
        return {name: value.detach() for name, value in losses.items()}

    def step(self, index: int, loss: torch.Tensor, clipped: nn.Module | None = None) -> None:
        """One step of an optimizer."""
        self.optimizers[index].zero_grad()
        loss.backward()
        if clipped is not None:
            nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
        self.optimizers[index].step()

    def get_state(self) -> dict[str, Any]:
        """Returns the weights, the optimizers' states, and the state of PyTorch's generator."""
        return {
            "weights": {name: value.numpy().copy() for name, value in self.state_dict().items()},
            "optimizers": [
                [
                    {name: value.numpy().copy() for name, value in moments.items()}
                    for moments in optimizer.state_dict()["state"].values()
                ]
                for optimizer in self.optimizers
            ],
            "updates": self.updates,
            "generator": torch.get_rng_state().numpy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes what `get_state` returned."""
        self.load_state_dict({k: torch.as_tensor(v) for k, v in state["weights"].items()})
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            moments = [{k: torch.as_tensor(v) for k, v in arrays.items()} for arrays in saved]
            moments_by_index = dict(enumerate(moments))
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments_by_index})
        self.updates = state["updates"]
        torch.set_rng_state(torch.as_tensor(state["generator"]))


class Statistics:
    """The mean and standard deviation of each task's observations so far.

    The wrapper `VectorNormalizeObservationPerTask` does the same for learners that use an
    observation once. Here the memory keeps observations as they came and normalizes them when they
    are drawn, so that old and new ones are on one scale.

    Args:
        num_tasks: ``M``.
    """

    def __init__(self, num_tasks: int) -> None:
        self.count = 0
        self.mean = np.zeros((num_tasks, OBS))
        self.m2 = np.zeros((num_tasks, OBS))  # the sum of squared deviations

    def update(self, obs: np.ndarray) -> None:
        """Counts an observation of each task, ``(M, 39)`` (Welford 1962)."""
        self.count += 1
        delta = obs - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (obs - self.mean)

    @property
    def deviation(self) -> np.ndarray:
        """``(M, 39)``; at least a centimetre, as an object that never moved will move one day."""
        return np.sqrt(self.m2 / max(self.count, 1) + 1e-4)

    def get_state(self) -> dict[str, Any]:
        """The count and the arrays."""
        return {"count": self.count, "mean": self.mean.copy(), "m2": self.m2.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes what `get_state` returned."""
        self.count, self.mean, self.m2 = state["count"], state["mean"].copy(), state["m2"].copy()


class Memory:
    """Every transition of the run, in a file that is mapped into memory.

    A row has the observation, the next one, the action, the reward, and whether the episode
    terminated. A run that is killed loses none of the rows that it wrote, so a checkpoint need not
    hold them.

    Args:
        path: the file; what is there is kept, and space is added for more steps.
        steps: how many steps of ``num_tasks`` environments.
        num_tasks: ``M``.
        rng: draws the rows.
    """

    def __init__(self, path: Path, steps: int, num_tasks: int, rng: np.random.Generator) -> None:
        shape = (steps, num_tasks, 2 * OBS + ACTIONS + 2)
        mode: Any = "r+" if path.exists() else "w+"  # both extend the file to its full size
        self.rows = np.memmap(path, np.float32, mode, shape=shape)
        self.rng, self.tasks = rng, np.arange(num_tasks)[:, None]
        self.one_hot = torch.eye(num_tasks)

    def sample(self, size: int, rows_per_task: int, statistics: Statistics) -> list[torch.Tensor]:
        """The arguments of `Learner.update`, from rows among the first ``size`` of every task."""
        drawn = self.rng.integers(size, size=(len(self.tasks), rows_per_task))
        rows = self.rows[drawn, self.tasks]  # (M, rows_per_task, ...)
        mean, deviation = statistics.mean[:, None], statistics.deviation[:, None]
        one_hot = self.one_hot.repeat_interleave(rows_per_task, 0)
        observations = [
            torch.cat([tensor((obs - mean) / deviation).flatten(0, 1), one_hot], -1)
            for obs in (rows[..., :OBS], rows[..., OBS : 2 * OBS])
        ]
        columns = tensor(rows[..., 2 * OBS :]).flatten(0, 1)
        actions, rewards, terminated = columns.split([ACTIONS, 1, 1], -1)
        return [*observations, actions, rewards[:, 0], terminated[:, 0]]


class Policy:
    """The mean action of a trained policy, in NumPy, for observations as environments return them.

    It computes row by row, so that an action does not depend on the other rows of the batch.

    Args:
        arrays: as `save_policy` writes them.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.mean, self.deviation = arrays["mean"], arrays["deviation"]
        names = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
        self.layers = [(arrays[f"{name}.weight"], arrays[f"{name}.bias"]) for name in names]

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Actions, ``(N, 4)`` float32, for observations ``(N, 49)``."""
        return np.stack([self.action(row) for row in obs])

    def action(self, obs: np.ndarray) -> np.ndarray:
        """The action ``(4,)`` for an observation ``(49,)``."""
        task = obs[OBS:].argmax()
        scaled = (obs[:OBS] - self.mean[task]) / self.deviation[task]
        x = np.concatenate([scaled, obs[OBS:]]).astype(np.float32)
        *hidden, (weight, bias) = self.layers
        for w, b in hidden:
            x = np.maximum(w @ x + b, 0)
        return np.tanh((weight @ x + bias)[:ACTIONS])  # the others are deviations


def load() -> Policy:
    """The policy in the file that the environment variable WEIGHTS names, by default ours."""
    with np.load(os.environ.get("WEIGHTS", OURS)) as file:
        return Policy({name: file[name] for name in file.files})


def save_policy(path: Path, actor: Actor, statistics: Statistics) -> None:
    """Writes what a `Policy` needs: the weights, and the statistics of observations."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: value.numpy() for name, value in actor.state_dict().items()}
    np.savez_compressed(path, mean=statistics.mean, deviation=statistics.deviation, **weights)


class Laps:
    """The CPU seconds of this process, by activity."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("networks", "environments", "memory", "checkpoints"), 0.0)
        self.last = time.process_time()

    def end(self, name: str) -> None:
        """Counts the time since the last call."""
        now = time.process_time()
        self.seconds[name] += now - self.last
        self.last = now


def tensor(array: np.ndarray) -> torch.Tensor:
    """Float32, as networks take it."""
    return torch.as_tensor(array, dtype=torch.float32)


def parser() -> argparse.ArgumentParser:
    """The hyperparameters of metaworld-algorithms' MTSAC, with a smaller batch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", default="mtwrappers/MT10-v0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("sac_mt10"))
    parser.add_argument("--steps", type=int, default=2_000_000, help="of all environments")
    parser.add_argument("--episode-steps", type=int, default=500)
    parser.add_argument("--warm-up", type=int, default=40_000, help="steps of random actions")
    parser.add_argument("--batch-per-task", type=int, default=32)
    parser.add_argument("--policy-delay", type=int, default=2, help="updates of the critics each")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--tau", type=float, default=0.005)
    parser.add_argument("--checkpoint-every", type=int, default=50_000)
    parser.add_argument("--point-every", type=int, default=100_000, help="a policy is saved")
    parser.add_argument("--evaluate-every", type=int, default=200_000, help="0 for never")
    parser.add_argument("--workers", type=int, default=2, help="of evaluations")
    parser.add_argument("--print-every", type=int, default=10_000)
    parser.add_argument(
        "--precision",
        choices=["bfloat16", "float32"],
        default="bfloat16",
        help="of hidden layers; weights, values and optimizers are float32",
    )
    return parser


def train(args: argparse.Namespace) -> Learner:
    """Trains, or continues the run in ``args.out``, up to ``args.steps``."""
    torch.set_num_threads(1)  # more hardly speed up networks of this size
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    envs = gymnasium.make_vec(args.id, max_episode_steps=args.episode_steps, journal=True)
    n = envs.num_envs
    args.out.mkdir(parents=True, exist_ok=True)
    learner, statistics = Learner(n, args), Statistics(n)
    memory = Memory(args.out / "memory.float32", args.steps // n, n, rng)
    progress: dict[str, Any] = {}
    run = {
        "envs": envs,
        "learner": learner,
        "statistics": statistics,
        "rng": rng,
        "progress": progress,
    }
    checkpoint = args.out / "run.ckpt"
    if checkpoint.exists():
        mtwrappers.load_checkpoint(checkpoint, **run)
        if (begun := progress.get("seed")) != args.seed:
            raise SystemExit(
                f"{args.out} has a run with --seed {begun}, got --seed {args.seed}: choose --out"
            )
        print(f"continues after {progress['iteration'] * n} steps", flush=True)
    else:
        obs, infos = envs.reset(seed=args.seed)
        statistics.update(obs[:, :OBS])
        progress |= {
            "seed": args.seed,
            "iteration": 0,
            "obs": obs,
            "task_names": list(infos["task_name"]),
            "solved": np.zeros(n),
            "recent": [[] for _ in range(n)],  # successes of each task's last episodes
        }

    laps = Laps()
    losses: dict[str, Any] = {}
    printed = time.perf_counter(), progress["iteration"]
    for t in range(progress["iteration"], args.steps // n):
        obs = progress["obs"]
        if t * n < args.warm_up:
            actions = rng.uniform(-1, 1, (n, ACTIONS)).astype(np.float32)
        else:
            scaled = (obs[:, :OBS] - statistics.mean) / statistics.deviation
            with torch.no_grad():
                policy = learner.actor.policy(tensor(np.concatenate([scaled, obs[:, OBS:]], -1)))
                actions = policy.sample().tanh().numpy()
        laps.end("networks")

        next_obs, rewards, terminated, truncated, infos = envs.step(actions)
        done = terminated | truncated
        last, success = next_obs, infos["success"]
        if done.any():  # a new episode's first observation is returned
            last, success = next_obs.copy(), np.where(done, infos["final_info"]["success"], success)
            last[done] = np.stack(infos["final_obs"][done])
            statistics.update(last[:, :OBS])
        laps.end("environments")

        statistics.update(next_obs[:, :OBS])
        columns = (obs[:, :OBS], last[:, :OBS], actions, rewards[:, None], terminated[:, None])
        memory.rows[t] = np.concatenate(columns, -1)
        progress |= {"iteration": t + 1, "obs": next_obs}
        progress["solved"] = np.maximum(progress["solved"], success)
        for i in np.flatnonzero(done):
            progress["recent"][i] = [*progress["recent"][i], bool(progress["solved"][i])][-10:]
            progress["solved"][i] = 0
        if t * n >= args.warm_up:
            batch = memory.sample(t + 1, args.batch_per_task, statistics)
            laps.end("memory")
            losses = learner.update(*batch)
            laps.end("networks")

        steps = (t + 1) * n
        if steps % args.point_every < n:
            save_policy(args.out / "points" / f"{steps}.npz", learner.actor, statistics)
        if steps % args.checkpoint_every < n or t + 1 == args.steps // n:
            memory.rows.flush()
            mtwrappers.save_checkpoint(checkpoint, **run)
            laps.end("checkpoints")
        if steps % args.print_every < n:
            now = time.perf_counter()
            speed = (t + 1 - printed[1]) / (now - printed[0])
            printed = now, t + 1
            rates = [sum(successes) / max(len(successes), 1) for successes in progress["recent"]]
            report = {
                "steps": steps,
                "iterations_per_second": speed,
                **{name: float(value) for name, value in losses.items()},
                "temperatures": learner.log_alpha.exp().tolist(),
                "cpu_seconds": laps.seconds,
                "success": dict(zip(progress["task_names"], rates, strict=True)),
            }
            with open(args.out / "log.jsonl", "a") as file:
                file.write(json.dumps(report) + "\n")
            print(
                f"{time.strftime('%H:%M:%S')} {steps} steps,"
                f" {speed:.1f} iterations/s,"
                f" {(args.steps - steps) / n / speed / 60:.0f} min left;"
                f" success {np.mean(rates):.2f} in the last 10 training"
                " episodes per task",
                flush=True,
            )
    envs.close()
    return learner


def evaluate(args: argparse.Namespace) -> None:
    """Evaluates the points not evaluated yet, under the protocol ``metaworld-3.1``."""
    protocol = mtwrappers.protocols["metaworld-3.1"].on("MT10")
    for weights in sorted(args.out.glob("points/*.npz"), key=lambda path: int(path.stem)):
        folder = args.out / "results" / f"steps{int(weights.stem):08}"
        if int(weights.stem) % args.evaluate_every or (folder / "results.json").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with np.load(weights) as file:
            policy = Policy({name: file[name] for name in file.files})
        result = protocol.evaluate(
            policy, workers=args.workers, evidence=folder / "results.npz"
        ).described(policy="mtsac", training_seed=args.seed, training_steps=int(weights.stem))
        result.save(folder / "results.json")
        print(result, flush=True)


def main(argv: list[str] | None = None) -> Learner:
    """Trains and evaluates."""
    args = parser().parse_args(argv)
    learner = train(args)
    if args.evaluate_every:
        evaluate(args)
    return learner


if __name__ == "__main__":
    main()
