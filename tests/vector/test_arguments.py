"""What both executors may be given, and what they refuse."""

import multiprocessing
import re
import threading
from contextlib import closing
from functools import partial

import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.vector.make import fit_sizes, make_executor
from tests.fakes import Constructors, CountingEnv, counting_makers
from tests.vector.fakes import all_modes, both_executors, exact


def counting(n=4, **kwargs):
    return counting_makers(n, **{"obs_size": 1, **kwargs})


def firsts(envs):
    """What each environment of one number observes first."""
    return envs.reset(seed=0)[0][:, 0].tolist()


@both_executors
@pytest.mark.parametrize(
    ("given", "sizes", "expected"),
    [
        (partial(CountingEnv, first=7, obs_size=1), (2, 3), [7] * 6),
        (counting(2), (2, 3), [0, 0, 0, 100, 100, 100]),
        (counting(6), (2, 3), [0, 100, 200, 300, 400, 500]),
        (tuple(counting(3)), (3,), [0, 100, 200]),
        ([lambda: CountingEnv(first=5), lambda: CountingEnv(first=6)], (2,), [5, 6]),
    ],
    ids=["a constructor", "one per task", "one per environment", "a tuple", "lambdas"],
)
def test_constructors_become_environments_task_by_task(executor, given, sizes, expected):
    with closing(executor(given, *sizes)) as envs:
        assert isinstance(envs, VectorEnv)
        assert (envs.meta_batch_size, envs.envs_per_task) == (*sizes, 1)[:2]
        assert envs.num_envs == len(expected)
        assert firsts(envs) == expected


@both_executors
def test_an_environment_is_copied_and_left_alone(executor):
    env = CountingEnv(first=30)
    with closing(executor(env, 2, 2)) as envs:
        obs, infos = envs.reset(seed=[1, 2, 3, 4])
        assert obs[:, 0].tolist() == [30] * 4
        assert len(set(infos["draw"].tolist())) == 4
        envs.step([0] * 4)
    assert (env.seeds, env.actions, env.closed) == ([], [], False)


@both_executors
@pytest.mark.parametrize("seed", [None, 5])
def test_copies_of_an_environment_have_streams_of_their_own(executor, seed):
    draws = []
    for _ in range(2):
        env = CountingEnv()
        if seed is not None:
            env.reset(seed=seed)
        state = env.np_random.bit_generator.state if seed is not None else None
        with closing(executor(env, 4, 3)) as envs:
            draws.append([envs.reset()[1]["draw"].tolist() for _ in range(2)])
        assert seed is None or env.np_random.bit_generator.state == state
    assert all(len(set(row)) == 12 for run in draws for row in run)
    # They repeat where the environment was seeded.
    assert (draws[0] == draws[1]) is (seed is not None)


@both_executors
def test_seeds_of_a_first_reset_go_before_those_of_copies(executor):
    env = CountingEnv()
    env.reset(seed=5)
    with closing(executor(env, 2)) as envs, closing(executor(CountingEnv, 2)) as others:
        given = [8, None]
        assert envs.reset(seed=given)[1]["draw"][0] == others.reset(seed=given)[1]["draw"][0]
        assert len(envs.call("seeds")[1]) == 2
        assert envs.call("seeds")[1][1] is not None
        envs.reset()
        assert [seeds[-1] for seeds in envs.call("seeds")] == [None, None]


class Locked(CountingEnv):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


LENGTHS = "expected {} constructors (one per task) or {} (one per environment), got {}"
KINDS = "expected a constructor, a list of constructors or a gymnasium.Env, got "


@both_executors
@pytest.mark.parametrize(
    ("given", "sizes", "error", "message"),
    [
        (counting(3), (2, 2), ValueError, LENGTHS.format(2, 4, 3)),
        ([], (2, 2), ValueError, LENGTHS.format(2, 4, 0)),
        (counting(2), (1, 4), ValueError, LENGTHS.format(1, 4, 2)),
        (None, (2,), TypeError, KINDS + "None"),
        ({"env": 3}, (2,), TypeError, KINDS + "{'env': 3}"),
        ("CartPole-v1", (2,), TypeError, KINDS + "'CartPole-v1'"),
        ([CountingEnv, 7], (2,), TypeError, "constructor of environment 1 must be callable, got 7"),
        (
            [*counting(3), lambda: "a house"],
            (4,),
            TypeError,
            "constructor of environment 3 must return a gymnasium.Env, got 'a house'",
        ),
        (Locked(), (2,), TypeError, "must pickle to be given to an executor, <Locked instance>"),
        (
            [*counting(2), partial(CountingEnv, obs_size=3)],
            (3,),
            ValueError,
            "environment 2 has observation space Box(0.0, 1000.0, (3,), float64), expected "
            "Box(0.0, 1000.0, (1,), float64) as in environment 0",
        ),
        (
            [*counting(2), partial(CountingEnv, obs_size=1, num_actions=5)],
            (3,),
            ValueError,
            "environment 2 has action space Discrete(5), expected Discrete(2) as in environment 0",
        ),
        *(
            (CountingEnv, sizes, ValueError, f"{name} must be a positive integer, got {value!r}")
            for value in (0, -1, 1.5, "2", True, None)
            for name, sizes in (("meta_batch_size", (value,)), ("envs_per_task", (2, value)))
        ),
        *(
            (
                CountingEnv,
                (2, 1, length),
                ValueError,
                f"max_path_length must be a positive integer, got {length!r}",
            )
            for length in (0, -1, 2.0, True, "5")
        ),
    ],
)
def test_what_makes_no_environments_is_refused(executor, given, sizes, error, message):
    with pytest.raises(error, match=exact(message)):
        executor(given, *sizes)


