"""Rollouts in this process and in one of their own, and what they leave."""

from pathlib import Path

from mtwrappers.cli import main
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.evaluation.evidence import EvidenceError, read_evidence
from tests import forks
from tests.fakes import ROOT

SHIPPED = ROOT / "benchmarks/reference"
FILES = ["results.csv", "results.json", "results.npz", "success.png"]


def results_of(out, *arguments, workers=1):
    """Runs a rollout in this process, in the place of an earlier one; returns its result."""
    into = ["--workers", str(workers), "--out", str(out), "--overwrite"]
    assert main(["rollout", *arguments, *into]) == 0
    return EvaluationResult.load(out / "results.json")


def finished(out):
    """How many episodes a rollout has kept so far."""
    try:
        return len(read_evidence(out / "results.npz"))
    except (EvidenceError, FileNotFoundError):
        return 0


def rollout_in_a_fork(out, *arguments, said="/dev/null"):
    """Starts a rollout as a process that leads a group of processes."""
    return forks.start(main, ["rollout", *arguments, "--out", str(out)], output=said)


def processes(group):
    """The processes of a group, but for those that have ended and wait to be noticed."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found
