"""Scripts of the folder `examples` that have no test of their own."""

import json
from collections import Counter

import pytest

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


# A PPO loop in one file, in the style of CleanRL.


MT10 = {
    *("reach-v3", "push-v3", "pick-place-v3", "door-open-v3", "drawer-open-v3", "drawer-close-v3"),
    *("button-press-topdown-v3", "peg-insert-side-v3", "window-open-v3", "window-close-v3"),
}


def test_a_finished_episode_has_exactly_one_entry_and_the_seed_determines_it(capsys):
    pytest.importorskip("torch")
    main = load_example("cleanrl_ppo.py").main
    sizes = ["--iterations", "2", "--num-steps", "25", "--episode-steps", "10", "--epochs", "1"]
    episodes, again = (main([*sizes, "--seed", "3"]) for _ in range(2))
    # 50 steps of episodes that are cut after 10.
    assert Counter(episode["task"] for episode in episodes) == dict.fromkeys(MT10, 5)
    assert {episode["l"] for episode in episodes} == {10}
    assert [episode["r"] for episode in again] == [episode["r"] for episode in episodes]
    lines = capsys.readouterr().out.splitlines()
    assert [line[:12] for line in lines] == ["iteration 0:", "iteration 1:"] * 2
