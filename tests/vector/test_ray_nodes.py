"""A node of a Ray cluster that is lost in the middle of a rollout."""

import os
import signal
import tempfile
import threading
import time
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaSampler
from mtwrappers.vector.calls import read_only
from tests.fakes import CountingSetTaskEnv, equal
from tests.vector.processes import all_gone, children, needs_proc

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = [needs_proc, pytest.mark.slow]

# Nodes that do not answer are given up after 3 s, so that tests need not wait.
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


class SlowEnv(CountingSetTaskEnv):
    pause = 0.0

    def step(self, action):
        time.sleep(self.pause)
        return super().step(action)

    def get_state(self):
        rng = self.np_random.bit_generator.state
        return {"pause": self.pause, "first": self.first, "sweep": self._sweep, "rng": rng}

    def set_state(self, state):
        self.pause, self.first, self._sweep = state["pause"], state["first"], state["sweep"]
        self.np_random.bit_generator.state = state["rng"]


def draw_actions(observations, rng):
    return np.array([env_rng.integers(2) for env_rng in rng])


@pytest.fixture
def cluster(monkeypatch):
    """A head node without CPUs, on which the driver is, and two nodes with two CPUs each."""
    pids_before = children()
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        node_args = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20}
        ray_cluster = cluster_utils.Cluster(
            initialize_head=True,
            head_node_args={**node_args, "_system_config": HEALTH_CHECKS, "temp_dir": folder},
        )
        ray_cluster.workers = [
            ray_cluster.add_node(
                num_cpus=2, object_store_memory=100 << 20, resources={f"node{i}": 2}
            )
            for i in range(2)
        ]
        ray_cluster.wait_for_nodes()
        ray.init(ray_cluster.address, log_to_driver=False, logging_level="error")
        started_pids = children() - pids_before
        ray_cluster.stopped_pids = []
        yield ray_cluster
        ray.shutdown()
        ray_cluster.shutdown()
        for pid in ray_cluster.stopped_pids:  # which do not notice
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert started_pids
        assert all_gone(started_pids, 20)


def node_ids(envs):
    return envs.call(read_only(lambda env: ray.get_runtime_context().get_node_id()))


def lose_node(cluster, node, loss):
    if loss == "removed":
        cluster.remove_node(node, allow_graceful=False)
    else:  # no connection is closed
        raylet = node.all_processes["raylet"][0].process.pid
        cluster.stopped_pids = [*children(raylet), raylet]
        for pid in cluster.stopped_pids:
            os.kill(pid, signal.SIGSTOP)


@pytest.mark.parametrize(("loss", "policy_in"), [("removed", "parent"), ("vanished", "workers")])
def test_a_node_lost_in_a_rollout_changes_nothing(cluster, loss, policy_in):
    sampler = partial(MetaSampler, partial(SlowEnv, 60), draw_actions, 3, 2, 80, 2, seed=0)
    with closing(sampler()) as local:
        local.update_tasks()
        expected = [local.obtain_samples() for _ in range(2)]
        assert [len(task_paths) for task_paths in expected[1].values()] == [3, 3]
    spread = {"scheduling_strategy": "SPREAD"}
    settings = {"execution": "ray", "workers": 2, "ray_options": spread, "policy_in": policy_in}
    with closing(sampler(**settings, timeout=None, on_worker_failure="recover")) as remote:
        remote.update_tasks()
        first = remote.obtain_samples()
        remote.envs.set_attr("pause", 0.01)
        nodes = node_ids(remote.envs)
        lost_node = next(node for node in cluster.workers if node.node_id == nodes[3])
        assert len(set(nodes)) == 2
        threading.Timer(0.4, lose_node, (cluster, lost_node, loss)).start()
        with pytest.warns(UserWarning, match="worker 1 on .* ended: .*, with env"):
            actual = [first, remote.obtain_samples()]
        assert equal(actual, expected)
        assert remote.envs.recoveries == 1
        assert set(node_ids(remote.envs)) == {nodes[0]}
