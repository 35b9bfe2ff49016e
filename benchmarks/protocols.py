"""Measures how a policy's score depends on the choices of a protocol, and Meta-World's bias.

    python -m benchmarks.protocols [--workers 2] [--part PART]

The policy is Meta-World's scripted expert of each class with Gaussian noise on its actions. There
are three parts:

- ``protocols``: its score on MT50 under each published multi-task protocol, with all episodes.
- ``choices``: its score under variants of ``metaworld-3.1`` that differ in one choice, with 10
  episodes of each task.
- ``bias``: the few-shot protocol ``metaworld-3.1-ml`` beside Meta-World's own evaluation, by
  policies whose true success rate is known; see `benchmarks.bias`.

Prints tables and writes the figures into ``protocols.json`` beside this file, from which
``docs/pictures.py`` draws the pictures of the docs. ``--part`` measures one part and keeps the
figures of the others.

All of it takes about 15 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import bias
from benchmarks.common import HERE, machine, table
from mtwrappers import protocols
from mtwrappers.evaluation import Episode, EvaluationResult
from mtwrappers.evaluation.protocol import Protocol, succeeded
from mtwrappers.metaworld.experts import expert

DATA = HERE / "protocols.json"
NOISE = 0.6  # standard deviation, on actions in [-1, 1]
EPISODES = 10  # of each task, in the variants
HELD_STEPS = 10  # successive steps with success, for a success that is held
MULTI_TASK = ("metaworld-3.1", "lerobot-0.6", "rlinf", "tdmpc2")


class NoisyExperts:
    """The expert of each class of a benchmark, whose goals are in the observations, with noise."""

    def __init__(self, names: Sequence[str], noise: float) -> None:
        self._names, self._noise = names, noise
        self._experts = [expert(name) for name in names]

    def for_tasks(self, indices: Sequence[int]) -> NoisyExperts:
        """The experts of some tasks."""
        return NoisyExperts([self._names[i] for i in indices], self._noise)

    def get_actions(self, observations: NDArray[Any], rng: NDArray[Any]) -> Any:
        """Actions ``(M, K, 4)`` for observations ``(M, K, O)``."""
        actions = np.empty((*observations.shape[:2], 4), np.float32)
        for m, k in np.ndindex(observations.shape[:2]):
            obs = observations[m, k]
            actions[m, k] = self._experts[m](obs, obs[36:39])
            actions[m, k] += rng[m, k].normal(0.0, self._noise, 4)
        return np.clip(actions, -1.0, 1.0), None

    def __reduce__(self) -> Any:
        return NoisyExperts, (self._names, self._noise)


def evaluate(protocol: Protocol, workers: int) -> EvaluationResult:
    """Evaluates the policy by a protocol."""
    with closing(protocol.make_vec(workers=workers)) as envs:
        names = list(envs.get_attr("task_names")[0])
        policy = NoisyExperts(names, NOISE)
        result = protocol.evaluate(policy, envs)
    assert isinstance(result, EvaluationResult)
    return result


def count_successes(result: EvaluationResult, protocol: Protocol) -> dict[str, int]:
    """The number of episodes of each task that count as a success, from which intervals follow."""
    return {
        task: sum(succeeded(episode, protocol) for episode in result.of_task(task))
        for task in result.tasks
    }


def measure_protocols(workers: int) -> list[dict[str, Any]]:
    """The score under each protocol."""
    rows = []
    for name in MULTI_TASK:
        start = time.perf_counter()
        protocol = protocols[name].on("MT50").with_states()
        result = evaluate(protocol, workers)
        assert result.headline is not None
        means = result.overall["mean over tasks"]
        rows.append(
            {
                "protocol": protocol.name,
                "digest": protocol.digest,
                "episodes": len(result.episodes),
                "means": {
                    name.removeprefix("mean over "): dataclasses.asdict(mean)
                    for name, mean in result.headline.items()
                },
                "once": means["success_once"].value,  # type: ignore[union-attr]
                "final": means["success_final"].value,  # type: ignore[union-attr]
                "successes": count_successes(result, protocol),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def measure_choices(workers: int) -> list[dict[str, Any]]:
    """The score with one other choice at a time."""
    base = protocols["metaworld-3.1"].on("MT50")

    def variant(name: str, **fields: Any) -> Protocol:
        return base.variant(name, episodes_per_task=EPISODES, **fields)

    full_length = variant("whole episodes", terminate_on_success=False)
    continuous = variant("continuous", terminate_on_success=False, goals="continuous")
    repeat = variant("repeat", terminate_on_success=False, action_repeat=2, max_episode_steps=250)
    idle = variant("idle", terminate_on_success=False, idle_steps=15)
    results = {
        protocol.name: evaluate(protocol, workers)
        for protocol in (full_length, continuous, repeat, idle)
    }

    def within(steps: int) -> Callable[[Episode], bool]:
        return lambda episode: (
            episode.steps_to_success is not None and episode.steps_to_success <= steps
        )

    def at_any_step(episode: Episode) -> bool:
        return bool(episode.success_once)

    def at_last_step(episode: Episode) -> bool:
        return bool(episode.success_final)

    def for_held_steps(episode: Episode) -> bool:
        return (episode.longest_success or 0) >= HELD_STEPS

    groups = dict(protocols["lerobot-0.6"].scoring.groups)
    rows = []
    for choice, protocol, is_success, mean_over in (
        ("base: 500 steps, any step, mean over tasks", full_length, at_any_step, "tasks"),
        ("400 steps", full_length, within(400), "tasks"),
        ("200 steps", full_length, within(200), "tasks"),
        ("160 steps", full_length, within(160), "tasks"),
        ("100 steps", full_length, within(100), "tasks"),
        ("success at the last step", full_length, at_last_step, "tasks"),
        (f"success held for {HELD_STEPS} steps", full_length, for_held_steps, "tasks"),
        ("mean over four groups", full_length, at_any_step, "groups"),
        ("continuous goals", continuous, at_any_step, "tasks"),
        ("15 idle steps first", idle, at_any_step, "tasks"),
        ("each action twice, 250 actions", repeat, at_any_step, "tasks"),
    ):
        result = results[protocol.name]
        rates = {
            task: np.mean([is_success(episode) for episode in result.of_task(task)])
            for task in result.tasks
        }
        if mean_over == "groups":
            means = [np.mean([rates[task] for task in tasks]) for tasks in groups.values()]
        else:
            means = list(rates.values())
        value = float(np.mean(means))
        rows.append({"choice": choice, "success": value, "episodes": len(result.episodes)})
        print(rows[-1], flush=True)
    return rows


PARTS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "protocols": measure_protocols,
    "choices": measure_choices,
    "bias": bias.measure_rows,
}


def format_protocol_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a protocol; its first mean is the score."""
    means = row["means"]
    mean_over, score = next(iter(means.items()))
    over_groups = groups = "-"
    if "groups" in means:
        over_groups = f"{means['groups']['value']:.3f}"
        group_names = [name for name in means if name not in ("tasks", "groups")]
        groups = " / ".join(f"{means[name]['value']:.2f}" for name in group_names)
    return {
        "protocol": row["protocol"],
        "score": f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})",
        "mean over": mean_over,
        "over tasks": f"{means['tasks']['value']:.3f}",
        "over groups": over_groups,
        "groups": groups,
        "episodes": row["episodes"],
    }


