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


def make_meta_world(**kwargs):
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
    "exponential": partial(make_meta_world, reward_normalization_method="exponential"),
    "random tasks": make_meta_world,
    "pseudorandom": partial(make_meta_world, task_select="pseudorandom"),
    "the next task": partial(make_meta_world, task_select="pseudorandom"),
    "another task": make_meta_world,
    "ours, exponential": partial(MT1, reward_normalization_method="exponential"),
}
# What is changed in an environment after some episodes.
CHANGE = {
    "frozen": lambda env: setattr(env, "update_running_mean", False),
    "the next task": lambda env: env.get_wrapper_attr("toggle_sample_tasks_on_reset")(True),
    "another task": keep_another_task,
}


def run_episodes(env, n=3):
    """The first steps of some episodes, without how long they took."""
    results = []
    for _ in range(n):
        results.append(env.reset())
        env.action_space.seed(len(results))
        results += [env.step(env.action_space.sample()) for _ in range(3)]
    return remove_times(results)


def remove_times(results):
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
    with closing(MAKE[kind]()) as env, closing(MAKE[kind]()) as other_env:
        if seeded:
            env.reset(seed=3)
            run_episodes(env)
        CHANGE.get(kind, str)(env)
        mt.save_checkpoint(tmp_path / "x", env=env)
        run_episodes(other_env)
        mt.load_checkpoint(tmp_path / "x", env=other_env)
        if kind == "MaxAndSkip":
            env.unwrapped.length = other_env.unwrapped.length = 1  # too short to fill its buffer
        assert equal(run_episodes(other_env), run_episodes(env))


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
        return remove_times(results)

    with closing(make()) as envs, closing(make()) as other_envs:
        envs.reset(seed=0)
        step(envs, 4)
        if kind == "RecordEpisodeStatistics":
            envs.episode_start_times -= 1000.0
        mt.save_checkpoint(tmp_path / "x", envs=envs)
        mt.load_checkpoint(tmp_path / "x", envs=other_envs)
        if kind == "RecordEpisodeStatistics":
            assert other_envs.return_queue == envs.return_queue == deque([6.0])
            assert other_envs.episode_start_times == pytest.approx(envs.episode_start_times, abs=60)
        assert equal(step(other_envs, 9), step(envs, 9))


def test_a_vector_environment_that_says_nothing_of_its_state_is_refused():
    with closing(SyncVectorEnv([CountingEnv])) as envs:
        message = "state of SyncVectorEnv is unknown.*MetaIterativeEnvExecutor.*journal=True"
        with pytest.raises(TypeError, match=message):
            get_state(vector_wrappers.NormalizeReward(envs))


# The wrappers of others.


class CountsResets(gymnasium.Wrapper):
    """Adds the number of resets to rewards, and keeps what is no plain data."""

    def __init__(self, env):
        super().__init__(env)
        self.resets, self.helper, self.names = 0, object(), {"set"}

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)

    def step(self, action):
        obs, reward, *flags_and_info = super().step(action)
        return obs, reward + self.resets, *flags_and_info


class WithMethods(CountsResets):
    def get_state(self):
        return {"resets": self.resets}

    def set_state(self, state):
        self.resets = int(state["resets"])


class Registered(CountsResets):
    pass


class SubclassOfRegistered(Registered):
    pass


class SubclassOfGymnasium(wrappers.NormalizeReward):
    """Is another wrapper, with the state of the one that it is derived from."""

    version = 0


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_FUNCTIONS", {**registry._FUNCTIONS})
    registry.register_state(Registered, WithMethods.get_state, WithMethods.set_state)


DECLARED = [WithMethods, Registered, SubclassOfRegistered]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("cls", DECLARED)
def test_a_wrapper_that_declares_its_state_goes_on(cls, tmp_path):
    env, other_env = cls(CountingEnv()), cls(CountingEnv())
    run_episodes(env)
    assert get_state(env)[0] == (cls.__name__, {}, {"resets": 3})
    mt.save_checkpoint(tmp_path / "x", env=env)
    mt.load_checkpoint(tmp_path / "x", env=other_env)
    assert other_env.resets == 3
    assert equal(run_episodes(other_env), run_episodes(env))


@pytest.mark.usefixtures("registered")
def test_a_class_can_be_registered_after_its_state_was_read():
    class Late(CountsResets):
        pass

    env = Late(CountingEnv())
    assert get_state(env)[0] == ("Late", {}, {})
    registry.register_state(Late, WithMethods.get_state, WithMethods.set_state)
    assert get_state(env)[0] == ("Late", {}, {"resets": 0})


