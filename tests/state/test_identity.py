"""A checkpoint loads only into environments that were made with the same arguments."""

import dataclasses
import warnings
from contextlib import closing
from functools import partial
from typing import NamedTuple

import gymnasium
import pytest
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import EzPickle
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as vector_wrappers

import mtwrappers as mt
from mtwrappers.core.selection import least_success
from mtwrappers.envs.point_goal import PointGoalEnv
from mtwrappers.state.identity import describe, require_same
from tests.fakes import CountingEnv, equal, run_with_python
from tests.mixed_envs import RESCALED_PENDULUM as PENDULUM_ID

make, make_vec = gymnasium.make, gymnasium.make_vec
PENDULUM = {"id": "Pendulum-v1", "max_episode_steps": 1}


def make_wrapped(wrapper, **kwargs):
    """A single environment in a wrapper."""
    return wrapper(make(**PENDULUM), **kwargs)


def make_executor(wrapper=None, env_settings=PENDULUM, max_path_length=1, **kwargs):
    """Two environments in one vector environment, in a wrapper."""
    envs = mt.MetaIterativeEnvExecutor(
        partial(make, **env_settings), 2, max_path_length=max_path_length, journal=True
    )
    return envs if wrapper is None else wrapper(envs, **kwargs)


def make_user_env(spec=True, entry_point=CountingEnv, **kwargs):
    """A user's environment, with or without a spec."""
    return make(EnvSpec("Own-v0", entry_point), **kwargs) if spec else CountingEnv(**kwargs)


class Maze(CountingEnv):
    def __init__(self, config=None, env=None, goal=None):
        super().__init__()


def make_maze(**kwargs):
    settings = {"config": {"env": "small"}, "env": "small", **kwargs}
    return make(EnvSpec("Maze-v0", Maze), **settings)


class PickledEnv(CountingEnv, EzPickle):
    def __init__(self, length=2, render_mode=None):
        CountingEnv.__init__(self, length, render_mode=render_mode)
        EzPickle.__init__(self, length, render_mode)


