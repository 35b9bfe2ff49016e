"""``mtwrappers verify-fast``: compares fast classes with Meta-World's own on this machine."""

from __future__ import annotations

import time
from importlib.metadata import version

from mtwrappers.cli.commands import Workers, described
from mtwrappers.cli.console import say
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.common.cores import cores
from mtwrappers.metaworld.fast.equality import FULL, QUICK, compare_classes
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.samplers.bar import ProgressBar


@described
def run(*, full: bool = False, workers: Workers | None = None) -> int:
    """Compare the fast classes with Meta-World's own, bit for bit.

    Args:
        full: Run complete episodes of several tasks per class.
        workers: Worker processes (default: all cores). 0 means this process.
    """
    names, bar = list(all_classes()), ProgressBar(True)
    raise_on_ctrl_c()
    start, differ = time.perf_counter(), {}
    with bar.track("classes", len(names)) as advance:
        num_workers = cores() if workers is None else workers
        for name, difference in compare_classes(FULL if full else QUICK, names, num_workers):
            if difference is not None:
                differ[name] = difference
            advance(1)
    say(", ".join(f"{n} {version(n)}" for n in ("metaworld", "mujoco", "numpy", "scipy")))
    for name, difference in differ.items():
        say(f"{name} differs. {difference}", "red")
    answer = "no" if differ else "yes"
    say(
        f"{answer}: {len(names) - len(differ)} of {len(names)} classes return the same bits as "
        f"Meta-World's ({time.perf_counter() - start:.0f} s)",
        "bold red" if differ else "bold green",
    )
    if differ:
        say(
            "On this machine, pass fast=False to make and make_vec: it selects Meta-World's "
            "classes."
        )
    return 1 if differ else 0