def test_a_subclass_of_a_wrapper_of_gymnasium_has_the_state_of_that_one():
    env, other_env = (SubclassOfGymnasium(CountingEnv(3)) for _ in range(2))
    run_episodes(env)
    env.version = 1
    set_state(other_env, get_state(env))
    assert other_env.return_rms.mean == env.return_rms.mean != 0
    assert other_env.version == 0


def test_a_wrapper_that_declares_nothing_has_no_state_whatever_its_attributes_are():
    env, other_env = CountsResets(CountingEnv()), CountsResets(CountingEnv())
    run_episodes(env)
    [layer, (name, _, bottom)] = get_state(env)
    assert layer == ("CountsResets", {}, {})
    assert (name, list(bottom)) == ("CountingEnv", ["np_random"])
    set_state(other_env, get_state(env))
    assert other_env.resets == 0


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("cls", [CountsResets, *DECLARED])
def test_a_replay_finds_that_a_wrapper_has_not_declared_what_it_keeps(cls, tmp_path):
    def make():
        return mt.MetaIterativeEnvExecutor(lambda: cls(CountingEnv()), 1, journal=True)

    with closing(make()) as envs, closing(make()) as other_envs:
        envs.reset(seed=0)
        envs.reset()
        envs.step(np.zeros(1, np.int64))
        mt.save_checkpoint(tmp_path / "x", envs=envs)
        if cls in DECLARED:
            mt.load_checkpoint(tmp_path / "x", envs=other_envs)
        else:
            message = (
                r"environment 0.*not deterministic.*must be in its get_state\(\) and set_state"
            )
            with pytest.raises(mt.CheckpointError, match=message) as caught:
                mt.load_checkpoint(tmp_path / "x", envs=other_envs)
            assert isinstance(caught.value.__cause__, NotDeterministicError)


@pytest.mark.usefixtures("registered")
def test_a_call_changes_a_state_only_if_the_layer_or_one_inside_declares_it():
    def find(wrapper, name="resets"):
        return find_undeclared(wrapper(CountingEnv()), name)

    assert [find(cls) for cls in (CountsResets, *DECLARED)] == ["CountsResets", "", "", ""]
    assert find(lambda env: CountsResets(Registered(env))) == ""
    assert find(lambda env: CountsResets(wrappers.NormalizeReward(env))) == ""
    # The wrapper that has it is named, not one around it nor the environment inside.
    assert find(lambda env: wrappers.TimeLimit(CountsResets(env), 3)) == "CountsResets"
    assert find(CountsResets, "") == find(CountsResets, "steps_of_no_wrapper") == "CountingEnv"


def test_a_class_that_adds_a_method_does_not_inherit_a_state_for_it():
    class Lesson(mt.EnvToMTEnv):
        num_open = 1

        def open_tasks(self, num_open):
            self.num_open = num_open

    class DeclaredLesson(Lesson):
        def get_state(self):
            return {**super().get_state(), "num_open": self.num_open}

    lesson, declared = (
        cls(mt.PointGoalEnv(), [{"goal": (1, 0)}]) for cls in (Lesson, DeclaredLesson)
    )
    assert find_undeclared(lesson, "open_tasks") == find_undeclared(lesson, "num_open") == "Lesson"
    assert find_undeclared(lesson, "set_task_state") == find_undeclared(lesson, "") == ""
    assert find_undeclared(declared, "open_tasks") == ""


def test_a_mixin_that_adds_a_method_beside_an_inherited_state_is_named():
    class Gravity:
        def set_gravity(self, gravity):
            self.gravity = gravity

    class Mixed(Gravity, mt.PointGoalEnv):
        pass

    assert find_undeclared(Mixed(), "set_gravity") == "Mixed"
    assert find_undeclared(Mixed(), "set_task") == ""


def test_an_override_of_a_method_keeps_the_inherited_state():
    class Rounded(mt.PointGoalEnv):
        def set_task(self, task):
            super().set_task({"goal": tuple(round(x) for x in task["goal"])})

    assert find_undeclared(Rounded(), "set_task") == ""


@pytest.mark.parametrize("name", ["env", "reset", "__class__", "_saved_kwargs", "np_random"])
def test_a_state_sets_no_attribute_of_a_wrapper_without_one(name):
    env = CountsResets(CountingEnv())
    [(label, identity, _), bottom] = get_state(env)
    with pytest.raises(ValueError, match=rf"expected \[\] of CountsResets, got \['{name}'\]"):
        set_state(env, [(label, identity, {name: 1}), bottom])


