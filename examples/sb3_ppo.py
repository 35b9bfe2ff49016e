"""Trains PPO of Stable-Baselines3 on MT10, saves it and evaluates it under ``metaworld-3.1``.

    pip install '.[metaworld,sb3]'
    python examples/sb3_ppo.py

The same command continues a run that was stopped or killed, with the same numbers as if it had not
been. Ctrl-C saves the run after the current update of PPO, some seconds later. The
guide "Train PPO on MT10" has the results, and a version of 20 lines.
"""

import argparse
import os
import pickle
import signal
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import mtwrappers

TASKS, EPISODE = 10, 500
ITERATION = TASKS * EPISODE  # steps per update of PPO: complete episodes


def make(folder: Path | None, seed: int, workers: int) -> tuple[Any, PPO, dict[str, Any]]:
    """Returns the environments and the model, new or restored from a folder.

    Returns:
        The vector environment, the model, and what a checkpoint needs besides the model.
    """
    torch.set_num_threads(1)  # small networks need no more, and workers need the cores
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", workers=workers, journal=True)
    # Rewards of the same scale in every task: otherwise only large ones are learnt.
    scaled = mtwrappers.VectorNormalizeRewardPerTask(envs)
    venv: Any = mtwrappers.as_sb3_vec_env(scaled)
    generators: dict[str, Any] = {}
    run = {"envs": scaled, "generators": generators}
    if folder is None:
        # Observations of the same scale: goals differ by centimetres.
        venv = VecNormalize(venv, norm_reward=False)
        options = {
            "n_steps": EPISODE,
            "batch_size": 500,
            "learning_rate": 5e-4,
            "gae_lambda": 0.97,
            "policy_kwargs": {"net_arch": [256, 256]},
        }
        return envs, PPO("MlpPolicy", venv, seed=seed, device="cpu", **options), run
    venv = VecNormalize.load(str(folder / "normalize.pkl"), venv)
    model = PPO.load(folder / "model", venv, device="cpu", force_reset=False)
    mtwrappers.load_checkpoint(folder / "run.ckpt", **run)
    torch.set_rng_state(torch.from_numpy(generators["torch"]))
    np.random.set_state(generators["numpy"])
    return envs, model, run


def save(folder: Path, model: PPO, run: dict[str, Any]) -> None:
    """Writes the model, the observation statistics and, last, the environments."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "model")
    model.get_vec_normalize_env().save(str(folder / "normalize.pkl"))
    run["generators"] |= {
        "torch": torch.get_rng_state().numpy(),
        "numpy": np.random.get_state(legacy=False),
    }
    mtwrappers.save_checkpoint(folder / "run.ckpt", **run)


def points(folder: Path) -> list[Path]:
    """Returns the folders of complete points, by step."""
    return sorted(path.parent for path in folder.glob("*/run.ckpt"))


class LogSuccess(BaseCallback):
    """Logs the success of each task: at any step, as Meta-World counts, and at the last one.

    Attributes:
        latest: Whether the last ten episodes of each task succeeded at any step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[str, deque[bool]] = defaultdict(lambda: deque(maxlen=10))

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "success_once" in info:  # where an episode has ended
                task = info["task_name"]
                self.logger.record_mean(f"success_once/{task}", info["success_once"])
                self.logger.record_mean(f"success_last/{task}", info["is_success"])
                self.latest[task].append(info["success_once"])
        return True


