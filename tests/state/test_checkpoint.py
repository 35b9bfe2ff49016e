"""Checkpoints: what goes in comes out, and nothing else comes in."""

import hashlib
import io
import json
import os
import random
import re
import tracemalloc
import zipfile
from contextlib import closing
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

import mtwrappers as mt
from mtwrappers.state import env_state
from mtwrappers.state.checkpoint import VERSION, CheckpointError
from tests.fakes import CountingEnv, equal

PENDULUM = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0)]
make_vec = partial(mt.MetaIterativeEnvExecutor, PENDULUM, 2, journal=True)


def step(envs, n=10):
    return [envs.step(np.full((2, 1), 0.1 * t, np.float32)) for t in range(n)]


@pytest.mark.parametrize("call", [mt.save_checkpoint, mt.load_checkpoint])
def test_objects_have_names(call, tmp_path):
    message = r"takes 1 positional argument \(path\), got 2: pass others by name: envs=envs"
    with pytest.raises(TypeError, match=message):
        call(tmp_path / "run.ckpt", {"steps": 3})


@pytest.mark.parametrize("call", [mt.save_checkpoint, mt.load_checkpoint])
def test_a_checkpoint_of_nothing_is_refused_and_the_old_file_stays(call, tmp_path):
    path = tmp_path / "run.ckpt"
    mt.save_checkpoint(path, progress={"steps": 3})
    data = path.read_bytes()
    message = (
        rf"{call.__name__} needs at least one object.*such as {call.__name__}\(path, envs=envs"
    )
    with pytest.raises(TypeError, match=message):
        call(path)
    assert path.read_bytes() == data


# What goes in comes out.


def test_a_run_goes_on_in_mid_episode_with_all_that_it_is_made_of(tmp_path):
    def make_run():
        """Returns the objects of a run, and a function that continues it."""
        envs, env = mt.VectorNormalizeRewardPerTask(make_vec()), PENDULUM[0]()
        rng, progress, baseline = np.random.default_rng(0), {"other": 1}, mt.LinearFeatureBaseline()
        objects = {"envs": envs, "env": env, "rng": rng, "progress": progress, "it": baseline}

        def continue_run():
            results = step(envs)
            observations = [env.reset()[0] for _ in range(4)]
            return results, observations, rng.random(3), progress, baseline.get_param_values()

        return objects, continue_run

    objects, continue_run = make_run()
    other_objects, continue_other_run = make_run()
    with closing(objects["envs"]) as envs, closing(other_objects["envs"]):
        envs.reset(seed=1)
        step(envs)
        objects["env"].reset(seed=5)
        objects["rng"].random(5)
        objects["progress"].update({"iteration": 7, "weights": np.arange(3.0)})
        objects["it"].set_params(np.arange(4.0))
        mt.save_checkpoint(tmp_path / "run.ckpt", **objects)
        mt.load_checkpoint(tmp_path / "run.ckpt", **other_objects)
        assert equal(continue_other_run(), continue_run())


@pytest.mark.parametrize(
    "value",
    [
        [None, True, 1, 2**70, 0.1, float("inf"), "x", [1, [2]], (1, (2,))],
        {"a": {1: 2, (3, 4): "b"}, "#array": 1},
        [np.float64("nan"), np.int8(3), np.arange(6, dtype="<i2").reshape(2, 3), np.zeros((0, 3))],
        [np.array(["a", "bcd"]), np.datetime64("2026-11-21"), np.str_(""), np.bool_(True)],
        [np.zeros((2, 3, 4)).T[1:], np.array(["NaT"], "m8[us]"), np.array(b"ab"), np.array(1j)],
    ],
)
def test_values_come_back_as_they_were(value, tmp_path):
    mt.save_checkpoint(tmp_path / "x", it={"value": value})
    loaded = {}
    mt.load_checkpoint(tmp_path / "x", it=loaded)
    assert repr(loaded["value"]) == repr(value)