class Scaled(gymnasium.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * reward


class PickledScaled(Scaled, EzPickle):
    def __init__(self, env, factor=2.0):
        EzPickle.__init__(self, env, factor)
        super().__init__(env, factor)


class Negated(gymnasium.RewardWrapper):
    def reward(self, reward):
        return -reward


class NamedBase(gymnasium.Wrapper):
    """Has its own name for the environment inside."""

    def __init__(self, base_env):
        super().__init__(base_env)


class EnvGain(gymnasium.Wrapper):
    """Has an argument whose name only begins with that of an environment."""

    def __init__(self, env, env_gain=1.0):
        super().__init__(env)


class SlowPendulum(gymnasium.Wrapper):
    """Makes the environment inside by itself."""

    def __init__(self, gravity):
        super().__init__(gymnasium.make("Pendulum-v1", g=gravity))


@dataclasses.dataclass
class Goal:
    x: int


@dataclasses.dataclass
class OtherGoal:
    x: int


class Point(NamedTuple):
    x: int


class OtherPoint(NamedTuple):
    x: int


class Config:
    def __init__(self, x):
        self.x = x


def make_multi(gravities=(9, 10), goals=(), **kwargs):
    makers = [partial(make, "Pendulum-v1", g=g) for g in gravities]
    makers = [partial(make, EnvSpec("Maze-v0", Maze), goal=goal) for goal in goals] or makers
    return mt.MultiEnvWrapper(makers, **kwargs)


def set_g(env, g):
    env.unwrapped.g = g


def nothing(env, g):
    pass


def make_env_to_mtenv(tasks=(8.0, 9.0), set_task=set_g, **kwargs):
    return mt.EnvToMTEnv(make("Pendulum-v1"), list(tasks), set_task, **kwargs)


def scale(factor, offset=0):
    def set_scaled(env, g, offset=offset):
        set_g(env, factor * g + offset)

    return set_scaled


scaled = partial(make_env_to_mtenv, set_task=scale(2))


def make_doubled(func=lambda obs: obs * 2):
    return wrappers.TransformObservation(make("Pendulum-v1"), func, None)


def make_stream(*phases, **kwargs):
    return mt.TaskStream(make_multi(), phases or [(0, 5), (1, 5)], **kwargs)


MT1 = partial(make, id="mtwrappers/MT1-v0", num_goals=2)
MT1_RL2 = partial(MT1, recurrent_info_in_obs=True)
MT1_ALPHA = partial(MT1, reward_normalization_method="exponential")
MT1_VEC = partial(make_vec, id="mtwrappers/MT1-v0", num_goals=2, max_episode_steps=1, journal=True)
MT10 = partial(make, id="mtwrappers/MT10-v0")
ML10 = partial(make, id="mtwrappers/ML10-train-v0")
ML10_VEC = partial(make_vec, id="mtwrappers/ML10-train-v0", max_episode_steps=1, journal=True)
CW10 = partial(make, id="mtwrappers/CW10-v0", steps_per_task=10)
MIXED = partial(
    make, id="mtwrappers/MultiEnv-v0", env_ids=[PENDULUM_ID, "MountainCarContinuous-v0"]
)
MIXED = partial(MIXED, env_kwargs=[{"g": 9}, {}], unify="pad")

# What makes an environment, another setting of it, and the part of the error that names it.
DIFFERENT = [
    # Meta-World, one environment.
    (MT1, {"env_name": "push-v3"}, "benchmark.env_name 'push-v3', got None"),
    (MT1, {"num_goals": 3}, "benchmark.num_goals 3, got 2"),
    (MT1, {"seed": 1}, "benchmark.seed 1, got 0; expected seed 1, got None"),
    (MT1, {"terminate_on_success": True}, "terminate_on_success True, got False"),
    (MT1, {"reward_function_version": "v1"}, "reward_function_version 'v1', got 'v2'"),
    (MT1, {"descriptions": "lerobot-0.6.1"}, "descriptions 'lerobot-0.6.1', got 'metaworld'"),
    (MT1, {"action_repeat": 2}, r"the state of \[.*ActionRepeat.*, got one of"),
    (MT1, {"task_encoding": "dict"}, "the state of .*, got one of .*FlattenMTEnv"),
    (MT1_RL2, {"normalize_reward_in_recurrent_info": False}, "reward_divisor 1.0, got 10.0"),
    (MT1_ALPHA, {"reward_alpha": 0.1}, "reward_alpha 0.1, got 0.001"),
    (MT10, {"goals": "continuous"}, ".*goals 'continuous', got 'list'"),
    (MT10, {"select": partial(least_success, floor=0.3)}, "select {'floor': 0.3, .*}, got None"),
    (ML10, {"id": "mtwrappers/ML10-test-v0"}, "kind 'test', got 'train'"),
    # Several.
    (MT1_VEC, {"max_episode_steps": 2}, "max_episode_steps 2, got 1"),
    (MT1_VEC, {"autoreset_mode": "NextStep"}, "autoreset_mode 'NextStep', got 'SameStep'"),
    (ML10_VEC, {"meta_batch_size": 20}, "meta_batch_size 20, got 10"),
    # Streams.
    (CW10, {"steps_per_task": 11}, r"phases\[0\].steps 11, got 10"),
    (make_stream, {"task_obs": "phase"}, "task_obs 'phase', got 'task'"),
    # Mixed sets.
    (
        MIXED,
        {"env_ids": [PENDULUM_ID] * 2, "task_names": ["a", "b"]},
        r".*\[1\].with\[0\] 'Rescaled/P.*, got 'MountainCar",
    ),
    (MIXED, {"env_kwargs": [{"g": 9}, {"goal_velocity": 1}]}, ".*.goal_velocity 1, got nothing"),
    (MIXED, {"unify": {"action_size": 2}}, "unify .*action_size.*, got 'pad'"),
    (make_multi, {"gravities": (9, 8)}, r"funcs_to_make_envs\[1\].g 8, got 10"),
    (make_env_to_mtenv, {"tasks": (8.0, 10.0)}, r"tasks\[1\] 10.0, got 9.0"),
    (make_env_to_mtenv, {"set_task": nothing}, "set_task.function 'nothing', got 'set_g'"),
    # Functions whose name says nothing.
    (
        scaled,
        {"set_task": lambda env, g: set_g(env, g)},
        "set_task.function '<lambda>', got 'scale",
    ),
    (scaled, {"set_task": scale(3)}, "set_task.variables.factor 3, got 2"),
    (scaled, {"set_task": scale(2, offset=1)}, r"set_task.defaults\[0\]\[0\] 1, got 0"),
    (make_doubled, {"func": lambda obs: obs * 3}, "func.code in .*"),
    (
        make_user_env,
        {"entry_point": lambda **kwargs: CountingEnv(5)},
        "entry_point .*'<lambda>'.*CountingEnv",
    ),
    # Wrappers.
    (partial(make_wrapped, mt.NormalizeRewardPerTask), {"gamma": 0.9}, "gamma 0.9, got 0.99"),
    (
        partial(make_wrapped, mt.NormalizeObservationPerTask),
        {"epsilon": 0.1},
        "epsilon 0.1, got 1e-08",
    ),
    (partial(make_wrapped, wrappers.NormalizeReward), {"gamma": 0.9}, "gamma 0.9, got 0.99"),
    (partial(make_wrapped, PickledScaled), {"factor": 3.0}, "factor 3.0, got 2.0"),
    (
        partial(make_executor, mt.VectorRL2Observation),
        {"reward_divisor": 2.0},
        "reward_divisor 2.0",
    ),
    (
        partial(make_executor, vector_wrappers.NormalizeReward),
        {"gamma": 0.9},
        "gamma 0.9, got 0.99",
    ),
    # Executors and users' own environments.
    (make_executor, {"max_path_length": 2}, "max_path_length 2, got 1"),
    (make_executor, {"env_settings": {**PENDULUM, "g": 9}}, "g 9, got nothing"),
    (PointGoalEnv, {"radius": 2.0}, "radius 2.0, got 1.0"),
    (make_user_env, {"length": 3}, "length 3, got "),
    (make_user_env, {"spec": False}, "observation_space.*, got nothing"),
    (make_maze, {"config": {"env": "large"}}, "config.env 'large', got 'small'"),
    (make_maze, {"env": "large"}, "env 'large', got 'small'"),
    (PickledEnv, {"length": 3}, "length 3, got 2"),
    (partial(make_multi, goals=[Goal(1)]), {"goals": [Goal(2)]}, ".*.goal.x 2, got 1"),
    (
        partial(make_multi, goals=[Goal(1)]),
        {"goals": [OtherGoal(1)]},
        ".*.goal.type 'OtherGoal', got 'Goal'",
    ),
    (
        partial(make_multi, goals=[Point(1)]),
        {"goals": [OtherPoint(1)]},
        ".*.goal.type 'OtherPoint', got 'Point'",
    ),
]
# What makes an environment, and a setting of it that may differ.
SAME = [
    (MT1, {"render_mode": "rgb_array"}),
    (MT1, {"fast": False}),
    (MT1, {"reward_function_version": "v2"}),  # as by default
    (MT1, {"id": "mtwrappers/MT1-v0", "use_one_hot": False}),  # Meta-World's own name
    (MT1_VEC, {"workers": 1, "on_worker_failure": "recover"}),
    (MIXED, {"render_mode": "rgb_array"}),
    (PickledEnv, {"render_mode": "rgb_array"}),
    (scaled, {"set_task": scale(2)}),  # another function of the same code
    (partial(make_multi, goals=[Config(1)]), {"goals": [Config(2)]}),  # which nothing is known of
    (partial(make_wrapped, wrappers.RecordEpisodeStatistics), {}),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Returns the checkpoint of what a function makes, at the end of an episode."""
    paths = {}

    def save_once(make_env):
        if make_env not in paths:
            paths[make_env] = tmp_path_factory.mktemp("saved") / "run.ckpt"
            with closing(make_env()) as env:
                env.reset(seed=0)
                ended = env.step(env.action_space.sample())[3]
                assert not isinstance(env, VectorEnv) or ended.all()
                mt.save_checkpoint(paths[make_env], env=env)
        return paths[make_env]

    return save_once


@pytest.mark.parametrize(("maker", "change", "message"), DIFFERENT)
def test_environments_that_differ_in_one_setting_refuse_each_others_checkpoint(
    saved, maker, change, message
):
    path = saved(maker)
    with (
        closing(maker(**change)) as env,
        pytest.raises(mt.CheckpointError, match=f": expected {message}"),
    ):
        mt.load_checkpoint(path, env=env)


@pytest.mark.parametrize(("maker", "change"), SAME)
def test_environments_that_differ_in_what_may_differ_go_on(saved, maker, change):
    with closing(maker()) as unchanged_env, closing(maker(**change)) as changed_env:
        for env in (unchanged_env, changed_env):
            mt.load_checkpoint(saved(maker), env=env)
        first, second = (env.reset(options=None)[0] for env in (unchanged_env, changed_env))
        assert equal(first, second)


def test_sets_are_described_in_one_order():
    assert describe(set("zyxwvutsrq")) == list("qrstuvwxyz")
    assert describe({3, 1, 2}) == [1, 2, 3]


def test_functions_that_refer_to_themselves_are_described():
    def count_down(n):
        return n and count_down(n - 1)

    described = describe(count_down)
    assert described["variables"]["count_down"]["function"] == count_down.__qualname__
    assert describe(count_down) == described


CODE_OF_A_SET = """
from mtwrappers.state.identity import describe
names = "lambda"
print(describe(lambda name: name in {"a", "b", "c", "d", "e", "f"}))
"""


def test_the_code_of_a_function_is_the_same_in_each_process():
    outputs = {run_with_python("-c", CODE_OF_A_SET, PYTHONHASHSEED=seed) for seed in "123"}
    assert len(outputs) == 1
    assert "'function': '<lambda>'" in outputs.pop()


def test_the_module_and_the_code_of_a_function_are_compared_if_both_are_known():
    described = describe(scale(2))
    [code] = [key for key in described if key.startswith("code in ")]
    in_main = {key: value for key, value in described.items() if key != "of module"}
    by_another_python = {**described, "code in cpython-399": "0"}
    del by_another_python[code]
    require_same(described, in_main, "environment")
    require_same(described, by_another_python, "environment")
    with pytest.raises(ValueError, match=r"expected code in .* 'other', got '"):
        require_same({**described, code: "other"}, described, "environment")
    with pytest.raises(ValueError, match=r"expected of module 'other', got 'tests\.state"):
        require_same({**described, "of module": "other"}, described, "environment")


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        (partial(make_user_env, spec=False), "CountingEnv"),
        (partial(make_wrapped, Scaled), "Scaled"),
        (partial(make_wrapped, EnvGain), "EnvGain"),
        (partial(SlowPendulum, 2.0), "SlowPendulum"),
        (partial(make_multi, goals=[Config(1)]), "Config"),
        (partial(mt.as_vector, partial(Maze, config=3), 2, workers=2, journal=True), "Maze"),
    ],
)
def test_a_checkpoint_of_arguments_that_are_not_kept_warns_when_it_is_saved(maker, name, tmp_path):
    with closing(maker()) as env:
        env.reset(seed=0)
        with pytest.warns(
            UserWarning,
            match=f"cannot compare the arguments of {name}, because these are not kept: pass the",
        ) as caught:
            mt.save_checkpoint(tmp_path / "run.ckpt", env=env)
        assert [warning.filename for warning in caught] == [__file__]  # the caller's


@pytest.mark.parametrize(
    "maker",
    [
        *(make_maze, PickledEnv, partial(make_multi, goals=[Goal(1)]), PointGoalEnv),
        *(partial(make_wrapped, PickledScaled), partial(make_wrapped, Negated)),
        partial(make_wrapped, NamedBase),
    ],
)
def test_a_checkpoint_of_arguments_that_are_kept_does_not_warn(maker, tmp_path):
    with closing(maker()) as env, warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.save_checkpoint(tmp_path / "run.ckpt", env=env)


def test_an_argument_named_type_does_not_hide_the_class():
    fields = [("type", str)]
    wall, door = (dataclasses.make_dataclass(name, fields)("red") for name in ("Wall", "Door"))
    with pytest.raises(ValueError, match=r"expected type 'Wall', got 'Door'"):
        require_same(describe(wall), describe(door), "environment")
    with pytest.raises(ValueError, match=r"expected arguments.type 'red', got 'blue'"):
        require_same(
            describe(wall), describe(dataclasses.replace(wall, type="blue")), "environment"
        )
