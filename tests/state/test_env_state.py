"""States between episodes: whoever takes one goes on as the other would have."""

import pickle
from collections import deque
from contextlib import closing
from functools import partial

import gymnasium
import metaworld  # noqa: F401 (registers its ids)
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers
from gymnasium.wrappers.utils import RunningMeanStd

import mtwrappers as mt
from mtwrappers.envs.point_goal import PointGoalEnv
from mtwrappers.state.env_state import get_state, set_state
from tests.fakes import CountingEnv, equal

GRAVITIES = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0, 10.0)]
MT1 = partial(gymnasium.make, "mtwrappers/MT1-v0", env_name="reach-v3")


def meta_world(**kwargs):
    """Upstream's environment in all of its wrappers, which draw its task."""
    settings = {"env_name": "reach-v3", "max_episode_steps": 3, "disable_env_checker": True}
    env = gymnasium.make("Meta-World/MT1", **settings, seed=1, **kwargs)
    env.get_wrapper_attr("sample_tasks")()
    return env


def keep_another_task(env):
    env.get_wrapper_attr("toggle_sample_tasks_on_reset")(False)
    env.get_wrapper_attr("sample_tasks")()


MAKE = {
    "CartPole": partial(gymnasium.make, "CartPole-v1"),
    "without replacement": partial(
        mt.MultiEnvWrapper, GRAVITIES, sample_tasks_on_reset=True, select="without_replacement"
    ),
    "one task": partial(mt.MultiEnvWrapper, GRAVITIES, 1),
    "MT1": MT1,
    "MT10": partial(gymnasium.make, "mtwrappers/MT10-v0", select="least_success"),
    "point goal": PointGoalEnv,
    "normalized": lambda: mt.NormalizeRewardPerTask(MT1()),
    "rl2": lambda: mt.RL2Observation(gymnasium.make("CartPole-v1")),
    # Of Gymnasium and Meta-World.
    "NormalizeObservation": lambda: wrappers.NormalizeObservation(CountingEnv()),
    "frozen": lambda: wrappers.NormalizeObservation(CountingEnv()),
    "NormalizeReward": lambda: wrappers.NormalizeReward(CountingEnv(7)),
    "MaxAndSkip": lambda: wrappers.MaxAndSkipObservation(CountingEnv(5), 4),
    "exponential": partial(meta_world, reward_normalization_method="exponential"),
    "random tasks": meta_world,
    "pseudorandom": partial(meta_world, task_select="pseudorandom"),
    "the next task": partial(meta_world, task_select="pseudorandom"),
    "another task": meta_world,
    "ours, exponential": partial(MT1, reward_normalization_method="exponential"),
}
# What is changed in an environment after some episodes.
CHANGE = {
    "frozen": lambda env: setattr(env, "update_running_mean", False),
    "the next task": lambda env: env.get_wrapper_attr("toggle_sample_tasks_on_reset")(True),
    "another task": keep_another_task,
}


def episodes(env, n=3):
    """The first steps of some episodes, without how long they took."""
    results = []
    for _ in range(n):
        results.append(env.reset())
        env.action_space.seed(len(results))
        results += [env.step(env.action_space.sample()) for _ in range(3)]
    return without_times(results)


def without_times(results):
    for result in results:
        result[-1].get("episode", {}).pop("t", None)
    return results


@pytest.mark.filterwarnings("ignore:.*Box observation space maximum and minimum:UserWarning")
@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.slow_but(
    *("MT10-True", "MT1-False", "normalized-False"),
    *("the next task-True", "another task-True", "ours, exponential-True"),
    "NormalizeObservation-True",
)
def test_another_environment_goes_on_with_the_same_episodes(kind, seeded, tmp_path):
    with closing(MAKE[kind]()) as first, closing(MAKE[kind]()) as other:
        if seeded:
            first.reset(seed=3)
            episodes(first)
        CHANGE.get(kind, str)(first)
        mt.save_checkpoint(tmp_path / "x", env=first)
        episodes(other)
        mt.load_checkpoint(tmp_path / "x", env=other)
        if kind == "MaxAndSkip":
            first.unwrapped.length = other.unwrapped.length = 1  # too short to fill its buffer
        assert equal(episodes(other), episodes(first))


