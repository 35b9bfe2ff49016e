"""Actors and nodes of a Ray cluster that are lost, and clusters that have no room."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import types
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaIterativeEnvExecutor, MetaRayEnvExecutor, MetaSampler, WorkerDiedError
from tests.fakes import CountingSetTaskEnv, equal, run_with_python
from tests.vector.clusters import listening_sockets, local_cluster, pids_of
from tests.vector.fakes import KINDS, kinds_and_modes
from tests.vector.faults import (
    exit_at_once,
    fragile_makers,
    hang,
    kill_itself,
    once,
    play,
    play_along,
)
from tests.vector.processes import all_gone, needs_proc, wait_until

ray = pytest.importorskip("ray")
pytestmark = [needs_proc, pytest.mark.filterwarnings("ignore:.*another one takes its place")]

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FAULT = np.array([0, 0, 1, 0])
RECOVER = {"on_worker_failure": "recover"}


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with local_cluster(4, resources={"special": 2}):
        yield


def on_ray(makers=None, m=2, k=2, **kwargs):
    """Four fragile environments on two actors: environment 2 is the first of worker 1."""
    return MetaRayEnvExecutor(makers or fragile_makers(), m, k, **{"workers": 2, **kwargs})


recovering = partial(on_ray, **RECOVER)


@contextlib.contextmanager
def beside(makers, others=None, recoveries=1, **kwargs):
    """A recovering executor, and one over the same or other makers that loses nothing."""
    with (
        closing(recovering(makers, **kwargs)) as envs,
        closing(MetaIterativeEnvExecutor(others or makers, 2, 2, **kwargs)) as oracle,
    ):
        yield envs, oracle
        assert envs.recoveries == recoveries


def both(envs, oracle, method, *args, **kwargs):
    """Requires that both return the same."""
    assert equal(*(getattr(one, method)(*args, **kwargs) for one in (envs, oracle)))


# Actors that are lost.


@kinds_and_modes
def test_a_kill_between_steps_changes_nothing(kind, mode):
    with beside(KINDS[kind], autoreset_mode=mode) as (envs, oracle):
        envs.action_space.seed(3)
        actions = [envs.action_space.sample() for _ in range(30)]
        both(envs, oracle, "reset", seed=3)
        pids = pids_of(envs)
        found = play(envs, actions, lambda t: t == 17 and os.kill(pids[3], signal.SIGKILL))
        assert equal(found, play(oracle, actions))


@pytest.mark.parametrize("fault", [kill_itself, exit_at_once])
@pytest.mark.parametrize(
    ("method", "arguments"),
    [("step", {"actions": FAULT}), ("reset", {"options": {"fault": True}})],
)
def test_a_death_in_a_step_or_reset_changes_nothing(fault, method, arguments, tmp_path):
    makers = fragile_makers()
    makers[2] = partial(makers[2], fault=partial(once, tmp_path / "done", fault))
    with beside(makers, fragile_makers()) as (envs, oracle):
        both(envs, oracle, "reset", seed=3)
        both(envs, oracle, "step", NO_ACTIONS)
        with pytest.warns(UserWarning, match=r"worker 1 on [\d.]+ ended: its worker process has"):
            both(envs, oracle, method, **arguments)
        for _ in range(5):
            both(envs, oracle, "step", NO_ACTIONS)


class SlowEnv(CountingSetTaskEnv):
    pause = 0.0

    def step(self, action):
        time.sleep(self.pause)
        return super().step(action)


def rest(observations):
    return np.zeros(4, np.int64)


@pytest.mark.parametrize("where", ["parent", "workers"])
def test_a_kill_in_a_rollout_changes_nothing(where):
    sampler = partial(MetaSampler, partial(SlowEnv, 50), rest, 2, 2, 60, seed=0)
    with closing(sampler()) as local:
        expected = [local.obtain_samples() for _ in range(2)]
    with closing(sampler(parallel="ray", workers=2, policy_in=where, **RECOVER)) as remote:
        first = remote.obtain_samples()
        remote.envs.set_attr("pause", 0.01)
        victim = pids_of(remote.envs)[3]
        threading.Timer(0.4, os.kill, (victim, signal.SIGKILL)).start()
        assert equal([first, remote.obtain_samples()], expected)
        assert remote.envs.recoveries == 1
        assert [len(own) for own in expected[1].values()] == [2, 2]


def test_without_recovery_the_lost_worker_is_named():
    listening = listening_sockets()
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
    assert listening_sockets() == listening


def test_a_step_that_kills_every_actor_is_given_up():
    with closing(recovering(fragile_makers(fault=kill_itself), max_recoveries=1)) as envs:
        envs.reset(seed=0)
        message = (
            r"^worker 1 .*of tasks \[1\] \(b\); workers were lost 2 times in the same call; all"
        )
        with pytest.raises(WorkerDiedError, match=message):
            envs.step(FAULT)


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


# Room.


@ray.remote(num_cpus=3)
class Hog:
    """Takes all CPUs but one."""

    def is_there(self):
        return True


@pytest.fixture
def hog(monkeypatch):
    """It is there, and actors are to start within 3 s."""
    monkeypatch.setattr("mtwrappers.vector.ray.START_TIMEOUT", 3.0)
    begun = []

    def begin():
        begun.append(Hog.remote())
        ray.get(begun[-1].is_there.remote())

    yield begin
    for one in begun:
        ray.kill(one)


NO_ROOM = (
    r"did not start within 3 s, with environments 2 to 3 of tasks \[1\].*; no node had room: a "
    r"worker needs 1 CPU, and of the Ray cluster's 4 CPU, [01] CPU are free; all workers were "
)


def test_cpus_that_others_have_are_an_error(hog):
    hog()
    with pytest.raises(WorkerDiedError, match="worker 1 " + NO_ROOM):
        on_ray()


def test_no_room_for_a_replacement_is_an_error(hog):
    envs = recovering(fragile_makers(), workers=2, max_recoveries=1)
    envs.reset(seed=0)
    pids = pids_of(envs)
    blocked = [Hog.options(num_cpus=1).remote() for _ in range(3)]  # one of them waits
    ray.get([one.is_there.remote() for one in blocked[:2]])
    os.kill(pids[2], signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match="; no node had room: a worker needs 1 CPU, and of"):
        envs.step(NO_ACTIONS)
    assert envs.closed is True
    for one in blocked:
        ray.kill(one)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"workers": 5},
            "5 workers do not fit the Ray cluster: each needs 1 CPU, and it has 4 CPU, which is "
            "room for 4",
        ),
        (
            {"workers": 3, "ray_options": {"resources": {"special": 1}}},
            "3 workers .* each needs 1 CPU, 1 special, and it has 4 CPU, 2 special, .* for 2",
        ),
        (
            {"workers": None, "ray_options": {"num_gpus": 1}},
            "1 workers .* each needs 1 CPU, 1 GPU, and it has 4 CPU, 0 GPU, which is room for 0",
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


def test_options_that_ray_does_not_know_are_its_error():
    listening = listening_sockets()
    with pytest.raises(ValueError, match="no_such"):
        on_ray(ray_options={"no_such": 1})
    with pytest.raises(TypeError, match="ray_options"):
        on_ray(ray_options=3)
    assert listening_sockets() == listening


def test_a_constructor_that_a_node_cannot_import_is_an_error(monkeypatch):
    module = types.ModuleType("only_here")
    exec("def make(): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    message = r"a worker on .* cannot import what makes its environments: No module .*'only_here'"
    with pytest.raises(ModuleNotFoundError, match=message):
        on_ray(module.make)


# Others.


def test_executors_do_not_disturb_each_other_and_leave_nothing():
    listening = listening_sockets()
    with closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2)) as oracle:
        first, second = on_ray(), on_ray()
        pids = pids_of(first) + pids_of(second)
        assert len(set(pids)) == 4
        play_along(first, oracle, seed=1)
        play_along(second, oracle, seed=2)
        first.close()
        play_along(second, oracle, seed=3)
        second.close()
    assert all_gone(pids, 10)
    assert listening_sockets() == listening
    assert ray.is_initialized()


def test_strangers_at_the_socket_are_not_let_in(monkeypatch):
    real = socket.create_server

    def besieged(address, **kwargs):
        server = real(address, **kwargs)
        for what in b"", b"x" * 32, b"short":
            with socket.create_connection(server.getsockname()) as stranger:
                stranger.sendall(what)
        return server

    monkeypatch.setattr(socket, "create_server", besieged)
    with closing(on_ray()) as envs, closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2)) as o:
        play_along(envs, o)


OWN = """
import numpy as np, os, ray, sys
from mtwrappers import MetaRayEnvExecutor, WorkerDiedError
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
    assert said.splitlines()[-1] == "Ray was shut down, and with it all workers"


def test_no_cluster_is_an_error():
    code = "from mtwrappers import *; MetaRayEnvExecutor(PointGoalEnv, 1)"
    with pytest.raises(AssertionError, match=r"ConnectionError: .*'127.0.0.1:9'.* refused"):
        run_with_python("-c", code, RAY_ADDRESS="127.0.0.1:9")
