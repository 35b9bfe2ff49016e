"""``mtwrappers record`` with Minari: the data, kills, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import mtwrappers.recording.episodes as episodes_module
import mtwrappers.recording.record as recording
from mtwrappers.cli import main
from mtwrappers.metaworld.frames import choose_gl
from mtwrappers.recording.unfinished import Unfinished
from tests.fakes import ROOT

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

REACH = "Reach a goal position"
NAME, DATASET = "tests/experts-v0", "minari:tests/experts-v0"
ONE = ["record", "MT1", "--goals", "3", "--episodes", "1", "--out", DATASET]
draws = pytest.mark.skipif(choose_gl() is None, reason="neither EGL nor OSMesa can render here")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def refused(capsys, *arguments):
    """The line of a command that is refused."""
    with pytest.raises(SystemExit, match="2"):
        main([*arguments])
    return capsys.readouterr().err.removeprefix("mtwrappers: error: ").removesuffix("\n")


def test_experts_are_recorded_with_all_that_a_replay_takes(capsys):
    two = ["record", "MT1", "--goals", "3", "--episodes", "2", "--out", DATASET]
    assert main(two) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reach-v3: 2 recorded and replayed, 0 failed"
    dataset = minari.load_dataset(NAME)
    assert lines[1:] == [
        f"{DATASET}: 2 episodes, {dataset.total_steps} steps",
        "Replay all of it, on any machine:",
        f"mtwrappers verify {DATASET}",
    ]
    env = gymnasium.make("mtwrappers/MT1-v0", num_goals=3)
    for task_state, episode in enumerate(dataset):
        (about,) = dataset.storage.get_episode_metadata([episode.id])
        assert (int(about["task_state"]), about["seed"]) == (task_state, task_state)
        assert (about["task_name"], about["task_description"]) == ("reach-v3", REACH)
        env.reset(options={"task_state": task_state})
        assert about["rand_vec"].tolist() == env.get_wrapper_attr("rand_vec").tolist()
        assert episode.actions.dtype == np.float32
        assert np.abs(episode.actions).max() == 1  # clipped: experts ask for more
        assert episode.terminations.tolist() == [False] * (len(episode) - 1) + [True]
        assert not episode.truncations.any()
        assert len(episode.observations) == len(episode) + 1
    metadata = dataset.storage.metadata
    assert [line.partition("==")[0] for line in metadata["requirements"]] == [
        *("mtwrappers", "metaworld", "mujoco", "gymnasium", "numpy", "scipy", "minari")
    ]
    assert metadata["algorithm_name"] == "Meta-World's scripted experts"
    assert dataset.recover_environment().spec.kwargs["seed"] == 0
    assert main(["verify", DATASET]) == 0
    assert capsys.readouterr().out == "2 of 2 episodes replayed bit for bit\n"


@pytest.mark.parametrize("part", ["observations", "actions", "rewards", "terminations"])
def test_a_bit_that_is_not_as_it_was_is_named(part, capsys, tmp_path):
    main(ONE)
    (file,) = tmp_path.rglob("*.hdf5")
    with h5py.File(file, "a") as data:
        stored = data[f"episode_0/{part}"]
        array = stored[:]
        # The last bits of rewards may differ between processors.
        array.view(np.uint8).flat[20 if part == "rewards" else 16] ^= 1
        stored[:] = array
    found = "observations" if part == "actions" else part
    capsys.readouterr()
    assert main(["verify", DATASET]) == 1
    assert capsys.readouterr().out == f"refused: episode 0, reach-v3: {found} differs\n"


def test_a_dataset_does_not_decide_what_code_runs(capsys, tmp_path):
    main(ONE)
    path = tmp_path / NAME / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    spec = json.loads(metadata["env_spec"])
    capsys.readouterr()
    for changed, message in {
        "CartPole-v1": "its environment cannot be rebuilt: KeyError: 'CartPole-v1'",
        "mtwrappers/MT10-v0": "ValueError: its arguments are {",
        "mtwrappers/MultiEnv-v0": "ValueError: its arguments are {",
    }.items():
        other = {**spec, "id": changed, "entry_point": "os:abort"}
        path.write_text(json.dumps({**metadata, "env_spec": json.dumps(other)}))
        assert main(["verify", DATASET]) == 1
        assert message in capsys.readouterr().out
    # Without a space, Minari would make what the spec names.
    wrapper = {"name": "x", "entry_point": "os:abort", "kwargs": {}}
    other = {**spec, "entry_point": "os:abort", "additional_wrappers": [wrapper]}
    less = {key: value for key, value in metadata.items() if key != "action_space"}
    path.write_text(json.dumps({**less, "env_spec": json.dumps(other)}))
    assert main(["verify", DATASET]) == 1
    assert "no observation_space or no action_space" in capsys.readouterr().out
    # No sentences are those of a file, and no episode is without end.
    for changed, message in [
        ({"max_episode_steps": 10**12}, "max_episode_steps must be 500, got 1000000000000"),
        (
            {"kwargs": {**spec["kwargs"], "descriptions": "secret.json"}},
            "descriptions must be 'metaworld', 'lerobot-0.6.1', or a table",
        ),
        ({"kwargs": {**spec["kwargs"], "idle_steps": 9}}, "idle_steps must be at most 0, got 9"),
    ]:
        path.write_text(json.dumps({**metadata, "env_spec": json.dumps({**spec, **changed})}))
        assert main(["verify", DATASET]) == 1
        assert message in capsys.readouterr().out
    # Packages that took no part may be anything.
    strange = ["nowhere>=1", 3]
    path.write_text(json.dumps({**metadata, "requirements": strange}))
    assert main(["verify", DATASET]) == 0
    # Of ours, what the id calls is what is registered.
    other = {**spec, "entry_point": "os:abort"}
    path.write_text(json.dumps({**metadata, "env_spec": json.dumps(other)}))
    assert main(["verify", DATASET]) == 0


@draws
def test_frames_are_recorded_as_they_are_and_compressed(capsys, tmp_path):
    assert main([*ONE, "--size", "16", "--no-shadows"]) == 0
    (episode,) = dataset = minari.load_dataset(NAME)
    frames = episode.observations["pixels"]
    assert frames.shape == (len(episode) + 1, 16, 16, 3)
    env = dataset.recover_environment()
    assert (env.reset(seed=0, options={"task_state": 0})[0]["pixels"] == frames[0]).all()
    kwargs = env.spec.kwargs
    assert (kwargs["camera_name"], kwargs["shadows"]) == ("corner4", False)
    env.close()
    assert len(np.unique(frames, axis=0)) > len(episode) / 2
    assert capsys.readouterr().out.startswith("reach-v3: 1 recorded and replayed, 0 failed")
    (file,) = tmp_path.rglob("*.hdf5")
    with h5py.File(file) as data:
        stored = data["episode_0/observations/pixels"]
        assert stored.id.get_storage_size() < frames.nbytes / 2
        assert stored.maxshape == (None, 16, 16, 3)  # as Minari's own, to which it can add
    assert main(["verify", DATASET]) == 0


@draws
@pytest.mark.slow
def test_frames_of_several_cameras_are_recorded():
    cameras = ["--camera", "corner", "--camera", "gripperPOV"]
    more = ["--size", "16", "--no-shadows", "--descriptions", "lerobot-0.6.1"]
    assert main([*ONE, *cameras, *more]) == 0
    (episode,) = dataset = minari.load_dataset(NAME)
    frames = episode.observations["pixels"]
    assert {name: one.shape[1:] for name, one in frames.items()} == {
        "corner": (16, 16, 3),
        "gripperPOV": (16, 16, 3),
    }
    (about,) = dataset.storage.get_episode_metadata([0])
    assert about["task_description"] == "Reach a goal position"
    assert main(["verify", DATASET]) == 0


FAILS = """
import numpy as np

