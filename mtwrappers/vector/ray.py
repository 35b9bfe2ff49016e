"""The actors of a Ray cluster as workers."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle

from mtwrappers.common.errors import WorkerDiedError
from mtwrappers.common.extras import import_extra
from mtwrappers.vector.commands import Command, Connect
from mtwrappers.vector.server import EMPTY, HELLO, BlockServer
from mtwrappers.vector.settings import Maker, Settings
from mtwrappers.vector.workers import (
    ALIVE_CHECK,
    Worker,
    WorkerPool,
    WorkerState,
    pickle_blocks,
)

START_TIMEOUT = 25.0  # seconds until an actor must have started
_SIGNS = "signs"  # the concurrency group that answers during a command
_UNLIMITED = 1000  # actors that a node has room for, if they need nothing
CONNECT_TIMEOUT = 10.0  # seconds until a cluster must have answered


class Cluster:
    """The Ray cluster that this process is connected to, or one that is started on this machine.

    Raises:
        ConnectionError: If there is no cluster at ``RAY_ADDRESS``.
    """

    def __init__(self) -> None:
        self._ray = import_extra("ray", "ray")
        address = os.environ.get("RAY_ADDRESS", "")
        if not self._ray.is_initialized():
            host, _, port = address.rpartition("://")[2].rpartition(":")
            try:
                if port.isdigit():  # Ray would wait minutes for an address where nothing listens
                    socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
            except Exception as exc:
                raise ConnectionError(
                    f"expected a Ray cluster (RAY_ADDRESS is {address!r}), got: {exc}"
                ) from exc
        self._job = self._ray.get_runtime_context().get_job_id()

    def is_connected(self) -> bool:
        """Whether this process is still connected to the cluster."""
        ray = self._ray
        return bool(ray.is_initialized()) and ray.get_runtime_context().get_job_id() == self._job

    @property
    def ray(self) -> Any:
        """The module ``ray``; an error if the cluster is gone, where Ray would start another."""
        if not self.is_connected():
            raise WorkerDiedError("Ray was shut down, and with it all workers")
        return self._ray

    def describe_resources(self, needs: Mapping[str, float]) -> str:
        """A message with the needs of a worker and the resources of the cluster."""
        total, free = self.ray.cluster_resources(), self.ray.available_resources()
        needed = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
        present = ", ".join(
            f"{total.get(name, 0.0):g} {name} ({free.get(name, 0.0):g} free)" for name in needs
        )
        return f"a worker needs {needed}, but the Ray cluster has {present}"

    def capacity(self, needs: Mapping[str, float]) -> int:
        """The number of actors with these needs that fit on its nodes."""
        capacity = 0
        for node in self.ray.nodes():
            if node["Alive"]:
                resources = node["Resources"]
                fits = [resources.get(name, 0.0) / amount for name, amount in needs.items()]
                capacity += int(min(fits, default=_UNLIMITED) + 1e-9)  # sums of decimal fractions
        return capacity


def actor_options(settings: Settings) -> dict[str, Any]:
    """The options of each actor."""
    return {"num_cpus": 1, **(settings.ray_options or {})}


def actor_needs(settings: Settings) -> dict[str, float]:
    """The resources that an actor needs."""
    options = actor_options(settings)
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    needs = {name: options.get(option) or 0.0 for name, option in named.items()}
    needs.update(options.get("resources") or {})
    return {name: amount for name, amount in needs.items() if amount}


def actor_pool(makers: Sequence[Maker], settings: Settings) -> WorkerPool:
    """Makes a pool with the number of actors from the settings, or as many as fit.

    Raises:
        ConnectionError: If there is no such cluster.
        TypeError: If a constructor cannot be pickled.
        ValueError: If the actors do not fit on the cluster.
    """
    cluster = Cluster()
    needs = actor_needs(settings)
    capacity = cluster.capacity(needs)
    count = min(settings.workers or capacity or 1, len(makers))
    if count > capacity:
        raise ValueError(
            f"{count} workers do not fit: {cluster.describe_resources(needs)}, room for {capacity}"
        )
    rows, blocks = pickle_blocks(makers, count, settings)
    workers = [ActorWorker(block, cluster, settings) for block in rows]
    return WorkerPool(workers, blocks, settings, memory=-1)


class _Actor(BlockServer):
    """A block on a node."""

    def __init__(self) -> None:
        super().__init__()
        # The number of each command and its answer, by the place of the call among all of the
        # actor's, until the executor has said that it has them: it may be interrupted after it has
        # called the actor, and before it keeps the reference.
        self._answers: dict[int, tuple[int, bytes]] = {}

    def silence(self) -> float:
        """The seconds since the last sign of life of its block."""
        block = self.block
        return time.monotonic() - float(block.buffers.beats[0]) if block is not None else math.inf

    def node_address(self) -> str:
        """The address of the actor's node."""
        return str(import_extra("ray", "ray").util.get_node_ip_address())

    def handle(
        self, call: int, number: int, command: bytes, received: int
    ) -> tuple[dict[int, tuple[int, bytes]], bytes]:
        """Runs a command.

        Args:
            call: The place of this call among all of the actor's.
            number: The number of the command.
            command: The command, pickled.
            received: The last call of which the answer has arrived.

        Returns:
            The numbers of commands and answers that have not arrived yet, by their calls, and the
            data of the buffers, once there are any. Answers and data are bytes, because Ray would
            make every array read-only.
        """
        self._answers = {c: answer for c, answer in self._answers.items() if c > received}
        if self.block is not None and hasattr(self.block, "buffers"):
            self.block.beat()
        self._answers[call] = number, self.answer(command)
        if self.block is None or not hasattr(self.block, "buffers"):
            return self._answers, b""
        return self._answers, self.block.buffers.pack()


