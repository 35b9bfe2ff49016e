"""The README and the documentation: snippets run, links lead somewhere, nothing is left out."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import types
import typing
from collections import abc
from pathlib import Path

import gymnasium
import metaworld
import pytest
from gymnasium.vector import AutoresetMode

import mtwrappers
from mtwrappers.metaworld import MetaWorldMTEnv, make, make_benchmark
from mtwrappers.metaworld.agent_view import UPSTREAM, AgentView
from mtwrappers.metaworld.class_env import SawyerSettings
from mtwrappers.metaworld.frames import choose_gl
from mtwrappers.vector.make import make_executor
from mtwrappers.vector.settings import Settings
from tests.fakes import ROOT
from tests.snippets import snippets

DOCS = ROOT / "docs"
PAGES = {page.relative_to(DOCS).as_posix(): page.read_text() for page in DOCS.rglob("*.md")}
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text()
README_SNIPPETS = dict(
    zip(
        ("Quickstart-make", "Quickstart-make_vec", "Train PPO on MT10"),
        FENCE.findall(README),
        strict=True,
    )
)
SNIPPETS = {name: "\n".join(FENCE.findall(text)) for name, text in PAGES.items()}
MKDOCS = (ROOT / "mkdocs.yml").read_text()
NAV = MKDOCS.partition("\nnav:")[2]


@pytest.fixture(scope="module")
def run():
    with snippets() as run:
        yield run


# Pages whose code is run here. The lines of the two guides below, commands among them, have tests
# of their own.
LINE_BY_LINE = "guides/from-demonstrations.md"
PPO = "guides/mt10-sb3.md"
ELSEWHERE = (LINE_BY_LINE, PPO)
RUN = sorted(name for name, code in SNIPPETS.items() if code and name not in ELSEWHERE)


# What takes long where the README and the guide train PPO, and what runs here instead.
FEWER = {
    "model.learn(1_000_000)": "model.learn(5_000)",
    "result = protocol.evaluate(": (
        "import dataclasses\n"
        "protocol = dataclasses.replace(protocol, name='short', episodes_per_task=1)\n"
        "result = protocol.evaluate("
    ),
}


def fewer(code):
    """Code that trains PPO for a million steps, with fewer steps and episodes; else as it is."""
    if "1_000_000" not in code:
        return code
    for line, instead in FEWER.items():
        assert code.count(line) == 1
        code = code.replace(line, instead)
    return code


@pytest.mark.parametrize("page", RUN)
@pytest.mark.slow_but("index.md")
def test_the_snippets_of_a_page_run_one_after_another(page, run, tmp_path):
    """That of the evaluation also prints the table on the page."""
    code = SNIPPETS[page]
    for package in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
        pytest.importorskip(package)
    if re.search("render_mode|image_size", code) and choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    printed = run(code, tmp_path)
    if page == "guides/evaluation.md":
        table = re.search(r"^```text\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)[1]
        before, after = table.split("...\n")
        assert printed.startswith(before)
        assert after in printed


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
    return done


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
    smaller = {
        "python3 -m venv .venv && . .venv/bin/activate\n": "",
        "pip install '.[cli,minari,torch]'\n": "",
        "--episodes 10 ": "--episodes 1 ",
        train: f"{train.rstrip()} --rounds 1 --steps 9 --updates 9\n{shipped}",
        "goals_seed=1)\n": "goals_seed=1, episodes_per_task=1)\n",
    }
    lines = ""
    for kind, code in re.findall(r"^```(bash|python)\n(.*?)^```", PAGES[LINE_BY_LINE], re.M | re.S):
        lines += code if kind == "bash" else f"python - <<'END'\n{code}END\n"
    for line, instead in smaller.items():
        assert lines.count(line) == 1
        lines = lines.replace(line, instead)
    done = run_lines(lines, tmp_path, MINARI_DATASETS_PATH=str(tmp_path / "minari"))
    assert "500 of 500 episodes" in done.stdout
    assert r"\toprule" in (tmp_path / "table.tex").read_text()


@pytest.mark.slow
def test_the_guide_to_ppo_runs_line_by_line(run, tmp_path):
    """With fewer steps and episodes; first the Python, then the commands."""
    pytest.importorskip("stable_baselines3")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run(fewer(SNIPPETS[PPO]), tmp_path)
    smaller = {
        "pip install '.[cli,sb3]'\n": "",
        "--out ppo_mt10\n": (
            "--out ppo_mt10 --steps 10000 --save-every 5000 --evaluate-every 5000 --episodes 1\n"
        ),
        "ppo_mt10/01000000/": "ppo_mt10/00010000/",
        # This one has more episodes, which `compare` refuses.
        " reference:mtsac ": " ",
    }
    lines = "".join(re.findall(r"^```bash\n(.*?)^```", PAGES[PPO], re.M | re.S))
    for line, instead in smaller.items():
        assert lines.count(line) == 1
        lines = lines.replace(line, instead)
    done = run_lines(lines, tmp_path)
    assert done.stdout.count("10 of 10 episodes") == 2  # verified
    assert [path.name for path in sorted(tmp_path.glob("ppo_mt10/*"))] == ["00005000", "00010000"]
    assert (tmp_path / "curve.png").stat().st_size > 1000


@pytest.mark.parametrize("title", README_SNIPPETS)
@pytest.mark.slow_but("Quickstart-make", "Quickstart-make_vec")
def test_each_snippet_of_the_readme_runs(title, run, tmp_path):
    """The training with fewer steps, and the evaluation with fewer and shorter episodes."""
    code = README_SNIPPETS[title]
    if "stable_baselines3" in code:
        pytest.importorskip("stable_baselines3")
    printed = run(fewer(code), tmp_path)
    if title == "Train PPO on MT10":
        assert "protocol short" in printed
        found = mtwrappers.verify(tmp_path / "ppo.json")  # as the text after it says
        assert found.ok
        assert sum(found.same.values()) == 10


def test_the_readme_is_short_and_its_code_for_training_too():
    """At most 900 words outside code, tables included; the training has at most 20 lines."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    assert len(text.split()) <= 900
    lines = README_SNIPPETS["Train PPO on MT10"].splitlines()
    assert len([line for line in lines if line]) <= 20


