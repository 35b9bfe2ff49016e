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
    skills = [float(line.split()[-1]) for line in lines if "skill" in line]
    assert len(skills) == 2
    assert skills[1] > 1.2 * skills[0]


def test_the_script_in_a_single_file_trains(tmp_path):
    pytest.importorskip("torch")
    lines = run_example("cleanrl_ppo.py", tmp_path)
    assert sum(line.startswith("iteration") for line in lines) > 3
