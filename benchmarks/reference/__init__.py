"""Makes and verifies the reference results in this folder; see its `README.md`.

    python -m benchmarks.reference --verify [NAME ...] [--sample 0.02]
    python -m benchmarks.reference --make [NAME ...]
    python -m benchmarks.reference --table

A NAME is that of a folder: ``experts``, or ``experts/metaworld-3.1-MT10``.

- ``--verify`` replays the actions of all results, or of the named ones. If the actions of a result
  are not in the repository, it checks that the scores follow from the episodes. Without
  ``--sample``, it also makes such a result again if a command of this script made it.
- ``--make`` runs the commands that evaluate experts and random actions. A result that is already
  in the folder is not replaced; the new one must equal it.
- ``--table`` writes the table of the README from the files.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.common import cpu_name, machine, table
from mtwrappers.evaluation import EvaluationResult, VerificationError, verify
from mtwrappers.evaluation.claims import read_claim
from mtwrappers.evaluation.evidence import EvidenceError
from mtwrappers.evaluation.replay import compare_episodes

HERE = Path(__file__).parent
README = HERE / "README.md"
# The arguments of `mtwrappers rollout`, by the protocol and benchmark that name a result's folder.
PROTOCOLS = {
    "metaworld-3.1-MT10": "MT10 --protocol metaworld-3.1",
    "metaworld-3.1-MT50": "MT50 --protocol metaworld-3.1",
    "lerobot-0.6-states-MT50": "MT50 --protocol lerobot-0.6",
    "rlinf-states-MT50": "MT50 --protocol rlinf",
    "tdmpc2-MT50": "MT50 --protocol tdmpc2",
}
POLICIES = {"experts": "--policy expert --name experts", "random": "--policy random"}
COMMANDS = {
    f"{method}/{protocol}": f"mtwrappers rollout {protocol_arguments} {policy_arguments}"
    for method, policy_arguments in POLICIES.items()
    for protocol, protocol_arguments in PROTOCOLS.items()
}
# Random actions of episodes of 500 steps hardly compress, and follow from their seed.
WITHOUT_EVIDENCE = {"random/lerobot-0.6-states-MT50", "random/metaworld-3.1-MT50"}


@dataclass(frozen=True)
class Reference:
    """The files of a reference result, in the folder ``METHOD/NAME`` below this one."""

    folder: Path

    @property
    def method(self) -> str:
        """``METHOD``."""
        return self.folder.parent.name

    @property
    def name(self) -> str:
        """``METHOD/NAME``."""
        return f"{self.method}/{self.folder.name}"

    @property
    def path(self) -> Path:
        """The file of the result."""
        return self.folder / "results.json"

    @property
    def evidence(self) -> Path:
        """The file of the actions, which some results are without."""
        return self.folder / "results.npz"

    @cached_property
    def result(self) -> EvaluationResult:
        """The result, whose score follows from its episodes.

        Raises:
            VerificationError: If the score does not follow from the episodes.
        """
        return read_claim(self.path)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """The ``commands`` that made it, their ``cpu_seconds`` in sum, and the ``machine``."""
        provenance: dict[str, Any] = json.loads((self.folder / "made.json").read_text())
        return provenance


@dataclass(frozen=True)
class Verdict:
    """How a result was verified, and whether it is true."""

    text: str
    is_true: bool


def list_references(names: Sequence[str] = ()) -> list[Reference]:
    """Lists the results of this folder, or those with some names."""
    references = [Reference(path.parent) for path in sorted(HERE.glob("*/*/results.json"))]
    for name in names:
        if not any(name in (reference.name, reference.method) for reference in references):
            choices = [reference.name for reference in references]
            sys.exit(f"no result has the name {name}, choose from {choices}")
    if not names:
        return references
    return [
        reference
        for reference in references
        if reference.name in names or reference.method in names
    ]


# Verifying.


def verify_all(names: Sequence[str], sample: float, workers: int) -> bool:
    """Verifies results and prints a table of how; returns whether all are true."""
    references = list_references(names)
    verify_sample = functools.partial(_verify_timed, sample=sample)
    all_true, rows = True, []
    with contextlib.ExitStack() as stack:
        run: Any = map
        if workers > 1:
            run = stack.enter_context(ProcessPoolExecutor(workers)).map
        verdicts = run(verify_sample, references)
        for reference, (verdict, seconds) in zip(references, verdicts, strict=True):
            all_true = all_true and verdict.is_true
            row = {"result": reference.name, "verified": verdict.text, "": f"{seconds:.0f} s"}
            rows.append(row)
            print(f"{reference.name}: {verdict.text} ({seconds:.0f} s)", flush=True)
    print(f"\n{table(rows)}")
    return all_true


def _verify_timed(reference: Reference, sample: float) -> tuple[Verdict, float]:
    """Verifies a result; returns the verdict and the seconds that it took."""
    start = time.perf_counter()
    try:
        verdict = _verify(reference, sample)
    except (VerificationError, EvidenceError) as exc:
        verdict = Verdict(f"FALSE: {exc}", False)
    return verdict, time.perf_counter() - start


def _verify(reference: Reference, sample: float) -> Verdict:
    """Verifies a result by a replay, or without its actions by making it again, or its digest."""
    if reference.evidence.exists():
        return _replay(reference, sample)
    if reference.result.evidence is None:
        raise VerificationError("it has no digest of its actions")
    if sample < 1 or reference.name not in COMMANDS:
        return Verdict(f"digest only: {len(reference.result.episodes):,} episodes", True)
    return _remake(reference, workers=1)


def _replay(reference: Reference, sample: float) -> Verdict:
    """Replays the actions of a result and compares the episodes."""
    verification = verify(reference.path, sample=sample)
    if not verification.ok:
        return Verdict(f"FALSE: {verification.difference}", False)
    replayed, episodes = sum(verification.replayed.values()), len(verification.result.episodes)
    returns = "to the last bit"
    if verification.rounding:
        returns = f"returns within {verification.rounding:.0e}"
    return Verdict(f"replayed {replayed:,} of {episodes:,} episodes, {returns}", True)


def _remake(reference: Reference, workers: int) -> Verdict:
    """Makes a result again and compares it with the one in the folder."""
    with tempfile.TemporaryDirectory() as directory:
        _run_command(reference.name, Path(directory), workers)
        remade = EvaluationResult.load(Path(directory) / "results.json")
    if difference := describe_difference(reference.result, remade):
        return Verdict(f"FALSE: remade, {difference}", False)
    count = f"{len(reference.result.episodes):,}"
    return Verdict(f"remade: {count} episodes and the digest are equal", True)


def describe_difference(result: EvaluationResult, remade: EvaluationResult) -> str:
    """Describes how a result that was made again differs from the first; empty if it does not."""
    if len(result.episodes) != len(remade.episodes):
        return f"it has {len(remade.episodes)} episodes, not {len(result.episodes)}"
    for episode, remade_episode in zip(result.episodes, remade.episodes, strict=True):
        difference = compare_episodes(episode, remade_episode)
        if isinstance(difference, str):
            return difference
    return "" if result.evidence == remade.evidence else "its actions have another digest"


# Making.


def make(names: Sequence[str], workers: int) -> bool:
    """Makes results; returns whether those that are already in the folder came out the same."""
    selected = [
        name for name in COMMANDS if not names or name in names or name.partition("/")[0] in names
    ]
    if not selected:
        sys.exit(f"no command makes {', '.join(names)}, choose from {list(COMMANDS)}")
    all_same = True
    for name in selected:
        reference = Reference(HERE / name)
        if reference.path.exists():
            verdict = _remake(reference, workers)
            all_same = all_same and verdict.is_true
            print(f"{name}: {verdict.text}", flush=True)
        else:
            seconds = _make_reference(reference, workers)
            print(f"{name}: made in {seconds:.0f} s of CPU", flush=True)
    return all_same


def _make_reference(reference: Reference, workers: int) -> float:
    """Makes a result and writes its folder; returns the seconds of CPU that it took."""
    with tempfile.TemporaryDirectory() as directory:
        seconds = _run_command(reference.name, Path(directory), workers)
        reference.folder.mkdir(parents=True)
        shutil.copy(Path(directory) / reference.path.name, reference.path)
        if reference.name not in WITHOUT_EVIDENCE:
            shutil.copy(Path(directory) / reference.evidence.name, reference.evidence)
    provenance = {
        "commands": [COMMANDS[reference.name]],
        "cpu_seconds": round(seconds),
        "machine": f"1 core of {machine()['cores']}, {cpu_name()}, shared with other programs",
    }
    (reference.folder / "made.json").write_text(json.dumps(provenance, indent=2) + "\n")
    return seconds


def _run_command(name: str, directory: Path, workers: int) -> float:
    """Runs the command of a result; returns the seconds of CPU that it took."""
    seconds = _child_cpu_seconds()
    arguments = shlex.split(COMMANDS[name])[1:]
    arguments += ["--workers", str(workers), "--out", str(directory)]
    subprocess.run([sys.executable, "-m", "mtwrappers", *arguments], check=True)
    return _child_cpu_seconds() - seconds


def _child_cpu_seconds() -> float:
    """The seconds of CPU that processes started by this one took, of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# The table of the README.


