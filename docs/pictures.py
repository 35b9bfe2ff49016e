"""Draws the pictures of the documentation.

    python docs/pictures.py                      # all of them
    python docs/pictures.py protocols ppo-mt10   # some
    python docs/pictures.py --out elsewhere      # into another directory than docs/assets

Charts are drawn from the data in this repository: `learning_curves.json`, `continual_world.json`,
`benchmarks/protocols.json` and the results in `benchmarks/reference`. The film of MT10 and the
pictures of the gallery are rendered, which needs EGL or OSMesa (Debian: libegl1 or libosmesa6).
Needs the extra ``bench``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.evaluation import EvaluationResult, curves, reference, scores
from mtwrappers.evaluation.plot import Kind, Line, draw_lines, draw_stream
from mtwrappers.evaluation.statistics import Estimate, clip_interval, mean_run_rate, student
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.experts import expert

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BLUE, RED, INK, GREY = "#2a6fb0", "#c0504d", "#333333", "#b8c4d0"


def load_json(path: str) -> Any:
    """The contents of a file of this repository."""
    return json.loads((ROOT / path).read_text())


# Learning curves.


def rates_over_runs(counts: dict[str, list[int]], episodes: int) -> dict[float, Estimate]:
    """Success rates by training steps, from the successes of each run in so many episodes."""
    return {
        int(steps): mean_run_rate(np.array(runs) / episodes).estimate()
        for steps, runs in counts.items()
    }


def draw_ppo(path: Path) -> None:
    """PPO beside multi-task SAC on MT10."""
    ppo = rates_over_runs(load_json("docs/learning_curves.json")["ppo"]["successes"], 500)
    sac = {
        steps: score.overall["mean over tasks"]
        for steps, score in curves({"SAC": reference("mtsac")}).points["SAC"].items()
        if steps <= max(ppo)
    }
    caption = (
        "Success at any step, protocol metaworld-3.1 on MT10, 500 episodes at each point of each "
        "run.",
        "PPO: 3 training seeds; band: 95% intervals over these.",
        "Multi-task SAC: 1 training seed; band: 95% intervals over its episodes, not over "
        "training.",
        "Each interval is for its point alone.",
    )
    lines = [Line("PPO", ppo, "curve"), Line("multi-task SAC", sac, "curve")]
    draw_lines(path, {"mean over 10 tasks": lines}, "", caption)


def draw_maml_half_cheetah(path: Path) -> None:
    """Each run of MAML on HalfCheetahDir, before and after the inner step."""
    curve = load_json("docs/learning_curves.json")["maml_half_cheetah"]
    lines = []
    for i, seed in enumerate(curve["seeds"]):
        for name, kind in (("before", "unadapted"), ("after", "curve")):
            points = {
                curve["iterations"] * (k + 1): Estimate(value, None, None)
                for k, value in enumerate(curve[name][i])
            }
            lines.append(Line(f"training seed {seed}", points, kind))
    caption = (
        "Mean return of 20 episodes of 100 steps in each direction. Each line is one run, and each "
        "point the mean over 10 iterations of training, of 8,000 environment steps each.",
    )
    against = "iterations of training"
    draw_lines(path, {"HalfCheetahDir": lines}, "", caption, against, "return")


def draw_mtsac(path: Path) -> None:
    """Multi-task SAC beside its published curve."""
    published = load_json("docs/learning_curves.json")["mtsac_published"]["points"]
    curves({"mtsac": reference("mtsac")}).plot(
        path,
        "Multi-task SAC on MT10",
        beside={"MTSAC of rainx0r/mtrl, its figure 6, its own evaluation": published},
    )


def draw_meta_rl(path: Path) -> None:
    """MAML and RL² on ML1-reach, after adaptation and before."""
    data = load_json("docs/learning_curves.json")["ml1_reach"]

    def line(name: str, counts: dict[str, list[int]], episodes: int, kind: Kind) -> Line:
        return Line(name, rates_over_runs(counts, episodes), kind)

    lines = [line(name, counts, 20, "curve") for name, counts in data["after"].items()]
    lines += [
        line(name, counts, data["episodes_before"][name], "unadapted")
        for name, counts in data["before"].items()
    ]
    caption = (
        "Success at any of 150 steps, on 20 goals of ML1-test; solid: after 10 episodes of "
        "adaptation, dashed: before.",
        "3 training seeds. Bands: 95% intervals over these, each for its point alone; none where "
        "they do not differ.",
    )
    draw_lines(path, {"mean over goals": lines}, "MAML and RL² on ML1-reach", caption)


def draw_continual_world(path: Path) -> None:
    """The stream of CW10, as ``examples/continual_world.py`` draws it."""
    data = load_json("docs/continual_world.json")
    success = np.array(data["scores"])  # (runs, points, phases)

    def make_line(label: str, rates: Any) -> Line:
        """The mean over runs at each point, from rates (runs, points)."""
        estimates = [clip_interval(student([column]), 0.0) for column in rates.T]
        return Line(label, dict(zip(data["points"], estimates, strict=True)), "curve")

    draw_stream(
        path,
        data["ends"],
        make_line(f"mean over {len(data['phases'])} phases", success.mean(axis=2)),
        [
            make_line(f"{phase}: {name}", success[:, :, phase])
            for phase, name in enumerate(data["phases"])
        ],
        "CW10 with reduced budgets: fine-tuning by imitation of scripted experts",
        "4,000 steps per task instead of 1,000,000; 3 seeds; 5 episodes per point\n"
        "success at any step, 3 runs; bands: 95% intervals over runs",
    )


def draw_imitation(path: Path) -> None:
    """Success of imitation in each class, with 95% intervals over runs (experts: over episodes)."""
    folders = {
        "cloning": [f"cloning/metaworld-3.1-MT10-seed{seed}" for seed in (1, 2, 3)],
        "cloning, then DAgger": [f"imitation/metaworld-3.1-MT10-seed{seed}" for seed in (1, 2, 3)],
        "the experts": ["experts/metaworld-3.1-MT10"],
    }
    results = {
        method: {
            name: EvaluationResult.load(ROOT / "benchmarks/reference" / name / "results.json")
            for name in names
        }
        for method, names in folders.items()
    }
    figure = Figure(figsize=(6.5, 8), layout="constrained", dpi=130)
    axes = figure.subplots()
    methods = scores(results).methods.items()
    for i, ((method, score), color) in enumerate(zip(methods, (GREY, BLUE, INK), strict=True)):
        rows = {**score.tasks, "mean of the ten": score.overall["mean over tasks"]}
        rates = np.array([row.value for row in rows.values()])
        ends = [
            (row.value, row.value) if row.low is None else (row.low, row.high)
            for row in rows.values()
        ]
        distances = np.abs(np.array(ends).T - rates)
        heights = np.arange(len(rows)) + 0.27 * (i - 1)
        axes.barh(heights, rates, 0.25, xerr=distances, color=color, label=method, ecolor="#e8890c")
        axes.set_yticks(range(len(rows)), [row.removesuffix("-v3") for row in rows], fontsize=13)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.01)
    axes.set_xlabel("success rate, 50 episodes of each class", fontsize=12)
    axes.tick_params(axis="x", labelsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", fontsize=12, ncols=3, frameon=False)
    figure.savefig(path)


# What the choices of a protocol do, from `python -m benchmarks.protocols`.


def phone_figure(height: float) -> tuple[Figure, Any]:
    """A figure whose text can be read at the width of a phone, and its axes."""
    figure = Figure(figsize=(4.6, height), layout="constrained", dpi=200)
    axes = figure.subplots()
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_rates(
    labels: list[str], rates: list[float], colors: Any, **bars: Any
) -> tuple[Figure, Any, Any]:
    """Horizontal bars of success rates; returns the figure, its axes and the texts in the bars."""
    figure, axes = phone_figure(0.75 + 0.33 * len(labels))
    drawn = axes.barh(labels, rates, 0.7, color=colors, **bars)
    texts = axes.bar_label(drawn, fmt="{:.2f}", label_type="center", fontsize=8.5)
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.set_xlabel("success rate", fontsize=9)
    return figure, axes, texts


def draw_protocols(path: Path) -> None:
    """One policy under the published protocols."""
    rows = load_json("benchmarks/protocols.json")["protocols"]
    means = [next(iter(row["means"].values())) for row in rows]
    labels = [f"{row['protocol']}\n(mean over {next(iter(row['means']))})" for row in rows]
    rates = [mean["value"] for mean in means]
    distances = np.abs(
        [[mean["low"] - mean["value"], mean["high"] - mean["value"]] for mean in means]
    ).T
    figure, _, texts = draw_rates(labels, rates, BLUE, xerr=distances, ecolor=INK)
    for text in texts:
        text.set_color("white")
    figure.savefig(path)


def draw_protocol_choices(path: Path) -> None:
    """The same policy with one choice changed at a time."""
    rows = load_json("benchmarks/protocols.json")["choices"]
    rates = [row["success"] for row in rows]
    labels = [fill(row["choice"], 24) for row in rows]
    figure, axes, texts = draw_rates(labels, rates, [INK] + [GREY] * (len(rows) - 1))
    texts[0].set_color("white")
    axes.axvline(rates[0], color=INK, linewidth=0.8, linestyle=":")
    figure.savefig(path)


def draw_few_shot_bias(path: Path) -> None:
    """The success rate that Meta-World's few-shot evaluation and ours report, over the true one."""
    rows = load_json("benchmarks/protocols.json")["bias"]
    figure, axes = phone_figure(2.8)
    true = [row["true rate"] for row in rows]
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    axes.plot(true, [row["Meta-World"] for row in rows], "o-", color=RED)
    distances = np.abs([[row["low"] - row["ours"], row["high"] - row["ours"]] for row in rows]).T
    axes.errorbar(true, [row["ours"] for row in rows], distances, fmt="s-", color=BLUE, capsize=3)
    for text, column, color, offset in (
        ("metaworld.evaluation", "Meta-World", RED, -4),
        ("few_shot_evaluate\n(95% intervals)", "ours", BLUE, -22),
    ):
        axes.annotate(
            text,
            (true[-1], rows[-1][column]),
            (8, offset),
            textcoords="offset points",
            color=color,
            fontsize=9,
        )
    axes.set(xlim=(0, 0.95), ylim=(0, 1.03))
    axes.set_xlabel("share of the goals that the policy solves", fontsize=9)
    axes.set_ylabel("reported success rate", fontsize=9)
    figure.savefig(path)


