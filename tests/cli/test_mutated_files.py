"""Files whose bytes were changed, cut or doubled: a clear error, or nothing that counts differs."""

import dataclasses
import re

import gymnasium
import numpy as np
import pytest

from mtwrappers import CheckpointError, evaluate, load_checkpoint, save_checkpoint
from mtwrappers.cli import main
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.export.replay import export

NUMBER_OF_FILES = 500
# Fields of a result that no replay can verify.
UNVERIFIED = ("description", "versions")


def make_points():
    return gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A result with its evidence, and a checkpoint."""
    folder = tmp_path_factory.mktemp("whole")
    envs = make_points()
    result = evaluate(lambda obs: np.full((2, 2), 0.1), envs, 2, evidence=folder / "results.npz")
    result.described(policy="mine").save(folder / "results.json")
    save_checkpoint(folder / "results.ckpt", envs=envs)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mutate(data, rng):
    """Changes, cuts, doubles or replaces some bytes."""
    changed = bytearray(data)
    start = int(rng.integers(len(changed)))
    length = int(rng.integers(1, 200))
    match rng.integers(7):
        case 0:
            changed[start] = int(rng.integers(256))
        case 1:
            del changed[start : start + length]
        case 2:
            changed[start:start] = changed[start : start + length]
        case 3:
            del changed[start:]
        case 4:
            changed[start:start] = rng.bytes(length)
        case 5:  # another number
            numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
            number = numbers[int(rng.integers(len(numbers)))] if numbers else None
            replacements = (b"0", b"-1", b"1e400", b"null", b'"x"', b"[]", b"true", b"99999999999")
            if number is not None:
                changed[slice(*number.span())] = replacements[int(rng.integers(len(replacements)))]
        case 6:
            changed[start : start + length] = bytes(length)
    return bytes(changed)


@pytest.mark.parametrize(
    "number_of_files", [24, pytest.param(NUMBER_OF_FILES, marks=pytest.mark.slow)]
)
def test_of_mutated_files_none_is_verified_with_other_numbers(
    number_of_files, files, tmp_path, capsys
):
    rng = np.random.default_rng(1)
    folder = tmp_path / "mutated"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    original = EvaluationResult.load(folder / "results.json")
    codes = set()
    for i in range(number_of_files):
        name = sorted(files)[i % len(files)]
        path = folder / name
        path.write_bytes(mutate(files[name], rng))
        if name.endswith(".ckpt"):
            _check_checkpoint(path, files[name])
        else:
            codes.add(_check_verified(folder, original, capsys))
        path.write_bytes(files[name])
    assert codes == {0, 1, 2} or number_of_files < NUMBER_OF_FILES


def _check_verified(folder, original, capsys):
    """Verifies a result whose file or evidence is mutated; returns the exit code."""
    command = ["verify", str(folder / "results.json"), "--workers", "0"]
    try:
        code = main(command)
    except SystemExit as exc:
        code = exc.code
    output = capsys.readouterr()
    if code == 0:  # nothing differs but what the file says of itself
        mutated = EvaluationResult.load(folder / "results.json")
        unverified = {name: getattr(original, name) for name in UNVERIFIED}
        assert dataclasses.replace(mutated, **unverified) == original
    elif code == 2:
        assert output.err.startswith("mtwrappers: error: ")
        assert output.err.count("\n") == 1
    else:
        assert code == 1
        assert "\nfalse: " in output.out
    return code


def _check_checkpoint(path, data):
    envs = make_points()
    if path.read_bytes() == data:  # a mutation may change nothing
        load_checkpoint(path, envs=envs)
    else:
        with pytest.raises(CheckpointError, match=re.escape(str(path))):
            load_checkpoint(path, envs=envs)
    envs.close()


def test_a_mutated_result_is_exported_to_nothing(files, tmp_path, monkeypatch):
    pytest.importorskip("minari")
    from mtwrappers.evaluation import EvidenceError, VerificationError
    from mtwrappers.export.datasets import Frames, MinariDataset

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    rng = np.random.default_rng(2)
    for name in ("results.json", "results.npz"):
        for file_name, data in files.items():
            (tmp_path / file_name).write_bytes(data)
        for _ in range(6):
            (tmp_path / name).write_bytes(mutate(files[name], rng))
            with pytest.raises((EvidenceError, VerificationError)):
                export(tmp_path / "results.json", MinariDataset("tests/x-v0", Frames()))
            assert [path for path in tmp_path.rglob("minari/**/*") if path.is_file()] == []
