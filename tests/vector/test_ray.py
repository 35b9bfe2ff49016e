"""Environments on the actors of a Ray cluster.

The first tests are those of workers on this machine; then come those of what a cluster adds.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest

import mtwrappers as mt
from mtwrappers import WorkerDiedError
from mtwrappers.testing import check_meta_vector_env
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.fakes import equal, run_with_python
from tests.vector.clusters import local_cluster
from tests.vector.fakes import KINDS
from tests.vector.faults import (
    FAULT,
    NO_ACTIONS,
    assert_same_episode,
    fragile_makers,
    kill_itself,
    loses_workers,
)
from tests.vector.processes import all_gone, needs_proc, wait_until
from tests.vector.test_failures import (  # noqa: F401 (with the `make_envs` of this file)
    test_what_a_worker_cannot_import_is_an_error_and_costs_no_worker,
    test_what_does_not_pickle_is_one_error_that_says_whose,
)
from tests.vector.test_recover import (  # noqa: F401
    test_a_death_in_any_use_changes_nothing,
)
from tests.vector.test_state import (  # noqa: F401
    test_another_executor_goes_on_where_the_first_one_was,
)

ray = pytest.importorskip("ray")
pytestmark = [needs_proc, pytest.mark.slow, loses_workers]


def on_ray(makers=None, m=2, k=2, **kwargs):
    """Four fragile environments on two actors: environment 2 is the first of worker 1."""
    return MetaRayEnvExecutor(makers or fragile_makers(), m, k, **{"workers": 2, **kwargs})


recovering = partial(on_ray, on_worker_failure="recover")


@pytest.fixture
def make_envs():
    return recovering


@pytest.fixture
def target_executor():
    return MetaRayEnvExecutor


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4, resources={"special": 2}):
        yield


def get_pids(envs):
    """Returns the process of each environment."""
    return list(envs.call(read_only(lambda env: os.getpid())))


# The same results as without Ray.


@pytest.mark.parametrize(
    ("kind", "workers"),
    [("nested", 3), ("cartpole", None)],
)
def test_executors_are_equal_to_gymnasiums_sync_vector_env(kind, workers):
    def make_envs(makers, **kwargs):
        return MetaRayEnvExecutor(makers, 2, 2, workers=workers, **kwargs)

    check_meta_vector_env(make_envs, KINDS[kind], steps=30)


class NoisePolicy:
    """Draws actions, for every environment from its own generator."""

    def get_actions(self, observations, rng):
        actions = [[env_rng.uniform(-1, 1, 4) for env_rng in task_rngs] for task_rngs in rng]
        return np.array(actions, np.float32), {"seen": observations.sum(axis=-1)}

    def for_tasks(self, indices):
        return self


def test_paths_are_the_same_wherever_environments_and_policy_are():
    def sample_twice(**settings):
        make_env = partial(mt.MetaWorldSetTaskEnv, "MT10", num_goals=1, seed=0)
        sampler = mt.MetaSampler(make_env, NoisePolicy(), 2, 5, 25, 1, seed=3, **settings)
        samples = []
        with closing(sampler):
            for _ in range(2):
                sampler.update_tasks()
                samples.append(sampler.obtain_samples())
        return samples

    expected = sample_twice()
    assert [len(task_paths) for task_paths in expected[1].values()] == [2] * 5
    for policy_in in ("parent", "workers"):
        actual = sample_twice(execution="ray", workers=2, policy_in=policy_in)
        assert equal(actual, expected), policy_in


# Actors that are lost, hang or are interrupted.


def test_without_recovery_the_lost_worker_is_named():
    envs = on_ray(fragile_makers(fault=kill_itself))
    pids = get_pids(envs)
    envs.reset(seed=0)
    message = (
        r"^worker 1 on [\d.]+ ended: its worker process has died\..*, with environments 2 to 3 "
        r"of task 1 \(b\); on_worker_failure='recover' replaces lost workers; all workers were "
        r"closed$"
    )
    with pytest.raises(WorkerDiedError, match=message):
        envs.step(FAULT)
    assert envs.closed is True
    assert all_gone(pids, 10)


def test_an_actor_that_is_stopped_is_given_up_after_the_timeout():
    with closing(recovering(timeout=1)) as envs:
        pids = get_pids(envs)
        envs.reset(seed=0)
        os.kill(pids[2], signal.SIGSTOP)
        start_time = time.monotonic()
        message = r"worker 1 hung: it did not answer within 1 s, with environments 2 to 3"
        with pytest.warns(UserWarning, match=message):
            result = envs.step(NO_ACTIONS)
        assert result[1].tolist() == [1.0] * 4
        assert 1 <= time.monotonic() - start_time < 15
        assert all_gone(pids[2:], 20)


def test_after_ctrl_c_in_a_step_the_executor_goes_on():
    makers = fragile_makers(fault=partial(time.sleep, 1.5))
    oracle = mt.MetaIterativeEnvExecutor(makers, 2, 2)
    with closing(on_ray(makers)) as envs, closing(oracle):
        envs.reset(seed=0)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            envs.step(FAULT)
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert_same_episode(envs, oracle)


# Resources.


def test_too_many_workers_are_refused_at_once():
    message = "3 workers .* needs 1 CPU, 1 special, but .* has 4 CPU .*, 2 special .*, room for 2"
    with pytest.raises(ValueError, match=message):
        on_ray(fragile_makers(6), 3, workers=3, ray_options={"resources": {"special": 1}})


def test_actors_take_what_the_options_say():
    options = {"resources": {"special": 1}, "num_cpus": 0.5}
    with closing(on_ray(workers=None, ray_options=options)) as envs:
        assert envs.num_workers == 2
        free = ray.available_resources
        assert wait_until(lambda: "special" not in free() and free()["CPU"] == 3, 5)
    assert wait_until(lambda: free().get("special") == 2 and free()["CPU"] == 4, 5)


# The end of a program, and of Ray.


ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}
PROLOGUE = """
import os, sys
os.dup2(1, 2)  # errors to what is returned
import mtwrappers, ray
from mtwrappers import WorkerDiedError
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.vector.faults import fragile_makers

