"""States between episodes: whoever takes one goes on as the other would have."""

import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    EnvPoolSampler,
    MetaSampler,
    MetaWorldSetTaskEnv,
    MetaWorldTaskSampler,
    MultiEnvWrapper,
    NormalizeRewardPerTask,
    RL2Observation,
)
from mtwrappers.envs.point_goal import PointGoalEnv
from mtwrappers.state import get_state, set_state
from tests.fakes import equal

GRAVITIES = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0, 10.0)]
MAKE = {
    "CartPole": partial(gymnasium.make, "CartPole-v1"),
    "without replacement": partial(
        MultiEnvWrapper, GRAVITIES, sample_tasks_on_reset=True, select="without_replacement"
    ),
    "one task": partial(MultiEnvWrapper, GRAVITIES, 1),
    "MT1": partial(gymnasium.make, "mtwrappers/MT1-v0", env_name="reach-v3"),
    "MT10": partial(gymnasium.make, "mtwrappers/MT10-v0", select="least_success"),
    "point goal": PointGoalEnv,
    "normalized": lambda: NormalizeRewardPerTask(
        gymnasium.make("mtwrappers/MT1-v0", env_name="reach-v3")
    ),
    "rl2": lambda: RL2Observation(gymnasium.make("CartPole-v1")),
}


def episodes(env, n=3):
    """The first steps of some episodes."""
    results = []
    for _ in range(n):
        results.append(env.reset())
        env.action_space.seed(len(results))
        results += [env.step(env.action_space.sample()) for _ in range(3)]
    return results


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("kind", MAKE)
def test_another_environment_goes_on_with_the_same_episodes(kind, seeded):
    first, other = MAKE[kind](), MAKE[kind]()
    if seeded:
        first.reset(seed=3)
        episodes(first)
    state = pickle.loads(pickle.dumps(get_state(first)))
    episodes(other)
    set_state(other, state)
    assert equal(episodes(other), episodes(first))
    first.close()
    other.close()


def test_the_state_of_other_layers_is_refused():
    cartpole, pendulum = gymnasium.make("CartPole-v1"), gymnasium.make("Pendulum-v1")
    with pytest.raises(ValueError, match=r"expected .*\['PendulumEnv'\], got .*\['CartPoleEnv'\]"):
        set_state(pendulum, get_state(cartpole))


def test_set_task_environments_keep_their_task_and_their_order_of_tasks():
    first, other = MetaWorldSetTaskEnv("MT10"), MetaWorldSetTaskEnv("MT10")
    first.set_task(first.sample_tasks(7)[6])
    other.set_state(pickle.loads(pickle.dumps(first.get_state())))
    assert other.get_task() == first.get_task()
    assert other.sample_tasks(20) == first.sample_tasks(20)
    assert equal(other.reset(), first.reset())
    ml10 = MetaWorldSetTaskEnv("ML10")
    with pytest.raises(ValueError, match="expected a state of the tasks"):
        ml10.set_state(first.get_state())


def test_task_samplers_go_on_with_the_same_tasks():
    envs = [PointGoalEnv() for _ in range(5)]
    for make in (lambda s: EnvPoolSampler(envs, seed=s), partial(_meta_world_sampler)):
        first, other = make(1), make(2)
        first.sample(3)
        other.set_state(first.get_state())
        assert [_shown(u) for u in other.sample(4)] == [_shown(u) for u in first.sample(4)]


def _meta_world_sampler(seed):
    return MetaWorldTaskSampler("MT10", "train", seed=seed)


def _shown(update):
    return getattr(update, "task", None) or update()


@pytest.mark.parametrize("way", [{}, {"parallel": True, "policy_in": "workers"}])
def test_a_meta_sampler_goes_on_with_the_same_paths(way):
    def policy(observations, rng):
        return np.stack([own.uniform(-0.1, 0.1, 2) for own in rng])

    def collect(sampler):
        sampler.update_tasks()
        return sampler.obtain_samples()

    made = [MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=s) for s in (1, 2)]
    made.append(MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=3, **way))
    first, *others = made
    collect(first)
    state = pickle.loads(pickle.dumps(first.get_state()))
    collect(others[0])
    expected = collect(first)
    for other in others:
        other.set_state(state)
        assert equal(collect(other), expected)
        assert other.total_timesteps_sampled == first.total_timesteps_sampled
    for sampler in made:
        sampler.close()
