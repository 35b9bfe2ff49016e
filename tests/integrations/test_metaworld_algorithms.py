"""metaworld-algorithms on our ids: its configuration, and where it is installed, a run of MTSAC."""

import ast
from dataclasses import dataclass

import pytest

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
