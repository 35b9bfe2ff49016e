"""Every argument of what needs no simulator refuses what it cannot use, by its name."""

from functools import partial

import pytest
from gymnasium.spaces import Discrete

import mtwrappers as mt
from mtwrappers.wrappers.action_repeat import ActionRepeat
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import CountingEnv, CountingMTEnv, counting_makers
from tests.odd_inputs import NAMES, check_arguments

ANY = "None x [] [1] -1 1.5 {} True nan zeros object 10**30"
TWO, THREE = counting_makers(2), NAMES["three"]()
SPACES = ("action_space", "env_observation_space", "task_observation_space")
A_LIST = {"initial_task_state": "", "task_names": "None", "select": ""}
A_LIST |= {"sample_tasks_on_reset": "True"}
REWARD = {"env": "", "num_tasks": "None", "gamma": "", "epsilon": "1.5 10**30"}
OBSERVATION = {"env": "", "num_tasks": "None", "num_leading": "None", "epsilon": "1.5 10**30"}
RL2 = {"env": "", "reward_divisor": "1.5 10**30", "across_episodes": "True"}
SIZES = {"num_envs": "", "envs_per_task": "None"}


class Spaces(CountingMTEnv):
    def __init__(self, **spaces):
        mt.MTEnv.__init__(self, **spaces)


def call(function, good, **takes):
    """A function, good arguments for it, and which odd values each argument takes all the same."""
    return function, good, takes


SEED, ENV = "None 10**30", CountingEnv
CALLS = {
    "MTEnv": call(Spaces, dict.fromkeys(SPACES, Discrete(2)), **dict.fromkeys(SPACES, "")),
    "MultiEnvWrapper": call(
        mt.MultiEnvWrapper,
        {"funcs_to_make_envs": TWO},
        funcs_to_make_envs="",
        env_observation_space="None",
        unify="None {}",
        max_episode_steps="None",
        task_embedding="None",
        action_repeat="None",
        **A_LIST,
    ),
    "EnvToMTEnv": call(
        mt.EnvToMTEnv,
        {"env": ENV(), "tasks": [1, 2], "set_task": print},
        env="",
        tasks="[1] zeros",
        set_task="",
        task_obs="None",
        task_observation_space="None",
        **A_LIST | {"initial_task_state": "None"},
    ),
    "EnvToMTEnv shows": call(
        partial(mt.EnvToMTEnv, ENV(), [1, 2], print),
        {"task_obs": int, "task_observation_space": Discrete(2)},
        task_obs="",
        task_observation_space="",
    ),
    "FlattenMTEnv": call(
        mt.FlattenMTEnv, {"env": mt.MultiEnvWrapper(TWO)}, env="", task_encoding=""
    ),
    "ActionRepeat": call(ActionRepeat, {"env": ENV(), "n": 2}, env="", n=""),
    "TaskOnehotWrapper": call(
        mt.TaskOnehotWrapper,
        {"env": ENV(), "task_index": 0, "n_total_tasks": 2},
        env="",
        task_index="",
        n_total_tasks="",
    ),
    "wrap_env_list": call(mt.TaskOnehotWrapper.wrap_env_list, {}, envs=""),
    "wrap_env_cons_list": call(mt.TaskOnehotWrapper.wrap_env_cons_list, {}, env_cons=""),
    "TaskNameWrapper": call(
        mt.TaskNameWrapper,
        {"env": ENV(), "task_name": "a", "task_id": 0},
        env="",
        task_name="None x",
        task_id="None -1 10**30",
    ),
    "TerminateOnSuccess": call(TerminateOnSuccess, {"env": ENV()}, env="", key="x"),
    "its constructors": call(
        TerminateOnSuccess.wrap_env_cons_list, {"env_cons": TWO}, env_cons="", key="x"
    ),
    "NormalizeRewardPerTask": call(mt.NormalizeRewardPerTask, {"env": ENV()}, **REWARD),
    "NormalizeObservationPerTask": call(
        mt.NormalizeObservationPerTask, {"env": ENV()}, **OBSERVATION
    ),
    "RL2Observation": call(mt.RL2Observation, {"env": ENV()}, **RL2),
    "VectorNormalizeRewardPerTask": call(mt.VectorNormalizeRewardPerTask, {"env": THREE}, **REWARD),
    "VectorNormalizeObservationPerTask": call(
        mt.VectorNormalizeObservationPerTask, {"env": THREE}, **OBSERVATION
    ),
    "VectorRL2Observation": call(mt.VectorRL2Observation, {"env": THREE}, **RL2),
    "MetaVectorWrapper": call(MetaVectorWrapper, {}, env=""),
    "PointGoalEnv": call(mt.PointGoalEnv, {}, radius="1.5", render_mode="None"),
    "its tasks": call(mt.PointGoalEnv().sample_tasks, {}, n_tasks=""),
    "its task": call(mt.PointGoalEnv().set_task, {}, task=""),
    "its reset": call(mt.PointGoalEnv().reset, {}, seed=SEED, options="None {}"),
    "ConstructEnvsSampler": call(
        mt.ConstructEnvsSampler, {"env_constructors": TWO}, env_constructors="", seed=SEED
    ),
    "its samples": call(
        mt.ConstructEnvsSampler(TWO).sample, {"n_tasks": 1}, n_tasks="", with_replacement="True"
    ),
    "EnvPoolSampler": call(mt.EnvPoolSampler, {"envs": [ENV()]}, envs="", seed=SEED),
    "its growth": call(mt.EnvPoolSampler([ENV()]).grow_pool, {}, new_size=""),
    "SetTaskSampler": call(
        mt.SetTaskSampler,
        {"env_constructor": mt.PointGoalEnv},
        env_constructor="",
        env="None",
        wrapper="None",
        seed=SEED,
    ),
    "NewEnvUpdate": call(mt.NewEnvUpdate, {}, env_constructor=""),
    "SetTaskUpdate": call(
        mt.SetTaskUpdate,
        {"env_type": ENV, "task": 1},
        env_type="",
        task=ANY,
        wrapper_constructor="None",
    ),
    "ExistingEnvUpdate": call(mt.ExistingEnvUpdate, {}, env=""),
    "make MultiEnv": call(
        partial(NAMES["make"], "MultiEnv"),
        {},
        env_ids="None",
        task_names="None",
        task_encoding="",
        task_embedding="None",
        action_repeat="None",
        unify="None {}",
        select="",
        env_kwargs="None {}",
    ),
    "make_vec MultiEnv": call(
        partial(NAMES["make_vec"], "MultiEnv"),
        {},
        env_ids="None",
        task_names="None",
        task_encoding="",
        task_embedding="None",
        action_repeat="None",
        unify="None {}",
        env_kwargs="None {}",
        record_episode_statistics="True",
        **SIZES,
    ),
    "make_vec PointGoal": call(
        partial(NAMES["make_vec"], "PointGoal"),
        {},
        num_envs="",
        radius="1.5",
        max_episode_steps="None",
        meta_batch_size="None",
        render_mode="None",
    ),
}


@pytest.mark.parametrize(("function", "good", "takes"), CALLS.values(), ids=CALLS)
def test_what_an_argument_cannot_use_is_refused_by_its_name(function, good, takes):
    check_arguments(function, good, takes)
