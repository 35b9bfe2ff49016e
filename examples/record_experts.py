"""Records successful episodes of Meta-World's scripted experts with Minari, to learn from.

    pip install '.[metaworld,minari]'
    python examples/record_experts.py --benchmark MT10 --episodes 5 --name metaworld/mt10-expert-v0
    python examples/record_experts.py --benchmark MT10 --episodes 5 --name metaworld/mt10-seen-v0 --pixels 84
    python examples/record_experts.py --replay metaworld/mt10-expert-v0

Each episode ends with its first success; goals on which an expert fails are left out, and printed.
Actions are float32, clipped to their bounds. States are always there, frames beside them on
request. Each episode has its task, its sentence, its random vector and its seed as metadata, and
the data set has the versions of all packages that took part.

An episode counts once it was played again from the file, in the environment that the file names,
with the same bits in every observation, reward and flag. `--replay` does that later, on any
machine; where the last bits of rewards differ, as they do between processors, it says so.
"""  # noqa: E501

import argparse
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.metaworld.experts import expert

PACKAGES = ("mtwrappers", "metaworld", "mujoco", "gymnasium", "numpy", "scipy", "minari")


class Episode(NamedTuple):
    """What was played; ``T`` steps."""

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


def play(env: gymnasium.Env, seed: int, task_state: int, act: Any) -> Episode:
    """Plays an episode; ``act`` is given the observation and the number of the step."""
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
    """The expert for a task, with its goal, as `play` takes it."""
    low, high = env.action_space.low, env.action_space.high
    env.reset(options={"task_state": task_state})
    goal = env.get_wrapper_attr("goal")
    policy = expert(env.get_wrapper_attr("task"))

    def act(obs, step):
        state = obs["environment_state"] if isinstance(obs, dict) else obs
        return np.clip(policy(state, goal), low, high).astype(np.float32)

    return act


class MinariWriter:
    """Episodes in a Minari data set, one after another; another format needs a class like this."""

    def __init__(self, name: str, env: gymnasium.Env) -> None:
        self.name, self.env, self.dataset = name, env, None

    def write(self, episode: Episode) -> None:
        """Adds an episode to the file, which the first one makes."""
        parts = ("observations", "actions", "rewards", "terminations", "truncations")
        data = {part: getattr(episode, part) for part in parts}
        buffer = EpisodeBuffer(seed=episode.seed, **data)
        if self.dataset is None:
            self.dataset = minari.create_dataset_from_buffers(
                self.name,
                [buffer],
                env=self.env,
                algorithm_name="Meta-World's scripted experts",
                description="Episodes up to their first success; each was replayed bit for bit.",
                requirements=[pinned(package) for package in PACKAGES],
                jpeg_encoding=False,  # which would change frames
            )
        else:
            self.dataset.update_dataset_from_buffer([buffer])
        self.dataset.storage.update_episode_metadata([episode.about], [len(self.dataset) - 1])

    def __len__(self) -> int:
        return 0 if self.dataset is None else len(self.dataset)

    def delete(self) -> None:
        """Removes the file."""
        shutil.rmtree(self.dataset.storage.data_path.parent)


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
    """Plays an episode again; the name of what has other bits, or None.

    Rewards may differ by ``rounding``, relative.
    """
    again = play(
        env,
        episode.seed,
        int(episode.about["task_state"]),
        lambda obs, step: episode.actions[min(step, len(episode.actions) - 1)],
    )
    if again.about["task_name"] != episode.about["task_name"]:
        return "task_name"
    pairs = {"rand_vec": (episode.about["rand_vec"], again.about["rand_vec"])}
    for part in ("observations", "actions", "rewards", "terminations", "truncations"):
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


def record(args: argparse.Namespace) -> minari.MinariDataset:
    """Records as many episodes a class as were asked for."""
    frames = {"observation": "pixels_state", "width": args.pixels, "height": args.pixels}
    env = gymnasium.make(
        f"mtwrappers:mtwrappers/{args.benchmark}-v0",
        num_goals=args.goals,
        max_episode_steps=args.max_episode_steps,
        terminate_on_success=True,
        **(frames if args.pixels else {}),
    )
    writer, again = MinariWriter(args.name, env), None
    num_tasks = len(env.get_wrapper_attr("tasks"))
    for first in range(0, num_tasks, args.goals):
        before, failed = len(writer), 0
        for task_state in range(first, first + args.goals):
            if len(writer) - before == args.episodes:
                break
            episode = play(env, args.seed + task_state, task_state, expert_of(env, task_state))
            if not episode.terminations[-1]:
                failed += 1
                continue
            writer.write(episode)
            again = again or writer.dataset.recover_environment()
            (stored,) = read(writer.dataset, [len(writer) - 1])
            if part := difference(again, stored):
                writer.delete()
                raise SystemExit(f"{episode.about['task_name']}: {part} differs when replayed")
        name = env.get_wrapper_attr("task")
        print(f"{name}: {len(writer) - before} recorded and replayed, {failed} failed", flush=True)
    env.close()
    if again is None:
        raise SystemExit("no expert succeeded")
    again.close()
    return writer.dataset


def replay(name: str) -> None:
    """Plays all episodes of a data set again."""
    dataset = minari.load_dataset(name)
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


def pinned(package: str) -> str:
    """A package with its version."""
    return f"{package}=={version(package)}"


def main(argv: list[str] | None = None) -> None:
    """Records, or replays what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--benchmark", default="MT10", help="MT10, MT25, MT50, ML10-train, ...")
    parser.add_argument("--name", default="metaworld/mt10-expert-v0", help="of the data set")
    parser.add_argument("--episodes", type=int, default=5, help="of each class")
    parser.add_argument("--goals", type=int, default=50, help="of each class, to choose from")
    parser.add_argument("--max-episode-steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pixels", type=int, default=0, help="frames of this many pixels a side")
    parser.add_argument("--replay", metavar="NAME", help="of a data set to play again")
    args = parser.parse_args(argv)
    if args.replay:
        replay(args.replay)
        return
    dataset = record(args)
    print(f"{dataset.id}: {dataset.total_episodes} episodes, {dataset.total_steps} steps")


if __name__ == "__main__":
    main()
