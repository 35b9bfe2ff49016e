"""The Ray cluster that executors share."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from mtwrappers.common.errors import WorkerDiedError
from mtwrappers.common.extras import import_extra

CONNECT_TIMEOUT = 10.0  # seconds until a cluster must have answered


class Cluster:
    """The Ray cluster that this process is connected to, as long as executors need it."""

    _ours: Cluster | None = None  # the one that was not there before

    def __init__(self) -> None:
        self._name = self._current()
        self._executors = 0

    @classmethod
    def enter(cls) -> Cluster:
        """The cluster that there is, or else begins one; `leave` it once."""
        ray = import_extra("ray", "ray")
        begins = not ray.is_initialized()
        address = os.environ.get("RAY_ADDRESS", "")
        if begins:
            try:
                _require_listener(address)
                ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
            except Exception as exc:
                raise ConnectionError(
                    f"expected a Ray cluster (RAY_ADDRESS is {address!r}), got: {exc}"
                ) from exc
        cluster = cls._ours
        if cluster is None or not cluster.is_there():
            cluster = cls()
            cls._ours = cluster if begins else None
        cluster._executors += 1
        return cluster

    def leave(self) -> None:
        """Ends what was begun here, with the last executor."""
        self._executors -= 1
        if self is Cluster._ours and not self._executors:
            Cluster._ours = None
            if self.is_there():
                self.ray.shutdown()

    @staticmethod
    def _current() -> tuple[str, str]:
        context = import_extra("ray", "ray").get_runtime_context()
        return context.get_node_id(), context.get_job_id()

    def is_there(self) -> bool:
        """Whether this process is still connected to it."""
        return bool(import_extra("ray", "ray").is_initialized()) and self._current() == self._name

    @property
    def ray(self) -> Any:
        """The module; left alone, it would begin another cluster where this one is gone."""
        if not self.is_there():
            raise WorkerDiedError("Ray was shut down, and with it all workers")
        return import_extra("ray", "ray")

    def resources(self, needs: Mapping[str, float]) -> str:
        """What a worker needs of how much the cluster has, in a message."""
        total, free = self.ray.cluster_resources(), self.ray.available_resources()
        has = ", ".join(
            f"{total.get(name, 0.0):g} {name} ({free.get(name, 0.0):g} free)" for name in needs
        )
        wants = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
        return f"a worker needs {wants}, and the Ray cluster has {has}"

    def room(self, needs: Mapping[str, float]) -> int:
        """How many actors with these needs its nodes hold."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(
            min([int(node.get(name, 0.0) / each + 1e-9) for name, each in needs.items()] or [1000])
            for node in nodes
        )


def _require_listener(address: str) -> None:
    """Raises `OSError` if nobody listens where a cluster should be, for which Ray waits minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()


def needs_of(options: Mapping[str, Any]) -> dict[str, float]:
    """Which resources an actor needs."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    needs = {name: options.get(option) or 0.0 for name, option in named.items()}
    needs.update(options.get("resources") or {})
    return {name: each for name, each in needs.items() if each}
