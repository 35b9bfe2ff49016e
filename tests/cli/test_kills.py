"""Kills and Ctrl-C at random times of all that writes: nothing stays behind, and all continues.

Each kind of work is killed `KILLS` times; ``MTWRAPPERS_KILLS`` sets another number.
"""

import contextlib
import os
import signal
import time
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import MultiEnvWrapper, TaskStream, evaluate, few_shot_evaluate
from mtwrappers.cli import main
from mtwrappers.continual.evaluate import PhaseEvaluator
from mtwrappers.evaluation import load_results, save_results
from mtwrappers.evaluation.evidence import EvidenceError, read_evidence
from tests import forks
from tests.cli.fakes import find_processes
from tests.vector.processes import needs_proc, wait_until

KILLS = int(os.environ.get("MTWRAPPERS_KILLS", 4))
pytestmark = [
    pytest.mark.slow,
    needs_proc,
    pytest.mark.usefixtures("short_episodes"),
    pytest.mark.filterwarnings("ignore:.* episodes are taken from"),
]


class SlowPolicy:
    """Acts after a millisecond; it remembers nothing."""

    def __init__(self, num_actions):
        self.actions = np.full((num_actions, 2), 0.1, np.float32)

    def __call__(self, observations):
        time.sleep(0.001)
        return self.actions[: len(observations)]


class SlowTrialPolicy(SlowPolicy):
    """The same for trials, in which it does not adapt."""

    def begin_trial(self):
        pass


def make_points(num_envs):
    return gymnasium.make_vec(
        "mtwrappers/PointGoal-v0", num_envs=num_envs, workers=2, max_episode_steps=20
    )


def run_rollout(folder):
    command = ["rollout", "MT1", "--policy", "random", "--episodes", "60", "--workers", "2"]
    return main([*command, "--out", str(folder), "--resume"])


def run_evaluate(folder):
    with contextlib.closing(make_points(2)) as envs:
        result = evaluate(SlowPolicy(2), envs, 20, evidence=folder / "results.npz", resume=True)
    result.save(folder / "results.json")


def run_few_shot(folder):
    with contextlib.closing(make_points(4)) as envs:
        evidence = folder / "results.npz"
        policy = SlowTrialPolicy(4)
        result = few_shot_evaluate(policy, envs, 8, 2, 2, evidence=evidence, resume=True)
    result.save(folder / "results.json")


def run_continual(folder):
    """Several results in one file, each with an evidence of its own."""
    evaluator = PhaseEvaluator(make_stream, 8, evidence=folder / "results.npz", workers=2)
    with contextlib.closing(evaluator):
        for step in (0, 40, 80):
            evaluator(push, step=step)
    save_results(folder / "results.json", evaluator.results)


def make_stream():
    pendulum = partial(gymnasium.make, "Pendulum-v1", max_episode_steps=20)
    makers = [partial(pendulum, g=g) for g in (2.0, 10.0)]
    return TaskStream(MultiEnvWrapper(makers), [(0, 40), (1, 40)])


def push(observations):
    time.sleep(0.001)
    return np.ones((len(observations["task_obs"]), 1), np.float32)


def run_export(folder, source):
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    return main(["export", str(source), "minari:kills-v0"])


def check_files(folder):
    """Every file that has its name is whole, or is an evidence of complete episodes."""
    for path in folder.rglob("*"):
        if path.name.startswith(".") or path.is_dir():
            continue
        if path.name.endswith(".json") and path.name.startswith("results"):
            load_results(path)
        elif path.suffix == ".npz":
            with contextlib.suppress(EvidenceError):  # a kill before its first episode
                read_evidence(path)


def kill_at_random(run, folder, uninterrupted, rng, *, seconds):
    """Kills work at random times and starts it again; returns how often it was killed."""
    kills, output = 0, folder.with_name("output")
    while kills < KILLS:
        output.write_text("")
        process = forks.start(run, folder, output=output)
        group = process.pid
        time.sleep(rng.uniform(0, seconds))
        if not process.is_alive():  # it has ended before: begin anew
            process.join()
            assert process.exitcode == 0, output.read_text()
            assert_equal_folders(folder, uninterrupted)
            clear(folder)
            continue
        kills += 1
        with contextlib.suppress(ProcessLookupError):
            if kills % 2:
                os.kill(group, signal.SIGKILL)
            else:
                os.killpg(group, signal.SIGINT)
        process.join(60)
        text = output.read_text()  # empty if the signal came before the work began
        interrupted = process.exitcode == 1 and (not text or "KeyboardInterrupt" in text)
        assert interrupted or process.exitcode in (0, 130, -9), text
        assert wait_until(lambda: not find_processes(group))  # noqa: B023 (it is called here)
        check_files(folder)
        if process.exitcode == 0:
            clear(folder)
    return kills


def clear(folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def assert_equal_folders(folder, uninterrupted):
    names = [sorted(str(p.relative_to(f)) for p in f.rglob("*")) for f in (folder, uninterrupted)]
    assert names[0] == names[1]
    for name in names[1]:
        if name.endswith((".json", ".npz", ".csv")) and "results" in name:
            assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes()


RUNS = {
    "rollout": run_rollout,
    "evaluate": run_evaluate,
    "few-shot": run_few_shot,
    "continual": run_continual,
    "export": run_export,
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_killed_leaves_nothing_behind_and_continues_to_the_same_files(name, tmp_path):
    folder, uninterrupted, run = tmp_path / "killed", tmp_path / "uninterrupted", RUNS[name]
    folder.mkdir()
    uninterrupted.mkdir()
    if name == "export":
        pytest.importorskip("minari")
        source = tmp_path / "source"
        assert run_rollout(source) == 0
        run = partial(run_export, source=source)
    start = time.monotonic()
    process = forks.start(run, uninterrupted)
    process.join()
    assert process.exitcode == 0
    seconds = time.monotonic() - start
    kill_at_random(run, folder, uninterrupted, np.random.default_rng(0), seconds=seconds)
    if name == "export" and (folder / "kills-v0").exists():  # it was whole before the signal
        clear(folder)
    process = forks.start(run, folder)
    process.join()
    assert process.exitcode == 0
    assert_equal_folders(folder, uninterrupted)
