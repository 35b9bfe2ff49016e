"""Records successful episodes of Meta-World's scripted experts with Minari, to learn from.

    pip install '.[metaworld,minari]'
    python examples/record_experts.py --benchmark MT10 --episodes 5 --name metaworld/mt10-expert-v0
    python examples/record_experts.py --benchmark MT10 --episodes 5 --name metaworld/mt10-seen-v0 --pixels 84
    python examples/record_experts.py --resume metaworld/mt10-expert-v0
    python examples/record_experts.py --replay metaworld/mt10-expert-v0

Each episode ends at its first success; goals on which an expert fails are left out, and printed.
Actions are float32, clipped to their bounds. Observations are states, with frames beside them on
request. Each episode has its task, its sentence, its random vector and its seed as metadata, and
the dataset has the versions of all packages that were used.

The dataset appears when it is complete. Until then its episodes are in a folder beside it, from
which `--resume` continues after a kill or Ctrl-C, with the same data.

Every episode is replayed from the file, in the environment that the file names, and compared bit for
bit in every observation, reward and flag. `--replay` does that later, on any machine; where the last
bits of rewards differ, as they do between processors, it reports it.
"""  # noqa: E501

import argparse
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import minari
import numpy as np
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id
from minari.namespace import create_namespace, list_local_namespaces
from minari.storage import get_dataset_path

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.metaworld.experts import expert_actions

PACKAGES = ("mtwrappers", "metaworld", "mujoco", "gymnasium", "numpy", "scipy", "minari")
PARTS = ("observations", "actions", "rewards", "terminations", "truncations")
NAME, ROOT = "metaworld/mt10-expert-v0", "MINARI_DATASETS_PATH"
DEFAULTS = {
    "benchmark": "MT10",
    "classes": None,
    "episodes": 5,
    "goals": 50,
    "max_episode_steps": 500,
    "seed": 0,
    "pixels": 0,
    "camera_name": "corner4",
    "shadows": True,
}


class Episode(NamedTuple):
    """An episode of ``T`` steps."""

    seed: int
    about: dict[str, Any]  # task_state, task_name, task_description and rand_vec
    observations: Any  # (T + 1, O) float64, or a dict with (T + 1, H, W, 3) uint8 under "pixels"
    actions: np.ndarray  # (T, 4) float32
    rewards: np.ndarray  # (T,) float64
    terminations: np.ndarray  # (T,) bool
    truncations: np.ndarray  # (T,) bool


def stacked(observations: list) -> Any:
    """Observations, arrays or dicts of them, as one."""
    if isinstance(observations[0], dict):
        return {key: np.stack([obs[key] for obs in observations]) for key in observations[0]}
    return np.stack(observations)


def run(env: gymnasium.Env, seed: int, task_state: int, act: Any) -> Episode:
    """Runs an episode; ``act`` is given the observation and the number of the step."""
    obs, info = env.reset(seed=seed, options={"task_state": task_state})
    about = {"task_state": task_state, "task_name": info["task_name"]}
    about["task_description"] = env.get_wrapper_attr("task_description")
    about["rand_vec"] = env.get_wrapper_attr("rand_vec")
    observations, steps = [obs], []
    while not steps or not any(steps[-1][2:]):
        action = act(obs, len(steps))
        obs, *step, _ = env.step(action)
        observations.append(obs)
        steps.append((action, *step))
    return Episode(seed, about, stacked(observations), *map(np.array, zip(*steps, strict=True)))


def expert_of(env: gymnasium.Env, task_state: int) -> Any:
    """The expert for a task, with its goal, as `run` takes it."""
    env.reset(options={"task_state": task_state})
    names, goals = [env.get_wrapper_attr("task")], [env.get_wrapper_attr("goal")]

    def act(obs, step):
        state = obs["environment_state"] if isinstance(obs, dict) else obs
        return expert_actions(names, state[None], goals)[0]

    return act