def make(**kwargs):
    envs = MetaRayEnvExecutor(fragile_makers(), 2, 2, workers=1, ray_options={"num_cpus": 0.5},
                              **kwargs)
    envs.reset(seed=0)
    envs.step([0] * 4)
    return envs

"""
SHUT_RAY_DOWN = """
first, second = (make(on_worker_failure="recover") for _ in "ab")
if os.fork() == 0:
    first.close()
    os._exit(0)
os.wait()
first.close()
first.close()
second.step([0] * 4)
ray.shutdown()
try:
    second.step([0] * 4)
except WorkerDiedError as error:
    print(error)
assert second.closed and not ray.is_initialized()
"""


def test_executors_end_with_ray_and_do_not_start_it_again():
    output = run_with_python("-c", PROLOGUE + SHUT_RAY_DOWN, **ENVIRONMENT)
    message = r"worker 0 on [\d.]+ ended: Ray was shut down, with environments 0 to 3"
    assert re.match(message, output.splitlines()[-1])


def test_an_executor_that_is_not_closed_says_nothing_when_the_program_ends():
    code = PROLOGUE + "envs = make(); envs.step_async([0] * 4)"
    assert run_with_python("-W", "error", "-c", code, **ENVIRONMENT) == ""


def test_no_cluster_is_an_error():
    code = (
        "from mtwrappers import PointGoalEnv\n"
        "from mtwrappers.vector.make import MetaRayEnvExecutor\n"
        "MetaRayEnvExecutor(PointGoalEnv, 1)"
    )
    with pytest.raises(AssertionError, match=r"ConnectionError: .*'127.0.0.1:9'.* refused"):
        run_with_python("-c", code, RAY_ADDRESS="127.0.0.1:9")


def test_a_reply_that_comes_late_changes_no_results():
    """Ray may deliver the reply of an interrupted command after that of the next one."""
    with closing(on_ray()) as envs:
        envs.reset(seed=0)
        obs, *_ = envs.step(NO_ACTIONS)
        worker = envs._pool.workers[0]
        received, results = worker._last_received, worker.buffers.pack()
        late_results = bytes(len(results))
        worker._take(({received - 1: (1, b"late")}, late_results))
        assert worker.buffers.pack() == results
        assert worker._last_received == received
        assert envs.step(NO_ACTIONS)[0].tolist() == (obs + 1).tolist()
