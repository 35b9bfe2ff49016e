"""What both executors may be given, and what they refuse."""

import multiprocessing
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.vector.make import make_executor
from tests.fakes import Constructors, CountingEnv, counting_makers
from tests.vector.fakes import both_executors


@both_executors
@pytest.mark.parametrize(
    ("given", "sizes", "expected"),
    [
        (partial(CountingEnv, first=7), (2, 3), [7] * 6),
        (counting_makers(2), (2, 3), [0, 0, 0, 100, 100, 100]),
        (counting_makers(6), (2, 3), [0, 100, 200, 300, 400, 500]),
        (tuple(counting_makers(3)), (3,), [0, 100, 200]),
        ([lambda: CountingEnv(first=5), lambda: CountingEnv(first=6)], (2,), [5, 6]),
    ],
    ids=["a constructor", "one per task", "one per environment", "a tuple", "lambdas"],
)
def test_constructors_become_environments_task_by_task(executor, given, sizes, expected):
    with closing(executor(given, *sizes)) as envs:
        assert (envs.meta_batch_size, envs.envs_per_task) == (*sizes, 1)[:2]
        assert envs.num_envs == len(expected)
        assert envs.reset()[0][:, 0].tolist() == expected


@both_executors
@pytest.mark.parametrize("seed", [None, 5])
def test_copies_of_an_environment_have_streams_of_their_own_and_leave_it_alone(executor, seed):
    draws = []
    for _ in range(2):
        env = CountingEnv(first=30)
        if seed is not None:
            env.reset(seed=seed)
        state = env.np_random.bit_generator.state if seed is not None else None
        with closing(executor(env, 4, 3)) as envs:
            obs, infos = envs.reset()
            draws.append([infos["draw"].tolist(), envs.reset()[1]["draw"].tolist()])
            assert obs[:, 0].tolist() == [30] * 12
            envs.step([0] * 12)
        assert seed is None or env.np_random.bit_generator.state == state
        assert (len(env.seeds), env.actions, env.closed) == (int(seed is not None), [], False)
    assert all(len(set(row)) == 12 for run in draws for row in run)
    # They repeat where the environment was seeded.
    assert (draws[0] == draws[1]) is (seed is not None)


@both_executors
def test_seeds_of_a_first_reset_go_before_those_of_copies(executor):
    with closing(executor(CountingEnv(), 2)) as envs:
        envs.reset(seed=[8, None])
        envs.reset()
        first, second = envs.call("seeds")
        assert (first, second[1]) == ([8, None], None)
        assert second[0] is not None


def test_the_environments_are_closed_when_one_cannot_be_built():
    made = Constructors(3, {2: RuntimeError("no bricks")})
    with pytest.raises(RuntimeError, match="the constructor of environment 2 failed: no bricks"):
        MetaIterativeEnvExecutor(made.makers, 3)
    assert [env.closed for env in made.envs.values()] == [True, True]


@both_executors
def test_the_path_length_truncates_episodes(executor):
    with closing(executor(partial(CountingEnv, 9), 1, max_path_length=2)) as envs:
        envs.reset(seed=0)
        flags = [np.concatenate(envs.step([0])[2:4]).tolist() for _ in range(4)]
        assert flags == [[False, False], [False, True]] * 2


@both_executors
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_keyword_is_one_error_and_nothing_else(executor):
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrokers'"):
        executor(CountingEnv, 2, wrokers=3)


def test_a_daemonic_process_is_told_what_to_use_instead():
    message = "^a daemonic process may not have children, .* or execution='iterative' in make_vec$"
    with (
        multiprocessing.get_context("fork").Pool(1) as pool,
        pytest.raises(RuntimeError, match=message),
    ):
        pool.apply(MetaParallelEnvExecutor, (CountingEnv, 2))


def test_the_autoreset_mode_may_be_a_member_its_name_or_its_value():
    for mode in AutoresetMode:
        for given in mode, mode.name, mode.value:
            with closing(MetaIterativeEnvExecutor(CountingEnv, 2, autoreset_mode=given)) as envs:
                assert envs.autoreset_mode is mode
    assert "autoreset_mode" not in CountingEnv.metadata


@pytest.mark.parametrize(("kwargs", "seconds"), [({}, 300.0), ({"timeout": None}, None)])
def test_a_timeout_of_none_is_for_ever(kwargs, seconds):
    with closing(make_executor([CountingEnv] * 2, 2, 1, workers=2, **kwargs)) as envs:
        assert envs._crew.workers[0].timeout == seconds
