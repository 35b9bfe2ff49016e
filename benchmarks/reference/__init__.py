"""Results to compare with: how they are made, and whether they are true; see `README.md` here.

    python -m benchmarks.reference --verify [NAME ...] [--sample 0.02]
    python -m benchmarks.reference --make [NAME ...]
    python -m benchmarks.reference --table

A NAME is that of a folder: ``experts``, or ``experts/metaworld-3.1-MT10``.

- ``--verify`` replays the actions of every result here, or of the given ones. Where the actions are
  not in the repository, it checks that the numbers follow from the episodes, and if all is to be
  replayed and a command of this script made the result, makes it again.
- ``--make`` runs the commands of experts and random actions. A result that is here already stays,
  and what is made must equal it.
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
MAX_BYTES = 30_000_000  # of all files
# What `mtwrappers rollout` is given, by the protocol that comes of it and its benchmark.
RULES = {
    "metaworld-3.1-MT10": "MT10 --protocol metaworld-3.1",
    "metaworld-3.1-MT50": "MT50 --protocol metaworld-3.1",
    "lerobot-0.6-states-MT50": "MT50 --protocol lerobot-0.6",
    "rlinf-states-MT50": "MT50 --protocol rlinf",
    "tdmpc2-MT50": "MT50 --protocol tdmpc2",
}
POLICIES = {"experts": "--policy expert --name experts", "random": "--policy random"}
COMMANDS = {
    f"{method}/{rules}": f"mtwrappers rollout {given} {policy}"
    for method, policy in POLICIES.items()
    for rules, given in RULES.items()
}
# Random actions of episodes of 500 steps hardly compress: their seed is what is kept.
WITHOUT_EVIDENCE = {"random/lerobot-0.6-states-MT50", "random/metaworld-3.1-MT50"}


@dataclass(frozen=True)
class Shipped:
    """A result in a folder ``METHOD/NAME`` below this one."""

    folder: Path

    @property
    def name(self) -> str:
        """``METHOD/NAME``."""
        return "/".join(self.folder.parts[-2:])

    @property
    def path(self) -> Path:
        """Its file."""
        return self.folder / "results.json"

    @property
    def evidence(self) -> Path:
        """The file with its actions, which is not there for every result."""
        return self.folder / "results.npz"

    @cached_property
    def result(self) -> EvaluationResult:
        """The result, whose score follows from its episodes.

        Raises:
            VerificationError: If they do not.
        """
        return read_claim(self.path)

    @cached_property
    def made(self) -> dict[str, Any]:
        """How it was made: ``commands``, their ``cpu_seconds`` together, and the ``machine``."""
        found: dict[str, Any] = json.loads((self.folder / "made.json").read_text())
        return found


def shipped(names: Sequence[str] = ()) -> list[Shipped]:
    """The results here, or those of some names."""
    every = [Shipped(path.parent) for path in sorted(HERE.glob("*/*/results.json"))]
    for name in names:
        if not any(name in (one.name, one.folder.parent.name) for one in every):
            sys.exit(f"no result has the name {name}, choose from {[one.name for one in every]}")
    return [one for one in every if not names or {one.name, one.folder.parent.name} & {*names}]


# Verifying.


def verify_all(names: Sequence[str], sample: float, workers: int) -> bool:
    """Verifies results, prints a table of how, and returns whether all are true."""
    chosen, every, rows = shipped(names), True, []
    check = functools.partial(_verified, sample=sample)
    with contextlib.ExitStack() as stack:
        run: Any = map
        if workers > 1:
            run = stack.enter_context(ProcessPoolExecutor(workers)).map
        for one, (said, ok, seconds) in zip(chosen, run(check, chosen), strict=True):
            every = every and ok
            rows.append({"result": one.name, "verified": said, "": f"{seconds:.0f} s"})
            print(f"{one.name}: {said} ({seconds:.0f} s)", flush=True)
    print(f"\n{table(rows)}")
    return every


def _verified(one: Shipped, sample: float) -> tuple[str, bool, float]:
    """How a result was verified, whether it is true, and how many seconds that took."""
    start = time.perf_counter()
    try:
        said, ok = _replayed(one, sample)
    except (VerificationError, EvidenceError) as exc:
        said, ok = f"FALSE: {exc}", False
    return said, ok, time.perf_counter() - start


def _replayed(one: Shipped, sample: float) -> tuple[str, bool]:
    """How a result was verified, by a replay if its actions are here, and whether it is true."""
    if one.evidence.exists():
        found = verify(one.path, sample=sample)
        if not found.ok:
            return f"FALSE: {found.difference}", False
        count = f"{sum(found.replayed.values()):,} of {len(found.result.episodes):,} episodes"
        returns = f"returns within {found.rounding:.0e}" if found.rounding else "to the last bit"
        return f"replayed {count}, {returns}", True
    if one.result.evidence is None:
        raise VerificationError("it has no digest of its actions")
    if sample < 1 or one.name not in COMMANDS:
        return f"digest only: {len(one.result.episodes):,} episodes", True
    return _remade(one, workers=1)


def _remade(one: Shipped, workers: int) -> tuple[str, bool]:
    """Makes a result again; how it compares with the one here, and whether it is the same."""
    with tempfile.TemporaryDirectory() as place:
        _run(one.name, Path(place), workers)
        different = difference(one.result, EvaluationResult.load(Path(place) / "results.json"))
    if different:
        return f"FALSE: remade, {different}", False
    return f"remade: {len(one.result.episodes):,} episodes and the digest are equal", True


def difference(one: EvaluationResult, again: EvaluationResult) -> str:
    """How a result that was made again differs from the first one; empty if it does not."""
    if len(one.episodes) != len(again.episodes):
        return f"it has {len(again.episodes)} episodes, not {len(one.episodes)}"
    for before, after in zip(one.episodes, again.episodes, strict=True):
        if isinstance(found := compare_episodes(before, after), str):
            return found
    return "" if one.evidence == again.evidence else "its actions have another digest"


# Making.


def make(names: Sequence[str], workers: int) -> bool:
    """Makes results; returns whether those that are here already came out the same."""
    chosen = [name for name in COMMANDS if not names or {name, name.partition("/")[0]} & {*names}]
    if not chosen:
        sys.exit(f"no command makes {', '.join(names)}, choose from {list(COMMANDS)}")
    every = True
    for name in chosen:
        one = Shipped(HERE / name)
        if one.path.exists():
            said, ok = _remade(one, workers)
            every = every and ok
        else:
            said = _made(one, workers)
        print(f"{name}: {said}", flush=True)
    return every


def _made(one: Shipped, workers: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        seconds = _run(one.name, Path(place), workers)
        one.folder.mkdir(parents=True)
        for file in (one.path, one.evidence):
            if file == one.path or one.name not in WITHOUT_EVIDENCE:
                shutil.copy(Path(place) / file.name, file)
    of = f"1 core of {machine()['cores']}, {cpu_name()}, shared with other programs"
    made = {"commands": [COMMANDS[one.name]], "cpu_seconds": round(seconds), "machine": of}
    (one.folder / "made.json").write_text(json.dumps(made, indent=2) + "\n")
    return f"made in {seconds:.0f} s of CPU"


def _run(name: str, place: Path, workers: int) -> float:
    """Runs the command of a result; returns the seconds of CPU that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    more = ["--workers", str(workers), "--out", str(place)]
    arguments = [*shlex.split(COMMANDS[name])[1:], *more]
    subprocess.run([sys.executable, "-m", "mtwrappers", *arguments], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# The table of the README.


def readme() -> str:
    """The README with the table that the files give."""
    rows = "\n\n".join([table([_row(one) for one in shipped()]), *_machines()])
    return re.sub(
        r"(?<=<!-- table -->\n).*?(?=\n<!-- end -->)",
        lambda _: rows,
        README.read_text(),
        flags=re.S,
    )


def _row(one: Shipped) -> dict[str, str]:
    score = "-"
    if one.result.headline is not None:
        name, mean = next(iter(one.result.headline.items()))
        score = f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f}) {name.removeprefix('mean ')}"
    size = f"{one.path.stat().st_size / 1e3:,.0f} kB"
    if one.evidence.exists():
        size += f" + {one.evidence.stat().st_size / 1e3:,.0f} kB"
    return {
        "result": f"`{one.name}`",
        "commands": "<br>".join(f"`{line}`" for line in one.made["commands"]),
        "CPU time": f"{one.made['cpu_seconds']:,} s",
        "episodes": f"{len(one.result.episodes):,}",
        "success (95%)": score,
        "size": size,
    }


def _machines() -> list[str]:
    """On which machines the results were made."""
    every = {one.made["machine"]: None for one in shipped()}
    return [f"CPU time on {'; on '.join(every)}."] if every else []


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script; returns 1 if a result is false."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--verify", action="store_true", help="replay the actions")
    what.add_argument("--make", action="store_true", help="run the commands")
    what.add_argument("--table", action="store_true", help="write the table of the README")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which results; default: all")
    parser.add_argument("--sample", type=float, default=1.0, help="which share is replayed")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    args = parser.parse_intermixed_args(argv)
    if args.table:
        README.write_text(readme())
        return 0
    if args.make:
        return 0 if make(args.names, args.workers) else 1
    return 0 if verify_all(args.names, args.sample, args.workers) else 1
