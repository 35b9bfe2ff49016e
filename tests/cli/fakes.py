"""Rollouts in this process and in one of their own, and what they leave."""

import json
import signal

import pytest

from mtwrappers.cli import main, rollout
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.metaworld.make import determining

TIMING = ("seconds", "steps_per_second")
FILES = ["results.csv", "results.json", "results.npz", "success.png"]


def results_of(out, *arguments, workers=1):
    """Runs a rollout in this process, in the place of an earlier one; returns its results."""
    into = ["--workers", str(workers), "--out", str(out), "--overwrite"]
    code = main(["rollout", *arguments, *into])
    assert code == 0
    return read(out)


def read(out):
    """The settings of a rollout's results, and a row per task."""
    data = json.loads((out / "results.json").read_text())
    result, rows = EvaluationResult.from_dict(data), []
    for row in data["tasks"]:
        known = {key: found for key, found in row.items() if isinstance(found, dict)}
        episodes = result.of_task(row["task"])
        rows.append(
            {
                **{key: found["value"] for key, found in known.items()},
                "task": row["task"],
                "episodes": row["episodes"],
                "mean_return": row["return"]["value"],
                "intervals": {key: [own["low"], own["high"]] for key, own in known.items()},
                "returns": [one.episode_return for one in episodes],
                "successes_once": [one.success_once for one in episodes],
                "successes_final": [one.success_final for one in episodes],
                "task_states": [one.task_state for one in episodes],
            }
        )
    found = {"tasks": rows, "overall": data["overall"]}
    found["versions"] = data["provenance"]["versions"]
    found["spec"] = list(determining(data["provenance"]["spec"]))
    return {**data["rollout"], **found}


def stable(results):
    return {key: value for key, value in results.items() if key not in TIMING}


class Interrupting(rollout.Interruption):
    """Ctrl-C comes in the middle of episode ``n``."""

    def __init__(self, n):
        super().__init__()
        self.steps = 40 * n + 20

    def step(self, seen):
        self.steps -= 1
        if self.steps == 0:
            signal.raise_signal(signal.SIGINT)
        super().step(seen)


def resume(out, *arguments, workers=1):
    """Resumes a rollout in this process; returns its results, and how many episodes it ran."""
    begun = []

    class Policy(rollout.ScriptedPolicy):
        def begin(self, i, episode):
            begun.append(episode)
            super().begin(i, episode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout, "ScriptedPolicy", Policy)
        command = ["rollout", "--resume", str(out), "--workers", str(workers), *arguments]
        assert main(command) == 0
    return read(out), len(begun)
