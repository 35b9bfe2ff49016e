"""The environments for LeRobot, without it; with it: tests/integrations/test_lerobot.py."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers.adapters.lerobot_envs import classes_of, make_class_env
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.upstream import all_classes
from tests.fakes import check_env_warnings

SMALL = {"width": 24, "height": 16, "shadows": False, "disable_env_checker": True}


def test_a_task_is_groups_of_the_50_classes_classes_and_benchmarks():
    groups = classes_of("easy, medium,hard,very_hard")
    assert [len(classes) for classes in groups.values()] == [28, 11, 6, 5]
    assert sorted(name for group in groups.values() for name in group) == sorted(all_classes())
    mixed_groups = classes_of("push-v3,MT10,reach-v3")
    assert list(mixed_groups) == ["push-v3", "MT10", "reach-v3"]
    assert mixed_groups["push-v3"] == ["push-v3"]
    assert mixed_groups["MT10"][:3] == ["reach-v3", "push-v3", "pick-place-v3"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        *((task, "each part of task must be 'easy', .* or 'MT50', got") for task in ("ML10", "")),
        ("easy,hard, easy", "must differ, got 'easy' twice in 'easy,hard, easy'"),
    ],
)
def test_a_part_that_does_not_exist_or_stands_there_twice_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        classes_of(task)


@pytest.mark.parametrize("observation", ["pixels", "pixels_agent_pos", "pixels_state"])
@pytest.mark.slow_but("pixels_agent_pos")
def test_an_observation_is_a_dict_with_the_frame(observation):
    env = make_class_env("reach-v3", observation=observation, **SMALL)
    other_keys = {
        "pixels": [],
        "pixels_agent_pos": ["agent_pos"],
        "pixels_state": ["environment_state"],
    }
    assert sorted(env.observation_space) == sorted(["pixels", *other_keys[observation]])
    assert env.unwrapped.envs_built == 0
    assert check_env_warnings(env, skip_render_check=True) == []
    assert env.reset(seed=1000)[1]["is_success"] is False
    env.close()
    assert env.unwrapped.envs_built == 0


def test_several_cameras_are_a_dict_of_frames_in_the_dict():
    names = ["corner4", "gripperPOV"]
    env = make_class_env("reach-v3", observation="pixels", camera_name=names, **SMALL)
    obs, _ = env.reset(seed=1000)
    assert obs in env.observation_space
    assert {key: frame.shape for key, frame in obs["pixels"].items()} == dict.fromkeys(
        names, (16, 24, 3)
    )
    env.close()


@pytest.mark.slow
def test_success_ends_an_episode_and_infos_say_so_in_a_vector():
    make = lambda: make_class_env(  # noqa: E731
        "reach-v3", observation="pixels_state", max_episode_steps=200, **SMALL
    )
    envs = SyncVectorEnv([make, make], autoreset_mode=AutoresetMode.NEXT_STEP)
    act = expert("reach-v3")
    obs, infos = envs.reset(seed=[1000, 1001])
    assert infos["is_success"].dtype == bool
    terminated = np.zeros(2, bool)
    for _ in range(200):
        assert not infos["is_success"].any()
        states = obs["environment_state"]
        obs, _, terminated, truncated, infos = envs.step([act(s, s[-3:]) for s in states])
        if terminated.any():
            break
    assert not truncated.any()
    assert np.array_equal(infos["is_success"], terminated)
    assert envs.call("_max_episode_steps") == (200, 200)
    assert envs.call("task_description") == ("Reach a goal position",) * 2
    envs.close()
