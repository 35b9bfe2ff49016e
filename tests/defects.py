"""Plants the defects of `defects.toml` in a copy, one at a time: ``python -m tests.defects``.

A promise is held if one of its tests fails with the defect, and passes without it. With
``--check``, no test runs: it says which defects no longer have a place in the code.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 300  # a test that hangs has noticed the defect, too


class PlaceError(Exception):
    """A defect has no place, or several, in the code as it is."""


@dataclass(frozen=True)
class Defect:
    """A small edit of a function that breaks a promise.

    Args:
        breaks: The promise.
        symbol: The function or class, as ``package.module:Class.method``.
        old: A piece of its source that is in it once.
        new: What the piece is replaced by.
        tests: Arguments of pytest, at least one of whose tests must fail.
    """

    breaks: str
    symbol: str
    old: str
    new: str
    tests: str

    def path(self, root):
        """The file of the symbol, in a copy of the project."""
        module = self.symbol.partition(":")[0]
        return Path(root, *module.split(".")).with_suffix(".py")

    def plant(self, source):
        """The source of the file with the defect.

        Raises:
            PlaceError: There is no such symbol, or it does not have ``old`` once.
        """
        lines = source.splitlines(keepends=True)
        node = find_definition(ast.parse(source), self.symbol)
        head = "".join(lines[: node.lineno - 1])
        body = "".join(lines[node.lineno - 1 : node.end_lineno])
        tail = "".join(lines[node.end_lineno :])
        if (count := body.count(self.old)) != 1:
            raise PlaceError(f"{self.symbol} must have {self.old!r} once, has it {count} times")
        return head + body.replace(self.old, self.new) + tail


def find_definition(tree, symbol):
    """The definition that a symbol names, in the syntax tree of its module."""
    names = symbol.partition(":")[2].split(".")
    node = tree
    for name in names:
        definitions = [
            child
            for child in ast.walk(node)
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child.name == name
        ]
        if len(definitions) != 1:
            raise PlaceError(f"{symbol}: expected one definition of {name}, got {len(definitions)}")
        [node] = definitions
    return node


def load_defects(words=""):
    """The defects whose symbol or promise has these words."""
    entries = tomllib.loads((ROOT / "tests/defects.toml").read_text())["defect"]
    defects = [Defect(**entry) for entry in entries]
    return [defect for defect in defects if words in f"{defect.symbol}: {defect.breaks}"]


def list_stale(defects):
    """What is wrong with the places of the defects that have none in the code as it is."""
    problems = []
    for defect in defects:
        path = defect.path(ROOT)
        if not path.is_file():
            problems.append(f"{defect.symbol}: there is no {path.relative_to(ROOT)}")
            continue
        try:
            ast.parse(defect.plant(path.read_text()))
        except (PlaceError, SyntaxError) as problem:
            problems.append(f"{problem} ({defect.breaks})")
    return problems


def run_tests(copy, tests):
    """Whether the tests of a copy of the project pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests.split()]
    # No bytecode: it would hide a change that keeps the size of a file within the same second.
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    if run.returncode not in (0, 1):
        sys.exit(f"{tests} could not run:\n{(run.stdout + run.stderr).decode()}")
    return run.returncode == 0


def is_caught(copy, defect):
    """Whether the tests of a defect fail with it. Exits if they fail without it, too."""
    path = defect.path(copy)
    source = path.read_text()
    path.write_text(defect.plant(source))
    try:
        caught = not run_tests(copy, defect.tests)
    finally:
        path.write_text(source)
    if caught and not run_tests(copy, defect.tests):
        sys.exit(f"{defect.tests} fails without a defect, too")
    return caught


def main():
    """Plants the defects that were asked for; the exit status is 1 if one was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="?", default="", help="only defects with these words")
    parser.add_argument("--check", action="store_true", help="only look whether each has a place")
    options = parser.parse_args()
    defects = load_defects(options.words)
    if not defects:
        sys.exit(f"no defect has the words {options.words!r}")
    if problems := list_stale(defects):
        sys.exit("\n".join(problems))
    if options.check:
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "project")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for defect in defects:
            caught = is_caught(copy, defect)
            missed += not caught
            print("caught" if caught else "MISSED", f"{defect.symbol}: {defect.breaks}", flush=True)
    print(f"{missed} of {len(defects)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
