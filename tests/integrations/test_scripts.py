"""Scripts of the folder `examples` that need no other library than torch."""

import json

import pytest

from tests.integrations.examples import run_example


def test_the_script_of_evaluation_leaves_results(tmp_path):
    lines = run_example("evaluate.py", tmp_path)
    assert any(line.startswith("interquartile mean") for line in lines)
    found = {path.suffix: path for path in (tmp_path / "results").iterdir()}
    assert {".json", ".png"} <= set(found)
    assert json.loads(found[".json"].read_text())


def test_the_script_of_curricula_learns_more_with_one(tmp_path):
    lines = run_example("curriculum.py", tmp_path)
    title, *uniform_and_frontier = lines[-1].split()
    uniform, frontier = map(float, uniform_and_frontier)
    assert title == "skill"
    assert frontier > 1.5 * uniform > 0.5


def test_the_script_in_a_single_file_trains(tmp_path):
    pytest.importorskip("torch")
    lines = run_example("cleanrl_ppo.py", tmp_path)
    assert sum(line.startswith("iteration") for line in lines) > 3
