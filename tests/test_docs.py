"""The README and the documentation: snippets run, links lead somewhere, nothing is left out."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import metaworld
import pytest

import mtwrappers
from mtwrappers.metaworld import opengl
from mtwrappers.metaworld.agent_view import UPSTREAM
from tests.fakes import ROOT, run_with_python
from tests.snippets import snippets

DOCS = ROOT / "docs"
PAGES = {page.relative_to(DOCS).as_posix(): page.read_text() for page in DOCS.rglob("*.md")}
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text()
SNIPPETS = {name: "\n".join(FENCE.findall(text)) for name, text in PAGES.items()}
MKDOCS = (ROOT / "mkdocs.yml").read_text()
NAV = MKDOCS.partition("\nnav:")[2]


@pytest.fixture(scope="module")
def run():
    with snippets() as run:
        yield run


# Pages whose code is run here. The lines of the two guides below, commands among them, have tests
# of their own; the code of a report is a script, see tests/test_upstream.py; metaworld-algorithms
# needs Python 3.12, and no index has it.
LINE_BY_LINE = "guides/from-demonstrations.md"
PPO = "guides/mt10-sb3.md"
ELSEWHERE = (LINE_BY_LINE, PPO, "guides/metaworld-algorithms.md")
RUN = sorted(
    name
    for name, code in SNIPPETS.items()
    if code and not name.startswith("upstream/") and name not in ELSEWHERE
)


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
def test_the_snippets_of_a_page_run_one_after_another(page, run, tmp_path, monkeypatch):
    """That of the evaluation also prints the table on the page."""
    code = SNIPPETS[page]
    for package in re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE):
        pytest.importorskip(package)
    if "render_mode" in code and opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    if page == "guides/demonstrations.md":
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        for command in re.findall(r"^mtwrappers (.*)$", PAGES[page], re.MULTILINE):
            run_with_python("-m", "mtwrappers", *command.split(), cwd=ROOT)
        code = f"import os; os.environ['MINARI_DATASETS_PATH'] = {str(tmp_path)!r}\n{code}"
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
        "--episodes 10 ": "--episodes 1 --goals 1 ",
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
        "pip install '.[cli,metaworld,sb3]'\n": "",
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


@pytest.mark.parametrize("snippet", FENCE.findall(README), ids=range(len(FENCE.findall(README))))
@pytest.mark.slow_but("0", "2", "3", "5")
def test_each_snippet_of_the_readme_runs(snippet, run, tmp_path):
    run(fewer(snippet), tmp_path)


def test_the_commands_of_the_ci_are_marked():
    marks = re.findall(r"^<!-- ci: (.*) -->$", README, re.MULTILINE)
    assert marks == ["main job", "tests"]


def test_the_readme_names_every_example_and_a_test_runs_each():
    examples = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert set(re.findall(r"examples/(\w+\.py)", README)) == examples
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in examples if f'"{name}"' not in tests} == set()


def test_every_page_is_in_the_navigation():
    reports = {
        f"upstream/{name}" for name in re.findall(r"\((\w+\.md)\)", PAGES["upstream/index.md"])
    }
    assert sorted({*re.findall(r"[\w/-]+\.md", NAV), *reports}) == sorted(PAGES)


def test_every_guide_and_concept_has_snippets():
    without = {name for name, code in SNIPPETS.items() if not code}
    outputs = {"guides/command-line.md", "meta-world-check.md", "upstream/index.md"}
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


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^::: (\S+)$", "\n".join(PAGES.values()), re.MULTILINE)
    for name in set(mtwrappers.__all__) - {"testing"}:
        home = getattr(mtwrappers, name).__module__
        assert any(entry in (home, f"{home}.{name}") for entry in listed), name