class Unfinished:
    """A recording that has not come to its end: a file for each episode, beside the datasets.

    Minari looks into no folder whose name begins with a dot, so nobody mistakes it for a dataset.
    """

    def __init__(self, name: str) -> None:
        try:
            self.namespace = parse_dataset_id(name)[0]
        except (TypeError, ValueError):
            raise SystemExit(f"a name must be such as {NAME}, got {name}") from None
        self.name, self.path = name, get_dataset_path(name)
        self.folder = self.path.with_name(f".{self.path.name}.unfinished")
        self.settings_file = self.folder / "settings.json"

    def settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """The settings of a recording that goes on; those that are given must be the same."""
        try:
            then = json.loads(self.settings_file.read_text())
        except FileNotFoundError:
            raise SystemExit(f"there is no unfinished recording of {self.name}") from None
        for key, value in {**given, "requirements": requirements()}.items():
            if value != then[key]:
                raise SystemExit(f"{self.name} was begun with {key} {then[key]}, got {value}")
        return then

    def begin(self, settings: dict[str, Any]) -> None:
        """Makes the folder of a new recording."""
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / "new.json"
        new.write_text(json.dumps(settings))
        os.replace(new, self.settings_file)

    def has(self, task_state: int) -> bool:
        """Whether a goal is done with."""
        return self._file(task_state).exists()

    def write(self, episode: Episode | None) -> None:
        """Writes an episode, None where an expert has failed, which counts from `keep` on."""
        arrays: dict[str, Any] = {}
        if episode is not None:
            about = dict(episode.about)
            arrays["rand_vec"] = about.pop("rand_vec")
            arrays["about"] = np.array(json.dumps({"seed": episode.seed, **about}))
            for part in PARTS:
                value = getattr(episode, part)
                several = value if isinstance(value, dict) else {"": value}
                arrays |= {f"{part}/{key}": array for key, array in several.items()}
        np.savez(self._file("new"), **arrays)

    def keep(self, task_state: int) -> None:
        """Lets the episode that was written count."""
        os.replace(self._file("new"), self._file(task_state))

    def succeeded(self, name: int | str = "new") -> bool:
        """Whether there is an episode of a goal, or in what was written last."""
        with np.load(self._file(name)) as file:
            return bool(file.files)

    def read(self, name: int | str = "new") -> Episode:
        """The episode of a goal, or what was written last."""
        with np.load(self._file(name)) as file:
            about, parts = json.loads(str(file["about"])), []
            for part in PARTS:
                keys = [name.split("/")[1] for name in file.files if name.startswith(f"{part}/")]
                arrays = {key: file[f"{part}/{key}"] for key in keys}
                parts.append(arrays.get("", arrays))
            return Episode(about.pop("seed"), {**about, "rand_vec": file["rand_vec"]}, *parts)

    def finish(self, env: gymnasium.Env, task_states: list[int]) -> minari.MinariDataset:
        """Makes the dataset of all episodes, which does not exist before it is complete."""
        about = []

        def buffers() -> Iterator[EpisodeBuffer]:
            for task_state in task_states:
                episode = self.read(task_state)
                about.append(episode.about)
                data = {part: getattr(episode, part) for part in PARTS}
                yield EpisodeBuffer(seed=episode.seed, **data)

        whole = self.folder / "whole"
        shutil.rmtree(whole, ignore_errors=True)  # what a kill has left
        with datasets_in(whole):
            dataset = minari.create_dataset_from_buffers(
                self.name,
                buffers(),
                env=env,
                algorithm_name="Meta-World's scripted experts",
                description="Episodes up to their first success; each was replayed bit for bit.",
                requirements=requirements(),
                jpeg_encoding=False,  # which would change frames
            )
            dataset.storage.update_episode_metadata(about)
            for task_state, stored in zip(task_states, read(dataset), strict=True):
                if part := unequal(self.read(task_state), stored):
                    raise SystemExit(f"task state {task_state}: {part} differs in the dataset")
        if self.namespace and self.namespace not in list_local_namespaces():
            create_namespace(self.namespace)
        os.rename(whole / self.name, self.path)
        shutil.rmtree(self.folder)
        return minari.load_dataset(self.name)

    def _file(self, name: int | str) -> Path:
        return self.folder / f"{name}.npz"


@contextlib.contextmanager
def datasets_in(folder: Path) -> Iterator[None]:
    """Makes Minari use a folder for its datasets."""
    before = os.environ.get(ROOT)
    os.environ[ROOT] = str(folder)
    try:
        yield
    finally:
        del os.environ[ROOT]
        if before is not None:
            os.environ[ROOT] = before