def render_readme() -> str:
    """The README with the table of the files in this folder."""
    references = list_references()
    blocks = [table([_make_row(reference) for reference in references])]
    machines = dict.fromkeys(reference.provenance["machine"] for reference in references)
    if machines:
        blocks.append(f"CPU time on {'; on '.join(machines)}.")
    text = "\n\n".join(blocks)
    return re.sub(
        r"(?<=<!-- table -->\n).*?(?=\n<!-- end -->)",
        lambda _: text,
        README.read_text(),
        flags=re.S,
    )


def _make_row(reference: Reference) -> dict[str, str]:
    """A result's row of the table."""
    score = "-"
    if reference.result.headline is not None:
        name, mean = next(iter(reference.result.headline.items()))
        score = f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f}) {name.removeprefix('mean ')}"
    size = f"{reference.path.stat().st_size / 1e3:,.0f} kB"
    if reference.evidence.exists():
        size += f" + {reference.evidence.stat().st_size / 1e3:,.0f} kB"
    provenance = reference.provenance
    return {
        "result": f"`{reference.name}`",
        "commands": "<br>".join(f"`{command}`" for command in provenance["commands"]),
        "CPU time": f"{provenance['cpu_seconds']:,} s",
        "episodes": f"{len(reference.result.episodes):,}",
        "success (95%)": score,
        "size": size,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns 1 if a result is false."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference")
    modes = parser.add_mutually_exclusive_group(required=True)
    modes.add_argument("--verify", action="store_true", help="replay the actions")
    modes.add_argument("--make", action="store_true", help="run the commands")
    modes.add_argument("--table", action="store_true", help="write the table of the README")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which results; default: all")
    parser.add_argument("--sample", type=float, default=1.0, help="which share is replayed")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    args = parser.parse_intermixed_args(argv)
    if args.table:
        README.write_text(render_readme())
        return 0
    if args.make:
        return 0 if make(args.names, args.workers) else 1
    return 0 if verify_all(args.names, args.sample, args.workers) else 1
