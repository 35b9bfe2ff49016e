"""Converts a recording of vla-evaluation-harness to a result with actions, for `verify`."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from mtwrappers.adapters.vla_eval import MetaWorldBenchmark
from mtwrappers.evaluation import Episode, EvaluationResult, Provenance
from mtwrappers.evaluation.evidence import EvidenceWriter

_EPISODES = """
SELECT sid, eid, task_name, episode_id, metrics, failure_reason FROM episode_results
WHERE eval_id = ? ORDER BY rowid
"""
_STEPS = "SELECT fields FROM step_rows WHERE sid = ? AND eid = ? ORDER BY step_id"


def result_of_recording(
    recording: str | os.PathLike[str],
    evidence: str | os.PathLike[str],
    *,
    policy_name: str | None = None,
) -> EvaluationResult:
    """Returns the result of a `MetaWorldBenchmark` run, as `Protocol.evaluate` would.

    Args:
        recording: The ``recording-....sqlite`` of the run, with one entry in ``benchmarks`` and its
            steps, which are recorded by default.
        evidence: Where to write the actions of all episodes, an ``.npz`` file.
        policy_name: What the result calls the policy.

    Raises:
        OSError: If a file cannot be read or written.
        ValueError: If it is no such recording, or it lacks an episode of one of its tasks.
    """
    with contextlib.closing(_opened(recording)) as file:
        entries = _entries(file, recording)
        if len(entries) != 1:
            raise ValueError(f"a recording must have one benchmark, got {len(entries)}")
        ((eval_id, metadata),) = entries
        params = json.loads(metadata)["config"]["params"]
        benchmark = MetaWorldBenchmark(**params)
        protocol = benchmark.protocol
        # If an episode was run several times, the last run counts.
        found = {(row[2], row[3]): row for row in file.execute(_EPISODES, (eval_id,))}
        tasks = {task for task, _ in found}
        names = [task["name"] for task in benchmark.get_tasks() if task["name"] in tasks]
        episodes = []
        with EvidenceWriter(evidence) as writer:
            for place in ((name, i) for name in names for i in range(protocol.episodes_per_task)):
                sid, eid, _, _, metrics, failure = found.get(place, (None,) * 5 + ("none",))
                if failure is not None:
                    raise ValueError(
                        f"a result needs every episode of its tasks: {place[0]}, number "
                        f"{place[1]} of {protocol.episodes_per_task}, has failed ({failure})"
                    )
                fields = json.loads(metrics)
                del fields["success"]
                episodes.append(Episode.from_dict(fields))
                rows = (json.loads(row) for (row,) in file.execute(_STEPS, (sid, eid)))
                writer.add(episodes[-1], _exact([row["action"] for row in rows]))
    whole = len(names) == len({one.task for one in protocol.plan()})
    with contextlib.closing(protocol.make_vec()) as envs:
        provenance = Provenance.of(
            envs,
            protocol.episodes_per_task,
            tasks=None if whole else names,
            protocol=protocol,
            policy=policy_name,
            evidence=writer.digest,
        )
    return EvaluationResult(episodes, params.get("seed", 0), provenance=provenance)


def _opened(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Opens a database read-only, so that a missing path does not become a database."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no recording {os.fspath(path)}")
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)


def _entries(file: sqlite3.Connection, path: str | os.PathLike[str]) -> list[Any]:
    try:
        return file.execute("SELECT eval_id, metadata FROM eval_metadata").fetchall()
    except sqlite3.DatabaseError as exc:
        raise ValueError(f"expected a recording of vla-eval in {os.fspath(path)}: {exc}") from None


def _exact(actions: list[Any]) -> Any:
    """Returns actions in the server's dtype, float32, or unchanged if that would alter them."""
    values = np.array(actions)
    narrow = values.astype(np.float32)
    return narrow if (narrow == values).all() else values
