"""States between episodes: whoever takes one goes on as the other would have."""

import pickle
from collections import deque
from contextlib import closing
from functools import partial

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers
from metaworld.wrappers import RandomTaskSelectWrapper

import mtwrappers as mt
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.envs.point_goal import PointGoalEnv
from mtwrappers.state import registry
from mtwrappers.state.env_state import find_undeclared, get_state, set_state
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
    *("another task-True", "ours, exponential-True"),
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


class Later(gymnasium.Wrapper):
    """Adds the number of resets to rewards, and keeps what is no plain data."""

    def __init__(self, env):
        super().__init__(env)
        self.resets, self.helper, self.names = 0, object(), {"set"}

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + self.resets, *rest


class WithMethods(Later):
    def get_state(self):
        return {"resets": self.resets}

    def set_state(self, state):
        self.resets = int(state["resets"])


class Registered(Later):
    pass


class SubclassOfRegistered(Registered):
    pass


class SubclassOfGymnasium(wrappers.NormalizeReward):
    """Is another wrapper, with the state of the one that it is derived from."""

    more = 0


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_FUNCTIONS", {**registry._FUNCTIONS})
    registry.register_state(Registered, WithMethods.get_state, WithMethods.set_state)


DECLARED = [WithMethods, Registered, SubclassOfRegistered]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("cls", DECLARED)
def test_a_wrapper_that_declares_its_state_goes_on(cls, tmp_path):
    first, other = cls(CountingEnv()), cls(CountingEnv())
    episodes(first)
    assert get_state(first)[0] == (cls.__name__, {}, {"resets": 3})
    mt.save_checkpoint(tmp_path / "x", env=first)
    mt.load_checkpoint(tmp_path / "x", env=other)
    assert other.resets == 3
    assert equal(episodes(other), episodes(first))


@pytest.mark.usefixtures("registered")
def test_a_class_can_be_registered_after_its_state_was_read():
    class Late(Later):
        pass

    env = Late(CountingEnv())
    assert get_state(env)[0] == ("Late", {}, {})
    registry.register_state(Late, WithMethods.get_state, WithMethods.set_state)
    assert get_state(env)[0] == ("Late", {}, {"resets": 0})


def test_a_subclass_of_a_wrapper_of_gymnasium_has_the_state_of_that_one():
    first, other = (SubclassOfGymnasium(CountingEnv(3)) for _ in range(2))
    episodes(first)
    first.more = 1
    set_state(other, get_state(first))
    assert other.return_rms.mean == first.return_rms.mean != 0
    assert other.more == 0


def test_a_wrapper_that_declares_nothing_has_no_state_whatever_its_attributes_are():
    first, other = Later(CountingEnv()), Later(CountingEnv())
    episodes(first)
    [layer, (name, _, bottom)] = get_state(first)
    assert layer == ("Later", {}, {})
    assert (name, list(bottom)) == ("CountingEnv", ["np_random"])
    set_state(other, get_state(first))
    assert other.resets == 0


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("cls", [Later, *DECLARED])
def test_a_replay_finds_that_a_wrapper_has_not_declared_what_it_keeps(cls, tmp_path):
    def make():
        return mt.MetaIterativeEnvExecutor(lambda: cls(CountingEnv()), 1, journal=True)

    with closing(make()) as first, closing(make()) as other:
        first.reset(seed=0)
        first.reset()
        first.step(np.zeros(1, np.int64))
        mt.save_checkpoint(tmp_path / "x", envs=first)
        if cls in DECLARED:
            mt.load_checkpoint(tmp_path / "x", envs=other)
        else:
            message = (
                r"environment 0.*not deterministic.*must be in its get_state\(\) and set_state"
            )
            with pytest.raises(mt.CheckpointError, match=message) as caught:
                mt.load_checkpoint(tmp_path / "x", envs=other)
            assert isinstance(caught.value.__cause__, NotDeterministicError)


@pytest.mark.usefixtures("registered")
def test_a_call_changes_a_state_only_if_the_layer_or_one_inside_declares_it():
    def find(wrapper, name="resets"):
        return find_undeclared(wrapper(CountingEnv()), name)

    assert [find(cls) for cls in (Later, *DECLARED)] == ["Later", "", "", ""]
    assert find(lambda env: Later(Registered(env))) == ""
    assert find(lambda env: Later(wrappers.NormalizeReward(env))) == ""
    # The wrapper that has it is named, not one around it nor the environment inside.
    assert find(lambda env: wrappers.TimeLimit(Later(env), 3)) == "Later"
    assert find(Later, "") == find(Later, "steps_of_no_wrapper") == "CountingEnv"


@pytest.mark.parametrize("name", ["env", "reset", "__class__", "_saved_kwargs", "np_random"])
def test_a_state_sets_no_attribute_of_a_wrapper_without_one(name):
    env = Later(CountingEnv())
    [(label, identity, _), bottom] = get_state(env)
    with pytest.raises(ValueError, match=rf"expected \[\] of Later, got \['{name}'\]"):
        set_state(env, [(label, identity, {name: 1}), bottom])