def format_choice_row(row: dict[str, Any], base: float) -> dict[str, Any]:
    """The row of a choice, with the change from the success rate of the base."""
    return {
        "choice": row["choice"],
        "success": f"{row['success']:.3f}",
        "change": f"{row['success'] - base:+.3f}",
        "episodes": row["episodes"],
    }


def format_bias_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a true rate."""
    return {
        "true rate": f"{row['true rate']:.2f}",
        "Meta-World counts": f"{row['Meta-World']:.2f}",
        "few_shot_evaluate (95%)": f"{row['ours']:.2f} ({row['low']:.2f} to {row['high']:.2f})",
    }


def render_tables(data: dict[str, Any]) -> str:
    """The tables of the parts that have been measured."""
    tables = []
    if rows := data.get("protocols"):
        tables.append(table([format_protocol_row(row) for row in rows]))
    if rows := data.get("choices"):
        base = rows[0]["success"]
        tables.append(table([format_choice_row(row, base) for row in rows]))
    if rows := data.get("bias"):
        tables.append(table([format_bias_row(row) for row in rows]))
    return "\n\n".join(tables)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part", choices=list(PARTS), help="only this one; all by default")
    args = parser.parse_args()
    data: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    for name in [args.part] if args.part else list(PARTS):
        data[name] = PARTS[name](args.workers)
        data["policy"] = f"experts with noise of {NOISE}"
        data["machine"] = machine()
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    print(render_tables(data))


if __name__ == "__main__":
    main()
