"""Scripts of the folder `examples` that need no other library."""

import json

from tests.integrations.examples import load_example, run_example


def test_the_script_of_evaluation_leaves_results(tmp_path, monkeypatch, capsys):
    script = load_example("evaluate.py")
    monkeypatch.setattr(script, "OUT", tmp_path)
    script.many_tasks(episodes_per_task=1)
    script.few_shots()
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("interquartile mean") for line in printed)
    for name in ("mt10", "few_shot"):
        assert json.loads((tmp_path / f"{name}.json").read_text())
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_the_script_of_curricula_learns_more_with_one(tmp_path):
    title, uniform, frontier = run_example("curriculum.py", tmp_path)[-1].split()
    assert title == "skill"
    assert float(frontier) > 1.5 * float(uniform) > 0.5
