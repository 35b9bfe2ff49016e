"""metaworld-algorithms on our ids: its configuration, and where it is installed, a run of MTSAC."""

import ast
import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.fakes import ROOT, run_with_python

EXAMPLE = ROOT / "examples" / "metaworld_algorithms_mtsac.py"


@dataclass(frozen=True)
class MetaworldConfig:
    """The fields of theirs, at 30c9991, with fewer goals and steps."""

    env_id: str
    use_one_hot: bool = True
    max_episode_steps: int = 2
    evaluation_num_episodes: int = 50
    terminate_on_success: bool = False
    reward_func_version: str = "v2"
    num_goals: int = 1
    reward_normalization_method: str | None = None
    normalize_observations: bool = False
    env_name: str | None = None


def ours():
    """The class of the example, which needs nothing but theirs."""
    tree = ast.parse(EXAMPLE.read_text())
    [found] = [node for node in tree.body if getattr(node, "name", None) == "OursConfig"]
    return (
        "from dataclasses import dataclass\nfrom typing import Any\nimport gymnasium\n"
        f"from metaworld_algorithms.envs import MetaworldConfig\n{ast.unparse(found)}"
    )


@pytest.mark.slow
def test_their_configuration_makes_ours_with_what_their_training_calls(monkeypatch):
    theirs = ModuleType("metaworld_algorithms.envs")
    theirs.MetaworldConfig = MetaworldConfig
    monkeypatch.setitem(sys.modules, "metaworld_algorithms", ModuleType("metaworld_algorithms"))
    monkeypatch.setitem(sys.modules, "metaworld_algorithms.envs", theirs)
    scope = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))
    exec(ours(), scope)
    envs = scope["OursConfig"]("MT10", workers=1).spawn(seed=3)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.get_attr("terminate_on_success") == (False,) * 10
    obs, _ = envs.reset()
    assert obs[:, 39:].tolist() == np.eye(10).tolist()
    envs.step(envs.action_space.sample())
    *_, truncated, infos = envs.step(envs.action_space.sample())
    assert truncated.all()
    assert infos["final_info"]["episode"]["l"].tolist() == [2] * 10
    assert np.stack(infos["final_obs"]).shape == (10, 49)
    envs.call("load_checkpoint", envs.call("get_checkpoint"))
    envs.close()


@pytest.mark.slow
def test_the_example_trains_evaluates_and_saves(tmp_path):
    pytest.importorskip("metaworld_algorithms")
    sizes = {
        "--steps": 800,
        "--warmstart-steps": 5,
        "--max-episode-steps": 20,
        "--evaluate-every": 20,
        "--evaluation-episodes": 1,
        "--batch-size": 20,
        "--buffer-size": 1000,
        "--data-dir": tmp_path,
    }
    arguments = [str(part) for pair in sizes.items() for part in pair]
    printed = run_with_python("-W", "ignore", EXAMPLE, "--cpu", *arguments)
    assert "total_steps=390, mean evaluation success rate: " in printed
    saved = {path.name for path in (tmp_path / "mt10_mtsac_1" / "checkpoints").iterdir()}
    assert {"390", "801"} <= saved
