"""Environments on the actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers._extras import import_extra
from mtwrappers.checks import check_mapping, positive
from mtwrappers.vector.arguments import Maker
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.cluster import CONNECT_TIMEOUT, ActorProcess, Cluster, needs_of
from mtwrappers.vector.infos import sizes_of
from mtwrappers.vector.messages import Channel
from mtwrappers.vector.parallel import TIMEOUT
from mtwrappers.vector.process import Worker
from mtwrappers.vector.worker import serve
from mtwrappers.vector.workers import WorkersVectorEnv

START_TIMEOUT = 25.0  # seconds until an actor must be there
_TOKEN = 32  # bytes


class MetaRayEnvExecutor(WorkersVectorEnv):
    """``M * K`` environments on the actors of a Ray cluster.

    The results are those of `MetaIterativeEnvExecutor`, whatever the number of actors and wherever
    they are, and so is what happens when one is lost; see `MetaParallelEnvExecutor`. Ray finds
    room for the actors, carries the constructors (and policies, with ``policy_in="workers"``)
    through its object store, and tells when an actor or a node ends. Steps go through a socket
    from each actor to this process, which a secret protects: calls of actors cost more than a step.

    Uses the Ray that is initialized, or else the cluster that ``RAY_ADDRESS`` names, or starts one
    on this machine; what it has begun itself it ends with the last executor. Closing ends all
    actors. Nodes need this package and whatever the constructors import.

    Args:
        env, meta_batch_size, envs_per_task, max_path_length, autoreset_mode, max_recoveries,
            journal, timeout: Those of `MetaParallelEnvExecutor`.
        workers: How many actors; by default as many as the cluster has CPUs, and never more than
            environments.
        on_worker_failure: ``"raise"`` or ``"recover"``, which starts another actor, on any node.
        ray_options: What each actor needs and where it goes, for Ray's ``options``, such as
            ``{"num_cpus": 2, "scheduling_strategy": "SPREAD"}``; one CPU by default.

    Raises:
        DependencyNotInstalled: If ray is not installed.
        ConnectionError: If there is no such cluster.
        TypeError: If ``env`` is none of those, or the options are no dict.
        ValueError: If a size is not positive or does not fit the list, spaces differ, or the
            cluster has too few CPUs.
        WorkerDiedError: If an actor does not start within 30 s, or dies; from any other method if
            one is lost and is not, or cannot be, recovered.
        Exception: Whatever a constructor raises, with the environment named.
    """

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        workers: int | None = None,
        on_worker_failure: Literal["raise", "recover"] = "raise",
        max_recoveries: int = 3,
        journal: bool = False,
        timeout: float | None = TIMEOUT,
        ray_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, max_path_length, autoreset_mode)
        options = {"num_cpus": 1, **check_mapping(ray_options or {}, "ray_options")}
        self._cluster: Cluster | None = None
        cluster = self._cluster = Cluster.enter()
        try:
            room = cluster.room(needs := needs_of(options))
            most = room or 1 if workers is None else positive(workers, "workers")
            count = min(most, self.num_envs)
            if count > room:
                raise ValueError(
                    f"{count} workers do not fit: {cluster.resources(needs)}, room for {room}"
                )
            make = functools.partial(_RayWorker, executor=self, cluster=cluster, options=options)
            self._hire(env, count, make, on_worker_failure, max_recoveries, journal, timeout)
        except BaseException:
            self._release()
            raise

    def _stored(self, data: bytes) -> Any:
        assert self._cluster is not None
        return self._cluster.ray.put(data)  # once, for all

    def _release(self) -> None:
        if self._cluster is not None and os.getpid() == self._pid:
            self._cluster.leave()
            self._cluster = None


class _Actor:
    """What runs on a node: connects to the executor and serves it until that closes.

    It is called in two threads: one serves, the other takes what the object store brings.
    """

    def __init__(self) -> None:
        self._brought: dict[int, bytes] = {}
        self._more = threading.Condition()

    def bring(self, number: int, data: bytes) -> None:
        """Takes large data."""
        with self._more:
            self._brought[number] = data
            self._more.notify_all()

    def fetch(self, number: int) -> bytes:
        """Awaits large data, and forgets what came before it."""
        with self._more:
            self._more.wait_for(lambda: number in self._brought)
            self._brought = {n: data for n, data in self._brought.items() if n >= number}
            return self._brought[number]

    def serve(self, address: tuple[str, int], token: bytes) -> None:
        """Serves the executor that listens at an address and knows the token."""
        try:
            end = socket.create_connection(address, CONNECT_TIMEOUT)
        except OSError as exc:
            raise ConnectionError(
                f"{socket.gethostname()} cannot reach the executor at {address}: {exc}"
            ) from exc
        with end:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.sendall(token)
            serve(Channel(end), self.fetch)


class _RayWorker(Worker):
    """An actor, as `Crew` knows a worker."""

    shared = False

    def __init__(
        self,
        index: int,
        rows: slice,
        block: bytes,
        timeout: float | None,
        executor: MetaRayEnvExecutor,
        cluster: Cluster,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(index, rows, cluster.ray.put(block), timeout)
        self._executor, self._cluster, self._options = executor, cluster, options
        self._part: Buffers | None = None
        self._deadline, self._posted, self._host = 0.0, 0, ""

    def start(self) -> None:
        ray = self._cluster.ray
        self.hung, self.channel, self._host = False, None, ""
        self._token = secrets.token_bytes(_TOKEN)
        # Ray would start it again by itself, with nobody to serve.
        options = {**self._options, "max_concurrency": 2, "max_restarts": 0}
        actor = _actor_class().options(**options).remote()
        self._listener = socket.create_server((ray.util.get_node_ip_address(), 0))
        self.process = ActorProcess(
            self._cluster, actor, actor.serve.remote(self._listener.getsockname(), self._token)
        )
        self.owes = True
        self._deadline = time.monotonic() + START_TIMEOUT

    def post(self, data: Any) -> int:
        """Brings the actor what `MetaRayEnvExecutor` has put into the object store, or ``data``."""
        self._posted += 1
        self.process.actor.bring.remote(self._posted, data)
        return self._posted

    def connect(self) -> bool:
        with self._listener as listener:
            while time.monotonic() < self._deadline and self.process.is_alive():
                listener.settimeout(0.2)
                try:
                    end, (self._host, *_) = listener.accept()
                except OSError:
                    continue
                if self._knows_token(end):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.channel = Channel(end)
                    return True
                end.close()
        return False

    def _knows_token(self, end: socket.socket) -> bool:
        token = b""
        end.settimeout(1.0)
        with contextlib.suppress(OSError):  # a silence of a second among them
            while len(token) < _TOKEN and (part := end.recv(_TOKEN - len(token))):
                token += part
        return hmac.compare_digest(token, self._token)

    def take_rows(self, rows: bytes) -> None:
        if self._part is None:
            self._part = self._executor._buffers.part(self.rows)
        self._part.unpack(rows, *sizes_of(self._executor._columns))

    def advice(self) -> str:
        if self.channel is not None or not self.process.is_alive():
            return ""
        return f"no node had room: {self._cluster.resources(needs_of(self._options))}"

    def _end(self) -> str:
        if self.channel is None and self.process.is_alive():
            return f"did not start within {START_TIMEOUT:g} s"
        where = f"on {self._host} " if self._host else ""
        return f"{where}ended: {self.process.reason()}"


@functools.cache
def _actor_class() -> Any:
    return import_extra("ray", "ray").remote(_Actor)
