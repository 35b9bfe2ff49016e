"""Every argument around Meta-World refuses what it cannot use, by its name."""

from functools import partial

import pytest

from mtwrappers import MetaWorldSetTaskEnv, MetaWorldTaskSampler
from mtwrappers.metaworld import MetaWorldMTEnv, fast_class, make_benchmark
from mtwrappers.metaworld.agent_view import AgentView
from mtwrappers.metaworld.class_env import SawyerSettings
from tests.metaworld.fakes import ML
from tests.odd_inputs import NAMES, check_arguments

LIMIT = {"max_episode_steps": "None"}
SETTINGS = {"reward_function_version": "", "render_mode": "None", "width": "", "height": ""}
SETTINGS |= {"upright": "True", "shadows": "True", "fast": "True"}
CAMERAS = {"camera_name": "None", "camera_id": "None -1"}
INPUTS = {"recurrent_info_in_obs": "True", "normalize_reward_in_recurrent_info": "True"}
INPUTS |= {
    "reward_normalization_method": "None",
    "reward_alpha": "",
    "normalize_observations": "True",
    "observation": "",
    "depth": "",  # without frames
}
FLAGS = {"terminate_on_success": "True", "record_episode_statistics": "True"}
UPSTREAM = {"task_select": "", "use_one_hot": "True", "vector_strategy": ""}
SET_TASK = MetaWorldSetTaskEnv("MT1")
MT1 = {"num_goals": 2}

CALLS = {
    "make_benchmark": (
        make_benchmark,
        {"name": "MT1"},
        {"name": "", "env_name": "None", "seed": "None", "num_goals": ""},
    ),
    "make_benchmark of classes": (
        make_benchmark,
        {"name": "CustomML", **{k: v for k, v in ML.items() if k != "benchmark"}, "num_goals": 1},
        {"train_classes": "", "test_classes": ""},
    ),
    "fast_class": (fast_class, {}, {"cls": ""}),
    "SawyerSettings": (SawyerSettings, {}, SETTINGS),
    "AgentView": (AgentView, {"task_encoding": "none"}, {"task_encoding": "", **INPUTS}),
    "MetaWorldSetTaskEnv": (
        MetaWorldSetTaskEnv,
        {"benchmark": "MT1"},
        {
            "benchmark": "None",
            "kind": "None",
            "wrapper": "None",
            "add_env_onehot": "True",
            "seed": "None",
            "num_goals": "",
            "env_name": "None",
            **LIMIT,
            **SETTINGS,
            **CAMERAS,
        },
    ),
    "its tasks": (
        SET_TASK.sample_tasks,
        {"n_tasks": 1},
        {"n_tasks": "", "with_replacement": "True"},
    ),
    "its task": (SET_TASK.set_task, {}, {"task": ""}),
    "its order": (SET_TASK.seed_tasks, {}, {"seed": "None 10**30"}),
    "its reset": (SET_TASK.reset, {}, {"seed": "None 10**30", "options": "None {}"}),
    "MetaWorldMTEnv": (
        MetaWorldMTEnv,
        {"benchmark": "MT1"},
        {
            "benchmark": "",
            "kind": "None",
            "seed": "None",
            "select": "None",
            "descriptions": "None",
            "task_states": "None [1]",
            "sample_tasks_on_reset": "True",
            "terminate_on_success": "True",
            **LIMIT,
            **SETTINGS,
            **CAMERAS,
        },
    ),
    "MetaWorldTaskSampler": (
        MetaWorldTaskSampler,
        {"benchmark": "MT1", "kind": "train"},
        {
            "benchmark": "",
            "kind": "",
            "wrapper": "None",
            "add_env_onehot": "True",
            "seed": "None 10**30",
        },
    ),
    "make": (
        partial(NAMES["make"], "MT1"),
        MT1,
        {"task_encoding": "None", "seed": "None", "select": "None", **INPUTS, **UPSTREAM},
    ),
    "make_vec": (
        partial(NAMES["make_vec"], "MT1"),
        MT1,
        {
            "num_envs": "",
            "envs_per_task": "None",
            "total_tasks_per_cls": "None",
            "kind": "",
            "seed": "None",
            "sample_tasks_on_reset": "None True",
            **FLAGS,
            **LIMIT,
        },
    ),
    "make_vec for meta-learning": (
        partial(NAMES["make_vec"], "ML1-train"),
        MT1,
        {"num_envs": "", "envs_per_task": "None", "meta_batch_size": "None"},
    ),
}


@pytest.mark.parametrize(("call", "good", "takes"), CALLS.values(), ids=CALLS)
def test_what_an_argument_cannot_use_is_refused_by_its_name(call, good, takes):
    check_arguments(call, good, takes)
