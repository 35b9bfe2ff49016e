"""The files and the table that a rollout leaves behind."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers._extras import import_extra
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.metaworld.class_env import METADATA

VERSIONS = ("gymnasium", "metaworld", "mujoco", "numpy")
CSV_COLUMNS = ("task", "episodes", "success_once", "success_final", "mean_return")


def task_rows(result: EvaluationResult) -> list[dict[str, Any]]:
    """One row a task, ready for JSON."""
    rows = []
    for task, found in result.per_task.items():
        own = result.of_task(task)
        values = {key: estimate.value for key, estimate in found.items() if estimate}
        rows.append(
            {
                "task": task,
                "episodes": len(own),
                "success_once": values["success_once"],
                "success_final": values["success_final"],
                "mean_return": values["return"],
                "intervals": {
                    key: [estimate.low, estimate.high]
                    for key, estimate in found.items()
                    if estimate
                },
                "returns": [e.episode_return for e in own],
                "successes_once": [e.success_once for e in own],
                "successes_final": [e.success_final for e in own],
                "task_states": [e.task_state for e in own],
            }
        )
    return rows


def show_results(
    console: Any, directory: Path, settings: Mapping[str, Any], result: EvaluationResult
) -> None:
    """Prints the table of a rollout and writes its files.

    Args:
        console: A `rich.console.Console`.
        directory: For the files.
        settings: What was played, and ``seconds``.
        result: What came of it.
    """
    described = result.to_dict()
    steps = sum(episode.length for episode in result.episodes)
    results = {
        **settings,
        "steps": steps,
        "steps_per_second": steps / settings["seconds"],
        "tasks": task_rows(result),
        **{key: described[key] for key in ("overall", "confidence", "resamples")},
        "versions": {name: version(name) for name in VERSIONS},
    }
    # Whole lines, so that pipes and files get the table as it is.
    console.print(str(result), soft_wrap=True, markup=False)
    console.print(
        f"{steps:,} steps in {results['seconds']:.1f} s: {results['steps_per_second']:,.0f} steps/s"
    )
    videos = sorted(directory.glob("*.mp4"))
    for path in [*write_results(directory, results, result), *videos]:
        console.print(f"wrote {path}", highlight=False)


def write_results(
    directory: Path, results: Mapping[str, Any], result: EvaluationResult
) -> list[Path]:
    """Writes ``results.json``, ``results.csv`` and ``success.png``; returns their paths."""
    paths = [directory / name for name in ("results.json", "results.csv", "success.png")]
    paths[0].write_text(json.dumps(results, indent=2) + "\n")
    with paths[1].open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(results["tasks"])
    result.plot(
        paths[2],
        f"{results['benchmark']}, {results['policy']} policy, {results['episodes']} episodes a "
        f"task, seed {results['seed']}",
    )
    return paths


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]], every: int) -> None:
    """Writes frames, one of ``every`` steps, as an mp4 in real time."""
    fps = METADATA["render_fps"] / every
    import_extra("imageio.v3", "cli").imwrite(path, np.stack(frames), fps=fps, codec="libx264")