VECTOR = {
    "NormalizeObservation": vector_wrappers.NormalizeObservation,
    "NormalizeReward": vector_wrappers.NormalizeReward,
    "RecordEpisodeStatistics": vector_wrappers.RecordEpisodeStatistics,
}


@pytest.mark.parametrize("kind", VECTOR)
def test_vector_wrappers_of_gymnasium_go_on_in_mid_episode(kind, tmp_path):
    def make():
        makers = [partial(CountingEnv, n) for n in (3, 5)]
        settings = {"autoreset_mode": AutoresetMode.NEXT_STEP, "journal": True}
        return VECTOR[kind](mt.MetaIterativeEnvExecutor(makers, 2, **settings))

    def step(envs, n):
        results = [envs.step(np.zeros(2, np.int64)) for _ in range(n)]
        return without_times(results)

    with closing(make()) as first, closing(make()) as other:
        first.reset(seed=0)
        step(first, 4)
        if kind == "RecordEpisodeStatistics":
            first.episode_start_times -= 1000.0
        mt.save_checkpoint(tmp_path / "x", envs=first)
        mt.load_checkpoint(tmp_path / "x", envs=other)
        if kind == "RecordEpisodeStatistics":
            assert other.return_queue == first.return_queue == deque([6.0])
            assert other.episode_start_times == pytest.approx(first.episode_start_times, abs=60)
        assert equal(step(other, 9), step(first, 9))


def test_a_vector_environment_that_says_nothing_of_its_state_is_refused():
    with closing(SyncVectorEnv([CountingEnv])) as envs:
        message = "state of SyncVectorEnv is unknown.*MetaIterativeEnvExecutor.*journal=True"
        with pytest.raises(TypeError, match=message):
            get_state(vector_wrappers.NormalizeReward(envs))


# The wrappers of others.


class Plain(gymnasium.Wrapper):
    """Observes a drawn number and its count of resets; keeps data of every kind, and constants."""

    last = None  # as a subclass of a wrapper may have it

    def __init__(self, env, seed):
        super().__init__(env)
        self.rng, self.own = np.random.Generator(np.random.MT19937(seed)), np.random.default_rng(5)
        self.resets, self.history, self.recent = 0, [], deque(maxlen=2)
        self.nested = {"a": (1, [np.zeros(2)]), (1, "b"): None, "rms": RunningMeanStd(shape=(2,))}
        self.space, self.function, self.kind = env.action_space, lambda x: 2 * x, int
        self.inner, self.module = env, np

    def reset(self, **kwargs):
        obs, _ = super().reset(**kwargs)
        self.last = float(self.rng.random())
        self.resets += 1
        self.history.append(np.float32(self.resets))
        self.recent.append(self.last)
        self.nested["a"][1][0] += 1
        self.nested["rms"].update(obs[None])
        return obs, {"info": repr([self.last, self.resets, self.history, self.recent]), "x": 1}


class Subclass(wrappers.NormalizeReward):
    """Keeps more than the wrapper of Gymnasium that it is."""

    factor = 1

    def reset(self, **kwargs):
        self.factor *= 2
        return super().reset(**kwargs)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward * self.factor, *rest


class Stateless(gymnasium.RewardWrapper):
    def reward(self, reward):
        return -reward