def test_figures_of_speed_are_those_of_the_page():
    """But for the comparison in steps per second, which is one over them."""
    page = PAGES["speed.md"]
    for ratio in re.findall(r"\b\d+\.\d+x", README):
        assert re.search(rf"[| ]{re.escape(ratio)} [|/]", page), ratio
    sync, asynchronous = re.search(r"sync / async \| (.*?)x / (.*?)x \|", page).groups()
    pool = re.search(r"MT10 in whole .* EnvPool .* \| (.*?)x \|", page)[1]
    sides = f"| 1 | {1 / float(sync):.2f} (sync), {1 / float(asynchronous):.2f} (async) |"
    assert f"{sides} {1 / float(pool):.2f} |" in page
    assert f"we reach {pool} of its speed" in page
    traps = len(re.findall(r"^## ", PAGES["traps.md"], re.MULTILINE))
    for page in (README, PAGES["index.md"]):
        assert f"[{traps} traps]" in page


def test_the_commands_of_the_ci_are_marked():
    marks = re.findall(r"^<!-- ci: (.*) -->$", README, re.MULTILINE)
    assert marks == ["main job", "tests"]


def test_a_page_names_every_example_and_a_test_runs_each():
    examples = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert set(re.findall(r"examples/(\w+\.py)", PAGES["guides/libraries.md"])) == examples
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in examples if f'"{name}"' not in tests} == set()


def test_every_page_is_in_the_navigation():
    named = re.findall(r"(?:- |: )([\w/-]+\.md)$", NAV, re.MULTILINE)
    assert sorted(named) == sorted(PAGES)


def test_every_guide_and_concept_has_snippets():
    without = {name for name, code in SNIPPETS.items() if not code}
    outputs = {"learners.md", "what-scores-depend-on.md"}
    assert {name for name in without if not name.startswith("api/")} == outputs


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
    repository = re.search(r"^repo_url: (\S+)$", MKDOCS, re.MULTILINE)[1]
    inside = re.compile(rf"\]\({re.escape(repository)}/(?:blob|tree)/main/([^)]+)\)")
    links += [ROOT / link for text in PAGES.values() for link in inside.findall(text)]
    inside = re.compile(rf": {re.escape(repository)}/blob/main/(\S+)$", re.MULTILINE)
    links += [ROOT / link for link in inside.findall(NAV)]
    assert len(links) > 100
    assert [link for link in links if not link.exists()] == []


