"""`EnvSettings`: one name and one value for each argument that determines episodes."""

import pytest

from mtwrappers.metaworld.env_settings import MUST_BE_DEFAULT, EnvSettings
from mtwrappers.metaworld.keywords import VectorKeywords
from mtwrappers.vector.make import EXECUTOR_OPTIONS

FRAMES = {"observation": "pixels", "camera_name": "corner4", "height": 8, "width": 8}
FEW_SHOT = EnvSettings(benchmark="ML10", kind="test", meta_batch_size=20, **FRAMES)
# They change where environments run, what a policy observes besides, or how tasks are drawn
# without an evaluation.
FREE = {
    *EXECUTOR_OPTIONS,
    *("execution", "num_envs", "fast", "render_mode"),
    *("normalize_observations", "recurrent_info_in_obs", "normalize_reward_in_recurrent_info"),
    *("sample_tasks_on_reset", "select"),
}
UPSTREAM = {
    *("camera_id", "envs_list", "task_select", "test_envs", "train_envs", "use_one_hot"),
    *("total_tasks_per_cls", "vector_strategy"),
}


def test_every_argument_of_make_vec_is_fixed_free_or_at_its_default():
    arguments = {"benchmark", "num_envs", *VectorKeywords.__optional_keys__}
    assert (
        arguments - UPSTREAM - {*FEW_SHOT.fixed_arguments} - {*MUST_BE_DEFAULT} == FREE & arguments
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, None),
        ({"total_tasks_per_cls": 50, "use_one_hot": True, "seed": None}, None),
        ({"total_tasks_per_cls": 40}, "mine fixes num_goals=50, got 40 here"),
        ({"max_episode_steps": -1}, "mine fixes max_episode_steps=500, got -1 here"),
        (
            {"envs_list": ["reach-v3"]},
            "mine takes no train_classes in make_vec, got",
        ),
        ({"goals": "continuous"}, "mine fixes goals='list', got 'continuous' here"),
        ({"instruction": True}, "mine fixes instruction=False, got True here"),
        ({"kind": "test"}, "mine fixes kind='train', got 'test' here"),
    ],
)
def test_arguments_are_compared_by_what_they_mean(arguments, message):
    settings = EnvSettings(benchmark="MT10")
    arguments = {"benchmark": "MT10", **arguments}
    if message is None:
        settings.check_arguments(arguments, "mine", " here")
        return
    with pytest.raises(ValueError, match=message):
        settings.check_arguments(arguments, "mine", " here")


def test_arguments_that_are_free_are_returned_by_our_names():
    settings = EnvSettings(benchmark="MT10")
    arguments = {"use_one_hot": False, "envs_per_task": 2, "num_goals": 50}
    free = settings.check_arguments({"benchmark": "MT10", **arguments}, "mine")
    assert free == {"task_encoding": "none", "envs_per_task": 2}


def test_single_environments_have_no_sizes_of_vectors():
    assert FEW_SHOT.arguments["meta_batch_size"] == 20
    assert not FEW_SHOT.single_arguments.keys() & {"meta_batch_size", "envs_per_task"}
    assert FEW_SHOT.with_states().arguments.keys() & {"height", "camera_name"} == set()