def act(observations):
    return np.full((1, 4), 3.0)

def reach(observations, rng, task_names, descriptions):
    assert observations.shape == (1, 39)
    assert (*task_names, *descriptions) == ("reach-v3", "Reach a goal position")
    noise = rng[0].uniform(-0.01, 0.01, 3)
    way = 10 * (observations[:, 36:39] - observations[:, :3]) + noise
    return np.column_stack([way, [-1.0]])

def chunks(observations):
    action = np.column_stack([5 * (observations[:, 36:39] - observations[:, :3]), [-1.0]])
    return np.stack([action] * 3, axis=1)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of the file is added
    path = tmp_path / "own.py"
    path.write_text(FAILS)
    return path


def test_a_policy_of_ones_own_is_recorded_within_the_bounds_and_again_the_same(own, capsys):
    data = []
    for name in ("a", "b"):
        out = f"minari:tests/{name}-v0"
        command = ["record", "MT1", "--goals", "3", "--episodes", "2", "--out", out]
        assert main([*command, "--policy", f"{own}:reach"]) == 0
        dataset = minari.load_dataset(f"tests/{name}-v0")
        data.append([(one.actions.tolist(), one.observations.tolist()) for one in dataset])
        assert dataset.storage.metadata["algorithm_name"] == "own.py:reach"
        about = own.parent / f"tests/{name}-v0/data/metadata.json"
        assert str(own.parent) not in about.read_text()
        resume = ["record", "--resume", out, "--policy"]
        assert main([*resume, f"{own}:reach"]) == 0
        line = f"{out} was started with policy 'own.py:reach', got 'own.py:act'"
        assert refused(capsys, *resume, f"{own}:act") == line
        assert max(np.abs(one.actions).max() for one in dataset) <= 1
    assert data[0] == data[1]
    assert data[0][0] != data[0][1]


