"""The README and the documentation: snippets run, links lead somewhere, nothing is left out."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import mtwrappers
from mtwrappers.metaworld import MetaWorldMTEnv, make, make_benchmark
from mtwrappers.metaworld.class_env import SawyerSettings
from mtwrappers.metaworld.opengl import choose_gl
from mtwrappers.metaworld.upstream_names import UPSTREAM_NAMES
from mtwrappers.metaworld.wrapper_settings import WrapperSettings
from mtwrappers.vector.make import make_executor
from mtwrappers.vector.settings import Settings
from tests.fakes import ROOT

DOCS = ROOT / "docs"
PAGES = {
    page.relative_to(DOCS).as_posix(): page.read_text()
    for page in DOCS.rglob("*.md")
    if page.parent != DOCS / "reference"  # which is written from docstrings
}
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = {name: "\n".join(FENCE.findall(text)) for name, text in PAGES.items()}
README = (ROOT / "README.md").read_text()
SNIPPETS |= dict(zip(("make", "make_vec", "README-PPO"), FENCE.findall(README), strict=True))
# Two guides whose commands run as well, line by line.
DEMONSTRATIONS, PPO = "guides/from-demonstrations.md", "guides/mt10-sb3.md"
RUN = sorted(name for name, code in SNIPPETS.items() if code and name not in (DEMONSTRATIONS, PPO))


# Forks of a Python that has imported the libraries, and nothing of this package, and has compiled
# the models of MT10: for each snippet a second or two less than a new Python takes.
SERVER = """
import json, os, signal, sys, types
import gymnasium, matplotlib.figure, metaworld, scipy.stats
from tests.compiled_models import compile_models_once
with compile_models_once():
    for name in metaworld.env_dict.MT10_V3:
        metaworld.ALL_V3_ENVIRONMENTS[name]()
    for line in sys.stdin:
        code, cwd = json.loads(line)
        if os.fork() == 0:
            break
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    else:
        os._exit(0)
    os.chdir(cwd)
    for fd, path in enumerate((os.devnull, "stdout", "stderr")):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), fd)
    signal.alarm(300)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<snippet>", "exec"), vars(main))
"""


@pytest.fixture(scope="module")
def run():
    """Runs code in a directory, and returns what it printed."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as server:

        def run(code, cwd):
            server.stdin.write(json.dumps([code, str(cwd)]) + "\n")
            server.stdin.flush()
            assert server.stdout.readline() == "0\n", (cwd / "stderr").read_text()
            return (cwd / "stdout").read_text()

        yield run
        server.stdin.close()