def test_an_environment_whose_generator_is_none_of_numpys_is_refused():
    env = CountingEnv()
    env.np_random = np.random.RandomState(0)
    message = "state of CountingEnv is unknown: its np_random must be a numpy.random.Generator.*got"
    with pytest.raises(TypeError, match=message):
        get_state(env)


def test_another_kind_of_generator_goes_on():
    first, other = CountingEnv(), CountingEnv()
    first.np_random = np.random.Generator(np.random.MT19937(3))
    first.np_random.random()
    set_state(other, get_state(first))
    assert other.np_random.random() == first.np_random.random()


def test_a_generator_that_is_shared_stays_shared():
    first, other = CountingEnv(), CountingEnv()
    first.reset(seed=1)
    shared = other.np_random
    set_state(other, get_state(first))
    assert other.np_random is shared


Random = partial(RandomTaskSelectWrapper, tasks=metaworld.ML1("reach-v3", seed=0).train_tasks[:1])
REACH = metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]
# A wrapper, values in a file that it does not take, and the end of the message.
WRONG = [
    (wrappers.NormalizeObservation, {"more": 1}, r"\['_up.*, 'obs_rms'\] of .*, got .*'more'"),
    (
        wrappers.NormalizeObservation,
        {"obs_rms": {"mean": np.zeros(3), "var": np.ones(3), "count": 1.0}},
        r"the mean in obs_rms of NormalizeObservation to be numbers of shape \(2,\), got array",
    ),
    (
        wrappers.NormalizeObservation,
        {"obs_rms": {"mean": np.zeros(2), "var": np.ones(2), "count": "1"}},
        "the count in obs_rms of NormalizeObservation to be a number, got '1'",
    ),
    (
        wrappers.NormalizeObservation,
        {"obs_rms": np.zeros(2)},
        r"\['count', 'mean', 'var'\] of RunningMeanStd, got array",
    ),
    (
        wrappers.NormalizeReward,
        {"_update_running_mean": 1},
        "_update_running_mean of NormalizeReward to be True or False, got 1",
    ),
    (
        wrappers.NormalizeReward,
        {"discounted_reward": [0.0]},
        r"discounted_reward of NormalizeReward to be numbers of shape \(1,\), got \[0.0\]",
    ),
    (
        wrappers.RecordEpisodeStatistics,
        {"episode_count": True},
        "episode_count of RecordEpisodeStatistics to be a number, got True",
    ),
    (
        wrappers.RecordEpisodeStatistics,
        {"time_queue": deque([1.0])},
        "time_queue of RecordEpisodeStatistics to be a deque of at most 100 numbers, got deque",
    ),
    (
        wrappers.RecordEpisodeStatistics,
        {"return_queue": deque(["1"], maxlen=100)},
        "return_queue of RecordEpisodeStatistics to be a deque of at most 100 numbers, got deque",
    ),
    (Random, {"tasks": []}, r"a list of tasks, got \[\]"),
    (Random, {"tasks": [np.zeros(3)]}, r"a list of tasks, got \[array"),
]


@pytest.mark.parametrize(("wrapper", "changes", "message"), WRONG)
def test_a_value_is_checked_by_the_wrapper_that_takes_it(wrapper, changes, message):
    env = wrapper(CountingEnv())
    before = repr(get_state(env))
    [(label, identity, state), bottom] = get_state(env)
    with pytest.raises(ValueError, match=f"expected {message}"):
        set_state(env, [(label, identity, {**state, **changes}), bottom])
    assert repr(get_state(env)) == before


@pytest.mark.filterwarnings("ignore:.*Box observation space maximum and minimum:UserWarning")
@pytest.mark.parametrize(
    ("make", "changes", "error", "message"),
    [
        (CountingEnv, {"np_random": [1]}, ValueError, r"the state of a generator, got \[1\]"),
        (REACH, {"_last_rand_vec": [1.0]}, ValueError, r"expected a random vector, got \[1.0\]"),
        (
            REACH,
            {"_freeze_rand_vec": 1},
            TypeError,
            "_freeze_rand_vec must be True or False",
        ),
    ],
)
def test_a_value_is_checked_by_the_environment_that_takes_it(make, changes, error, message):
    env = make()
    before = repr(get_state(env))
    [(label, identity, state)] = get_state(env)
    with pytest.raises(error, match=message):
        set_state(env, [(label, identity, {**state, **changes})])
    assert repr(get_state(env)) == before


def test_statistics_that_are_shared_stay_shared():
    first, other = (wrappers.NormalizeObservation(CountingEnv()) for _ in range(2))
    episodes(first)
    shared = other.obs_rms
    set_state(other, get_state(first))
    assert other.obs_rms is shared
    assert shared.mean.tolist() == first.obs_rms.mean.tolist() != [0.0, 0.0]


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


@pytest.mark.parametrize("state", [3, [], [("environment", {})], {"label": "environment"}])
def test_what_is_no_state_of_an_environment_is_refused(state):
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    stream = get_state(env)
    with pytest.raises(ValueError, match=r"expected the state of .*, got "):
        set_state(env, state)
    assert get_state(env) == stream
