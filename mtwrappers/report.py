"""The files and the table that a rollout leaves behind."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers._extras import import_extra
from mtwrappers.metaworld.class_env import METADATA

VERSIONS = ("gymnasium", "metaworld", "mujoco", "numpy")
CSV_COLUMNS = ("task", "episodes", "success_once", "success_final", "mean_return")


def show_results(console: Any, directory: Path, results: dict[str, Any]) -> None:
    """Completes the results, prints their table, and writes the files."""
    rate = results["steps"] / results["seconds"]
    results["steps_per_second"] = rate
    results["versions"] = {name: version(name) for name in VERSIONS}
    console.print(result_table(results["tasks"]))
    console.print(f"{results['steps']:,} steps in {results['seconds']:.1f} s: {rate:,.0f} steps/s")
    videos = sorted(directory.glob("*.mp4"))
    for path in [*write_results(directory, results), *videos]:
        console.print(f"wrote {path}", highlight=False)


def write_results(directory: Path, results: Mapping[str, Any]) -> list[Path]:
    """Writes ``results.json``, ``results.csv`` and ``success.png``; returns their paths."""
    paths = [directory / name for name in ("results.json", "results.csv", "success.png")]
    paths[0].write_text(json.dumps(results, indent=2) + "\n")
    with paths[1].open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(results["tasks"])
    draw_success(paths[2], results)
    return paths


def draw_success(path: Path, results: Mapping[str, Any]) -> None:
    """Draws the success rates as bars, one pair a task."""
    figure_module = import_extra("matplotlib.figure", "cli")
    rows = results["tasks"]
    n = len(rows)
    figure = figure_module.Figure(figsize=(8, 1.6 + 0.34 * n), layout="constrained", dpi=120)
    axes = figure.subplots()
    y = np.arange(n)
    once = [row["success_once"] for row in rows]
    final = [row["success_final"] for row in rows]
    axes.barh(y - 0.19, once, 0.36, label="at any step (success_once)", color="#2a6fb0")
    axes.barh(y + 0.19, final, 0.36, label="at the last step (success_final)", color="#9cc3e6")
    axes.set_yticks(y, [row["task"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.0)
    axes.set_xlabel("success rate")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        f"{results['benchmark']}, {results['policy']} policy, {results['episodes']} episodes a "
        f"task, seed {results['seed']}\nmean success_once {np.mean(once):.2f}, "
        f"success_final {np.mean(final):.2f}",
        fontsize=10,
        loc="left",
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path)


def write_video(path: Path, frames: Sequence[NDArray[np.uint8]], every: int) -> None:
    """Writes frames, one of ``every`` steps, as an mp4 in real time."""
    fps = METADATA["render_fps"] / every
    import_extra("imageio.v3", "cli").imwrite(path, np.stack(frames), fps=fps, codec="libx264")


def choose_gl() -> str | None:
    """The first of the user's choice, EGL and OSMesa that can render here, or ``None``.

    Each is tried in a process of its own: a failed one cannot be taken back.
    """
    tried = dict.fromkeys([os.environ.get("MUJOCO_GL"), "egl", "osmesa"])
    code = "import mujoco; mujoco.GLContext(64, 64).make_current()"
    for name in tried:
        if name:
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "MUJOCO_GL": name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            if done.returncode == 0:
                return name
    return None


def result_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The rows as a `rich` table, with their mean at the foot."""
    table = import_extra("rich.table", "cli").Table(
        show_footer=True, box=import_extra("rich.box", "cli").SIMPLE_HEAD
    )
    means = {
        key: float(np.mean([row[key] for row in rows]))
        for key in ("success_once", "success_final", "mean_return")
    }
    table.add_column("task", footer="mean", no_wrap=True)
    table.add_column("episodes", justify="right", footer=str(sum(row["episodes"] for row in rows)))
    table.add_column("success_once", justify="right", footer=f"{means['success_once']:.2f}")
    table.add_column("success_final", justify="right", footer=f"{means['success_final']:.2f}")
    table.add_column("mean return", justify="right", footer=f"{means['mean_return']:.1f}")
    for row in rows:
        table.add_row(
            row["task"],
            str(row["episodes"]),
            f"{row['success_once']:.2f}",
            f"{row['success_final']:.2f}",
            f"{row['mean_return']:.1f}",
        )
    return table
