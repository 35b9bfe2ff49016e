"""The single-file PPO loop in the style of CleanRL."""

import importlib.util
from collections import Counter

import pytest

from tests.fakes import ROOT

MT10 = {
    *("reach-v3", "push-v3", "pick-place-v3", "door-open-v3", "drawer-open-v3", "drawer-close-v3"),
    *("button-press-topdown-v3", "peg-insert-side-v3", "window-open-v3", "window-close-v3"),
}


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("cleanrl_ppo", ROOT / "examples/cleanrl_ppo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, *more):
    return script.main(
        ["--iterations", "2", "--num-steps", "25", "--episode-steps", "10", "--epochs", "1", *more]
    )


def test_a_finished_episode_has_exactly_one_entry(script, capsys):
    episodes = run(script)
    # 50 steps of episodes that are cut after 10.
    assert Counter(episode["task"] for episode in episodes) == dict.fromkeys(MT10, 5)
    assert {episode["l"] for episode in episodes} == {10}
    lines = capsys.readouterr().out.splitlines()
    assert [line[:12] for line in lines] == ["iteration 0:", "iteration 1:"]


def test_the_same_seed_gives_the_same_episodes(script):
    returns = [[episode["r"] for episode in run(script, "--seed", str(s))] for s in (3, 3, 4)]
    assert returns[0] == returns[1]
    assert returns[0] != returns[2]