def test_the_environments_are_closed_when_one_cannot_be_built():
    made = Constructors(3, {2: RuntimeError("no bricks")})
    with pytest.raises(RuntimeError, match="the constructor of environment 2 failed: no bricks"):
        MetaIterativeEnvExecutor(made.makers, 3)
    assert [env.closed for env in made.envs.values()] == [True, True]


@both_executors
def test_the_path_length_truncates_episodes(executor):
    with closing(executor(partial(CountingEnv, 9), 2, 1, 2)) as envs:
        envs.reset(seed=0)
        flags = [envs.step([0, 0])[2:4] for _ in range(4)]
        assert [terminated.tolist() for terminated, _ in flags] == [[False] * 2] * 4
        assert [truncated.any() for _, truncated in flags] == [False, True, False, True]
        assert [truncated.all() for _, truncated in flags] == [False, True, False, True]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"workers": 0}, "workers must be a positive integer, got 0"),
        ({"workers": 1.0}, "workers must be a positive integer, got 1.0"),
        ({"on_worker_failure": "ignore"}, "must be 'raise' or 'restart', got 'ignore'"),
        ({"timeout": 0}, "timeout must be positive or None, got 0"),
        ({"timeout": -1.0}, "timeout must be positive or None, got -1.0"),
        ({"timeout": "a"}, "timeout must be a number of seconds or None, got 'a'"),
        ({"timeout": float("nan")}, "timeout must be positive or None, got nan"),
        ({"context": "thread"}, "cannot find context for 'thread'"),
    ],
)
def test_bad_arguments_of_the_parallel_executor_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=exact(message)):
        MetaParallelEnvExecutor(CountingEnv, 2, **kwargs)


@both_executors
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_keyword_is_one_error_and_nothing_else(executor):
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrokers'"):
        executor(CountingEnv, 2, wrokers=3)


def test_a_daemonic_process_is_told_what_to_use_instead():
    here, there = multiprocessing.Pipe()

    def make():
        try:
            MetaParallelEnvExecutor(CountingEnv, 2)
        except RuntimeError as exc:
            there.send(str(exc))

    process = multiprocessing.get_context("fork").Process(target=make, daemon=True)
    process.start()
    assert here.poll(10)
    assert here.recv() == (
        "a daemonic process may not have children, so there can be no workers here; use "
        "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
    )
    process.join()


@both_executors
@all_modes
def test_the_autoreset_mode_may_be_a_member_its_name_or_its_value(executor, mode):
    for given in (mode, mode.name, mode.value):
        with closing(executor(CountingEnv, 2, autoreset_mode=given)) as envs:
            assert envs.autoreset_mode is mode
            assert envs.metadata["autoreset_mode"] is mode
            assert envs.metadata["render_fps"] == 10
    assert "autoreset_mode" not in CountingEnv.metadata


@both_executors
@pytest.mark.parametrize("mode", ["same_step", "", None, True])
def test_another_mode_is_refused(executor, mode):
    message = r"must be one of \['NextStep', 'SameStep', 'Disabled'\], got " + re.escape(repr(mode))
    with pytest.raises(ValueError, match=message):
        executor(CountingEnv, 2, autoreset_mode=mode)


def test_the_same_step_is_the_default_mode():
    with closing(MetaIterativeEnvExecutor(CountingEnv, 2)) as envs:
        assert envs.autoreset_mode is AutoresetMode.SAME_STEP


# What registered ids ask for.


@pytest.mark.parametrize(
    ("kwargs", "seconds"), [({}, 300.0), ({"timeout": None}, None), ({"timeout": 7}, 7.0)]
)
def test_a_timeout_of_none_is_for_ever(kwargs, seconds):
    with closing(make_executor([CountingEnv] * 2, 2, 1, workers=2, **kwargs)) as envs:
        assert envs._crew.pool.timeout == seconds


@pytest.mark.parametrize("timeout", [None, 7.0])
def test_without_workers_a_timeout_is_refused(timeout):
    message = f"iterative execution has no workers; got {{'timeout': {timeout}}}"
    with pytest.raises(ValueError, match=exact(message)):
        make_executor([CountingEnv] * 2, 2, 1, timeout=timeout)


@pytest.mark.parametrize(
    ("num_envs", "envs_per_task", "message"),
    [
        ("10", None, "num_envs must be a positive integer, got '10'"),
        (0, None, "num_envs must be a positive integer, got 0"),
        (True, None, "num_envs must be a positive integer, got True"),
        (4, None, "num_envs must be a multiple of 3 (3, 6, 9, ...), or 1 for one environment per"),
        (6, 3, "with envs_per_task=3, num_envs must be 9 (or 1, which leaves it open), got 6"),
        (6, 0, "envs_per_task must be a positive integer, got 0"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(num_envs, envs_per_task, message):
    with pytest.raises(ValueError, match=exact(message)):
        fit_sizes(num_envs, envs_per_task, 3, "X")


@pytest.mark.parametrize(
    ("sizes", "each"), [((1, None), 1), ((3, None), 1), ((9, None), 3), ((1, 4), 4), ((12, 4), 4)]
)
def test_sizes_that_go_together_say_how_many_each_task_gets(sizes, each):
    assert fit_sizes(*sizes, 3, "X") == each
