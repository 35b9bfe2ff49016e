"""Imitation learning on MT10 in a single file: behaviour cloning, then DAgger.

    pip install '.[metaworld,cli,minari,torch]'
    mtwrappers rollout MT10 --episodes 10 --out experts
    mtwrappers export experts minari:metaworld/mt10-expert-v0 --successes
    python examples/imitate_mt10.py --seed 1 --out weights.npz

One network learns to act in all ten classes as the experts of the dataset do: that is behaviour
cloning. Then it acts itself, the experts label the states that it visits, and it learns from all
labels so far: that is a round of DAgger (Ross et al. 2011, https://arxiv.org/abs/1011.0686). So it
also learns what to do after its own mistakes, which experts do not make.

It trains on MT10's own list of 50 goals per class, on which metaworld-3.1 evaluates too, as is usual
for multi-task learning. Such a score does not say how it does on other goals.

Evaluate it as below, with '.[metaworld,cli]'. Without WEIGHTS it is the policy that we trained
with seed 1:

    WEIGHTS=weights.npz mtwrappers rollout MT10 --protocol metaworld-3.1 --name imitation \
        --policy examples/imitate_mt10.py:load
"""  # noqa: E501

import argparse
import itertools
import os
from pathlib import Path

import gymnasium
import numpy as np

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.metaworld.experts import expert_actions

# Each number of an action is one of these. Experts switch at thresholds from one motion to another;
# a mean of both would stop there for good, the more likely of the two does not. Slow motions are
# finer: -1, -0.81, ..., -0.04, -0.01, 0, 0.01, 0.04, ..., 1.
LEVELS = np.float32([k * abs(k) / 100 for k in range(-10, 11)])
OURS = Path(__file__).parents[1] / "benchmarks/reference/imitation/weights-seed1.npz"


class Policy:
    """A network of plain arrays, from observations ``(N, O)`` to actions ``(N, 4)``.

    It computes row by row, so that an action does not depend on who shares the batch. The last bits
    of a matrix product depend on the processor; which level is the likeliest hardly ever does.

    Args:
        layers: The weights ``(out, in)`` and the biases ``(out,)`` of each layer, in turn.
    """

    def __init__(self, layers: list[np.ndarray]) -> None:
        self.layers = layers

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions, float32, of `LEVELS`."""
        return np.stack([self.act(obs) for obs in observations.astype(np.float32)])

    def act(self, x: np.ndarray) -> np.ndarray:
        """The action ``(4,)`` for an observation ``(O,)``."""
        *hidden, last_weight, last_bias = self.layers
        for weight, bias in zip(hidden[::2], hidden[1::2], strict=True):
            x = np.maximum(weight @ x + bias, 0)
        scores = (last_weight @ x + last_bias).reshape(-1, len(LEVELS))
        return LEVELS[scores.argmax(axis=1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the arrays into an ``.npz`` file."""
        np.savez_compressed(path, *self.layers)


def load() -> Policy:
    """The policy in the file that the environment variable WEIGHTS names, by default ours."""
    with np.load(os.environ.get("WEIGHTS", OURS)) as file:
        return Policy([file[name] for name in file.files])


