"""Rollouts in this process and in one of their own, and what they leave."""

from pathlib import Path

from mtwrappers.cli import main
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.evaluation.evidence import EvidenceError, read_evidence
from tests import forks
from tests.fakes import ROOT

SHIPPED = ROOT / "benchmarks/reference"
FILES = ["results.csv", "results.json", "results.npz", "success.png"]


def run_rollout(folder, *arguments, workers=1):
    """Runs a rollout in this process, in the place of an earlier one; returns its result."""
    options = ["--workers", str(workers), "--out", str(folder), "--overwrite"]
    assert main(["rollout", *arguments, *options]) == 0
    return EvaluationResult.load(folder / "results.json")


def count_episodes(folder):
    """Counts the episodes that a rollout has saved so far."""
    try:
        return len(read_evidence(folder / "results.npz"))
    except (EvidenceError, FileNotFoundError):
        return 0


def start_rollout(folder, *arguments, output="/dev/null"):
    """Starts a rollout as a process that leads a group of processes."""
    return forks.start(main, ["rollout", *arguments, "--out", str(folder)], output=output)


def find_processes(group):
    """Returns the ids of the processes of a group, without zombies."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(process_group) == group and state != "Z":
            pids.append(int(path.parent.name))
    return pids