# What does not go in.


class FakeTensor:
    """Prints many lines, and can be converted, as a tensor of PyTorch."""

    def __repr__(self):
        return f"tensor([{'0.0000,' * 20}" + f"\n        {'0.0000,' * 20}" * 26

    def numpy(self):
        return np.zeros((27, 20), np.float32)


class FakeNetwork:
    def state_dict(self):
        return {"weight": FakeTensor()}


class FakeModel(FakeNetwork):
    """Saves itself, as the algorithms of Stable-Baselines3 do."""

    def save(self, path): ...

    @classmethod
    def load(cls, path): ...


class FakeNormalize(FakeModel):
    """Normalizes as ``VecNormalize`` of Stable-Baselines3 does."""

    vec_env = SyncVectorEnv([CountingEnv])


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"sampler": object()}, r"sampler must have get_state\(\) and set_state\(\)"),
        ({"steps": 3}, r"got 3; put it into a dict, such as progress=\{'steps': 3\}"),
        (
            {"envs": SimpleNamespace(vec_env=SyncVectorEnv([CountingEnv]))},
            r"; pass the vector environment inside it, envs.vec_env",
        ),
        ({"it": {"a": [1, print]}}, r"it\['a'\]\[1\] is <built-in function"),
        ({"it": {"x": np.array([object()])}}, r"it\['x'\] is array"),
        ({"it": {"x": np.ma.array([1.0], mask=[True])}}, "(?s)masked_array.*dArray of float64"),
        (
            {"it": {"w": FakeTensor()}},
            r"it\['w'\] is tensor\(.{90,113}\.\.\. .*; pass it as an array, t",
        ),
        (
            {"it": FakeTensor()},
            r"got tensor\(.{90,113}\.\.\.; pass it as an array, tensor\.numpy\(\)$",
        ),
        (
            {"net": FakeNetwork()},
            r"; pass a dict with the tensors of its state_dict\(\) as arrays, t",
        ),
        (
            {"model": FakeModel()},
            r"; save it by model\.save\(path\), for FakeModel\.load\(path\)$",
        ),
        (
            {"venv": FakeNormalize()},
            r"; pass the vector environment inside it, venv\.vec_env, and save its statistics by "
            r"venv\.save\(path\), for FakeNormalize\.load\(path, venv\)$",
        ),
        ({"it": {"x": np.zeros(2, [("a", "<f8")])}}, r"\(ndarray of \[\('a', '<f8'\)\]\)"),
    ],
)
def test_what_has_no_state_is_named_and_the_old_file_stays(objects, message, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=message):
        mt.save_checkpoint(path, **objects)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"old"


# What does not come in.


def make_zip(*members, method=zipfile.ZIP_STORED):
    """A zip file with these names and bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def sign(content):
    """A file with this content and the right checksum."""
    digest = hashlib.sha256(content).hexdigest()
    return b"mtwrappers checkpoint %d %s %d\n" % (VERSION, digest.encode(), len(content)) + content


def make_file(states, *arrays):
    """A file with these states, or this JSON, and these arrays."""
    text = states if isinstance(states, bytes) else json.dumps(states).encode()
    numbered = ((f"{i}.npy", array) for i, array in enumerate(arrays))
    return sign(make_zip(("states.json", text), *numbered))


def read_file(path):
    """The JSON of a file, and its arrays."""
    archive = zipfile.ZipFile(path)  # which passes over the first line
    names = archive.namelist()
    assert names == ["states.json", *(f"{i}.npy" for i in range(len(names) - 1))]
    text, *arrays = map(archive.read, names)
    return text, arrays


def make_npy(descr="<i8", shape="(1,)", order="False", data=b"12345678"):
    """An array as the file has it, with a header of our choice."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def make_states(value):
    return {"it": {"#dict": [["a", value]]}}