class Learner:
    """A network that learns to give the labels of observations.

    Args:
        observations: Those by which its inputs are normalised, ``(T, O)``.
        args: The hyperparameters, as `parser` has them.
    """

    def __init__(self, observations: np.ndarray, args: argparse.Namespace) -> None:
        import torch  # here, since only training needs it

        torch.set_num_threads(1)
        torch.manual_seed(args.seed)
        self.args, self.rng = args, np.random.default_rng(args.seed)
        # The differences between hand, object and goal determine an expert's next action.
        identity = np.eye(observations.shape[1])
        hand, obj, goal = identity[:, 0:3], identity[:, 4:7], identity[:, 36:39]
        self.features = np.hstack([identity, obj - hand, goal - obj, goal - hand])
        seen = observations @ self.features
        self.mean, std = seen.mean(0), seen.std(0)
        self.std = np.where(std > 1e-6, std, 1)
        self.std[len(identity) :] /= 10  # centimetres decide there
        sizes = itertools.pairwise([seen.shape[1], *args.hidden, 4 * len(LEVELS)])
        self.linear = [torch.nn.Linear(*size) for size in sizes]
        modules = [module for layer in self.linear for module in (layer, torch.nn.ReLU())]
        self.network = torch.nn.Sequential(*modules[:-1])

    def fit(self, observations: np.ndarray, labels: np.ndarray) -> float:
        """Learns from ``(T, O)`` and ``(T, 4)``; returns the error, the mean of its last tenth."""
        import torch

        args, errors = self.args, []
        inputs = (observations @ self.features - self.mean) / self.std
        x = torch.as_tensor(inputs, dtype=torch.float32)
        y = torch.as_tensor(np.abs(labels[..., None] - LEVELS).argmin(axis=2))  # the nearest
        optimizer = torch.optim.Adam(self.network.parameters(), args.learning_rate, fused=True)
        decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, args.updates)
        for _ in range(args.updates):
            rows = self.rng.integers(len(x), size=args.batch_size)
            scores = self.network(x[rows]).reshape(-1, len(LEVELS))
            error = torch.nn.functional.cross_entropy(scores, y[rows].flatten())
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            decay.step()
            errors.append(error.item())
        return float(np.mean(errors[-max(1, len(errors) // 10) :]))

    def policy(self) -> Policy:
        """Returns the current network, with the normalization of inputs in its first layer."""
        parameters = [p for layer in self.linear for p in (layer.weight, layer.bias)]
        weight, bias, *other_layers = [p.detach().numpy().astype(np.float64) for p in parameters]
        weight = weight / self.std
        layers = [weight @ self.features.T, bias - weight @ self.mean, *other_layers]
        return Policy([layer.astype(np.float32) for layer in layers])


def demonstrations(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The observations ``(T, O)`` and actions ``(T, 4)`` of a Minari dataset."""
    import minari

    try:
        dataset = minari.load_dataset(name)
    except FileNotFoundError:
        raise SystemExit(
            f"there is no dataset {name} here; make it with\n"
            "    mtwrappers rollout MT10 --episodes 10 --out experts\n"
            f"    mtwrappers export experts minari:{name} --successes"
        ) from None
    episodes = list(dataset.iterate_episodes())
    observations = np.concatenate([episode.observations[:-1] for episode in episodes])
    return observations, np.concatenate([episode.actions for episode in episodes])


def visit(
    policy: Policy, envs: gymnasium.vector.VectorEnv, steps: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """Labels of experts for the states that a policy visits.

    Args:
        policy: Acts.
        envs: ``N`` environments that begin a new episode in the step that ends one.
        steps: Of each of them.
        seed: Of their goals.

    Returns:
        Observations ``(steps * N, O)``, labels ``(steps * N, 4)``, and whether each episode that
        ended was a success.
    """
    obs, infos = envs.reset(seed=seed)
    names = infos["task_name"]
    observations, labels, successes = [], [], []
    for _ in range(steps):
        observations.append(obs)
        labels.append(expert_actions(names, obs))
        obs, _, terminated, truncated, _ = envs.step(policy(obs))
        successes += terminated[terminated | truncated].tolist()
    return np.concatenate(observations), np.concatenate(labels), successes


def parser() -> argparse.ArgumentParser:
    """The hyperparameters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--demonstrations", default="metaworld/mt10-expert-v0", metavar="DATASET")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6, help="of DAgger; 0 clones only")
    parser.add_argument("--steps", type=int, default=1500, help="per class and round")
    parser.add_argument("--episode-steps", type=int, default=250, help="in DAgger's rounds")
    parser.add_argument("--updates", type=int, default=2500, help="after each collection of labels")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument(
        "--learning-rate", type=float, default=3e-3, help="at the start; falls to 0"
    )
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("weights.npz"))
    return parser


def main(argv: list[str] | None = None) -> Policy:
    """Trains, writes the weights, and returns the policy."""
    args = parser().parse_args(argv)
    observations, labels = demonstrations(args.demonstrations)
    learner = Learner(observations, args)
    error = learner.fit(observations, labels)
    print(f"cloning: {len(labels):,} labels, error {error:.4f}", flush=True)
    envs = gymnasium.make_vec(
        "mtwrappers/MT10-v0",
        workers=args.workers,
        max_episode_steps=args.episode_steps,
        terminate_on_success=True,
    )
    for k in range(args.rounds):
        visited = visit(learner.policy(), envs, args.steps, seed=100 * args.seed + k)
        observations = np.concatenate([observations, visited[0]])
        labels = np.concatenate([labels, visited[1]])
        error = learner.fit(observations, labels)
        successes = f"{sum(visited[2])} of {len(visited[2])} episodes were successes"
        print(f"round {k + 1}: {successes}; {len(labels):,} labels, error {error:.4f}", flush=True)
    envs.close()
    policy = learner.policy()
    policy.save(args.out)
    print(f"wrote {args.out}, after {len(labels):,} environment steps")
    return policy


if __name__ == "__main__":
    main()