def test_chunks_of_actions_are_executed(own):
    chunks = ["--policy", f"{own}:chunks", "--action-chunk", "2"]
    assert main([*ONE, *chunks]) == 0
    actions = minari.load_dataset(NAME)[0].actions
    assert actions[1].tolist() == actions[0].tolist() != actions[2].tolist()


@pytest.mark.slow
def test_failures_are_left_out_and_without_a_success_there_is_no_dataset(own, capsys, tmp_path):
    line = refused(capsys, *ONE, "--policy", f"{own}:act")
    assert line == "no episode was a success, so there is nothing to record"
    assert not (tmp_path / "tests" / ".experts-v0.unfinished").exists()
    assert minari.list_local_datasets() == {}


def test_an_episode_that_does_not_replay_is_in_no_dataset(monkeypatch, capsys, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(recording, "difference", lambda then, now: "rewards")
        assert refused(capsys, *ONE) == "reach-v3: rewards differs when replayed"
    assert minari.list_local_datasets() == {}
    assert not Unfinished(tmp_path / NAME).folder.exists()


@pytest.fixture
def _never_run(monkeypatch):
    """No episode may be run."""
    monkeypatch.setattr(recording, "run", lambda *args: pytest.fail("an episode was run"))


def test_a_name_that_is_taken_is_refused_before_an_episode_is_run(monkeypatch, capsys, tmp_path):
    main(ONE)
    monkeypatch.setattr(recording, "run", lambda *args: pytest.fail("an episode was run"))
    expected = f"{DATASET} exists: choose another --out, or delete {tmp_path / NAME}"
    assert refused(capsys, *ONE) == expected
    assert main(["record", "--resume", DATASET]) == 0
    path = tmp_path / NAME
    assert capsys.readouterr().out == f"The recording of {DATASET} is complete: see {path}.\n"
    resume = ["record", "MT1", "--goals", "3", "--episodes", "1", "--resume", DATASET]
    assert main(resume) == 0
    for option, given, said in (
        ("--seed", "1", "seed 0, got 1"),
        ("--episodes", "2", "episodes 1, got 2"),
        ("--policy", "mine.py:act", "policy 'expert', got 'mine.py:act'"),
        ("--task", "push-v3", "task [], got ['push-v3']"),
    ):
        line = f"{DATASET} was started with {said}"
        assert refused(capsys, *resume, option, given) == line
    line = f"{DATASET} was started with benchmark 'MT1', got 'MT10'"
    assert refused(capsys, "record", "MT10", "--resume", DATASET) == line


def test_a_dataset_that_another_program_made_is_not_taken_for_complete(capsys, tmp_path):
    main(ONE)
    about = tmp_path / NAME / "data" / "metadata.json"
    data = json.loads(about.read_text())
    assert data.pop("mtwrappers_settings")["benchmark"] == "MT1"
    about.write_text(json.dumps(data))
    line = f"{tmp_path / NAME} exists, without the settings that mtwrappers record writes"
    assert refused(capsys, "record", "--resume", DATASET).startswith(line)
    about.write_text(json.dumps({**data, "mtwrappers_settings": {"seed": 3}}))
    line_of_settings = f"{tmp_path / NAME}: expected settings ['benc"
    assert refused(capsys, "record", "--resume", DATASET).startswith(line_of_settings)
    about.unlink()
    assert refused(capsys, "record", "--resume", DATASET).startswith(line)


@pytest.mark.usefixtures("_never_run")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "MT1"], "--out is required, or --resume; such as: mtwrappers record MT10 --o"),
        (["record", "--out", DATASET], "a benchmark is required; such as: mtwrappers record MT10"),
        (["record", "MT1", "--out", "tests/a-v0"], "a dataset must be minari:NAME or lerobot:NAME"),
        (["record", "MT1", "--out", "minari:a b"], "a name for Minari must look like metaworld/m"),
        (["record", "MT2", "--out", DATASET], "unknown benchmark 'MT2'; did you mean "),
        ([*ONE, "--task", "a-v3"], "unknown class 'a-v3' of MT1; did you mean "),
        ([*ONE, "--no-shadows"], "--no-shadows is for frames: add them with --size"),
        ([*ONE, "--camera", "corner"], "--camera is for frames: add them with --size"),
        ([*ONE, "--size", "16", "--camera", "up"], "camera_name must be "),
        ([*ONE, "--descriptions", "mine"], "--descriptions: descriptions must be "),
        ([*ONE, "--action-chunk", "2"], "--action-chunk is for a policy of your own that returns"),
        ([*ONE, "--video"], "--video is for lerobot:NAME; Minari stores frames without loss"),
        ([*ONE, "--policy", "random"], "only successful episodes are recorded, and random "),
        ([*ONE, "--policy", "none.py:act"], "--policy none.py:act: there is no file "),
        (["record", "--resume", DATASET], f"there is no unfinished recording of {DATASET}"),
        (["record", "--resume", DATASET, "--out", "minari:b-v0"], f"--resume {DATASET} continues"),
        (["verify", DATASET], f"there is no dataset {DATASET} ("),
        (["verify", DATASET, "--table"], f"{DATASET} is a dataset, which is replayed whole: le"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_leaves_nothing(
    arguments, message, tmp_path, capsys
):
    assert refused(capsys, *arguments).startswith(message)
    assert [*tmp_path.rglob("*")] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from mtwrappers.cli import main
from mtwrappers.recording import record, unfinished
kept, place = [], sys.argv[1]
def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
def keep(self, task_state, keep=unfinished.Unfinished.keep):
    kept.append(keep(self, task_state))
    if len(kept) == 2:
        unfinished.Unfinished.write = kill  # in the third
if place == "episode":
    unfinished.Unfinished.keep = keep
elif place == "dataset":
    Path.rename = kill
else:
    unfinished.Unfinished.remove = kill
main(sys.argv[2:])
"""
TWO = ["--goals", "2", "--episodes", "2", "--task", "reach-v3", "--task", "push-v3"]


def contents(name):
    """All bytes of a dataset, but for its name."""
    folder = Path(os.environ["MINARI_DATASETS_PATH"]) / name / "data"
    about = json.loads((folder / "metadata.json").read_text())
    return (folder / "main_data.hdf5").read_bytes(), {**about, "dataset_id": None}


@pytest.mark.slow_but("episode")
@pytest.mark.parametrize("place", ["episode", "dataset", "end"])
def test_a_recording_that_was_killed_is_no_dataset_and_goes_on_to_the_same_data(
    place, tmp_path, capsys
):
    main(["record", "MT10", *TWO, "--out", "minari:tests/calm-v0"])
    begun = ["record", "MT10", *TWO, "--out", "minari:tests/killed-v0"]
    code = [sys.executable, "-c", KILLED, place, *begun]
    ended = subprocess.run(code, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300)
    assert ended.returncode == -signal.SIGKILL
    folder = tmp_path / "tests" / ".killed-v0.unfinished"
    assert folder.is_dir()
    resume = ["record", "--resume", "minari:tests/killed-v0"]
    if place != "end":
        assert [*minari.list_local_datasets()] == ["tests/calm-v0"]
        line = "a recording of minari:tests/killed-v0 is unfinished: continue it with --resume"
        assert refused(capsys, *begun).startswith(line)
        line = "minari:tests/killed-v0 was started with seed 0, got 1"
        assert refused(capsys, *resume, "--seed", "1") == line
    capsys.readouterr()
    assert main(resume) == 0
    last = "minari:tests/killed-v0: 4 episodes, " if place != "end" else " is complete: see "
    assert last in capsys.readouterr().out
    assert not folder.exists()
    assert contents("tests/killed-v0") == contents("tests/calm-v0")


def test_ctrl_c_prints_how_to_go_on(own, monkeypatch, capsys):
    two = [*ONE[:5], "2", *ONE[6:], "--policy", f"{own}:reach"]
    for replays, printed in (
        (0, ["Interrupted before an episode was recorded; nothing was written."]),
        (
            1,
            [
                "Interrupted: recorded episodes are kept. Continue with:",
                f"mtwrappers record --resume {DATASET} --policy {own}:reach",
            ],
        ),
    ):
        calm = [None] * replays

        def difference(then, now, calm=calm):
            return calm.pop() if calm else signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(recording, "difference", difference)
            assert main(two) == 130
        assert capsys.readouterr().out.splitlines() == printed
    line = f"{DATASET} was started with a policy of your own: pass --policy again"
    assert refused(capsys, "record", "--resume", DATASET) == line
    assert main(["record", "--resume", DATASET, "--policy", f"{own}:reach"]) == 0
    assert len(minari.load_dataset(NAME)) == 2


def test_two_recordings_of_a_dataset_do_not_write_at_once(capsys, tmp_path, monkeypatch):
    begun = []

    def difference(then, now):
        begun.append(refused(capsys, "record", "--resume", DATASET))

    with monkeypatch.context() as patch:
        patch.setattr(recording, "difference", difference)
        main(ONE)
    assert begun[0].startswith("another record is writing into ")


def test_settings_of_another_form_and_of_other_versions_are_refused(capsys, tmp_path):
    unfinished = Unfinished(tmp_path / NAME)
    settings = {"requirements": ["numpy==1.0"]}
    for given, message in (
        (settings, f"{DATASET} was started with ['numpy==1.0'], got mtwrappers=="),
        ([], f"{tmp_path}/tests/.experts-v0.unfinished/settings.json was not written by a recor"),
    ):
        unfinished.begin(given)
        assert refused(capsys, "record", "--resume", DATASET).startswith(message)


def test_classes_of_a_benchmark_are_recorded_in_its_order(capsys):
    chosen = ["--task", "push-v3", "--goals", "2", "--episodes", "1"]
    out = ["--out", "minari:tests/some-v0"]
    assert main(["record", "MT10", *chosen, "--task", "reach-v3", *out]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["reach-v3", "push-v3"]
    dataset = minari.load_dataset("tests/some-v0")
    assert [episode.observations.shape[1] for episode in dataset] == [49, 49]
    assert main(["record", "ML1", *chosen, "--out", "minari:tests/one-v0"]) == 0  # hidden goals
    assert capsys.readouterr().out.startswith("push-v3: 1 recorded")
    assert not minari.load_dataset("tests/one-v0")[0].observations[:, -3:].any()


@draws
@pytest.mark.slow
def test_frames_are_of_the_camera_that_was_chosen():
    frames = {}
    for name, more in {"a": [], "b": ["--camera", "corner"], "c": ["--no-shadows"]}.items():
        one = ["record", "MT1", "--goals", "3", "--episodes", "1", "--size", "16"]
        assert main([*one, "--out", f"minari:tests/{name}-v0", *more]) == 0
        (episode,) = dataset = minari.load_dataset(f"tests/{name}-v0")
        frames[name] = episode.observations["pixels"]
        kwargs = json.loads(dataset.storage.metadata["env_spec"])["kwargs"]
        camera = "corner" if name == "b" else "corner4"
        assert (kwargs["camera_name"], kwargs["shadows"]) == (camera, name != "c")
    assert not (frames["a"] == frames["b"]).all()
    assert not (frames["a"] == frames["c"]).all()


def test_the_expert_is_asked_once_and_each_state_observed_once(monkeypatch):
    counts = {"reset": 0, "step": 0}

    class Counting(gymnasium.Wrapper):
        def reset(self, **kwargs):
            counts["reset"] += 1
            return super().reset(**kwargs)

        def step(self, action):
            counts["step"] += 1
            return super().step(action)

    env = Counting(gymnasium.make("mtwrappers/MT1-v0", num_goals=1, terminate_on_success=True))
    episode = episodes_module.run(env, 0, 0, recording._expert)
    assert counts == {"reset": 1, "step": len(episode.actions)}
    env.close()
