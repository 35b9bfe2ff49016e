"""A worker process: it builds a block of environments and does what its parent says."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import pickle
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from mtwrappers.vector.messages import STARTED, Answer, Channel, failure, pickled
from mtwrappers.vector.server import BlockServer

# Seconds that a worker looks for the next step before it sleeps: a sleeping core takes longer to
# wake than the time between two steps. Where somebody else wants the core, which shows in a yield
# that takes longer than an idle core needs, it sleeps at once for some steps instead.
_WATCH = 300e-6
_YIELD = 20e-6
_GIVE_WAY = 100


def main(conn: Connection, memory: Connection, results: Connection) -> None:
    """Serves the executor at the other end of ``conn``, with its memory and a file for results."""
    # The parent decides what Ctrl-C means; the handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent()
    # A forked worker has the parent's global random state; all workers would draw the same.
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    serve(Channel(conn), memory=memory.fileno(), results=results.fileno())


def serve(
    channel: Channel, fetch: Callable[[Any], bytes] = lambda data: data, **files: int
) -> None:
    """Builds a block, and does what the other end of a channel says until that closes.

    ``fetch`` and ``files`` are those of `BlockServer`.
    """
    # Workers share the cores. Torch may be here already, or come with an environment or a policy.
    os.environ["OMP_NUM_THREADS"] = "1"
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    server: BlockServer | None = None
    try:
        channel.send(STARTED)
        arguments = fetch(pickle.loads(channel.recv()))
        server = BlockServer(arguments, channel.send, fetch, **files)
        channel.send(pickled(Answer(server.block.traits())))
        for message in _messages(channel):
            channel.send(server.handle(message))
            if server.closed:
                break
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except Exception as exc:
        with contextlib.suppress(OSError):
            channel.send(failure(exc))
    finally:
        if server is not None:
            with contextlib.suppress(Exception):
                server.block.close()


def _follow_parent() -> None:
    """Ends this process as soon as its parent ends, even in the middle of a step."""
    parent: Any = mp.parent_process()
    ends = [parent.sentinel]
    # The sentinel is a pipe, which other processes that the parent has forked keep open.
    if hasattr(os, "pidfd_open"):
        try:
            ends.append(os.pidfd_open(parent.pid))
        except ProcessLookupError:
            os._exit(1)
        except OSError:
            pass  # a kernel without it

    def watch() -> None:
        wait(ends)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def _messages(channel: Channel) -> Iterator[bytes]:
    """Messages as they arrive, for ever."""
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    arrived, give_way = poll.poll, 0
    while True:
        if give_way:
            give_way -= 1
        elif not arrived(0):
            now = time.perf_counter()
            until = now + _WATCH
            while now < until and not arrived(0):
                os.sched_yield()
                before, now = now, time.perf_counter()
                if now - before > _YIELD:
                    give_way = _GIVE_WAY
                    break
        yield channel.recv()
