"""Actors of a Ray cluster that are lost or find no room, and what executors leave of a cluster."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
import types
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from mtwrappers.vector.journal import read_only
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.fakes import equal, run_with_python
from tests.vector.clusters import local_cluster
from tests.vector.fakes import KINDS, kinds_and_modes
from tests.vector.faults import (
    FragileEnv,
    beside,
    both,
    faulty_uses,
    fragile_makers,
    hang,
    kill_itself,
    once,
    play_along,
    run_steps,
)
from tests.vector.processes import all_gone, needs_proc, wait_until

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    needs_proc,
    pytest.mark.filterwarnings("ignore:.*starting a replacement"),
]

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FAULT = np.array([0, 0, 1, 0])


def on_ray(makers=None, m=2, k=2, **kwargs):
    """Four fragile environments on two actors: environment 2 is the first of worker 1."""
    return MetaRayEnvExecutor(makers or fragile_makers(), m, k, **{"workers": 2, **kwargs})


recovering = partial(on_ray, on_worker_failure="recover")


def pids_of(envs):
    """The process of each environment."""
    return list(envs.call(read_only(lambda env: os.getpid())))


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4, resources={"special": 2}):
        yield


@kinds_and_modes
def test_a_kill_between_steps_changes_nothing(kind, mode):
    with beside(recovering, KINDS[kind], autoreset_mode=mode) as (envs, oracle):
        envs.action_space.seed(3)
        actions = [envs.action_space.sample() for _ in range(30)]
        both(envs, oracle, "reset", seed=3)
        pids = pids_of(envs)
        found = run_steps(envs, actions, lambda t: t == 17 and os.kill(pids[3], signal.SIGKILL))
        assert equal(found, run_steps(oracle, actions))


@faulty_uses
def test_a_death_in_any_use_changes_nothing(use, given, tmp_path):
    makers, others = fragile_makers(), fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", kill_itself))
    others[2] = partial(others[2], fault=partial(str, "not again"))
    with beside(recovering, makers, others) as (envs, oracle):
        both(envs, oracle, "reset", seed=3)
        both(envs, oracle, "step", NO_ACTIONS)
        with pytest.warns(UserWarning, match=r"worker 1 on [\d.]+ ended: its worker process has"):
            both(envs, oracle, use, **given)
        for _ in range(5):
            both(envs, oracle, "step", NO_ACTIONS)


def test_without_recovery_the_lost_worker_is_named():
    envs = on_ray(fragile_makers(fault=kill_itself))
    pids = pids_of(envs)
    envs.reset(seed=0)
    message = (
        r"^worker 1 on [\d.]+ ended: its worker process has died\..*, with environments 2 to 3 "
        r"of tasks \[1\] \(b\); all workers were closed$"
    )
    with pytest.raises(WorkerDiedError, match=message):
        envs.step(FAULT)
    assert envs.closed is True
    assert all_gone(pids, 10)


@pytest.mark.parametrize("fault", ["hangs", "is stopped"])
def test_an_actor_that_hangs_is_given_up_after_the_timeout(fault, tmp_path):
    makers = fragile_makers(fault=partial(once, tmp_path / "done", hang))
    with closing(recovering(makers, timeout=2)) as envs:
        pids = pids_of(envs)
        envs.reset(seed=0)
        if fault == "is stopped":
            os.kill(pids[2], signal.SIGSTOP)
        begin = time.monotonic()
        message = r"worker 1 hung: it did not answer within 2 s, with environments 2 to 3"
        with pytest.warns(UserWarning, match=message):
            result = envs.step(FAULT if fault == "hangs" else NO_ACTIONS)
        assert result[1].tolist() == [1.0] * 4
        assert 2 <= time.monotonic() - begin < 15
        assert all_gone(pids[2:], 20)


def test_after_ctrl_c_in_a_step_the_executor_goes_on():
    makers = fragile_makers(fault=partial(time.sleep, 1.5))
    with closing(on_ray(makers)) as envs, closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle:
        envs.reset(seed=0)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            envs.step(FAULT)
        assert envs.get_attr("first") == (0, 100, 200, 300)
        play_along(envs, oracle)


def step_slowly(envs, rows):
    for _ in range(8):
        envs.step(np.ones(2, np.int64))
    return np.ones(300_000)


def test_a_function_that_goes_on_is_not_taken_for_one_that_hangs():
    makers = fragile_makers(fault=partial(time.sleep, 0.2), length=100)
    with closing(on_ray(makers, timeout=2)) as envs:
        envs.reset(seed=0)
        assert [of.sum() for of in envs.map_blocks(step_slowly)] == [300_000, 300_000]


class LockingEnv(FragileEnv):
    """Has a lock in its info when it is stepped with action 1."""

    def step(self, action):
        *result, info = super().step(0)
        return *result, {**info, "lock": threading.Lock()} if action else info


@pytest.mark.parametrize(("use", "given"), [("step", [FAULT]), ("call_some", [[2], "run_fault"])])
def test_what_does_not_pickle_is_one_error_that_says_whose_it_is(use, given):
    makers = [partial(LockingEnv, 100 * i, fault=threading.Lock) for i in range(4)]
    with closing(on_ray(makers)) as envs, closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle:
        envs.reset(seed=0)
        message = r"^cannot pickle .*\nthe answer of environments 2 to 3 to (step|call)\(\)$"
        with pytest.raises(TypeError, match=message):
            getattr(envs, use)(*given)
        play_along(envs, oracle)


# Room.


@ray.remote(num_cpus=1)
class Hog:
    """Takes a CPU."""

    def is_there(self):
        return True


def test_no_room_for_a_replacement_is_an_error(monkeypatch):
    envs = recovering(fragile_makers(), workers=2)
    envs.reset(seed=0)
    pids = pids_of(envs)
    monkeypatch.setattr("mtwrappers.vector.ray.START_TIMEOUT", 3.0)
    blocked = [Hog.remote() for _ in range(3)]  # any one of them waits
    ray.wait([one.is_there.remote() for one in blocked], num_returns=2)
    os.kill(pids[2], signal.SIGKILL)
    message = (
        r"worker 1 did not start within 3 s, with environments 2 to 3 of tasks \[1\].*; no node "
        r"had room: a worker needs 1 CPU, but the Ray cluster has 4 CPU \([01] free\); all"
    )
    with pytest.raises(WorkerDiedError, match=message):
        envs.step(NO_ACTIONS)
    assert envs.closed is True
    for one in blocked:
        ray.kill(one)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"workers": 5},
            r"5 workers do not fit: a worker needs 1 CPU, but the Ray cluster has 4 CPU \(. free\)"
            ", room for 4",
        ),
        (
            {"workers": 3, "ray_options": {"resources": {"special": 1}}},
            "3 workers .* needs 1 CPU, 1 special, but .* has 4 CPU .*, 2 special .*, room for 2",
        ),
    ],
)
def test_too_many_workers_are_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        on_ray(fragile_makers(6), 3, **arguments)


def test_actors_take_what_the_options_say():
    options = {"resources": {"special": 1}, "num_cpus": 0.5}
    with closing(on_ray(workers=None, ray_options=options)) as envs:
        assert envs.num_workers == 2
        free = ray.available_resources
        assert wait_until(lambda: "special" not in free() and free()["CPU"] == 3, 5)
    assert wait_until(lambda: free().get("special") == 2 and free()["CPU"] == 4, 5)


def test_what_a_node_cannot_import_is_an_error(monkeypatch):
    module = types.ModuleType("only_here")
    exec("def make(env): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    message = "cannot import what makes its environments"
    with pytest.raises(ModuleNotFoundError, match=message):
        on_ray(module.make)
    with (
        closing(recovering()) as envs,
        closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2)) as o,
    ):
        envs.reset(seed=0)
        with pytest.raises(ModuleNotFoundError, match=r"cannot import what it was given"):
            envs.call(module.make)
        play_along(envs, o)
        assert envs.recoveries == 0


# Others.


OWN = """
import numpy as np, os, ray, sys
from mtwrappers import WorkerDiedError
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.vector.faults import fragile_makers