def draw_scale(path: Path) -> None:
    """Steps per second against nodes of a cluster, by the model of `benchmarks.scale`."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.scale import MEASURED, MODELS, NODES, Cluster, rate

    cluster = Cluster()
    figure = Figure(figsize=(4.8, 4.2), layout="constrained", dpi=200)
    axes = figure.subplots()
    for model, label, style, color in (
        ("ideal", "ideal", "--", "#8a97a5"),
        ("path-wise", "whole trajectories", "-", BLUE),
        ("step-wise", "step by step", "-", "#c8553d"),
    ):
        rates = [rate(model, MEASURED, cluster, nodes) for nodes in NODES]
        terms = MODELS[model](MEASURED, cluster, NODES[-1])
        if model != "ideal":
            label += f"; limit: {max(terms, key=lambda name: terms[name])}"
        axes.loglog(NODES, rates, color=color, lw=2, ls=style, label=label)
    axes.set_xlim(1, NODES[-1])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(f"nodes of {cluster.cores} cores, {cluster.envs} environments per core")
    axes.set_ylabel("environment steps per second")
    network = f"{cluster.latency * 1e6:g} µs, {cluster.bandwidth * 8e-9:g} Gbit/s between machines"
    axes.set_title(f"MT10 on a cluster, modelled:\n{network}", fontsize=11, loc="left")
    axes.legend(frameon=False, loc="upper left")
    axes.grid(color="#e3e7eb")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


# The film of MT10: each of its ten classes, solved by its expert.

# Frames are drawn larger than a tile, which smooths their edges, and cut to where the hand moves.
TILE, FRAME, LABEL, FONT = 200, 500, 64, 26
FRAME_CUT = (100, 50, 500, 450)
STEPS_PER_FRAME, LAST_STEP, PAUSE_FRAMES = 4, 240, 14
MILLISECONDS = 60
# Names that do not fit into a line at a size that a phone shows.
LABELS = {
    "button-press-topdown-v3": "button-press-\ntopdown",
    "peg-insert-side-v3": "peg-insert-\nside",
    "window-close-v3": "window-\nclose",
    "window-open-v3": "window-\nopen",
    "drawer-close-v3": "drawer-\nclose",
    "drawer-open-v3": "drawer-\nopen",
}
# How many colours the table and the robot have, and how many small things such as a goal.
COMMON_COLOURS, RARE_COLOURS = 192, 63
TEXT, PAPER, SOLVED = (38, 50, 56), (250, 250, 250), (46, 125, 50)


def run_expert(env: gymnasium.Env[Any, Any], task_state: int) -> Iterator[bool]:
    """Runs an episode with the expert of its class; yields at every frame whether it is solved."""
    obs, info = env.reset(options={"task_state": task_state})
    act, goal = expert(info["task_name"]), env.unwrapped.goal  # type: ignore[attr-defined]
    for step in range(LAST_STEP):
        if step % STEPS_PER_FRAME == 0:
            yield info["success"] == 1.0
        obs, *_, info = env.step(act(obs, goal))


def film_class(env: gymnasium.Env[Any, Any], class_index: int) -> tuple[list[Image.Image], int]:
    """Frames of the first goal that is solved in time, and the first frame in which it is."""
    mtenv: Any = env.unwrapped
    goals = mtenv.num_tasks // len(mtenv.task_names)
    for task_state in range(class_index * goals, (class_index + 1) * goals):
        successes = list(run_expert(env, task_state))
        if any(successes):
            break
    else:
        raise RuntimeError(f"no goal of class {class_index} is solved within {LAST_STEP} steps")
    first_solved = successes.index(True)
    frames = []
    for _ in run_expert(env, task_state):
        image = Image.fromarray(np.asarray(env.render())).crop(FRAME_CUT)
        frames.append(image.resize((TILE, TILE), Image.Resampling.LANCZOS))
        if len(frames) == first_solved + 4:
            break
    return frames, first_solved


def label_frame(frame: Image.Image, name: str, is_solved: bool) -> Image.Image:
    """A frame with the name of its class below, and a border if it is solved."""
    image = Image.new("RGB", (TILE, TILE + LABEL), PAPER)
    image.paste(frame)
    draw = ImageDraw.Draw(image)
    text, font = LABELS.get(name, name.removesuffix("-v3")), ImageFont.load_default(FONT)
    middle = (TILE / 2, TILE + LABEL / 2)
    draw.multiline_text(middle, text, TEXT, font, anchor="mm", align="center")
    if is_solved:
        draw.rectangle((0, 0, TILE - 1, TILE - 1), outline=SOLVED, width=5)
    return image


def draw_mt10(path: Path) -> None:
    """Films all classes and writes them side by side."""
    env = gymnasium.make(
        "mtwrappers/MT10-v0",
        render_mode="rgb_array",
        camera_name="corner4",
        width=FRAME,
        height=FRAME,
    )
    env.reset(seed=0)
    names = env.unwrapped.task_names  # type: ignore[attr-defined]
    films = [film_class(env, i) for i in range(len(names))]
    env.close()
    pictures = []
    for t in range(max(len(frames) for frames, _ in films) + PAUSE_FRAMES):
        tiles = [
            np.asarray(label_frame(frames[min(t, len(frames) - 1)], name, t >= first_solved))
            for name, (frames, first_solved) in zip(names, films, strict=True)
        ]
        rows = [np.hstack(tiles[:5]), np.hstack(tiles[5:])]
        pictures.append(Image.fromarray(np.vstack(rows)))
    palette = make_palette(pictures)
    pictures = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=MILLISECONDS, loop=0)


def make_palette(pictures: list[Image.Image]) -> Image.Image:
    """One palette for all pictures, without dithering: what stands still costs nothing."""
    sample = Image.fromarray(np.vstack([np.asarray(p) for p in pictures[:: len(pictures) // 5]]))
    common = sample.quantize(COMMON_COLOURS, Image.Quantize.MEDIANCUT).getpalette() or []
    rare = sample.quantize(RARE_COLOURS, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(common[: 3 * COMMON_COLOURS] + rare[: 3 * RARE_COLOURS])
    return palette


# The gallery: a picture of each of the 50 classes.

# Pixels of a side; the pictures are cut from larger ones, and together stay far below 2 MB.
CARD, CARD_FRAME, CARD_CUT, CARD_QUALITY = 240, 600, (120, 60, 600, 540), 80


def draw_gallery(folder: Path) -> None:
    """Draws each class where its expert is half way to its first success."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in make_benchmark("MT50", num_goals=1).train_classes:
        env = gymnasium.make(
            "mtwrappers/MT1-v0",
            env_name=name,
            render_mode="rgb_array",
            camera_name="corner4",
            width=CARD_FRAME,
            height=CARD_FRAME,
        )
        steps = run_to_success(env, name, 499)
        run_to_success(env, name, steps // 2)
        image = Image.fromarray(np.asarray(env.render())).crop(CARD_CUT)
        image = image.resize((CARD, CARD), Image.Resampling.LANCZOS)
        image.save(folder / f"{name}.webp", quality=CARD_QUALITY, method=6)
        env.close()


def run_to_success(env: gymnasium.Env[Any, Any], name: str, steps: int) -> int:
    """Runs a class to its first success, or so many steps; returns the number of steps."""
    obs, info = env.reset(seed=0, options={"task_state": 0})
    act, goal = expert(name), env.unwrapped.goal  # type: ignore[attr-defined]
    for step in range(steps):
        if info["success"] == 1.0:
            return step
        obs, *_, info = env.step(act(obs, goal))
    return steps


CHARTS: dict[str, Callable[[Path], None]] = {
    "continual-world.png": draw_continual_world,
    "few-shot-bias.png": draw_few_shot_bias,
    "imitation.png": draw_imitation,
    "meta-rl.png": draw_meta_rl,
    "maml-half-cheetah.png": draw_maml_half_cheetah,
    "mtsac.png": draw_mtsac,
    "ppo-mt10.png": draw_ppo,
    "protocol-choices.png": draw_protocol_choices,
    "protocols.png": draw_protocols,
    "scale.png": draw_scale,
}
RENDERED: dict[str, Callable[[Path], None]] = {"mt10.gif": draw_mt10, "gallery": draw_gallery}


def main(arguments: list[str] | None = None) -> None:
    """Draws what was asked for."""
    pictures = {Path(name).stem: (name, draw) for name, draw in (CHARTS | RENDERED).items()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(pictures)}")
    parser.add_argument("--out", type=Path, default=DOCS / "assets", help="%(default)s")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in pictures]:
        parser.error(f"no picture is called {unknown}; choose from {', '.join(pictures)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or pictures:
        file_name, draw = pictures[name]
        draw(options.out / file_name)
        print(f"drew {options.out / file_name}")


if __name__ == "__main__":
    main()
