"""What the choices of a protocol do to one and the same policy, and Meta-World's bias.

    python -m benchmarks.protocols [--workers 2] [--part PART]

The policy is Meta-World's scripted expert of each class with Gaussian noise on its actions. Three
parts, whose figures go to ``protocols.json`` beside this file, from which ``docs/pictures.py``
draws the pictures of the docs:

- ``protocols``: its score on MT50 under every published protocol, each whole.
- ``choices``: its score under variants that differ from one of these in one choice, with 10
  episodes of each task.
- ``bias``: the protocol that is left, ``metaworld-3.1-ml``, beside Meta-World's own evaluation, by
  policies whose true success rate is known; see `benchmarks.bias`.

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
HELD = 10
MULTI_TASK = ("metaworld-3.1", "lerobot-0.6", "rlinf", "tdmpc2")


class NoisyExperts:
    """The expert of each class of a benchmark, whose goals are in the observations, with noise."""

    def __init__(self, names: Sequence[str], noise: float) -> None:
        self._names, self._noise = names, noise
        self._experts = [expert(name) for name in names]

    def for_tasks(self, indices: Sequence[int]) -> NoisyExperts:
        """Those of some tasks."""
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


def play(protocol: Protocol, workers: int) -> EvaluationResult:
    """The policy under a protocol."""
    with closing(protocol.make_vec(workers=workers)) as envs:
        names = list(envs.get_attr("task_names")[0])
        policy = NoisyExperts(names, NOISE)
        result = protocol.evaluate(policy, envs)
    assert isinstance(result, EvaluationResult)
    return result


def successes(result: EvaluationResult, protocol: Protocol) -> dict[str, int]:
    """How many episodes of each task count as a success, from which intervals follow."""
    return {
        task: sum(succeeded(one, protocol) for one in result.of_task(task)) for task in result.tasks
    }


def part_protocols(workers: int) -> list[dict[str, Any]]:
    """The score under each protocol."""
    rows = []
    for name in MULTI_TASK:
        start = time.perf_counter()
        protocol = protocols[name].on("MT50").with_states()
        result = play(protocol, workers)
        found = result.headline
        assert found is not None
        rows.append(
            {
                "protocol": protocol.name,
                "digest": protocol.digest,
                "episodes": len(result.episodes),
                "means": {
                    name.removeprefix("mean over "): dataclasses.asdict(mean)
                    for name, mean in found.items()
                },
                "once": result.overall["mean over tasks"]["success_once"].value,  # type: ignore[union-attr]
                "final": result.overall["mean over tasks"]["success_final"].value,  # type: ignore[union-attr]
                "successes": successes(result, protocol),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def part_choices(workers: int) -> list[dict[str, Any]]:
    """The score for one other choice at a time."""
    base = protocols["metaworld-3.1"].on("MT50")

    def variant(name: str, **fields: Any) -> Protocol:
        return base.variant(name, episodes_per_task=EPISODES, **fields)

    whole = variant("whole episodes", terminate_on_success=False)
    new = variant("continuous", terminate_on_success=False, goals="continuous")
    twice = variant("repeat", terminate_on_success=False, action_repeat=2, max_episode_steps=250)
    idle = variant("idle", terminate_on_success=False, idle_steps=15)
    played = {one.name: play(one, workers) for one in (whole, new, twice, idle)}

    def within(steps: int) -> Callable[[Episode], bool]:
        return lambda e: e.steps_to_success is not None and e.steps_to_success <= steps

    def once(e: Episode) -> bool:
        return bool(e.success_once)

    def last(e: Episode) -> bool:
        return bool(e.success_final)

    def held(e: Episode) -> bool:
        return (e.longest_success or 0) >= HELD

    groups = dict(protocols["lerobot-0.6"].scoring.groups)
    rows = []
    for choice, name, counts, over in (
        ("base: 500 steps, any step, mean over tasks", whole.name, once, "tasks"),
        ("400 steps", whole.name, within(400), "tasks"),
        ("200 steps", whole.name, within(200), "tasks"),
        ("160 steps", whole.name, within(160), "tasks"),
        ("100 steps", whole.name, within(100), "tasks"),
        ("success at the last step", whole.name, last, "tasks"),
        (f"success held for {HELD} steps", whole.name, held, "tasks"),
        ("mean over four groups", whole.name, once, "groups"),
        ("continuous goals", new.name, once, "tasks"),
        ("15 idle steps first", idle.name, once, "tasks"),
        ("each action twice, 250 actions", twice.name, once, "tasks"),
    ):
        result = played[name]
        rates = {t: float(np.mean([counts(e) for e in result.of_task(t)])) for t in result.tasks}
        if over == "tasks":
            value = float(np.mean(list(rates.values())))
        else:
            value = float(np.mean([np.mean([rates[t] for t in of]) for of in groups.values()]))
        rows.append({"choice": choice, "success": value, "episodes": len(result.episodes)})
        print(rows[-1], flush=True)
    return rows


PARTS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "protocols": part_protocols,
    "choices": part_choices,
    "bias": bias.rows,
}


def shown(data: dict[str, Any]) -> str:
    """The tables."""
    texts = []
    if rows := data.get("protocols"):
        listed: list[dict[str, Any]] = []
        for row in rows:
            means = row["means"]
            over = next(iter(means))
            mean = means[over]
            groups = "-"
            if "groups" in means:
                groups = " / ".join(f"{means[g]['value']:.2f}" for g in list(means)[2:])
            listed.append(
                {
                    "protocol": row["protocol"],
                    "score": f"{mean['value']:.3f} ({mean['low']:.3f} to {mean['high']:.3f})",
                    "mean over": over,
                    "over tasks": f"{means['tasks']['value']:.3f}",
                    "over groups": f"{means['groups']['value']:.3f}" if "groups" in means else "-",
                    "groups": groups,
                    "episodes": row["episodes"],
                }
            )
        texts.append(table(listed))
    if rows := data.get("choices"):
        start = rows[0]["success"]
        texts.append(
            table(
                [
                    {
                        "choice": row["choice"],
                        "success": f"{row['success']:.3f}",
                        "change": f"{row['success'] - start:+.3f}",
                        "episodes": row["episodes"],
                    }
                    for row in rows
                ]
            )
        )
    if rows := data.get("bias"):
        texts.append(
            table(
                [
                    {
                        "true rate": f"{row['true rate']:.2f}",
                        "Meta-World counts": f"{row['Meta-World']:.2f}",
                        "few_shot_evaluate (95%)": f"{row['ours']:.2f} "
                        f"({row['low']:.2f} to {row['high']:.2f})",
                    }
                    for row in rows
                ]
            )
        )
    return "\n\n".join(texts)


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
    print(shown(data))


if __name__ == "__main__":
    main()