def make():
    envs = MetaRayEnvExecutor(fragile_makers(), 2, 2, workers=1, ray_options={"num_cpus": 0.5},
                              on_worker_failure="recover")
    envs.reset(seed=0)
    return envs

first, second = make(), make()
if os.fork() == 0:
    first.close()
    os._exit(0)
os.wait()
first.close()
first.close()
second.step([0] * 4)
assert ray.is_initialized()
second.close()
assert not ray.is_initialized()
third = make()
ray.shutdown()
try:
    third.step([0] * 4)
except WorkerDiedError as error:
    print(error)
assert third.closed and not ray.is_initialized()
"""


def test_what_was_begun_for_executors_ends_with_the_last_one():
    options = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}
    said = run_with_python("-c", OWN, **options)
    message = r"worker 0 on [\d.]+ ended: Ray was shut down, with environments 0 to 3"
    assert re.match(message, said.splitlines()[-1])


# What is left when a program ends without closing.
LEFT = """
import sys, mtwrappers, ray
from mtwrappers.vector.make import MetaRayEnvExecutor
from tests.vector.faults import fragile_makers

def make(**kwargs):
    envs = MetaRayEnvExecutor(fragile_makers(), 2, 2, workers=1, **kwargs)
    envs.reset(seed=0)
    envs.step([0] * 4)
    return envs

def joined():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    return make()
"""
WAYS = {
    "in a step": "envs = make(); envs.step_async([0] * 4)",
    "on a cluster of its own": "envs = joined()",
    "in a module": "mtwrappers.envs = make(); mtwrappers.envs.itself = mtwrappers",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_executor_that_is_not_closed_says_nothing_when_the_program_ends(way, tmp_path):
    options = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}
    code = f"import os, sys; os.dup2(1, 2)\n{LEFT}\n{way}"  # errors to what is returned
    assert run_with_python("-W", "error", "-c", code, **options) == ""


def test_no_cluster_is_an_error():
    code = (
        "from mtwrappers import PointGoalEnv\n"
        "from mtwrappers.vector.make import MetaRayEnvExecutor\n"
        "MetaRayEnvExecutor(PointGoalEnv, 1)"
    )
    with pytest.raises(AssertionError, match=r"ConnectionError: .*'127.0.0.1:9'.* refused"):
        run_with_python("-c", code, RAY_ADDRESS="127.0.0.1:9")
