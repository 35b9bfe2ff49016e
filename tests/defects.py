"""Plants each defect of `defects.toml` in a copy, one at a time: ``python -m tests.defects``.

A promise is held if one of its tests fails. Those that no test holds are counted at the end, with
those whose tests need a library that is not installed.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 300  # a test that hangs has found the defect, too


def fails(copy, tests):
    """Whether one of the tests fails in a copy of the project."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests]
    # No bytecode: it would hide a change that keeps the size of a file within the same second.
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1):
        sys.exit((done.stdout + done.stderr).decode())
    return done.returncode == 1


def is_caught(copy, defect):
    """Whether the tests of a defect fail with it, and only with it."""
    path = copy / "mtwrappers" / defect["file"]
    source, tests = path.read_text(), defect["tests"].split()
    if (found := source.count(defect["old"])) != 1:
        sys.exit(f"expected {defect['old']!r} once in {defect['file']}, got it {found} times")
    path.write_text(source.replace(defect["old"], defect["new"]))
    try:
        caught = fails(copy, tests)
    finally:
        path.write_text(source)
    if caught and fails(copy, tests):
        sys.exit(f"{defect['tests']} fails without a defect, too")
    return caught


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="?", default="", help="only defects with these words")
    words = parser.parse_args().words
    every = tomllib.loads((ROOT / "tests/defects.toml").read_text())["defect"]
    defects = [each for each in every if words in f"{each['file']}: {each['breaks']}"]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "project")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for defect in defects:
            library = defect.get("needs")
            if library and not importlib.util.find_spec(library):
                found = f"NOT RUN, as it needs {library}:"
            else:
                found = "caught" if is_caught(copy, defect) else "MISSED"
            missed += found != "caught"
            print(found, defect["file"], defect["breaks"], flush=True)
    print(f"{missed} of {len(defects)} missed or not run")
    return 1 if missed or not defects else 0


if __name__ == "__main__":
    sys.exit(main())
