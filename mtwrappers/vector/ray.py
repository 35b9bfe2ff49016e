"""The actors of a Ray cluster as workers."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.common.errors import WorkerDiedError
from mtwrappers.common.extras import import_extra
from mtwrappers.vector.journal import Answer, Function
from mtwrappers.vector.settings import Maker, Settings
from mtwrappers.vector.workers import (
    ALIVE_CHECK,
    BlockServer,
    Pool,
    Worker,
    blocks_of,
    pickled_function,
)

START_TIMEOUT = 25.0  # seconds until an actor must have started
_SIGNS = "signs"  # the concurrency group that answers during a command
CONNECT_TIMEOUT = 10.0  # seconds until a cluster must have answered


class Cluster:
    """The Ray cluster that this process is connected to, as long as executors need it."""

    _ours: Cluster | None = None  # the cluster that was started here

    def __init__(self) -> None:
        self._name = self._current()
        self._executors = 0

    @classmethod
    def enter(cls) -> Cluster:
        """Returns the current cluster, or starts one; call `leave` once."""
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
        """Disconnects from the cluster after the last executor, if it was started here."""
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
        """Whether this process is still connected to the cluster."""
        return bool(import_extra("ray", "ray").is_initialized()) and self._current() == self._name

    @property
    def ray(self) -> Any:
        """The module ``ray``; an error if the cluster is gone, where Ray would start another."""
        if not self.is_there():
            raise WorkerDiedError("Ray was shut down, and with it all workers")
        return import_extra("ray", "ray")

    def resources(self, needs: Mapping[str, float]) -> str:
        """A message with the needs of a worker and the resources of the cluster."""
        total, free = self.ray.cluster_resources(), self.ray.available_resources()
        has = ", ".join(
            f"{total.get(name, 0.0):g} {name} ({free.get(name, 0.0):g} free)" for name in needs
        )
        wants = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
        return f"a worker needs {wants}, but the Ray cluster has {has}"

    def capacity(self, needs: Mapping[str, float]) -> int:
        """The number of actors with these needs that fit on its nodes."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(
            min([int(node.get(name, 0.0) / each + 1e-9) for name, each in needs.items()] or [1000])
            for node in nodes
        )


def _require_listener(address: str) -> None:
    """Raises `OSError` if nothing listens at the address, for which Ray would wait minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()


def needs_of(options: Mapping[str, Any]) -> dict[str, float]:
    """The resources that an actor needs."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    needs = {name: options.get(option) or 0.0 for name, option in named.items()}
    needs.update(options.get("resources") or {})
    return {name: each for name, each in needs.items() if each}


def actor_pool(makers: Sequence[Maker], settings: Settings) -> Pool:
    """Makes a pool with the number of actors from the settings, or as many as fit.

    Raises:
        ConnectionError: If there is no such cluster.
        TypeError: If a constructor cannot be pickled.
        ValueError: If the actors do not fit on the cluster.
    """
    options = {"num_cpus": 1, **(settings.ray_options or {})}
    cluster = Cluster.enter()
    with contextlib.ExitStack() as leave:
        leave.callback(cluster.leave)
        most = cluster.capacity(needs := needs_of(options))
        count = min(settings.workers or most or 1, len(makers))
        if count > most:
            raise ValueError(
                f"{count} workers do not fit: {cluster.resources(needs)}, room for {most}"
            )
        workers = [
            ActorWorker(i, rows, settings.timeout, block, cluster, options)
            for i, (rows, block) in enumerate(blocks_of(makers, count, settings))
        ]
        return Pool(workers, settings, release=leave.pop_all())


class _Actor:
    """A block on a node."""

    def __init__(self, block: bytes) -> None:
        self._block, self._server = block, BlockServer()

    def silence(self) -> float:
        """The seconds since the last sign of life of its block."""
        block = self._server.block
        return time.monotonic() - float(block.buffers.beats[0]) if block is not None else math.inf

    def place(self) -> str:
        """The address of the actor's node."""
        return str(import_extra("ray", "ray").util.get_node_ip_address())

    def handle(self, command: Any, paused: bytes) -> tuple[bytes, bytes]:
        """Runs a command.

        Args:
            command: Its name and arguments, pickled unless they contain a reference to an object.
            paused: The mask of paused environments, once there are buffers.

        Returns:
            Its answer, and the data of the buffers, once there are any. Both are bytes, because Ray
            would make every array read-only.
        """
        if paused:
            assert self._server.block is not None
            buffers = self._server.block.buffers
            buffers.paused[...] = np.frombuffer(paused, np.bool_)
            buffers.beats.fill(time.monotonic())

        def load() -> tuple[str, tuple[Any, ...]]:
            name, arguments = pickle.loads(command) if isinstance(command, bytes) else command
            return name, (self._block,) if name == "build" else arguments

        answer = self._server.answer(load)
        return answer, buffers.pack() if paused else b""


