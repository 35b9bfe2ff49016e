import pytest

from mtwrappers import MultiEnvWrapper, SeedNotSetError
from mtwrappers.common import seeding
from mtwrappers.common.checks import check_options
from tests.fakes import CountingMTEnv, counting_makers

NO_TASK_SEED = r"the task seed is not set: call seed_task\(s\) or reset\(seed=s\) first"
NO_ENV_SEED = r"the environment seed is not set: call seed\(s\) or reset\(seed=s\) first"


@pytest.fixture
def env():
    return CountingMTEnv()


def test_a_state_without_a_task_seed_unseeds_the_task_stream(env):
    state = CountingMTEnv().get_state()
    env.reset(seed=7)
    env.set_state(state)
    for draw in (env.sample_task_state, env.assert_task_seed_is_set):
        with pytest.raises(SeedNotSetError, match=NO_TASK_SEED):
            draw()


def draw_tasks(env, n=20):
    return [env.sample_task_state() for _ in range(n)]


def test_each_stream_must_be_seeded_before_it_is_needed(env):
    assert issubclass(SeedNotSetError, AssertionError)
    env.seed(0)
    for draw in (
        env.sample_task_state,
        env.reset_task_state,
        env.assert_task_seed_is_set,
        lambda: env.np_random_task,
        lambda: env.reset(options={"resample_task": True}),
    ):
        with pytest.raises(SeedNotSetError, match=NO_TASK_SEED):
            draw()
    assert env.get_task_state() == 2
    unseeded = CountingMTEnv()
    unseeded.seed_task(0)
    with pytest.raises(SeedNotSetError, match=NO_ENV_SEED):
        unseeded.assert_env_seed_is_set()


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_reset_with_a_seed_seeds_both_streams_and_each_can_be_seeded_alone(env, seed, at_once):
    if at_once:
        env.reset(seed=seed)
    else:
        assert env.seed(seed) == env.seed_task(seed) == [seed]
        env.reset()
    env.assert_env_seed_is_set()
    env.assert_task_seed_is_set()
    assert env.np_random_seed == seed
    expected = seeding.env_generator(seed)
    expected.integers(1000)  # the reset itself drew once
    assert env.np_random.integers(2**62) == expected.integers(2**62)
    assert env.np_random_task.integers(2**62) == seeding.task_generator(seed).integers(2**62)


@pytest.mark.parametrize("method", ["seed", "seed_task", "reset"])
def test_a_seed_that_is_none_is_refused_and_changes_nothing(env, method):
    env.reset(seed=3)
    expected = draw_tasks(env)
    env.reset(seed=3)
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -1"):
        getattr(env, method)(seed=-1)
    assert env.np_random_seed == 3
    assert draw_tasks(env) == expected


def test_resample_task_draws_from_the_stream_that_was_just_seeded(env):
    states = []
    for seed in range(20):
        env.reset(seed=seed, options={"resample_task": True})
        states.append(env.get_task_state())
    assert states == [int(seeding.task_generator(seed).integers(3)) for seed in range(20)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task_state": 1, "resample_task": True}, "not both; got task_state=1 and resample_task="),
        ({"task_state": 3}, "task state must be 0, 1 or 2, got 3"),
    ],
)
def test_options_that_are_refused_leave_the_task(env, options, message):
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)
    assert env.get_task_state() == 2


def test_options_of_minari_and_of_an_environment_of_ones_own_are_accepted(env):
    env.reset(seed=0, options={"difficulty": 3})
    options = {"minari_autoseed": False}
    check_options(options, {"task_state"}, "an environment")
    with pytest.raises(
        ValueError, match=r"takes the reset options \['task_state'\], got \['goal'\]$"
    ):
        check_options({**options, "goal": 1}, {"task_state"}, "an environment")


@pytest.mark.parametrize("name", ["task_name", "task_id", "Task_Index", "resample", "resample_all"])
def test_an_option_that_begins_as_one_of_tasks_does_not_reach_an_inner_environment(name):
    env = MultiEnvWrapper(counting_makers(2))
    message = rf"takes the reset options \['resample_task', 'task_state'\], got \['{name}'\]"
    with pytest.raises(ValueError, match=message):
        env.reset(options={name: 1})
    env.reset(options={"low": 1})


def test_a_misspelt_option_is_refused_with_the_right_one():
    env = MultiEnvWrapper(counting_makers(2))
    with pytest.raises(ValueError, match=r"got \['resample'\]; did you mean 'resample_task'\?$"):
        env.reset(options={"resample": True})


@pytest.mark.parametrize(
    "change",
    [
        {"env_stream": {}},
        {"env_stream": {"seed": 0, "state": {"bit_generator": "PCG64"}}},
        {"task_stream": {"seed": 0, "state": None}},
        {"task_state": 3},
    ],
)
def test_a_state_that_is_refused_leaves_the_environment_as_it_was(env, change):
    env.reset(seed=0)
    state = env.get_state()
    for broken in ({}, {**state, "task_state": 1, **change}):
        with pytest.raises(ValueError, match=r"expected|must"):
            env.set_state(broken)
        assert env.get_state() == state
