"""Processors and samplers against straightforward code, and GAE against other libraries.

    python -m benchmarks.processors [--quick]

The reference is what one would write: a path at a time, with SciPy's ``lfilter``, features
computed for the fit and again for the prediction, and concatenation at the end. GAE is compared
with Stable-Baselines3, TorchRL and Tianshou where they are installed. Prints a table and writes
``results/processors.json``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from scipy.signal import lfilter

from benchmarks.common import machine, save, table, target_row
from mtwrappers import (
    DiceMetaSampleProcessor,
    LinearFeatureBaseline,
    MetaParallelEnvExecutor,
    MetaSampleProcessor,
    MetaSampler,
    MetaWorldSetTaskEnv,
)
from mtwrappers.processors.returns import gae, path_ends

DISCOUNT, LAMBDA = 0.99, 0.95


def make_paths(tasks: int, paths: int, steps: int, size: int = 39) -> dict[int, list[Any]]:
    rng = np.random.default_rng(0)
    return {
        task: [
            {
                "observations": rng.normal(size=(steps, size)),
                "actions": rng.normal(size=(steps, 4)),
                "rewards": rng.normal(size=steps),
                "env_infos": {"success": rng.normal(size=steps)},
                "agent_infos": {"mean": rng.normal(size=(steps, 4))},
            }
            for _ in range(paths)
        ]
        for task in range(tasks)
    }


def sums(values: Any, discount: float) -> Any:
    return lfilter([1], [1, -discount], values[::-1])[::-1]


def features(path: Any) -> Any:
    obs = np.clip(path["observations"], -10, 10)
    t = np.arange(len(obs)).reshape(-1, 1) / 100.0
    return np.concatenate([obs, obs**2, t, t**2, t**3, np.ones((len(obs), 1))], axis=1)


def fit(paths: Any, key: str) -> Any:
    x = np.concatenate([features(path) for path in paths])
    y = np.concatenate([path[key] for path in paths])
    return np.linalg.lstsq(x.T @ x + 1e-5 * np.eye(x.shape[1]), x.T @ y, rcond=None)[0]


def join(paths: Any) -> dict[str, Any]:
    data = {
        k: np.concatenate([p[k] for p in paths]) for k in ("observations", "actions", "rewards")
    }
    for key in ("env_infos", "agent_infos"):
        data[key] = {k: np.concatenate([p[key][k] for p in paths]) for k in paths[0][key]}
    return data


def reference(batch: dict[int, list[Any]]) -> list[Any]:
    """What `MetaSampleProcessor` does, a path at a time."""
    made = []
    for original in batch.values():
        paths = [dict(path) for path in original]
        for path in paths:
            path["returns"] = sums(path["rewards"], DISCOUNT)
        coefficients = fit(paths, "returns")
        for path in paths:
            values = np.append(features(path) @ coefficients, 0)
            deltas = path["rewards"] + DISCOUNT * values[1:] - values[:-1]
            path["advantages"] = sums(deltas, DISCOUNT * LAMBDA)
        data = join(paths)
        data["returns"] = np.concatenate([path["returns"] for path in paths])
        advantages = np.concatenate([path["advantages"] for path in paths])
        data["advantages"] = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        made.append(data)
    rewards = np.concatenate([data["rewards"] for data in made])
    for data in made:
        data["adj_avg_rewards"] = (data["rewards"] - rewards.mean()) / (rewards.std() + 1e-8)
    return made


def pad(array: Any, length: int) -> Any:
    return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])


def dice_reference(batch: dict[int, list[Any]], length: int) -> list[Any]:
    """What `DiceMetaSampleProcessor` does, a path at a time."""
    made = []
    for original in batch.values():
        paths = [dict(path) for path in original]
        for path in paths:
            path["returns"] = sums(path["rewards"], DISCOUNT)
            path["discounted"] = path["rewards"] * DISCOUNT ** np.arange(len(path["rewards"]))
        coefficients = fit(paths, "discounted")
        for path in paths:
            path["adjusted_rewards"] = path["discounted"] - features(path) @ coefficients
            path["mask"] = np.ones(len(path["rewards"]))
        keys = ("mask", "observations", "actions", "rewards", "returns", "adjusted_rewards")
        data = {k: np.stack([pad(path[k], length) for path in paths]) for k in keys}
        for key in ("env_infos", "agent_infos"):
            data[key] = {
                k: np.stack([pad(path[key][k], length) for path in paths]) for k in paths[0][key]
            }
        made.append(data)
    return made


def side_by_side(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in found.items()}


def gae_calls() -> dict[str, Callable[[], Any]]:
    """GAE of a million steps. Ours on ragged paths; the others in the layout that they take."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    lengths = []
    while sum(lengths) < n:
        lengths.append(min(int(rng.integers(1, 1000)), n - sum(lengths)))
    ends = path_ends(lengths)
    rewards, values = rng.normal(size=(2, n))
    last = np.zeros(len(ends))
    calls: dict[str, Callable[[], Any]] = {
        "mtwrappers": lambda: gae(rewards, values, last, DISCOUNT, LAMBDA, ends)
    }
    over = np.zeros(n, dtype=bool)
    over[ends] = True
    following = np.append(values[1:], 0.0)
    following[ends] = 0.0
    try:
        from tianshou.algorithm.algorithm_base import _gae_return as tianshou_gae
    except ImportError:
        try:
            from tianshou.policy.base import _gae_return as tianshou_gae
        except ImportError:
            tianshou_gae = None
    if tianshou_gae is not None:
        calls["Tianshou"] = lambda: tianshou_gae(values, following, rewards, over, DISCOUNT, LAMBDA)
    try:
        import torch
        from stable_baselines3.common.buffers import RolloutBuffer
    except ImportError:
        pass
    else:
        # 500 environments times 2000 steps, which is how it holds a million.
        buffer = RolloutBuffer(
            2000, Box(-1, 1, (1,)), Box(-1, 1, (1,)), gae_lambda=LAMBDA, gamma=DISCOUNT, n_envs=500
        )
        buffer.rewards = rewards.reshape(2000, 500).astype(np.float32)
        buffer.values = values.reshape(2000, 500).astype(np.float32)
        buffer.episode_starts = over.reshape(2000, 500).astype(np.float32)
        zeros, done = torch.zeros(500), np.zeros(500)
        calls["Stable-Baselines3"] = lambda: buffer.compute_returns_and_advantage(zeros, done)
    try:
        import torch
        from torchrl.objectives.value.functional import vec_generalized_advantage_estimate
    except ImportError:
        pass
    else:
        tensors = [
            torch.as_tensor(x).reshape(500, 2000, 1)
            for x in (values, following, rewards, over, over)
        ]
        calls["TorchRL"] = lambda: vec_generalized_advantage_estimate(DISCOUNT, LAMBDA, *tensors)
    return calls


