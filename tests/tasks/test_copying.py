"""The members that a pool grows."""

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mtwrappers import (
    EnvPoolSampler,
    MetaWorldSetTaskEnv,
)
from mtwrappers.metaworld import make_benchmark
from tests.fakes import CountingEnv


def test_a_member_that_cannot_be_copied_is_named():
    class Uncopyable(CountingEnv):
        def __deepcopy__(self, memo):
            raise RuntimeError("it holds a socket")

    sampler = EnvPoolSampler([Uncopyable()])
    with pytest.raises(TypeError, match=r"cannot copy .*Uncopyable.*: it holds a socket"):
        sampler.grow_pool(2)


def copy_of(env):
    """The second member that a pool of one grows."""
    sampler = EnvPoolSampler([env], seed=0)
    sampler.grow_pool(2)
    [copied] = [member for member in (u() for u in sampler.sample(2)) if member is not env]
    return copied


def play(env, steps=3):
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 4)).astype(np.float32)
    return [env.reset()[0], *(env.step(action)[0] for action in actions)]


def test_a_copied_metaworld_member_plays_the_same_task():
    env = MetaWorldSetTaskEnv("ML1", "train", env_name="push-v3", num_goals=3)
    env.set_task(env.sample_tasks(2)[1])
    env.reset()
    env.step(np.ones(4, np.float32))
    copied = copy_of(env)
    assert copied.get_task() == env.get_task()
    assert copied.action_space == env.action_space
    assert np.array_equal(play(copied), play(env))


@pytest.mark.parametrize("benchmark", ["MT1", "ML1"])
def test_a_copied_bare_sawyer_member_plays_the_same_task(benchmark):
    made = make_benchmark(benchmark, env_name="push-v3", num_goals=2)
    env = made.train_classes["push-v3"](camera_name="corner2")
    env.set_task(made.train_tasks[1])
    env.reset()
    env.step(np.ones(4, np.float32))
    copied = copy_of(env)
    assert type(copied) is type(env)
    assert copied.action_space.shape == (4,)
    assert copied.action_space == env.action_space
    assert copied.observation_space == env.observation_space
    assert copied.camera_name == "corner2"
    assert np.array_equal(play(copied), play(env))
    # The goals are hidden in ML1 and visible in MT1.
    assert copied.reset()[0][-3:].any() == (benchmark == "MT1")


def test_a_copied_bare_sawyer_member_has_a_simulation_of_its_own():
    made = make_benchmark("MT1", env_name="reach-v3", num_goals=2)
    env = made.train_classes["reach-v3"]()
    env.set_task(made.train_tasks[0])
    copied = copy_of(env)
    start = env.reset()[0]
    goal = start[-3:].copy()
    copied.set_task(made.train_tasks[1])
    other = copied.reset()[0]
    copied.step(np.ones(4, np.float32))
    assert not np.array_equal(other[-3:], goal)
    assert np.array_equal(env.reset()[0], start)


def test_a_wrapped_bare_sawyer_member_is_refused_rather_than_copied_wrong():
    made = make_benchmark("MT1", env_name="reach-v3", num_goals=1)
    sampler = EnvPoolSampler([TimeLimit(made.train_classes["reach-v3"](), 10)])
    with pytest.raises(TypeError, match="wrap a MetaWorldSetTaskEnv"):
        sampler.grow_pool(2)
