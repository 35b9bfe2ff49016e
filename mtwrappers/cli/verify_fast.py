"""``mtwrappers verify-fast``: compares fast classes with Meta-World's own on this machine."""

from __future__ import annotations

import time
from importlib.metadata import version

from mtwrappers.cli.commands import Count, described
from mtwrappers.cli.console import progress_bar, say
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.common.cores import cores
from mtwrappers.metaworld.fast.equality import FULL, QUICK, compare_classes
from mtwrappers.metaworld.upstream import all_classes


@described
def run(*, full: bool = False, workers: Count | None = None) -> int:
    """Compare the fast classes with Meta-World's own, bit for bit.

    Args:
        full: Run complete episodes of several tasks per class.
        workers: Worker processes (default: all cores).
    """
    names = list(all_classes())
    bar = progress_bar()
    raise_on_ctrl_c()
    start, differ = time.perf_counter(), {}
    with bar:
        task = bar.add_task("classes", total=len(names), rate="")
        for name, found in compare_classes(FULL if full else QUICK, names, workers or cores()):
            if found is not None:
                differ[name] = found
            bar.advance(task)
    say(", ".join(f"{n} {version(n)}" for n in ("metaworld", "mujoco", "numpy", "scipy")))
    for name, found in differ.items():
        say(f"{name} differs. {found}", "red")
    answer = "no" if differ else "yes"
    say(
        f"{answer}: {len(names) - len(differ)} of {len(names)} classes return the same bits as "
        "Meta-World's "
        f"({time.perf_counter() - start:.0f} s)",
        "bold red" if differ else "bold green",
    )
    if differ:
        say(
            "On this machine, pass fast=False to make and make_vec: it selects Meta-World's "
            "classes."
        )
    return 1 if differ else 0