class Stop:
    """Notes a first Ctrl-C while it is open; a second one raises ``KeyboardInterrupt``."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "Stop":
        self._handler = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._handler)

    def _note(self, *signal_and_frame: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def train(folder: Path, steps: int, seed: int, save_every: int, workers: int) -> None:
    """Trains, or continues after the last point, and saves points at regular steps.

    Args:
        folder: Of the run; a point is a folder in it, named after its steps.
        steps: Of all environments.
        seed: Of the networks, the environments and their goals; that of the run which goes on.
        save_every: Steps from a point to the next, a multiple of 5,000.
        workers: Processes that step the environments; with 0 this one does. The numbers are the
            same.

    Raises:
        KeyboardInterrupt: After Ctrl-C, with the run saved.
    """
    saved = points(folder)
    if saved:
        begun = PPO.load(saved[-1] / "model", device="cpu").seed
        if begun != seed:
            raise SystemExit(
                f"{folder} has a run with --seed {begun}, got --seed {seed}: choose --out"
            )
        if int(saved[-1].name) >= steps:
            return
    start = time.perf_counter()
    envs, model, run = make(saved[-1] if saved else None, seed, workers)
    log = LogSuccess()
    with Stop() as stop:
        while model.num_timesteps < steps and not stop.asked:
            model.learn(ITERATION, log, reset_num_timesteps=False)
            now = model.num_timesteps
            if now % save_every == 0 or now >= steps or stop.asked:
                save(folder / f"{now:08}", model, run)
                rates = {task: np.mean(latest) for task, latest in log.latest.items()}
                successes = ", ".join(f"{task} {rate:.1f}" for task, rate in rates.items())
                print(f"{now} steps; success in the last ten episodes: {successes}", flush=True)
    envs.close()
    if stop.asked:
        raise KeyboardInterrupt
    used = os.times()  # of this process, and of workers that have ended
    seconds = used.user + used.system + used.children_user + used.children_system
    clock = time.perf_counter() - start
    print(f"{seconds:.0f} s of CPU time, {clock:.0f} s by the clock", flush=True)


class Policy:
    """The mean action of a saved policy, for observations as environments return them.

    Args:
        folder: A point of a run. It has a pickle file: load only your own.
    """

    def __init__(self, folder: Path) -> None:
        self.model = PPO.load(folder / "model", device="cpu")
        self.statistics = pickle.loads((folder / "normalize.pkl").read_bytes())

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Actions, ``(N, 4)`` float32, for observations ``(N, 49)``."""
        scaled = self.statistics.normalize_obs(observations)
        return self.model.predict(scaled, deterministic=True)[0]


def load() -> Policy:
    """The policy in the folder that the environment variable POINT names."""
    return Policy(Path(os.environ["POINT"]))


def evaluate(folder: Path, seed: int, episodes: int, workers: int) -> None:
    """Evaluates a point unless already done; writes its result and evidence.

    Args:
        folder: The point.
        seed: That of the training.
        episodes: Of each class: 50 in the protocol ``metaworld-3.1``; with fewer, the result says
            that it follows a variant.
        workers: As in `train`.
    """
    if (folder / "results.json").exists():
        return
    protocol = mtwrappers.protocols["metaworld-3.1"].on("MT10")
    if episodes != protocol.scoring.episodes_per_task:
        name = f"metaworld-3.1, {episodes} episodes"
        protocol = protocol.variant(name, episodes_per_task=episodes)
    result = protocol.evaluate(
        Policy(folder), workers=workers, evidence=folder / "results.npz"
    ).described(policy="ppo", training_seed=seed, training_steps=int(folder.name))
    result.save(folder / "results.json")
    print(result, flush=True)


def main(argv: list[str] | None = None) -> None:
    """Trains, then evaluates points of the run, including the last."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000, help="of all environments")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("ppo_mt10"))
    parser.add_argument("--workers", type=int, default=2, help="0 for none")
    parser.add_argument("--save-every", type=int, default=50_000, help="steps")
    parser.add_argument("--evaluate-every", type=int, default=200_000, help="steps")
    parser.add_argument("--episodes", type=int, default=50, help="of each class, in an evaluation")
    args = parser.parse_args(argv)
    try:
        train(args.out, args.steps, args.seed, args.save_every, args.workers)
        for folder in points(args.out):
            if int(folder.name) % args.evaluate_every == 0 or folder == points(args.out)[-1]:
                evaluate(folder, args.seed, args.episodes, args.workers)
    except KeyboardInterrupt:
        saved = points(args.out)
        done = f"{int(saved[-1].name)} steps are saved" if saved else "nothing is saved"
        print(f"stopped; {done}; run the same command again to continue")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
