"""Checkpoints: what goes in comes out, and nothing else comes in."""

import hashlib
import io
import json
import os
import random
import re
import stat
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers import (
    CheckpointError,
    LinearFeatureBaseline,
    MetaIterativeEnvExecutor,
    MetaWorldSetTaskEnv,
    VectorNormalizeRewardPerTask,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.checkpoint import VERSION
from tests.fakes import equal

PENDULUM = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0)]
make_vec = partial(MetaIterativeEnvExecutor, PENDULUM, 2, journal=True)


def step(envs, n=10):
    return [envs.step(np.full((2, 1), 0.1 * t, np.float32)) for t in range(n)]


# What goes in comes out.


def test_a_run_goes_on_in_mid_episode_with_all_that_it_is_made_of(tmp_path):
    def run():
        """Some objects, and what they do next."""
        envs, env = VectorNormalizeRewardPerTask(make_vec()), PENDULUM[0]()
        rng, progress, baseline = np.random.default_rng(0), {"other": 1}, LinearFeatureBaseline()
        objects = {"envs": envs, "env": env, "rng": rng, "progress": progress, "it": baseline}
        return objects, lambda: (
            step(envs),
            [env.reset()[0] for _ in range(4)],
            rng.random(3),
            progress,
            baseline.get_param_values(),
        )

    objects, goes_on = run()
    other_objects, other_goes_on = run()
    with closing(objects["envs"]) as envs, closing(other_objects["envs"]):
        envs.reset(seed=1)
        step(envs)
        objects["env"].reset(seed=5)
        objects["rng"].random(5)
        objects["progress"].update({"iteration": 7, "weights": np.arange(3.0)})
        objects["it"].set_params(np.arange(4.0))
        save_checkpoint(tmp_path / "run.ckpt", **objects)
        load_checkpoint(tmp_path / "run.ckpt", **other_objects)
        assert equal(other_goes_on(), goes_on())


def test_mt10_goes_from_one_process_to_two_workers(tmp_path):
    make = partial(gymnasium.make_vec, "mtwrappers/MT10-v0", journal=True, max_episode_steps=9)
    with closing(make()) as envs:
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(25)]
        envs.reset(seed=4)
        for action in actions[:13]:
            envs.step(action)
        save_checkpoint(tmp_path / "mt10", envs=envs)
        expected = [envs.step(action)[:4] for action in actions[13:]]
    assert (tmp_path / "mt10").stat().st_size < 200_000
    with closing(make(workers=2, on_worker_failure="recover")) as other:
        load_checkpoint(tmp_path / "mt10", envs=other)
        assert equal([other.step(action)[:4] for action in actions[13:]], expected)


@pytest.mark.parametrize("name", ["MT10", "ML10"])
def test_a_meta_world_task_is_rebuilt(name, tmp_path):
    env = MetaWorldSetTaskEnv(name, "train", seed=2)
    task = env.sample_tasks(3)[2]
    env.close()
    save_checkpoint(tmp_path / "task", it={"task": task})
    found = {}
    load_checkpoint(tmp_path / "task", it=found)
    assert found["task"].pop("inner") == task.pop("inner")
    assert found["task"] == task


@pytest.mark.parametrize(
    "value",
    [
        [None, True, 1, 2**70, 0.1, float("inf"), "x", [1, [2]], (1, (2,))],
        {"a": {1: 2, (3, 4): "b"}, "#array": 1},
        [np.float64("nan"), np.int8(3), np.arange(6, dtype="<i2").reshape(2, 3), np.zeros((0, 3))],
        [np.array(["a", "bcd"]), np.datetime64("2026-11-21")],
    ],
)
def test_values_come_back_as_they_were(value, tmp_path):
    save_checkpoint(tmp_path / "x", it={"value": value})
    found = {}
    load_checkpoint(tmp_path / "x", it=found)
    assert repr(found["value"]) == repr(value)