class ActorWorker(Worker):
    """An actor as a worker.

    It is requested from the ``cluster`` with the ``options`` of Ray, and with the pickled arguments
    ``block`` of an `EnvBlock`; the other arguments are those of `Worker`.
    """

    shares_memory = False

    def __init__(
        self,
        index: int,
        rows: slice,
        timeout: float | None,
        block: bytes,
        cluster: Cluster,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(index, rows, timeout)
        self._cluster, self._options = cluster, options
        self._stored = cluster.ray.put(block)
        self._actor: Any = None
        self._reply: Any = None  # the reference to the pending answer
        self._host, self._reason = "", ""
        self._timeout_at_work = self.timeout
        self._connected = False  # whether the actor has buffers

    def start(self) -> None:
        """Requests an actor from the cluster."""
        self._host = self._reason = ""
        self._connected = False
        # Ray itself would restart it without its environments.
        options = {**self._options, "max_restarts": 0}
        actor_class = self._cluster.ray.remote(concurrency_groups={_SIGNS: 1})(_Actor)
        self._actor = actor_class.options(**options).remote(self._stored)
        self._reply = self._actor.place.remote()
        self.timeout = START_TIMEOUT

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Calls the actor."""
        command = name, arguments
        data: Any = command if name == "apply" else bytes(cloudpickle.dumps(command))
        paused = b""
        if self._connected:
            assert self.buffers is not None
            paused = self.buffers.paused.tobytes()
        self._connected = self._connected or name == "connect"
        if self._cluster.is_there():
            self._reply = self._actor.handle.remote(data, paused)

    def receive(self) -> Answer:
        """The answer of the actor."""
        reply, self._reply = self._reply, None
        if not self._cluster.is_there():
            self._reason = "Ray was shut down"
            raise EOFError
        ray = self._cluster.ray
        try:
            data = ray.get(reply)
        except ray.exceptions.RayError as exc:
            self._reason = _reason(exc)
            raise EOFError from exc
        if not self._host:
            self._host, self.timeout = data, self._timeout_at_work
            return Answer()
        answer, written = data
        if written:
            assert self.buffers is not None
            self.buffers.unpack(written)
        found: Answer = pickle.loads(answer) if answer else Answer()
        return found

    @staticmethod
    def wait(workers: Sequence[ActorWorker], seconds: float) -> list[Worker]:
        """Those of some actors that have answered, once there are any."""
        if not workers[0]._cluster.is_there():
            return [*workers]
        by_reply = {worker._reply: worker for worker in workers}
        ray = workers[0]._cluster.ray
        ready, others = ray.wait([*by_reply], num_returns=1, timeout=seconds)
        if others:
            ready += ray.wait(others, num_returns=len(others), timeout=0)[0]
        return [by_reply[reply] for reply in ready]

    def is_alive(self) -> bool:
        """Whether Ray is running; Ray itself reports when an actor ends."""
        return self._cluster.is_there()

    def silence(self) -> float:
        """The seconds since the last sign of life of its block, which the actor itself reports."""
        if not self._connected or not self._cluster.is_there():
            return math.inf
        ray = self._cluster.ray
        signs = self._actor.silence.options(concurrency_group=_SIGNS)
        try:
            return float(ray.get(signs.remote(), timeout=ALIVE_CHECK))
        except ray.exceptions.RayError:
            return math.inf

    def end(self, patience: float = 0.0) -> None:
        """Ends the actor, which never ends by itself."""
        actor, self._actor, self._reply = self._actor, None, None
        if actor is not None and self._cluster.is_there():
            with contextlib.suppress(Exception):  # the cluster may be ending
                self._cluster.ray.kill(actor)

    def how_it_ended(self) -> str:
        """A description of how the actor ended, from Ray."""
        where = f"on {self._host} " if self._host else ""
        return f"{where}ended: {self._reason}"

    def advice(self) -> str:
        """Advice for one that did not even start."""
        if self._host or self._reason or not self._cluster.is_there():
            return ""
        return f"no node had room: {self._cluster.resources(needs_of(self._options))}"

    def carry(self, function: Function) -> Callable[[], Function]:
        """Stores a function once for all actors; returns a callable that fetches it."""
        return functools.partial(_fetch, self._cluster.ray.put(pickled_function(function)))


def _reason(exc: Exception) -> str:
    """The reason why an actor ended, from Ray."""
    if (raised := getattr(exc, "cause", None)) is not None:
        return f"{type(raised).__name__}: {raised}"
    said = " ".join(str(exc).split())
    return (said.partition(" because ")[2] or said).partition(" Some common causes")[0]


def _fetch(stored: Any) -> Any:
    """Fetches a function from the object store."""
    return pickle.loads(import_extra("ray", "ray").get(stored))