class ActorWorker(Worker):
    """An actor as a worker, which is requested from the ``cluster`` with the options of Ray."""

    shares_memory = False

    def __init__(self, rows: slice, cluster: Cluster, settings: Settings) -> None:
        super().__init__(rows)
        self._cluster, self._settings = cluster, settings
        self._actor: Any = None
        self._replies: set[Any] = set()  # references to answers that are awaited
        self._host = ""  # the address of its node, once it has started
        self._end_reason = ""  # why it ended, from Ray
        self._actor_has_buffers = False
        self._calls = itertools.count(1)  # the numbers of the calls of this actor
        self._last_received = 0  # the number of the last call of which the answer has arrived

    def start(self) -> None:
        """Requests an actor from the cluster."""
        self._host = self._end_reason = ""
        self._actor_has_buffers = False
        self._calls = itertools.count(1)
        self._last_received = 0
        # Ray itself would restart it without its environments.
        options = {**actor_options(self._settings), "max_restarts": 0}
        actor_class = self._cluster.ray.remote(concurrency_groups={_SIGNS: 1})(_Actor)
        self._actor = actor_class.options(**options).remote()
        self._replies = {self._actor.node_address.remote()}
        self.timeout = START_TIMEOUT  # until it has started

    def encode(self, number: int, command: Command) -> tuple[int, bytes]:
        """The number and the pickle of the part of a command."""
        self._actor_has_buffers = self._actor_has_buffers or isinstance(command, Connect)
        return number, bytes(cloudpickle.dumps(command.part(self.rows)))

    def write(self, message: tuple[int, bytes] | None = None) -> None:
        """Calls the actor; nothing is left of a message, because Ray sends it as a whole."""
        if message is not None and self._cluster.is_connected():
            call = next(self._calls)
            self._replies.add(self._actor.handle.remote(call, *message, self._last_received))

    @staticmethod
    def receive(workers: Sequence[ActorWorker], seconds: float) -> list[ActorWorker]:
        """Waits for the answers of some actors, at most for some seconds."""
        by_reply = {reply: worker for worker in workers for reply in worker._replies}
        cluster = workers[0]._cluster
        if not cluster.is_connected():
            for worker in workers:
                worker._end_reason, worker.state = "Ray was shut down", WorkerState.ENDED
            return []
        ray = cluster.ray
        ready, pending = ray.wait([*by_reply], num_returns=1, timeout=seconds)
        if pending:
            ready += ray.wait(pending, num_returns=len(pending), timeout=0)[0]
        arrived: list[ActorWorker] = []
        for reply in ready:
            worker = by_reply[reply]
            try:
                data = ray.get(reply)
            except ray.exceptions.RayError as exc:
                worker._end_reason, worker.state = _find_reason(exc), WorkerState.ENDED
                continue
            worker._take(data)
            worker._replies.discard(reply)  # after it was taken, because it can be taken twice
            arrived.append(worker)
        return arrived

    def _take(self, data: Any) -> None:
        """Takes what the actor has answered."""
        if not self._host:
            self._host, self.timeout = data, self._settings.seconds_of_silence
            self.encoded_answers[HELLO] = EMPTY
            return
        answers, written = data
        # A reply that comes late has the results of an earlier command.
        if written and self.buffers is not None and max(answers) > self._last_received:
            self.buffers.unpack(written)
        for call in sorted(answers):
            number, answer = answers[call]
            self.encoded_answers[number] = answer
            self._last_received = max(self._last_received, call)

    def is_alive(self) -> bool:
        """Whether Ray is running; Ray itself reports when an actor ends."""
        return self._cluster.is_connected()

    def silence(self) -> float:
        """The seconds since the last sign of life of its block, which the actor itself reports."""
        if not self._actor_has_buffers or not self._cluster.is_connected():
            return math.inf
        ray = self._cluster.ray
        signs = self._actor.silence.options(concurrency_group=_SIGNS)
        try:
            return float(ray.get(signs.remote(), timeout=ALIVE_CHECK))
        except ray.exceptions.RayError:
            return math.inf

    def end(self, patience: float = 0.0) -> None:
        """Ends the actor, which never ends by itself."""
        actor, self._actor, self._replies = self._actor, None, set()
        if actor is not None and self._cluster.is_connected():
            with contextlib.suppress(Exception):  # the cluster may be ending
                self._cluster.ray.kill(actor)

    def describe_end(self) -> str:
        """A description of how the actor ended, from Ray."""
        where = f"on {self._host} " if self._host else ""
        return f"{where}ended: {self._end_reason}"

    def advice(self) -> str:
        """Advice if the worker ended before its first answer."""
        if self._host or self._end_reason or not self._cluster.is_connected():
            return ""
        return f"no node had room: {self._cluster.describe_resources(actor_needs(self._settings))}"


def _find_reason(exc: Exception) -> str:
    """The reason why an actor ended, from Ray."""
    if (raised := getattr(exc, "cause", None)) is not None:
        return f"{type(raised).__name__}: {raised}"
    message = " ".join(str(exc).split())
    return (message.partition(" because ")[2] or message).partition(" Some common causes")[0]