OTHERS = {
    "plain": lambda seed: Plain(CountingEnv(), seed),
    "subclass": lambda seed: Subclass(Stateless(CountingEnv())),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_plain_data_of_a_wrapper_by_others_is_kept(kind, tmp_path):
    first, other = OTHERS[kind](0), OTHERS[kind](1)
    episodes(first)
    mt.save_checkpoint(tmp_path / "x", env=first)
    mt.load_checkpoint(tmp_path / "x", env=other)
    assert repr(get_state(other)) == repr(get_state(first))
    assert equal(episodes(other), episodes(first))
    if kind == "plain":
        assert type(other.nested["a"]) is tuple
        assert other.recent.maxlen == 2
        assert other.function(2) == 4


class Helper:
    """A class of somebody's own."""

    def __init__(self):
        self.weights = [1.0]

    def __call__(self, obs):
        return obs


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Helper(), "Helper <"),
        ([1, {"x": Helper()}], "Helper <"),
        ({1, 2}, "set {1, 2}"),
        (b"ab", "bytes b'ab'"),
        (np.random.RandomState(0), "RandomState"),
    ],
)
def test_a_wrapper_whose_state_is_unknown_is_refused_by_name(value, named):
    env = Stateless(CountingEnv())
    env.mine = value
    message = f"state of Stateless is unknown: its attribute mine is or has {named}.*get_state"
    with pytest.raises(TypeError, match=message):
        get_state(env)
    env.mine = 1
    get_state(env)


@pytest.mark.parametrize("name", ["env", "reset", "__class__", "_saved_kwargs", "np_random"])
def test_a_state_sets_no_attribute_that_is_no_data(name):
    env = Stateless(CountingEnv())
    [(label, identity, _), bottom] = get_state(env)
    with pytest.raises(ValueError, match=f"{name} of Stateless is not plain data"):
        set_state(env, [(label, identity, {name: 1}), bottom])


@pytest.mark.parametrize(
    "change", [{}, {"obs_rms": {"mean": np.zeros(3), "var": np.ones(3), "count": 1.0}}]
)
def test_statistics_of_something_else_are_refused(change):
    env = wrappers.NormalizeObservation(CountingEnv())
    [(label, identity, kept), bottom] = get_state(env)
    kept = {**kept, "obs_rms": {"#RunningMeanStd": change["obs_rms"]}} if change else {}
    with pytest.raises(ValueError, match=r"expected (\['_update|statistics of shape \(2,\))"):
        set_state(env, [(label, identity, kept), bottom])


def test_set_task_environments_keep_their_task_and_their_order_of_tasks():
    first, other = mt.MetaWorldSetTaskEnv("MT10"), mt.MetaWorldSetTaskEnv("MT10")
    first.set_task(first.sample_tasks(7)[6])
    other.set_state(pickle.loads(pickle.dumps(first.get_state())))
    assert other.get_task() == first.get_task()
    assert other.sample_tasks(20) == first.sample_tasks(20)
    assert equal(other.reset(), first.reset())
    with pytest.raises(ValueError, match=r"expected benchmark\.name 'ML10', got 'MT10'"):
        set_state(mt.MetaWorldSetTaskEnv("ML10"), get_state(first))


ENVS = [PointGoalEnv() for _ in range(5)]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: mt.EnvPoolSampler(ENVS, seed=seed),
        lambda seed: mt.MetaWorldTaskSampler("MT10", "train", seed=seed),
    ],
)
def test_task_samplers_go_on_with_the_same_tasks(make):
    first, other = make(1), make(2)
    first.sample(3)
    other.set_state(first.get_state())
    tasks = [[getattr(u, "task", None) or u() for u in one.sample(4)] for one in (first, other)]
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize("way", [{}, {"parallel": True, "policy_in": "workers"}])
def test_a_meta_sampler_goes_on_with_the_same_paths(way):
    def policy(observations, rng):
        return np.stack([own.uniform(-0.1, 0.1, 2) for own in rng])

    def collect(sampler):
        sampler.update_tasks()
        return sampler.obtain_samples()

    made = [mt.MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=s) for s in (1, 2)]
    made.append(mt.MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=3, **way))
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