def run_lines(lines, cwd, **variables):
    """Runs lines of a shell, which finds the commands of this Python, until one fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def replaced(text, instead):
    """The text with other lines instead of those that are in it once."""
    for line, replacement in instead.items():
        assert text.count(line) == 1, line
        text = text.replace(line, replacement)
    return text


# What takes long where the README and the guide train PPO, and what runs here instead.
FEWER = {
    '"n_steps": 500, "batch_size": 500': '"n_steps": 50, "batch_size": 50',
    "model.learn(1_000_000)": "model.learn(500)",
    "result = protocol.evaluate(": (
        "protocol = protocol.variant('short', episodes_per_task=1, max_episode_steps=60)\n"
        "result = protocol.evaluate("
    ),
}


@pytest.mark.parametrize("page", RUN)
@pytest.mark.slow
def test_the_snippets_of_a_page_run_one_after_another(page, run, tmp_path):
    """That of the evaluation also prints the table on the page."""
    code = SNIPPETS[page]
    for package in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
        pytest.importorskip(package)
    if re.search("render_mode|height=", code) and choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    printed = run(replaced(code, FEWER) if page == "README-PPO" else code, tmp_path)
    if page == "guides/evaluation.md":
        table = re.search(r"^```text\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)[1]
        first_rows, last_rows = table.split("...\n")
        assert printed.startswith(first_rows)
        assert last_rows in printed
    if page == "README-PPO":
        verification = mtwrappers.verify(tmp_path / "ppo.json")  # as the text after it says
        assert verification.ok
        assert sum(verification.same.values()) == 10


@pytest.mark.slow
def test_the_guide_from_demonstrations_to_a_score_runs_line_by_line(tmp_path):
    """With fewer demonstrations and less training, for which the weights that come along stand in.

    All other lines run as they are on the page.
    """
    for package in ("torch", "minari", "h5py"):
        pytest.importorskip(package)
    for folder in ("examples", "benchmarks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    train = "python examples/imitate_mt10.py --seed 4 --out weights.npz\n"
    # Not quite these: actions that equal those of a reference would be refused in a comparison.
    shipped = (
        "python - <<'END'\nimport numpy as np\n"
        "with np.load('benchmarks/reference/imitation/weights-seed1.npz') as file:\n"
        "    np.savez('weights.npz', *[file[name] * np.float32(1.001) for name in file.files])\n"
        "END\n"
    )
    lines = ""
    for kind, code in re.findall(
        r"^```(bash|python)\n(.*?)^```", PAGES[DEMONSTRATIONS], re.M | re.S
    ):
        lines += code if kind == "bash" else f"python - <<'END'\n{code}END\n"
    smaller = {
        "python3 -m venv .venv && . .venv/bin/activate\n": "",
        "pip install '.[metaworld,cli,minari,torch]'\n": "",
        "--episodes 10 ": "--episodes 1 ",
        train: f"{train.rstrip()} --rounds 1 --steps 9 --updates 9\n{shipped}",
        "--protocol metaworld-3.1 ": "--episodes 1 ",
        # These have more episodes, which `compare` refuses.
        "reference:imitation reference:experts ": "",
        "seed=1)\n": "seed=1, episodes_per_task=1)\n",
    }
    folder = str(tmp_path / "minari")
    printed = run_lines(replaced(lines, smaller), tmp_path, MINARI_DATASETS_PATH=folder)
    assert "10 of 10 episodes" in printed  # verified
    assert r"\toprule" in (tmp_path / "table.tex").read_text()


@pytest.mark.slow
def test_the_guide_to_ppo_runs_line_by_line(run, tmp_path):
    """With fewer steps and episodes; first the Python, then the commands."""
    for package in ("stable_baselines3", "sb3_contrib"):
        pytest.importorskip(package)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run(replaced(SNIPPETS[PPO], FEWER), tmp_path)
    smaller = {
        "pip install '.[metaworld,cli,sb3]'\n": "",
        "--out ppo_mt10\n": "--out ppo_mt10 --steps 5000 --save-every 5000 --episodes 1\n",
        "ppo_mt10/01000000/": "ppo_mt10/00005000/",
        # This one has more episodes, which `compare` refuses.
        " reference:mtsac ": " ",
    }
    lines = "".join(re.findall(r"^```bash\n(.*?)^```", PAGES[PPO], re.M | re.S))
    printed = run_lines(replaced(lines, smaller), tmp_path)
    assert printed.count("10 of 10 episodes") == 2  # verified
    assert [path.name for path in sorted(tmp_path.glob("ppo_mt10/*"))] == ["00005000"]
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_every_linked_file_is_there():
    links = [
        page.parent / link
        for page, text in [
            *((page, page.read_text()) for page in ROOT.glob("*.md")),
            *((DOCS / p, t) for p, t in PAGES.items()),
        ]
        for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[\w.-]+)?\)", text)
    ]
    # Pages of the website link to scripts in the repository.
    settings = (ROOT / "mkdocs.yml").read_text()
    repository = re.search(r"^repo_url: (\S+)$", settings, re.MULTILINE)[1]
    inside = re.compile(rf"\]\({re.escape(repository)}/(?:blob|tree)/main/([^)]+)\)")
    links += [ROOT / link for text in PAGES.values() for link in inside.findall(text)]
    inside = re.compile(rf": {re.escape(repository)}/blob/main/(\S+)$", re.MULTILINE)
    links += [ROOT / link for link in inside.findall(settings)]
    # The guarantees name their tests.
    links += [ROOT / test for test in re.findall(r"`(tests/[^`]+)`", PAGES["guarantees.md"])]
    assert len(links) > 100
    assert [link for link in links if not link.exists()] == []


# The name, the default and the meaning of each argument.
ROW = re.compile(r"^\| (`[^|]+) \|[^|]+\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ARGUMENTS = PAGES["guides/arguments.md"]
ROWS = ROW.findall(ARGUMENTS)


@pytest.mark.parametrize("make", ["make", "make_vec"])
def test_every_argument_of_make_and_make_vec_is_listed(make):
    for_make_vec = {name for name, _, _ in ROW.findall(ARGUMENTS.partition("`make_vec` alone")[2])}
    for_make = {name for name, _, meaning in ROWS if meaning.startswith("for `make` alone")}
    left_out = for_make_vec if make == "make" else for_make
    listed = {name.strip("`") for name, _, _ in ROWS if name not in left_out}
    assert not listed & set(UPSTREAM_NAMES)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'") as caught:
        getattr(gymnasium, make)("mtwrappers/MT10-v0", nonsense=1)
    taken = ast.literal_eval(re.search(r"\[.*?\]", str(caught.value))[0])
    # An id says the first two; the page lists Meta-World's own names at its end.
    assert listed == set(taken) - {"benchmark", "kind"} - set(UPSTREAM_NAMES)


def test_the_defaults_of_arguments_are_those_of_the_code():
    """Or they are chosen where the code has `None`."""
    made_by = (make_benchmark, make.make_mt_env, MetaWorldMTEnv, WrapperSettings, SawyerSettings)
    made_by += (Settings, make_executor, make.VectorSettings, make.make_vec_env)
    defaults = {}
    for function in made_by:
        for name, parameter in inspect.signature(function).parameters.items():
            defaults[name] = getattr(parameter.default, "value", parameter.default)
    documented = {
        names.strip("`"): ast.literal_eval(literal[1])
        for names, default, _ in ROWS
        if (literal := re.fullmatch(r"`([^`]+)`", default))
    }
    assert len(documented) > 20
    assert {
        name for name, value in documented.items() if defaults[name] not in (value, None)
    } == set()


def test_every_public_name_is_in_the_reference_under_the_name_to_import():
    """Names that a module of the same name hides from the builder have a heading of their own."""
    pages = "\n".join(text for page, text in PAGES.items() if page.startswith("api/"))
    entries = re.findall(r"^::: (\S+)\n(?:    options:\n      heading: (\S+)$)?", pages, re.M)
    headings = [heading or entry for entry, heading in entries]
    names = {f"mtwrappers.{name}" for name in set(mtwrappers.__all__) - {"testing"}}
    assert names - set(headings) == set()
    assert len(set(headings)) == len(headings)
    for entry, heading in entries:
        if heading:
            home, _, name = heading.rpartition(".")
            assert getattr(importlib.import_module(home), name) is pkgutil.resolve_name(entry)