def read(dataset: minari.MinariDataset, indices: list[int] | None = None) -> Iterator[Episode]:
    """Episodes from the file, all or some."""
    for data in dataset.iterate_episodes(indices):
        (about,) = dataset.storage.get_episode_metadata([data.id])
        yield Episode(
            about.pop("seed"),
            about,
            *(data.observations, data.actions, data.rewards),
            *(data.terminations, data.truncations),
        )


def difference(env: gymnasium.Env, episode: Episode, rounding: float = 0.0) -> str | None:
    """Runs an episode again; the name of what has other bits, or None.

    Rewards may differ by ``rounding``, relative.
    """
    again = run(
        env,
        episode.seed,
        int(episode.about["task_state"]),
        lambda obs, step: episode.actions[min(step, len(episode.actions) - 1)],
    )
    return unequal(episode, again, rounding)


def unequal(episode: Episode, again: Episode, rounding: float = 0.0) -> str | None:
    """The name of what has other bits, or None."""
    if again.about["task_name"] != episode.about["task_name"]:
        return "task_name"
    pairs = {"rand_vec": (episode.about["rand_vec"], again.about["rand_vec"])}
    for part in PARTS:
        then, now = getattr(episode, part), getattr(again, part)
        if isinstance(now, dict):
            pairs |= {f"{part}[{key!r}]": (then[key], now[key]) for key in now}
        else:
            pairs[part] = then, now
    for part, (then, now) in pairs.items():
        then, now = np.asarray(then), np.asarray(now)
        if part == "rewards" and rounding and then.shape == now.shape:
            now = np.where(np.isclose(then, now, rtol=rounding, atol=0.0), then, now)
        if (then.dtype, then.shape, then.tobytes()) != (now.dtype, now.shape, now.tobytes()):
            return part
    return None


def make(settings: dict[str, Any]) -> tuple[gymnasium.Env, list[range]]:
    """The environment to record, and the task states of each class that is to be recorded."""
    benchmark, classes, goals = (settings[key] for key in ("benchmark", "classes", "goals"))
    kwargs: dict[str, Any] = {}
    if classes and benchmark.partition("-")[0] in ("MT1", "ML1"):
        kwargs["env_name"] = classes[0]
    if size := settings["pixels"]:
        kwargs |= {"observation": "pixels_state", "width": size, "height": size}
        kwargs |= {key: settings[key] for key in ("camera_name", "shadows")}
    env = gymnasium.make(
        f"mtwrappers:mtwrappers/{benchmark}-v0",
        num_goals=goals,
        max_episode_steps=settings["max_episode_steps"],
        terminate_on_success=True,
        **kwargs,
    )
    names = list(env.get_wrapper_attr("task_names"))
    if unknown := [name for name in classes or () if name not in names]:
        raise SystemExit(f"--classes must be among {', '.join(names)}, got {', '.join(unknown)}")
    blocks = {name: range(goals * i, goals * (i + 1)) for i, name in enumerate(names)}
    return env, [block for name, block in blocks.items() if not classes or name in classes]