def test_the_gallery_has_every_class_in_small_pictures():
    named = re.findall(r"^- {3}### (\S+)$", PAGES["gallery.md"], re.MULTILINE)
    pictures = {path.stem: path for path in (DOCS / "assets/gallery").glob("*.webp")}
    assert named == sorted(pictures) == sorted(metaworld.ALL_V3_ENVIRONMENTS)
    assert sum(path.stat().st_size for path in pictures.values()) < 2_000_000
    assert (DOCS / "assets/mt10.gif").stat().st_size < 3_000_000


@pytest.mark.slow
def test_the_gallery_is_what_its_command_writes(run, tmp_path):
    code = (
        f"import json, sys; sys.path.insert(0, {str(DOCS)!r}); import gallery; "
        "figures = json.loads(gallery.FIGURES.read_text()); "
        "assert gallery.page(figures) == gallery.PAGE.read_text(); "
        "costs = gallery.step_costs(['reach-v3']); assert costs == {'reach-v3': 1.0}; "
        "assert gallery.observed('reach-v3') == figures['reach-v3']['observation']"
    )
    run(code, tmp_path)


@pytest.mark.parametrize("make", ["make", "make_vec"])
def test_every_argument_of_make_and_make_vec_is_listed(make):
    page = PAGES["guides/arguments.md"]
    rows = re.findall(r"^\| (`[^|]+) \|.*\| ([^|]+) \|$", page, re.MULTILINE)
    listed = {
        name
        for names, where in rows
        for name in re.findall(r"`(\w+)`", names)
        if where.startswith("both") or where == f"`{make}`"
    }
    assert not listed & set(UPSTREAM)
    with pytest.raises(TypeError, match="takes no 'nonsense'") as caught:
        getattr(gymnasium, make)("mtwrappers/MT10-v0", nonsense=1)
    taken = ast.literal_eval(re.search(r"\[.*?\]", str(caught.value))[0])
    # An id says the first two; the page lists Meta-World's own names at its end.
    assert listed == set(taken) - {"benchmark", "kind"} - set(UPSTREAM)
    assert set(UPSTREAM) <= set(re.findall(r"`(\w+)`", page.rpartition("##")[2]))


def words_of(hint):
    """The words by which the page of arguments names what a type hint takes."""
    arguments, kind = typing.get_args(hint), typing.get_origin(hint) or hint
    if kind is typing.Literal:
        return {type(value).__name__ for value in arguments}
    if kind in (typing.Union, types.UnionType):
        return set().union(*map(words_of, arguments))
    words = {abc.Callable: "function", abc.Mapping: "dict", abc.Sequence: "list"}
    words |= {AutoresetMode: "str", os.PathLike: "path", types.NoneType: "None"}
    return {words.get(kind) or kind.__name__}


def test_the_types_and_defaults_of_arguments_are_those_of_the_code():
    """A default of the code that is `None` may stand for what is chosen then."""
    made_by = (make_benchmark, make.make_mt_env, MetaWorldMTEnv, AgentView, SawyerSettings)
    made_by += (Settings, make_executor, make.VectorSettings, make.make_vec_env)
    found = {}
    for one in made_by:
        hints = typing.get_type_hints(one.__init__ if isinstance(one, type) else one)
        for name, parameter in inspect.signature(one).parameters.items():
            found[name] = (hints[name], getattr(parameter.default, "value", parameter.default))
    row = r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \| [^|]+ \|$"
    rows = re.findall(row, PAGES["guides/arguments.md"], re.MULTILINE)
    assert len(rows) == 43
    chosen = []
    for name, kinds, default in rows:
        hint, value = found[name]
        assert set(re.findall(r"`?(\w+)`?(?:, | or |$)", kinds)) == words_of(hint), name
        literal = re.match(r"`([^`]+)`", default)
        if literal is None or ast.literal_eval(literal[1]) != value:
            chosen.append(name)
            assert value in (None, inspect.Parameter.empty) or name == "num_envs", name
    assert chosen == [
        *("env_name", "train_classes", "test_classes", "select", "sample_tasks_on_reset"),
        *("task_encoding", "descriptions", "num_envs", "envs_per_task", "meta_batch_size"),
        *("workers", "execution", "ray_options", "context"),
    ]


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