def test_an_environment_whose_generator_is_none_of_numpys_is_refused():
    env = CountingEnv()
    env.np_random = np.random.RandomState(0)
    message = "state of CountingEnv is unknown: its np_random must be a numpy.random.Generator.*got"
    with pytest.raises(TypeError, match=message):
        get_state(env)


def test_another_kind_of_generator_goes_on():
    env, other_env = CountingEnv(), CountingEnv()
    env.np_random = np.random.Generator(np.random.MT19937(3))
    env.np_random.random()
    set_state(other_env, get_state(env))
    assert other_env.np_random.random() == env.np_random.random()


def test_a_generator_that_is_shared_stays_shared():
    env, other_env = CountingEnv(), CountingEnv()
    env.reset(seed=1)
    shared = other_env.np_random
    set_state(other_env, get_state(env))
    assert other_env.np_random is shared


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
    state_before = repr(get_state(env))
    [(label, identity, state), bottom] = get_state(env)
    with pytest.raises(ValueError, match=f"expected {message}"):
        set_state(env, [(label, identity, {**state, **changes}), bottom])
    assert repr(get_state(env)) == state_before


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
    state_before = repr(get_state(env))
    [(label, identity, state)] = get_state(env)
    with pytest.raises(error, match=message):
        set_state(env, [(label, identity, {**state, **changes})])
    assert repr(get_state(env)) == state_before


def test_statistics_that_are_shared_stay_shared():
    env, other_env = (wrappers.NormalizeObservation(CountingEnv()) for _ in range(2))
    run_episodes(env)
    shared = other_env.obs_rms
    set_state(other_env, get_state(env))
    assert other_env.obs_rms is shared
    assert shared.mean.tolist() == env.obs_rms.mean.tolist() != [0.0, 0.0]


def test_set_task_environments_keep_their_task_and_their_order_of_tasks():
    env, other_env = mt.MetaWorldSetTaskEnv("MT10"), mt.MetaWorldSetTaskEnv("MT10")
    env.set_task(env.sample_tasks(7)[6])
    other_env.set_state(pickle.loads(pickle.dumps(env.get_state())))
    assert other_env.get_task() == env.get_task()
    assert other_env.sample_tasks(20) == env.sample_tasks(20)
    assert equal(other_env.reset(), env.reset())
    with pytest.raises(ValueError, match=r"expected benchmark\.name 'ML10', got 'MT10'"):
        set_state(mt.MetaWorldSetTaskEnv("ML10"), get_state(env))


ENVS = [PointGoalEnv() for _ in range(5)]


def draw_tasks(sampler):
    """Draws four tasks, or four environments where a sampler has no tasks."""
    updates = sampler.sample(4)
    return [update.task if hasattr(update, "task") else update() for update in updates]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: mt.EnvPoolSampler(ENVS, seed=seed),
        lambda seed: mt.MetaWorldTaskSampler("MT10", "train", seed=seed),
    ],
)
def test_task_samplers_go_on_with_the_same_tasks(make):
    sampler, other_sampler = make(1), make(2)
    sampler.sample(3)
    other_sampler.set_state(sampler.get_state())
    assert draw_tasks(other_sampler) == draw_tasks(sampler)


@pytest.mark.parametrize("settings", [{}, {"parallel": True, "policy_in": "workers"}])
def test_a_meta_sampler_goes_on_with_the_same_paths(settings):
    def policy(observations, rng):
        return np.stack([row_rng.uniform(-0.1, 0.1, 2) for row_rng in rng])

    def collect(sampler):
        sampler.update_tasks()
        return sampler.obtain_samples()

    samplers = [mt.MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=s) for s in (1, 2)]
    samplers.append(mt.MetaSampler(PointGoalEnv, policy, 2, 3, 6, seed=3, **settings))
    first, *other_samplers = samplers
    collect(first)
    state = pickle.loads(pickle.dumps(first.get_state()))
    collect(other_samplers[0])
    expected = collect(first)
    for other_sampler in other_samplers:
        other_sampler.set_state(state)
        assert equal(collect(other_sampler), expected)
        assert other_sampler.total_timesteps_sampled == first.total_timesteps_sampled
    for sampler in samplers:
        sampler.close()


def test_other_wrappers_than_those_of_the_state_are_named_with_the_way_out():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"wrappers that it was saved in$"):
        set_state(env.env, get_state(env))


@pytest.mark.parametrize("state", [3, [], [("environment", {})], {"label": "environment"}])
def test_what_is_no_state_of_an_environment_is_refused(state):
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    stream = get_state(env)
    with pytest.raises(ValueError, match=r"expected the state of .*, got "):
        set_state(env, state)
    assert get_state(env) == stream