ARRAY = make_states({"#array": 0})
JSON = json.dumps(make_states(1)).encode()
VALID_FILE = make_file(make_states([1, "two", {"#array": 0}]), make_npy())


def replace_version(number):
    return VALID_FILE.replace(b"checkpoint %d" % VERSION, b"checkpoint %d" % number, 1)


REFUSED = {
    # Damaged, or with another version.
    "empty": (b"", "expected a file of save_checkpoint, .* and a version, got an empty file"),
    "foreign": (b"PK\3\4" + VALID_FILE, r"got one that begins with 'PK\\x03\\x04mtwrappers check"),
    "JSON": (b"{\n", "got one that begins with '{'$"),
    "truncated": (
        VALID_FILE[:-1],
        r"truncated or damaged: expected \d+ bytes after its first line, got \d+; copy the file",
    ),
    "changed": (
        VALID_FILE[:-1] + b"x",
        "its content does not match the checksum in its first line; co",
    ),
    "without a size": (b"mtwrappers checkpoint 1 \n", "its content does not match the checksum"),
    "earlier": (
        replace_version(0),
        f"of version {VERSION}, got version 0; an earlier mtwrappers reads",
    ),
    "later": (
        replace_version(99),
        f"of version {VERSION}, got version 99; a later mtwrappers reads it",
    ),
    # Crafted, with the right checksum.
    "function": (make_file(make_states({"#function": ["os", "mkdir"]})), "#function"),
    "package that none knows": (
        make_file(make_states({"#os": []})),
        "an array, a tuple, a task or a dict",
    ),
    "unpickled": (make_file(ARRAY, make_npy("|O8")), r"plain array, got 1 of '\|O8'"),
    "elements of no size": (
        make_file(ARRAY, make_npy("|V0", "(17179869184,)", data=b"")),
        r"plain array, got \d+ of '\|V0'",
    ),
    "too many": (make_file(ARRAY, make_npy("<f8", f"({2**60},)")), "does not match its shape"),
    "too few": (make_file(ARRAY, make_npy("<i1", "(7,)")), "plain array|does not match its shape"),
    "used twice": (
        make_file(make_states([{"#array": 0}] * 2), make_npy()),
        "an array that is used once, got 0",
    ),
    "not used": (
        make_file(make_states(1), make_npy()),
        r"nothing refers to the arrays \['0.npy'\]",
    ),
    "no bools": (make_file(ARRAY, make_npy("|b1", data=b"8")), "bools that are 0 or 1"),
    "no list": (make_file(make_states({"#tuple": 3})), "expected a list in '#tuple'"),
    "a deque of less than none": (make_file(make_states({"#deque": [[], -1]})), "non-negative"),
    "equal hashes": (
        make_file(make_states({"#dict": [[i * (2**61 - 1), 0] for i in range(20_000)]})),
        "different hashes",
    ),
    "no task": (
        make_file(make_states({"#metaworld": ["reach-v3", [1.0], True]})),
        "expected a random vector",
    ),
    "no names": (make_file([]), "expected the states by name"),
    "no JSON": (make_file(b"{"), "Expecting"),
    "deep": (make_file(b"[" * 100_000), "recursion"),
    "no zip file": (sign(b"states.json"), "not a zip file"),
    "another member": (
        sign(make_zip(("states.json", JSON), ("a.py", b""))),
        "'a.py' is not an array or JSON",
    ),
    "a member twice": (
        sign(
            make_zip(("states.json", JSON), ("0.npy", b""), ("1.npy", b"")).replace(b"1.n", b"0.n")
        ),
        "'0.npy' is not an array or JSON, or occurs twice",
    ),
    "bomb": (
        sign(make_zip(("states.json", b" " * 10**8), method=zipfile.ZIP_DEFLATED)),
        "'states.json' is compressed$",
    ),
    "member that lies": (
        sign(
            make_zip(("0.npy", bytes(10**5))).replace((10**5).to_bytes(4, "little"), b"\0\0\0\x7f")
        ),
        "its content cannot be read",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_damaged_or_crafted_file_is_refused_at_once_and_changes_nothing(kind, tmp_path):
    path, (data, message), progress = tmp_path / "x", REFUSED[kind], {"mine": 1}
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=f"{path}: .*{message}"):
        mt.load_checkpoint(path, it=progress)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert progress == {"mine": 1}
    assert peak < 10**8


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, partial(os.symlink, "/dev/zero")])
def test_what_is_no_file_is_refused_at_once(make, tmp_path):
    make(tmp_path / "x")
    with pytest.raises(
        OSError, match=r"(not a regular file|Is a directory); expected a file of.*x"
    ):
        mt.load_checkpoint(tmp_path / "x", it={})