def test_a_file_is_readable_as_any_other_and_a_link_to_it_stays_one(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    before = os.umask(0o022)
    save_checkpoint(link, it={"a": 1})
    os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


# What does not go in.


def test_what_has_no_state_is_named_and_the_old_file_stays(tmp_path):
    path = tmp_path / "x"
    save_checkpoint(path, it={"a": 1})
    before = path.read_bytes()
    bad = {
        r"it\['a'\]\[1\] is <function": {"it": {"a": [1, print, len]}},
        r"sampler must have get_state\(\) and set_state\(\)": {"sampler": object()},
        r"it\['x'\] is array": {"it": {"x": np.array([object()])}},
    }
    for message, objects in bad.items():
        with pytest.raises(TypeError, match=message.replace("<function", "<built-in function")):
            save_checkpoint(path, **objects)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# What does not come in.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "x"
    save_checkpoint(path, it={"a": np.arange(50), "b": [1, "two", {"three": 3.0}]})
    return path.read_bytes()


def refused(path, data):
    """Requires that this file is refused and changes nothing; returns why."""
    path.write_bytes(data)
    found = {"mine": 1}
    with pytest.raises(CheckpointError, match=str(path)) as info:
        load_checkpoint(path, it=found)
    assert found == {"mine": 1}
    return str(info.value)


def test_two_thousand_damaged_files_are_refused(saved, tmp_path):
    rng = random.Random(0)
    for _ in range(2_000):
        data = bytearray(saved)
        how = rng.randrange(4)
        at = rng.randrange(len(data))
        if how == 0:
            data[at] ^= rng.randrange(1, 256)
        elif how == 1:
            del data[at:]
        elif how == 2:
            del data[at : at + rng.randrange(1, 50)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 50))
        refused(tmp_path / "damaged", bytes(data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "expected a file that begins with"),
        (lambda data: b"PK\3\4" + data, "expected a file that begins with"),
        (lambda data: data[:-1], "cut or damaged, expected the checksum"),
        (
            lambda data: data.replace(b"checkpoint %d" % VERSION, b"checkpoint 99", 1),
            "expected a checkpoint of version 1, got version 99",
        ),
    ],
)
def test_every_damage_is_named(change, message, saved, tmp_path):
    assert re.search(message, refused(tmp_path / "x", change(saved)))


def test_nothing_in_a_file_is_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "run"), "w"))

    payload = io.BytesIO()
    states = {"it": {"#dict": [["a", {"#array": "a0", "scalar": False}]]}}
    text = np.frombuffer(json.dumps(states).encode(), np.uint8)
    np.savez(payload, states=text, a0=np.array([Evil()], dtype=object))
    (tmp_path / "run").unlink(missing_ok=True)
    data = payload.getvalue()
    header = f"mtwrappers checkpoint 1 {hashlib.sha256(data).hexdigest()} {len(data)}\n"
    refused(tmp_path / "x", header.encode() + data)
    assert not (tmp_path / "run").exists()


def test_other_names_and_other_objects_are_refused_and_change_nothing(tmp_path):
    path = tmp_path / "x"
    make = partial(gymnasium.make_vec, "mtwrappers/MT1-v0", env_name="reach-v3", journal=True)
    with closing(make(seed=1)) as envs, closing(make(seed=2)) as other:
        for one in (envs, other):
            one.reset(seed=0)
        save_checkpoint(path, it={"a": 1}, envs=envs)
        with pytest.raises(CheckpointError, match=r"of \['envs', 'rng'\], got one of \['envs', '"):
            load_checkpoint(path, envs=other, rng=np.random.default_rng(0))
        before, mine = other.get_state(), {"b": 2}
        with pytest.raises(CheckpointError, match=r"envs does not go with it: .*on the tasks"):
            load_checkpoint(path, it=mine, envs=other)
        assert mine == {"b": 2}
        assert equal(other.get_state(), before)


def test_environments_that_were_evaluated_are_saved(tmp_path):
    with closing(make_vec()) as envs, closing(make_vec()) as other:
        mtwrappers.evaluate(lambda obs: np.zeros((len(obs), 1), np.float32), envs, 1)
        envs.reset(seed=1)
        save_checkpoint(tmp_path / "x", envs=envs)
        load_checkpoint(tmp_path / "x", envs=other)
        assert equal(step(other, 3), step(envs, 3))
        envs.call(lambda env: env.unwrapped.g)
        with pytest.raises(TypeError, match=r"\['entries'\]\[2\]\[1\] is <function .*<lambda>"):
            save_checkpoint(tmp_path / "x", envs=envs)