def record(name: str, given: dict[str, Any], resume: bool = False) -> minari.MinariDataset:
    """Records as many episodes a class as were asked for."""
    unfinished = Unfinished(name)
    if resume and unfinished.path.exists():
        shutil.rmtree(unfinished.folder, ignore_errors=True)
        return minari.load_dataset(name)
    if unfinished.path.exists():
        raise SystemExit(f"{name} is there: choose another --name, or minari delete {name}")
    if not resume and unfinished.settings_file.exists():
        raise SystemExit(
            f"a recording of {name} is unfinished: go on with --resume {name}, or remove "
            f"{unfinished.folder}"
        )
    settings = {**DEFAULTS, **given, "requirements": requirements()}
    if resume:
        settings = unfinished.settings(given)
    env, blocks = make(settings)
    if not resume:
        unfinished.begin(settings)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))  # as Minari makes it
    good: list[int] = []
    for block in blocks:
        before, failed = len(good), 0
        for task_state in block:
            if len(good) - before == settings["episodes"]:
                break
            if not unfinished.has(task_state):
                seed, act = settings["seed"] + task_state, expert_of(env, task_state)
                episode = run(env, seed, task_state, act)
                unfinished.write(episode if episode.terminations[-1] else None)
                if unfinished.succeeded() and (part := difference(again, unfinished.read())):
                    raise SystemExit(f"{episode.about['task_name']}: {part} differs when replayed")
                unfinished.keep(task_state)
            if unfinished.succeeded(task_state):
                good.append(task_state)
            else:
                failed += 1
        class_name = env.get_wrapper_attr("task_names")[block.start // settings["goals"]]
        done = len(good) - before
        print(f"{class_name}: {done} recorded and replayed, {failed} failed", flush=True)
    if not good:
        shutil.rmtree(unfinished.folder)
        raise SystemExit("no expert succeeded")
    dataset = unfinished.finish(env, good)
    env.close()
    again.close()
    return dataset


def replay(name: str) -> None:
    """Replays all episodes of a dataset."""
    try:
        dataset = minari.load_dataset(name)
    except FileNotFoundError as exc:
        raise SystemExit(f"{exc}") from None
    env = dataset.recover_environment()
    metadata = dataset.storage.metadata
    other = [line for line in metadata["requirements"] if line != pinned(line.split("==")[0])]
    if other:
        print(f"recorded with {', '.join(other)}")
    rounded = 0
    for number, episode in enumerate(read(dataset)):
        if (part := difference(env, episode)) == "rewards":
            rounded += 1
            part = difference(env, episode, rounding=1e-9)
        if part:
            raise SystemExit(f"episode {number}, {episode.about['task_name']}: {part} differs")
    env.close()
    rewards = f", but for the last bits of rewards in {rounded}" if rounded else ""
    print(f"{len(dataset)} of {len(dataset)} episodes replayed bit for bit{rewards}")


def requirements() -> list[str]:
    """All packages that take part, with their versions."""
    return [pinned(package) for package in PACKAGES]


def pinned(package: str) -> str:
    """A package with its version."""
    return f"{package}=={version(package)}"


def main(argv: list[str] | None = None) -> None:
    """Records, or replays what was recorded."""
    about = __doc__.split("\n")[0]
    # What is not given is not there, so that what goes on can be compared with what is given.
    parser = argparse.ArgumentParser(description=about, argument_default=argparse.SUPPRESS)
    parser.add_argument("--benchmark", help="MT10 (default), MT25, MT50, ML10-train, ...")
    parser.add_argument("--classes", nargs="+", metavar="CLASS", help="some of its classes only")
    parser.add_argument("--name", help=f"of the dataset (default: {NAME})")
    parser.add_argument("--episodes", type=int, help="of each class (default: 5)")
    parser.add_argument("--goals", type=int, help="of each class, to choose from (default: 50)")
    parser.add_argument("--max-episode-steps", type=int, help="default: 500")
    parser.add_argument("--seed", type=int, help="default: 0")
    parser.add_argument("--pixels", type=int, help="frames of this many pixels a side")
    parser.add_argument("--camera-name", help="of the frames (default: corner4)")
    parser.add_argument("--no-shadows", dest="shadows", action="store_false", help="in frames")
    parser.add_argument("--resume", metavar="NAME", help="go on with a recording that was stopped")
    parser.add_argument("--replay", metavar="NAME", help="replay the episodes of a dataset")
    given = vars(parser.parse_args(argv))
    if name := given.pop("replay", None):
        replay(name)
        return
    resume = given.pop("resume", None)
    name = given.pop("name", resume or NAME)
    if resume not in (None, name):
        parser.error(f"--resume {resume} continues that dataset, got --name {name}")
    if not resume and not given.get("pixels") and given.keys() & {"camera_name", "shadows"}:
        parser.error("--camera-name and --no-shadows are of frames, which --pixels adds")
    try:
        dataset = record(name, given, resume is not None)
    except KeyboardInterrupt:
        raise SystemExit(f"stopped: go on with --resume {name}") from None
    print(f"{dataset.id}: {dataset.total_episodes} episodes, {dataset.total_steps} steps")


if __name__ == "__main__":
    main()