def test_a_file_that_is_missing_is_named_with_the_function_that_would_have_written_it(tmp_path):
    message = f"No such file or directory; expected a file of save_checkpoint: '{tmp_path}/x'"
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        mt.load_checkpoint(tmp_path / "x", it={})


@pytest.mark.parametrize(("kind", "place"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
def test_generators_whose_place_is_outside_of_their_memory_are_refused(kind, place, tmp_path):
    path = tmp_path / "x"
    rng, other_rng = (np.random.Generator(getattr(np.random, kind)(seed)) for seed in (0, 1))
    rng.random(3)
    mt.save_checkpoint(path, rng=rng)
    mt.load_checkpoint(path, rng=other_rng)
    assert other_rng.random(9).tolist() == rng.random(9).tolist()
    text, arrays = read_file(path)
    text, n = re.subn(rb'\["%s", \d+\]' % place.encode(), b'["%s", -900000]' % place.encode(), text)
    assert n == 1
    path.write_bytes(make_file(text, *arrays))
    with pytest.raises(CheckpointError, match=f"expected {place} of a generator in .*-900000"):
        mt.load_checkpoint(path, rng=other_rng)


WORDS = [b"null", b"-1", b"1e999", b"[]", b"{}", b'"a"', b"true", b"99999999999999999999", b'"|V0"']


def mutate(text, arrays, rng):
    """The JSON and the arrays of a file with some tokens or bytes changed."""
    text, arrays = bytearray(text), [*map(bytearray, arrays)]
    for _ in range(rng.randrange(1, 4)):
        tokens = list(re.finditer(rb'"[^"]*"|[-\d.e+]+|null|true|false|[][{}]', text))
        begin, end = rng.choice(tokens).span()
        change = rng.randrange(5)
        if change == 0:
            text[begin:end] = rng.choice(WORDS)
        elif change == 1:
            other_token = slice(*rng.choice(tokens).span())
            text[begin:end] = text[other_token]
        elif change == 2:
            del text[begin:end]
        elif change == 3:
            data = rng.choice(arrays)
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        else:
            text[rng.randrange(len(text))] = rng.randrange(32, 127)
    return bytes(text), *map(bytes, arrays)


def read_states(objects):
    states = [env_state.get_state(objects[name]) for name in ("env", "envs")]
    return repr([*states, objects["rng"].bit_generator.state])


def test_of_mutated_files_with_the_right_checksum_each_is_refused_or_taken(tmp_path):
    def make():
        env = NormalizeReward(gymnasium.make("mtwrappers/PointGoal-v0"))
        return {
            "env": RecordEpisodeStatistics(NormalizeObservation(env)),
            "envs": gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, journal=True),
            "rng": np.random.Generator(np.random.MT19937(0)),
            "it": {"a": np.arange(3.0), "b": [1, (2.0, "c"), None, np.array([True])]},
            "baseline": mt.LinearFeatureBaseline(),
        }

    path, objects = tmp_path / "x", make()
    objects["env"].reset(seed=0)
    objects["envs"].reset(seed=0)
    for _ in range(3):
        objects["env"].step(np.zeros(2, np.float32))
        objects["envs"].step(np.zeros((2, 2), np.float32))
    objects["baseline"].set_params(np.arange(4.0))
    mt.save_checkpoint(path, **objects)
    text, arrays = read_file(path)
    rng, num_loaded = random.Random(0), 0
    for _ in range(200):
        path.write_bytes(make_file(*mutate(text, arrays, rng)))
        states_before = read_states(objects)
        try:
            mt.load_checkpoint(path, **objects)
            num_loaded += 1
            objects["rng"].random(2000)
        except CheckpointError:
            assert read_states(objects) == states_before
    assert 2 < num_loaded < 60


class Stated:
    """Has a state, and raises given errors when it takes one."""

    def __init__(self, state, raises=()):
        self.state, self.raises, self.taken = state, list(raises), 0

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state, self.taken = state, self.taken + 1
        if self.raises and (exc := self.raises.pop(0)) is not None:
            raise exc


def test_after_an_error_all_are_put_back_and_the_first_error_is_raised(tmp_path):
    path, first = tmp_path / "x", ValueError("first")
    mt.save_checkpoint(path, a=Stated([1]), b=Stated([1]), c=Stated([1]), d=Stated([1]))
    same, broken = Stated([1]), Stated([2], [None, OSError("second")])
    failing, never = Stated([3], [first]), Stated([4])
    first.add_note("environment 3")
    expected = "c does not fit it: environment 3: first; b could not be put back: second$"
    with pytest.raises(CheckpointError, match=expected) as info:
        mt.load_checkpoint(path, a=same, b=broken, c=failing, d=never)
    assert info.value.__cause__ is first
    assert (same.taken, broken.taken, failing.taken, never.taken) == (1, 2, 2, 0)
    assert (same.state, failing.state, never.state) == ([1], [3], [4])


def test_after_an_interrupt_all_are_put_back(tmp_path):
    mt.save_checkpoint(tmp_path / "x", a={"x": 1}, b=Stated([1]))
    weights = np.zeros(2)
    mine, interrupted = {"x": weights}, Stated([2], [KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        mt.load_checkpoint(tmp_path / "x", a=mine, b=interrupted)
    assert mine["x"] is weights
    assert interrupted.state == [2]


def test_other_names_and_other_objects_are_refused_and_change_nothing(tmp_path):
    path = tmp_path / "x"
    make = partial(gymnasium.make_vec, "mtwrappers/MT1-v0", env_name="reach-v3", journal=True)
    with closing(make(seed=1)) as envs, closing(make(seed=2)) as other_envs:
        for vector_env in (envs, other_envs):
            vector_env.reset(seed=0)
        mt.save_checkpoint(path, it={"a": 1}, envs=envs)
        message = r"of \['envs', 'rng'\], got one of \['envs', 'it'\]; pass an object for each"
        with pytest.raises(CheckpointError, match=message):
            mt.load_checkpoint(path, envs=other_envs, rng=np.random.default_rng(0))
        state_before, progress = other_envs.get_state(), {"b": 2}
        with pytest.raises(
            CheckpointError,
            match=r"envs does not fit it: .*: expected .*seed 2, got 1",
        ):
            mt.load_checkpoint(path, it=progress, envs=other_envs)
        assert progress == {"b": 2}
        assert equal(other_envs.get_state(), state_before)


def test_what_could_not_be_put_back_is_named_before_anything_is_loaded(tmp_path):
    with closing(make_vec()) as envs:
        envs.reset(seed=0)
        progress = {"steps": 1}
        mt.save_checkpoint(tmp_path / "run", envs=envs, progress=progress)
        progress["steps"] = 2
        envs.call("set_wrapper_attr", "spare", 1)
        message = r"not loaded, because envs could not be put back .*: environment 0 was called"
        with pytest.raises(CheckpointError, match=message):
            mt.load_checkpoint(tmp_path / "run", envs=envs, progress=progress)
        assert progress == {"steps": 2}
