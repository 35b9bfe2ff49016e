"""LeRobot's evaluation over our environments, by LeRobot's own functions."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import weakref
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

from mtwrappers.cli import main
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.text import DESCRIPTIONS
from tests.fakes import run_python

pytest.importorskip("lerobot")

import torch
from lerobot.configs import PreTrainedConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.envs import env_to_policy_features, make_env
from lerobot.envs.factory import make_env_config
from lerobot.envs.metaworld import MetaworldEnv
from lerobot.envs.utils import NEW_ROLLOUT_OPTION
from lerobot.policies import PreTrainedPolicy
from lerobot.scripts.lerobot_eval import eval_policy_all
from lerobot.utils.feature_utils import dataset_to_policy_features

import mtwrappers.adapters.lerobot  # noqa: F401 # which registers the environment

# LeRobot's libraries have many.
pytestmark = pytest.mark.filterwarnings("default")
SMALL = {"observation_width": 24, "observation_height": 16, "shadows": False}
CLASS_OF = {sentence: name for name, sentence in DESCRIPTIONS["lerobot-0.6.1"].items()}


@PreTrainedConfig.register_subclass("tests_expert")
@dataclass
class ExpertConfig(PreTrainedConfig):
    observation_delta_indices = action_delta_indices = reward_delta_indices = None

    def get_optimizer_preset(self):
        raise NotImplementedError

    def get_scheduler_preset(self):
        raise NotImplementedError

    def validate_features(self):
        pass


class Expert(PreTrainedPolicy):
    """Reads what is to be done, and has Meta-World's scripted expert do it."""

    config_class = ExpertConfig
    name = "tests_expert"

    def __init__(self):
        super().__init__(ExpertConfig(device="cpu"))

    def reset(self):
        pass

    def select_action(self, batch, **kwargs):
        rows = zip(batch["task"], batch["observation.environment_state"].numpy(), strict=True)
        actions = [expert(CLASS_OF[task])(state, state[-3:]) for task, state in rows]
        return torch.from_numpy(np.stack(actions).astype(np.float32))

    def get_optim_params(self):
        raise NotImplementedError

    forward = predict_action_chunk = get_optim_params


def make(task="reach-v3", n_envs=1, use_async_envs=False, **kwargs):
    kwargs = {"obs_type": "pixels_state", **SMALL, **kwargs}
    return make_env(make_env_config("mtwrappers", task=task, **kwargs), n_envs, use_async_envs)


def evaluate(envs, n_episodes, **kwargs):
    """Evaluates the expert as ``lerobot-eval`` does, which closes each environment at its end."""
    names = ("preprocessor", "postprocessor", "env_preprocessor", "env_postprocessor")
    identities = {name: lambda value: value for name in names}
    kwargs = {"start_seed": 1000, **identities, **kwargs}
    return eval_policy_all(envs, Expert(), n_episodes=n_episodes, **kwargs)


def get_metrics(info, key):
    return [task["metrics"][key] for task in info["per_task"]]


def test_lerobot_finds_the_environment_by_the_name_of_a_distribution():
    if "lerobot_env_mtwrappers" not in list_distributions():
        pytest.skip("plugins/lerobot_env_mtwrappers is not installed")
    code = """
import sys
from lerobot.envs import EnvConfig
from lerobot.utils.import_utils import register_third_party_plugins
before = "mtwrappers" in EnvConfig.get_known_choices()
register_third_party_plugins()
print(before, EnvConfig.get_choice_class("mtwrappers").__name__)
"""
    assert run_python(code) == "False MTWrappersEnv"


def list_distributions():
    return [distribution.metadata["Name"] for distribution in importlib.metadata.distributions()]


@pytest.mark.parametrize(
    ("obs_type", "state_shapes"),
    [
        ("pixels", {}),
        ("pixels_agent_pos", {"observation.state": (4,)}),
        ("pixels_state", {"observation.environment_state": (39,)}),
    ],
)
def test_policies_get_the_features_that_environments_observe(obs_type, state_shapes):
    config = make_env_config("mtwrappers", obs_type=obs_type, **SMALL)
    features = env_to_policy_features(config)
    expected = {"action": (4,), "observation.image": (3, 16, 24), **state_shapes}
    assert {name: feature.shape for name, feature in features.items()} == expected
    [env] = make(obs_type=obs_type)["reach-v3"].values()
    observed = {key: space.shape for key, space in env.single_observation_space.items()}
    shapes = {key: feature.shape for key, feature in config.features.items()}
    del shapes["action"]
    assert observed == shapes
    env.close()


