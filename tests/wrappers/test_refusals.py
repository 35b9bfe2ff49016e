"""Odd uses of wrappers: each error names what was expected and what came."""

from functools import partial

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import FlattenObservation, NormalizeReward
from gymnasium.wrappers.vector import ClipReward

from mtwrappers import (
    EnvToMTEnv,
    FlattenMTEnv,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    OldGym,
    PadSpaces,
    PointGoalEnv,
    RL2Observation,
    TaskNameWrapper,
    TaskOnehotWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)
from mtwrappers.core.selection import WithoutReplacement
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import CountingEnv, counting_makers
from tests.mixed_envs import ARMS
from tests.refusals import (
    NAN,
    ChangedEnv,
    assert_refused,
    begin_episode,
    dict_action_env,
    drawing_tasks,
    make,
    make_vec,
    refusal,
    refusals,
    three_envs,
    two_tasks,
)


class OldEnv(CountingEnv):
    """An environment whose steps, or resets, return what those of the old Gym do."""

    def __init__(self, old_method="step"):
        super().__init__()
        self.old_method = old_method

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        return result[0] if self.old_method == "reset" else result

    def step(self, action):
        obs, reward, done, _, info = super().step(action)
        return obs, reward, done, info


class NoReward(CountingEnv):
    """An environment whose steps forget the reward."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, None, terminated, truncated, info


class OldEnvWithoutGymnasium:
    step = OldEnv.step


BOX = Box(0, 1, (1,))
SHARED_ENV = CountingEnv()
ImageEnv = partial(ChangedEnv, space=Box(0, 255, (56, 56, 3), np.uint8))
point_goals = partial(EnvToMTEnv, PointGoalEnv())


def differing_tasks():
    """Two tasks whose actions differ."""
    return MultiEnvWrapper([CountingEnv, partial(CountingEnv, num_actions=3)])


def padded_arms():
    """Tasks of several sizes, of which the larger ones do not fit."""
    return MultiEnvWrapper(ARMS, unify={"observation_size": 4, "action_size": 3})


def bytes_with_task_obs(space):
    """Observations of bytes, with an observation of the task from this space."""
    env = CountingEnv(dtype=np.uint8, high=9)
    return EnvToMTEnv(env, [0], print, task_obs=int, task_observation_space=space)


def with_task_id(task_id):
    """An environment whose infos name this task."""
    return TaskNameWrapper(CountingEnv(), task_id=task_id)


@refusals(
    refusal(
        lambda: MultiEnvWrapper([CountingEnv, CountingEnv()]),
        TypeError,
        "the constructor of task 1 in ...got <tests.fakes.CountingEnv...>, an environment: pass a "
        "function that makes a new one, such as lambda: make(",
    ),
    refusal(
        lambda: two_tasks(select=lambda history: 0),
        TypeError,
        "select must be a function select(num_tasks, last_task, rng), or with a fourth parameter "
        "history, got <function ... with the parameters (history)",
    ),
    refusal(
        lambda: two_tasks(select=lambda task: 0),
        TypeError,
        "select must be a function select(num_tasks, last_task, rng), ...parameters (task)",
    ),
    refusal(
        lambda: two_tasks().reset(options={"task": 1}),
        ValueError,
        "MultiEnvWrapper takes the reset options ['resample_task', 'task_state'], got ['task']",
    ),
    refusal(
        lambda: EnvToMTEnv(CountingEnv(), [8.0], lambda task, env: env.unwrapped),
        AttributeError,
        "set_task(env, task) for the task 8.0: 'float' object has no attribute 'unwrapped'",
    ),
    refusal(
        lambda: EnvToMTEnv(CountingEnv(), [{"a": 1}, {"b": 2}], lambda env, task: task["a"]).reset(
            options={"task_state": 1}
        ),
        KeyError,
        "set_task(env, task) for the task {'b': 2}: 'a'",
    ),
    refusal(
        lambda: point_goals(
            [8.0],
            lambda env, task: None,
            task_obs=lambda: 0,
            task_observation_space=Discrete(2),
        ).reset(),
        TypeError,
        "task_obs(task) for the task 8.0: ...takes 0 positional arguments but 1 was given",
    ),
    refusal(
        lambda: begin_episode(MultiEnvWrapper([OldEnv])).step(0),
        TypeError,
        "expected (observation, reward, ...; an environment of the old Gym needs the class on the",
    ),
    refusal(
        lambda: begin_episode(MultiEnvWrapper([NoReward])).step(0),
        TypeError,
        "expected a reward that is a number, got None",
    ),
    refusal(
        lambda: begin_episode(OldGym(NoReward())).step(0),
        TypeError,
        "expected a reward that is a number, got None",
    ),
    refusal(
        lambda: MultiEnvWrapper([partial(OldEnv, "reset")]).reset(),
        TypeError,
        "expected (observation, info ...; an environment of the old Gym needs the class on the",
    ),
    refusal(
        lambda: MultiEnvWrapper([OldEnvWithoutGymnasium]),
        TypeError,
        "the constructor of task 0 must return a ...; an environment of the old Gym needs the",
    ),
    refusal(
        lambda: EnvToMTEnv(OldEnvWithoutGymnasium(), [1]),
        TypeError,
        "env must be a gymnasium.Env, got ...; an environment of the old Gym needs the class on",
    ),
    refusal(
        lambda: begin_episode(OldGym(OldEnv())).step(0),
        TypeError,
        "expected (observation, reward, ...; an environment of the old Gym needs the class on the",
    ),
    refusal(
        lambda: OldGym(OldEnv("reset")).reset(),
        TypeError,
        "expected (observation, info ...; an environment of the old Gym needs the class on the",
    ),
    refusal(
        lambda: MultiEnvWrapper(counting_makers(2), max_steps=3),
        TypeError,
        "MultiEnvWrapper got ... 'max_steps': did you mean 'max_episode_steps'?",
    ),
    refusal(
        lambda: MultiEnvWrapper(["CartPole-v1"]),
        TypeError,
        "the constructor of task 0 in ...: pass functools.partial(gymnasium.make, 'CartPole-v1')",
    ),
    refusal(
        lambda: point_goals(3),
        TypeError,
        "tasks must be a list ...a gymnasium.Space or a declared set of tasks, got 3",
    ),
    refusal(
        lambda: PadSpaces(three_envs()),
        TypeError,
        "env must be a gymnasium.Env, got ...a vector environment: pass one environment",
    ),
    refusal(
        lambda: differing_tasks().set_task_state(1),
        ValueError,
        "task 1 has ...; make one space of them with TransformAction of gymnasium.wrappers, see ",
    ),
    refusal(
        lambda: padded_arms().set_task_state(1),
        ValueError,
        "task 1 has an observation space that is not within ...padded",
    ),
    refusal(
        lambda: padded_arms().set_task_state(2),
        ValueError,
        "task 2 has action space ...at most 3 entries",
    ),
    refusal(
        lambda: two_tasks().set_task_state(np.zeros((9, 9))),
        ValueError,
        "...in [0, 1], got array([[0., 0., ......",
    ),
    refusal(
        lambda: two_tasks(task_names=["a"]),
        ValueError,
        "task_names must hold one name for each of 2 tasks, got ['a']",
    ),
    refusal(
        lambda: two_tasks(task_names=["a", "a"]),
        ValueError,
        "task_names must differ, got ['a'] more than once",
    ),
    refusal(
        lambda: point_goals([1, 2], task_names=["a", "a"]),
        ValueError,
        "task_names must differ, got ['a'] more than once",
    ),
    refusal(
        lambda: two_tasks(task_names=[1, 2]), TypeError, "task_names must be strings, got [1, 2]"
    ),
    refusal(
        lambda: two_tasks(unify="crop"),
        ValueError,
        "unify must be 'pad', a dict of ...or None, got 'crop'",
    ),
    refusal(
        lambda: two_tasks(unify={"image_size": 64}),
        TypeError,
        "...unexpected keyword argument 'image_size'",
    ),
    refusal(
        lambda: two_tasks(max_episode_steps=[1]),
        ValueError,
        "max_episode_steps must hold one ...2 tasks, got [1]",
    ),
    refusal(
        lambda: two_tasks(max_episode_steps=[1, "x"]),
        ValueError,
        "max_episode_steps of task 1 must be a ...got 'x'",
    ),
    refusal(
        lambda: two_tasks(task_embedding=[1, 2]),
        ValueError,
        "task_embedding must be an array (2, E) ...shape (2,)",
    ),
    refusal(
        lambda: two_tasks(task_embedding=[[1], [2, 3]]),
        ValueError,
        "...task_embedding must be an array",
    ),
    refusal(
        lambda: two_tasks(task_embedding=[[1], [NAN]]),
        ValueError,
        "task_embedding must be finite, got",
    ),
    refusal(lambda: PadSpaces(3), TypeError, "env must be a gymnasium.Env, got 3"),
    refusal(
        lambda: PadSpaces(CountingEnv(), 1),
        ValueError,
        "the environment has ..., expected at most 1 entries",
    ),
    refusal(
        lambda: PadSpaces(TaskOnehotWrapper(CountingEnv(), 0, 2), 5),
        ValueError,
        "the environment would be padded",
    ),
    refusal(
        lambda: PadSpaces(RL2Observation(CountingEnv()), 9),
        ValueError,
        "...such as RL2Observation(PadSpaces(env,",
    ),
    refusal(
        lambda: TaskOnehotWrapper(make("MultiEnv"), 1, 2),
        ValueError,
        "the observations of ...which FlattenMTEnv appends",
    ),
    refusal(
        lambda: TaskOnehotWrapper(TaskOnehotWrapper(CountingEnv(), 0, 2), 0, 2),
        ValueError,
        "the observations of",
    ),
    refusal(
        lambda: TaskOnehotWrapper(make("MultiEnv", task_encoding="none"), 1, 2),
        ValueError,
        "TaskOnehotWrapper is ",
    ),
    refusal(  # a task may be set, though resets draw none
        lambda: TaskOnehotWrapper(FlattenMTEnv(two_tasks(), "none"), 0, 2),
        ValueError,
        "TaskOnehotWrapper is for an environment of one task, but <...> can switch between 2: Fl",
    ),
    refusal(
        lambda: TaskOnehotWrapper(FlattenObservation(two_tasks()), 0, 2),
        ValueError,
        "the observations of <Fl... already, which FlattenObservation appends: ...FlattenMTEnv(",
    ),
    refusal(
        lambda: RL2Observation(two_tasks()),
        TypeError,
        "...got Dict(...); FlattenMTEnv makes one of an MTEnv, with the one-hot of the current ta",
    ),
    refusal(
        lambda: RL2Observation(bytes_with_task_obs(Dict(goal=BOX))),  # as those of families
        TypeError,
        "...got Dict(...; gymnasium.wrappers.FlattenObservation makes one of any other",
    ),
    refusal(
        lambda: TaskOnehotWrapper.wrap_env_list([CountingEnv()] * 2),
        ValueError,
        "environment 1 of envs is environment",
    ),
    refusal(
        lambda: MultiEnvWrapper([lambda: SHARED_ENV] * 2).set_task_state(1),
        ValueError,
        "the constructors",
    ),
    refusal(
        lambda: PadSpaces(CountingEnv(), action_size=3),
        TypeError,
        "the action space ...got Discrete(2); wrap an",
    ),
    refusal(
        lambda: PadSpaces(gymnasium.make("FrozenLake-v1")),
        TypeError,
        "...must be a 1-D Box ...FlattenObservation(env)",
    ),
    refusal(
        lambda: two_tasks(select="x"),
        ValueError,
        "select must be one of ['least_success', 'round_robin', 'uniform', 'without_replacement']",
    ),
    refusal(
        lambda: two_tasks(select=["uniform"]),
        ValueError,
        "select must be one of ... or a callable, got ['uniform']",
    ),
    refusal(
        lambda: two_tasks(select=WithoutReplacement),
        ValueError,
        "select must be ...or a callable, got <class ...: pass an instance, such as "
        "WithoutReplacement()",
    ),
    refusal(
        lambda: MultiEnvWrapper("CartPole-v1"),
        TypeError,
        "funcs_to_make_envs must be a list of constructors, got 'CartPole-v1': pass "
        "functools.partial(gymnasium.make, 'CartPole-v1') in a list",
    ),
    refusal(
        lambda: MultiEnvWrapper([gymnasium.spec("CartPole-v1")]),
        TypeError,
        "the constructor of task 0 in funcs_to_make_envs must be callable, got EnvSpec(...: pass "
        "functools.partial(gymnasium.make, spec) with this spec",
    ),
    refusal(
        lambda: drawing_tasks(2).reset(seed=0), ValueError, "...must be an integer in [0, 1], got 2"
    ),
    refusal(
        lambda: drawing_tasks(None).reset(seed=0),
        ValueError,
        "...be an integer in [0, 1], got None",
    ),
    refusal(
        lambda: two_tasks().step(0),
        ResetNeeded,
        "task 0 has no episode ...: call reset() before step()",
    ),
    refusal(
        lambda: two_tasks().reset(options={"Task_state": 1}),
        ValueError,
        "MultiEnvWrapper takes ...['Task_state']",
    ),
    refusal(
        lambda: two_tasks().reset(options={"resampel_task": 1}),
        ValueError,
        "MultiEnvWrapper ...['resampel_task']",
    ),
    refusal(
        lambda: two_tasks().reset(options={"resample_task": "no"}),
        TypeError,
        "options['resample_task'] must ...'no'",
    ),
    refusal(
        lambda: two_tasks(task_names={"a", "b"}),
        TypeError,
        "task_names must be a list of at least one name, got {",
    ),
    refusal(lambda: two_tasks().set_state(None), TypeError, "a state must be a dict, got None"),
    refusal(
        lambda: EnvToMTEnv(CountingEnv(), [1]),
        TypeError,
        "<CountingEnv instance> has no set_task(task); pass a",
    ),
    refusal(
        lambda: point_goals([{"goal": (1, 0)}], task_obs=3),
        ValueError,
        "task_obs and ...got only one",
    ),
    refusal(
        lambda: point_goals([{"goal": (1, 0)}], task_obs=int, task_observation_space=3),
        TypeError,
        "task_observation_space",
    ),
    refusal(
        lambda: point_goals([{"goal": (1, 0)}], initial_task_state=1),
        ValueError,
        "initial_task_state must be ...got 1",
    ),
    refusal(
        lambda: point_goals(BOX, task_names=["a"]),
        ValueError,
        "task_names and select are for a list of tasks, got a",
    ),
    refusal(
        lambda: point_goals(BOX, select="round_robin"),
        ValueError,
        "task_names and select are for a list of tasks, got a",
    ),
    refusal(
        lambda: point_goals(BOX, print).set_task_state(np.ones(1) * 2),
        ValueError,
        "...an element of Box...got array([2.])",
    ),
    refusal(
        lambda: TaskOnehotWrapper(CountingEnv(), 3, 3),
        ValueError,
        "task_index must be an integer in [0, 2], got 3",
    ),
    refusal(
        lambda: TaskOnehotWrapper(gymnasium.make("FrozenLake-v1"), 0, 3),
        TypeError,
        "...got Discrete(16); ...FlattenObservation",
    ),
    refusal(
        lambda: TaskOnehotWrapper(ChangedEnv(obs=3.0), 0, 2).reset(),
        ValueError,
        "expected ...(2,)...got 3.0",
    ),
    refusal(
        lambda: TaskOnehotWrapper(ChangedEnv(obs=[1, None]), 0, 2).reset(),
        ValueError,
        "expected ...[1, None]",
    ),
    refusal(
        lambda: TaskOnehotWrapper(ChangedEnv(obs=[[1, 2], 3]), 0, 2).reset(),
        ValueError,
        "...got [[1, 2], 3]",
    ),
    refusal(
        lambda: RL2Observation(ChangedEnv(obs=[1, 2, 3])).reset(),
        ValueError,
        "expected ...(2,)...got [1, 2, 3]",
    ),
    refusal(
        lambda: MultiEnvWrapper([lambda: ChangedEnv(obs=3.0)], unify="pad").reset(),
        ValueError,
        "...got 3.0",
    ),
    refusal(
        lambda: begin_episode(TerminateOnSuccess(CountingEnv())).step(0),
        ValueError,
        "expected 'success' in the",
    ),
    refusal(
        lambda: begin_episode(TerminateOnSuccess(ChangedEnv(info={"success": NAN}))).step(0),
        ValueError,
        "...got nan",
    ),
    refusal(
        lambda: begin_episode(TerminateOnSuccess(ChangedEnv(info={"success": "no"}))).step(0),
        ValueError,
        "...got 'no'",
    ),
    refusal(
        lambda: TaskNameWrapper(CountingEnv(), task_id="x"),
        TypeError,
        "task_id must be an int, got 'x'",
    ),
    refusal(
        lambda: TaskNameWrapper(CountingEnv()),
        ValueError,
        "give task_name, task_id, or both; got neither",
    ),
    refusal(
        lambda: FlattenMTEnv(CountingEnv()),
        TypeError,
        "expected an MTEnv with observations {env_obs, task_obs}",
    ),
    refusal(
        lambda: FlattenMTEnv(MultiEnvWrapper([ImageEnv])),
        TypeError,
        "the space of env_obs must be ...images, use the",
    ),
    refusal(
        lambda: FlattenMTEnv(MultiEnvWrapper([two_tasks])),
        TypeError,
        "the space of env_obs must be a 1-D Box, got Dict('env_obs'",
    ),
    refusal(
        lambda: FlattenMTEnv(bytes_with_task_obs(Dict(a=BOX))),
        TypeError,
        "the space of task_obs must be Discrete or ...; EnvToMTEnv(..., task_obs=...) makes one, "
        "task_encoding='none' leaves it out, gymnasium.wrappers.FlattenObservation flattens any",
    ),
    refusal(
        lambda: FlattenMTEnv(bytes_with_task_obs(Box(0, 1, (2, 2)))),
        TypeError,
        "the space of task_obs must be ...1-D Box,",
    ),
    refusal(
        lambda: FlattenMTEnv(bytes_with_task_obs(BOX)),
        TypeError,
        "task_obs of dtype float32 ...dtype uint8 without loss",
    ),
    refusal(
        lambda: begin_episode(NormalizeRewardPerTask(with_task_id(-1))).step(0),
        ValueError,
        "...in [0, 0]...with task_id -1; pass",
    ),
    refusal(
        lambda: begin_episode(NormalizeRewardPerTask(CountingEnv(), 2)).step(0),
        ValueError,
        "...with task_id None; ...TaskNameWrapper",
    ),
    refusal(
        lambda: VectorNormalizeRewardPerTask(three_envs(), 2).reset(),
        ValueError,
        "...got 2 from environment 2;",
    ),
    refusal(
        lambda: VectorNormalizeObservationPerTask(three_envs(), 2).reset(),
        ValueError,
        "...got 2 from environment",
    ),
    refusal(
        lambda: NormalizeRewardPerTask(NormalizeReward(CountingEnv())),
        ValueError,
        "rewards would be normalized twice: the environments are in NormalizeReward already",
    ),
    refusal(
        lambda: VectorNormalizeRewardPerTask(three_envs(), gama=0.9),
        TypeError,
        "VectorNormalizeRewardPerTask got an unexpected ...'gama': did you mean 'gamma'?",
    ),
    refusal(
        lambda: NormalizeObservationPerTask(CountingEnv(), num_task=2),
        TypeError,
        "NormalizeObservationPerTask got an unexpected ...'num_task': did you mean 'num_tasks'",
    ),
    refusal(
        lambda: VectorNormalizeRewardPerTask(VectorNormalizeRewardPerTask(three_envs())),
        ValueError,
        "rewards would be normalized twice: ...in VectorNormalizeRewardPerTask already",
    ),
    refusal(
        lambda: VectorNormalizeRewardPerTask(
            make_vec("MT1", num_goals=1, reward_normalization_method="exponential")
        ),
        ValueError,
        "rewards ...in NormalizeRewardsExponential already, such as by reward_normalization_method",
    ),
    refusal(
        lambda: NormalizeRewardPerTask(CountingEnv()).set_state(None),
        TypeError,
        "a state must be a dict, got None",
    ),
    refusal(
        lambda: NormalizeObservationPerTask(CountingEnv(), num_leading=9),
        ValueError,
        "num_leading must ...got 9",
    ),
    refusal(
        lambda: NormalizeObservationPerTask(gymnasium.make("FrozenLake-v1")),
        TypeError,
        "an observation space to be",
    ),
    refusal(
        lambda: NormalizeObservationPerTask(CountingEnv(dtype=np.int64)),
        TypeError,
        "observations of dtype int64",
    ),
    refusal(
        lambda: RL2Observation(dict_action_env()),
        TypeError,
        "expected a Box, Discrete, MultiDiscrete or ...got Dict('a'",
    ),
    refusal(
        lambda: RL2Observation(SyncVectorEnv(counting_makers(2))),
        TypeError,
        "RL2...one env...: use VectorRL2Observation",
    ),
    refusal(
        lambda: NormalizeRewardPerTask(SyncVectorEnv(counting_makers(2))),
        TypeError,
        "...VectorNormalizeRewardPerTask",
    ),
    refusal(
        lambda: VectorRL2Observation(CountingEnv()),
        TypeError,
        "...for vector environments, got ...<CountingEnv",
    ),
    refusal(
        lambda: VectorNormalizeRewardPerTask(SyncVectorEnv(counting_makers(2))),
        TypeError,
        "...got SyncVectorEnv, which has ...: make it with mtwrappers.as_vector",
    ),
    refusal(
        lambda: MetaVectorWrapper(ClipReward(three_envs(), 0, 1)),
        TypeError,
        "...no step_async...: apply Gymnasium's own vector wrappers outside",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