class NullTaskEnv(gymnasium.Env[Any, Any]):
    """Does nothing, for a while."""

    observation_space = Box(-1.0, 1.0, (39,), np.float64)
    action_space = Box(-1.0, 1.0, (4,), np.float32)

    def sample_tasks(self, n: int) -> list[int]:
        return list(range(n))

    def set_task(self, task: int) -> None: ...

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(39), {}

    def step(self, action: Any) -> Any:
        return np.zeros(39), 0.0, False, False, {}


def sampler_share(rounds: int) -> float:
    """The rate of `MetaSampler` on MT10 as a share of the bare executor's."""
    env = MetaWorldSetTaskEnv("MT10", "train", max_episode_steps=None)
    actions = np.zeros((10, 4), np.float32)

    def policy(observations: Any) -> Any:
        return actions

    sampler = MetaSampler(env, policy, 1, 10, 200, parallel=True, workers=2, seed=0)
    tasks = sampler.update_tasks()
    bare = MetaParallelEnvExecutor(env, 10, 1, 200, workers=2)
    bare.set_tasks(tasks)

    def play() -> None:
        bare.reset()
        for _ in range(200):
            bare.step(actions)

    seconds = side_by_side({"bare": play, "sampler": sampler.obtain_samples}, rounds)
    sampler.close()
    bare.close()
    return seconds["bare"] / seconds["sampler"]


def stack_dicts(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: np.asarray([d[key] for d in dicts]) for key in dicts[0]}