def test_results_do_not_depend_on_the_batch(tmp_path):
    results = []
    for n_envs in (1, 3, 10):
        envs = make("reach-v3", n_envs=n_envs)
        env_references = [weakref.ref(env.unwrapped) for env in envs["reach-v3"][0].envs]
        results.append(evaluate(envs, 10, max_episodes_rendered=2, videos_dir=tmp_path))
        gc.collect()
        # LeRobot has closed the vector environment.
        assert [reference() for reference in env_references] == [None] * n_envs
    for key in ("successes", "max_rewards"):
        assert get_metrics(results[0], key) == get_metrics(results[1], key)
        assert get_metrics(results[0], key) == get_metrics(results[2], key)
    # Torch adds up the rewards of a batch, in an order that depends on its shape.
    sums = [np.array(get_metrics(result, "sum_rewards")) for result in results]
    assert sums[1] == pytest.approx(sums[0], rel=1e-12)
    assert sums[2] == pytest.approx(sums[0], rel=1e-12)
    assert results[0]["overall"]["pc_success"] == 100
    assert len(results[0]["overall"]["video_paths"]) == 2


def test_seeds_stand_for_the_goals_that_lerobots_own_environment_draws():
    theirs = MetaworldEnv("push-v3")
    theirs._ensure_env()
    [env] = make("push-v3")["push-v3"].values()
    for seed in (1000, 1009):
        theirs._env.seed(seed)  # as its reset does, which also draws a frame
        theirs._env.reset(seed=seed)
        env.reset(seed=[seed], options={NEW_ROLLOUT_OPTION: True})
        assert np.array_equal(env.envs[0].unwrapped.rand_vec, theirs._env._last_rand_vec)
    env.close()
    theirs.close()


# Datasets.
SMALL_FRAMES = ["--size", "32", "--no-shadows"]


@pytest.fixture
def experts(tmp_path):
    """A rollout of experts, each of which succeeds."""
    folder = tmp_path / "experts"
    classes = ["--task", "drawer-close-v3", "--task", "reach-v3"]
    assert main(["rollout", "MT10", *classes, "--episodes", "1", "--out", str(folder)]) == 0
    return folder


def test_a_dataset_has_the_features_of_the_environment_and_its_very_states_and_frames(
    experts, tmp_path
):
    folder = tmp_path / "two"
    assert main(["export", str(experts), f"lerobot:{folder}", "--successes", *SMALL_FRAMES]) == 0
    data = LeRobotDataset("me/two", root=folder)
    assert (data.num_episodes, data.fps) == (2, 80)
    config = make_env_config(
        "mtwrappers", observation_width=32, observation_height=32, shadows=False
    )
    assert dataset_to_policy_features(data.features) == env_to_policy_features(config)
    metadata = json.loads((folder / "meta" / "mtwrappers.json").read_text())
    assert metadata["evidence"] == EvaluationResult.load(experts / "results.json").evidence
    task_names = [record["task_name"] for record in metadata["episodes"]]
    assert task_names == ["reach-v3", "drawer-close-v3"]
    env = gymnasium.make(
        "mtwrappers/MT10-v0",
        terminate_on_success=True,
        observation="pixels_agent_pos",
        width=32,
        height=32,
        shadows=False,
    )
    for record, episode in zip(metadata["episodes"], data.meta.episodes, strict=True):
        assert episode["tasks"] == [DESCRIPTIONS[config.descriptions][record["task_name"]]]
        obs, _ = env.reset(seed=record["seed"], options={"task_state": record["task_state"]})
        for i in range(episode["dataset_from_index"], episode["dataset_to_index"]):
            row = data[i]
            frame = (row["observation.image"] * 255).round().to(torch.uint8).permute(1, 2, 0)
            assert (frame.numpy() == obs["pixels"]).all()
            assert row["observation.state"].tolist() == np.float32(obs["agent_pos"]).tolist()
            action = row["action"].numpy()
            assert np.abs(action).max() <= 1
            obs, reward, terminated, _, _ = env.step(action)
            assert row["next.reward"].item() == np.float32(reward)
            assert row["next.success"].item() is row["next.done"].item() is terminated
        assert terminated
    env.close()
    # It is not replaced.
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(experts), f"lerobot:{folder}"])