def sampler_against_lists(rounds: int) -> float:
    """`MetaSampler` against a loop that appends Python lists a step, on a null environment.

    The loop keeps what `MetaSampler` keeps, in the way that meta-RL code does: five lists a path
    (observations, actions, rewards, infos of the environment and of the agent), made arrays at the
    path's end.
    """
    m, k, steps = 20, 10, 100
    actions = np.zeros((m, k, 4), np.float32)

    class Policy:
        def get_actions(self, observations: Any) -> Any:
            return actions, {"mean": actions}

    sampler = MetaSampler(NullTaskEnv, Policy(), k, m, steps, seed=0)
    sampler.update_tasks()
    envs = [NullTaskEnv() for _ in range(m * k)]
    kept = ("observations", "actions", "rewards", "env_infos", "agent_infos")

    def lists() -> None:
        running: list[Any] = [{key: [] for key in kept} for _ in envs]
        obs = [env.reset()[0] for env in envs]
        times, paths = [0] * len(envs), []
        while len(paths) < m * k:
            by_task = [np.asarray(obs[i * k : (i + 1) * k]) for i in range(m)]
            wanted = [list(own) for own in actions[: len(by_task)]]
            said = [[{"mean": a} for a in own] for own in wanted]
            flat_actions = [a for own in wanted for a in own]
            flat_said = [info for own in said for info in own]
            results = [env.step(a) for env, a in zip(envs, flat_actions, strict=True)]
            for i, (new, reward, terminated, truncated, info) in enumerate(results):
                path = running[i]
                path["observations"].append(obs[i])
                path["actions"].append(flat_actions[i])
                path["rewards"].append(reward)
                path["env_infos"].append(info)
                path["agent_infos"].append(flat_said[i])
                obs[i] = new
                times[i] += 1
                if terminated or truncated or times[i] >= steps:
                    arrays = {key: np.asarray(path[key]) for key in kept[:3]}
                    arrays |= {key: stack_dicts(path[key]) for key in kept[3:]}
                    paths.append(arrays)
                    running[i], times[i] = {key: [] for key in kept}, 0
                    obs[i] = envs[i].reset()[0]

    seconds = side_by_side({"lists": lists, "sampler": sampler.obtain_samples}, rounds)
    sampler.close()
    return seconds["lists"] / seconds["sampler"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 9
    warnings.simplefilter("ignore")
    rows, results = [], {}
    for name, (tasks, paths, steps), flat_least, dice_least in (
        ("20 x 10 x 500", (20, 10, 500), 1.5, 2.0),
        ("20 x 2000 x 5", (20, 2000, 5), 8.0, 10.0),
    ):
        batch = make_paths(tasks, paths, steps)
        flat = MetaSampleProcessor(LinearFeatureBaseline(), DISCOUNT, LAMBDA, normalize_adv=True)
        dice = DiceMetaSampleProcessor(LinearFeatureBaseline(), steps, DISCOUNT)
        seconds = side_by_side(
            {
                "reference": partial(reference, batch),
                "flat": partial(flat.process_samples, batch),
                "dice reference": partial(dice_reference, batch, steps),
                "dice": partial(dice.process_samples, batch),
            },
            rounds,
        )
        results[name] = seconds
        rows.append(
            target_row(
                f"MetaSampleProcessor, {name}", seconds["reference"] / seconds["flat"], flat_least
            )
        )
        rows.append(
            target_row(
                f"DiceMetaSampleProcessor, {name}",
                seconds["dice reference"] / seconds["dice"],
                dice_least,
            )
        )
    seconds = side_by_side(gae_calls(), rounds)
    results["GAE of 1M steps"] = seconds
    peers = {name: s for name, s in seconds.items() if name != "mtwrappers"}
    if peers:
        best = min(peers, key=lambda name: peers[name])
        rows.append(
            target_row(f"GAE of 1M steps / {best}", peers[best] / seconds["mtwrappers"], 1.0)
        )
    rows.append(target_row("MetaSampler / bare executor, MT10", sampler_share(rounds), 0.95))
    rows.append(
        target_row(
            "MetaSampler / Python lists, null environment", sampler_against_lists(rounds), 5.0
        )
    )
    save("processors", {"seconds": results, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    for name, own in results.items():
        print(name, {k: f"{s * 1e3:.1f} ms" for k, s in own.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
