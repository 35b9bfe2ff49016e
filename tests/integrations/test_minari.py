"""Minari records a multi-task dataset, and makes its environment again."""

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

from mtwrappers.metaworld import opengl
from tests.fakes import ROOT, play
from tests.integrations.examples import load_example

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

# Minari's own: its collector leaves its temporary folder to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
IDS = {
    "MT10": {"num_goals": 2, "max_episode_steps": 4, "select": "without_replacement"},
    "MultiEnv": {"max_episode_steps": 4, "select": "round_robin"},
    "PointGoal": {"radius": 2.0, "max_episode_steps": 4},
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def record(env_id, num_episodes, seed=0):
    """A dataset of random actions, and what the environment returned meanwhile."""
    env = gymnasium.make(f"mtwrappers:mtwrappers/{env_id}-v0", **IDS[env_id])
    collector = minari.DataCollector(env, record_infos=True)
    collector.action_space.seed(0)
    episodes = []
    for episode in range(num_episodes):
        actions = [collector.action_space.sample() for _ in range(4)]
        # Without the option Minari seeds every reset, which starts the selection of tasks anew.
        options = {"minari_autoseed": False} if episode else None
        episodes.append(play(collector, actions, seed=None if episode else seed, options=options))
    dataset = collector.create_dataset(
        f"tests/{env_id.lower()}-v0",
        eval_env=env,
        algorithm_name="random actions",
        description="A test.",
        author="tests",
        author_email="tests",
        code_permalink="tests",
    )
    collector.close()
    return env, dataset, episodes


@pytest.mark.parametrize("env_id", IDS)
def test_episodes_are_recorded_and_their_environment_is_made_again(env_id):
    env, dataset, episodes = record(env_id, 6)
    assert (dataset.total_episodes, dataset.total_steps) == (6, 24)
    seen, loaded = set(), minari.load_dataset(dataset.id)
    for episode, ((first, info), *steps) in zip(loaded, episodes, strict=True):
        assert episode.observations.tolist() == [first.tolist(), *(s[0].tolist() for s in steps)]
        assert episode.observations.dtype == first.dtype
        assert episode.rewards.tolist() == [step[1] for step in steps]
        assert episode.truncations.tolist() == [False, False, False, True]
        assert episode.terminations.tolist() == [False] * 4
        if "task_id" in info:
            assert episode.infos["task_id"].tolist() == [info["task_id"]] * 5
            assert episode.infos["task_name"][0].decode() == info["task_name"]
            seen.add(info["task_id"])
    assert len(seen) >= 2 or env_id == "PointGoal"
    assert loaded.env_spec == env.spec
    again = loaded.recover_environment()
    assert again.spec == env.spec
    assert again.observation_space == loaded.observation_space == env.observation_space
    assert again.action_space == loaded.action_space == env.action_space
    repeated = play(again, list(loaded[0].actions), seed=0)
    assert [step[0].tolist() for step in repeated] == loaded[0].observations.tolist()
    assert [step[1] for step in repeated[1:]] == loaded[0].rewards.tolist()


def test_the_example_prints_what_it_recorded(capsys):
    load_example("minari_record.py").main()
    assert capsys.readouterr().out.splitlines() == [
        "episodes: 20, steps: 1000",
        "episodes a class: {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2}",
        "recovered: mtwrappers/MT10-v0 {'benchmark': 'MT10', 'num_goals': 5}",
    ]


# Experts. Minari warns where a dataset has no author.
REACH = "Reach a goal position"
EXPERTS = ["--benchmark", "MT1", "--goals", "3", "--name", "tests/experts-v0"]


@pytest.fixture
def experts():
    return load_example("record_experts.py")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_experts_are_recorded_with_all_that_a_replay_takes(experts, capsys):
    experts.main([*EXPERTS, "--episodes", "2"])
    assert capsys.readouterr().out.splitlines()[0] == "reach-v3: 2 recorded and replayed, 0 failed"
    dataset = minari.load_dataset("tests/experts-v0")
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
    assert [line.split("==")[0] for line in dataset.storage.metadata["requirements"]] == list(
        experts.PACKAGES
    )
    experts.main(["--replay", dataset.id])
    assert capsys.readouterr().out == "2 of 2 episodes replayed bit for bit\n"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", ["observations", "actions", "rewards", "terminations"])
def test_a_bit_that_is_not_as_it_was_is_named(experts, part):
    experts.main([*EXPERTS, "--episodes", "1"])
    (file,) = Path(os.environ["MINARI_DATASETS_PATH"]).rglob("*.hdf5")
    with h5py.File(file, "a") as data:
        stored = data[f"episode_0/{part}"]
        array = stored[:]
        # The last bits of rewards may differ between processors.
        array.view(np.uint8).flat[20 if part == "rewards" else 16] ^= 1
        stored[:] = array
    found = "observations" if part == "actions" else part
    with pytest.raises(SystemExit, match=rf"episode 0, reach-v3: {found} differs"):
        experts.main(["--replay", "tests/experts-v0"])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.skipif(opengl.choose_gl() is None, reason="neither EGL nor OSMesa can render here")
def test_frames_are_recorded_as_they_are(experts, capsys):
    experts.main([*EXPERTS, "--episodes", "1", "--pixels", "16", "--max-episode-steps", "60"])
    (episode,) = dataset = minari.load_dataset("tests/experts-v0")
    frames = episode.observations["pixels"]
    assert frames.shape == (len(episode) + 1, 16, 16, 3)
    env = dataset.recover_environment()
    assert (env.reset(seed=0, options={"task_state": 0})[0]["pixels"] == frames[0]).all()
    assert len(np.unique(frames, axis=0)) > len(episode) / 2
    assert capsys.readouterr().out.startswith("reach-v3: 1 recorded and replayed, 0 failed")
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_goals_on_which_an_expert_fails_are_left_out(experts, capsys):
    with pytest.raises(SystemExit, match="no expert succeeded"):
        experts.main([*EXPERTS, "--episodes", "3", "--max-episode-steps", "5"])
    assert capsys.readouterr().out == "reach-v3: 0 recorded and replayed, 3 failed\n"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_episode_that_does_not_replay_is_in_no_data_set(experts, monkeypatch, tmp_path):
    monkeypatch.setattr(experts, "difference", lambda env, episode: "rewards")
    with pytest.raises(SystemExit, match="reach-v3: rewards differs when replayed"):
        experts.main([*EXPERTS, "--episodes", "2"])
    assert minari.list_local_datasets() == {}
    # What was written is no dataset, and is replayed before it counts.
    monkeypatch.undo()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    experts.main(["--resume", "tests/experts-v0"])
    assert [*minari.list_local_datasets()] == ["tests/experts-v0"]


@pytest.fixture
def never_run(experts, monkeypatch):
    """The example, which must not run an episode."""
    monkeypatch.setattr(experts, "run", lambda *args: pytest.fail("an episode was run"))
    return experts


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_name_that_is_taken_is_refused_before_an_episode_is_run(experts, monkeypatch, capsys):
    experts.main([*EXPERTS, "--episodes", "1"])
    monkeypatch.setattr(experts, "run", lambda *args: pytest.fail("an episode was run"))
    with pytest.raises(SystemExit, match="tests/experts-v0 is there: choose another --name, or m"):
        experts.main([*EXPERTS, "--episodes", "1"])
    capsys.readouterr()
    experts.main(["--resume", "tests/experts-v0"])
    assert capsys.readouterr().out.startswith("tests/experts-v0: 1 episodes, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "experts"], "a name must be such as metaworld/mt10-expert-v0, got experts"),
        (["--resume", "tests/none-v0"], "there is no unfinished recording of tests/none-v0"),
        (["--replay", "tests/none-v0"], "Dataset tests/none-v0 not found locally"),
        (["--classes", "hammer-v3"], "--classes must be among reach-v3, .*, got hammer-v3"),
        (["--no-shadows"], "2"),
        (["--resume", "tests/a-v0", "--name", "tests/b-v0"], "2"),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_leaves_nothing(
    arguments, message, never_run, tmp_path
):
    with pytest.raises(SystemExit, match=message):
        never_run.main(arguments)
    assert [*tmp_path.rglob("*")] == []


KILLED = """
import os, signal, sys
from tests.integrations.examples import load_example
experts, kept, place = load_example("record_experts.py"), [], sys.argv[1]
def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
def keep(self, task_state, keep=experts.Unfinished.keep):
    kept.append(keep(self, task_state))
    if len(kept) == 2:
        experts.Unfinished.write = kill  # in the third
if place == "episode":
    experts.Unfinished.keep = keep
elif place == "dataset":
    experts.unequal, unequal = lambda *a: kill() if experts.os.environ["MINARI_DATASETS_PATH"
        ].endswith("whole") else unequal(*a), experts.unequal
else:
    experts.shutil.rmtree = lambda path, **k: None if k else kill()
experts.main(sys.argv[2:])
"""


def contents(name):
    """All bytes of a dataset, but for its name."""
    folder = Path(os.environ["MINARI_DATASETS_PATH"]) / name / "data"
    about = json.loads((folder / "metadata.json").read_text())
    return (folder / "main_data.hdf5").read_bytes(), {**about, "dataset_id": None}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", ["episode", "dataset", "end"])
def test_a_recording_that_was_killed_is_no_data_set_and_goes_on_to_the_same_data(
    place, experts, tmp_path, capsys
):
    arguments = ["--goals", "2", "--episodes", "2", "--classes", "reach-v3", "push-v3"]
    experts.main([*arguments, "--name", "tests/calm-v0"])
    begun = [*arguments, "--name", "tests/killed-v0"]
    code = [sys.executable, "-c", KILLED, place, *begun]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(code, cwd=ROOT, env=env, timeout=100)
    assert ended.returncode == -signal.SIGKILL
    folder = tmp_path / "tests" / ".killed-v0.unfinished"
    assert folder.is_dir()
    if place != "end":
        assert [*minari.list_local_datasets()] == ["tests/calm-v0"]
        with pytest.raises(SystemExit, match="tests/killed-v0 is unfinished: go on with --resume"):
            experts.main(begun)
        with pytest.raises(SystemExit, match="was begun with seed 0, got 1"):
            experts.main(["--resume", "tests/killed-v0", "--seed", "1"])
    capsys.readouterr()
    experts.main(["--resume", "tests/killed-v0"])
    assert "tests/killed-v0: 4 episodes, " in capsys.readouterr().out
    assert not folder.exists()
    assert contents("tests/killed-v0") == contents("tests/calm-v0")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_ctrl_c_says_how_to_go_on(experts, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(experts, "difference", lambda *args: signal.raise_signal(signal.SIGINT))
        with pytest.raises(SystemExit, match="stopped: go on with --resume tests/experts-v0"):
            experts.main([*EXPERTS, "--episodes", "1"])
    experts.main(["--resume", "tests/experts-v0"])
    assert len(minari.load_dataset("tests/experts-v0")) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classes_of_a_benchmark_are_recorded_in_its_order(experts, capsys):
    chosen = ["--classes", "push-v3", "reach-v3", "--goals", "2", "--episodes", "1"]
    experts.main(["--benchmark", "MT10", *chosen, "--name", "tests/some-v0"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["reach-v3", "push-v3", "tests/some-v0"]
    dataset = minari.load_dataset("tests/some-v0")
    assert [episode.observations.shape[1] for episode in dataset] == [49, 49]
    experts.main(["--benchmark", "MT1", *chosen[:2], *chosen[3:], "--name", "tests/one-v0"])
    assert capsys.readouterr().out.startswith("push-v3: 1 recorded")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.skipif(opengl.choose_gl() is None, reason="neither EGL nor OSMesa can render here")
def test_frames_are_of_the_camera_that_was_chosen(experts):
    frames = {}
    for name, more in {
        "tests/a-v0": [],
        "tests/b-v0": ["--camera-name", "corner"],
        "tests/c-v0": ["--no-shadows"],
    }.items():
        arguments = ["--episodes", "1", "--pixels", "16", "--name", name, *more]
        experts.main(["--benchmark", "MT1", "--goals", "3", *arguments])
        (episode,) = dataset = minari.load_dataset(name)
        frames[name] = episode.observations["pixels"]
        kwargs = json.loads(dataset.storage.metadata["env_spec"])["kwargs"]
        assert (kwargs["camera_name"], kwargs["shadows"]) == (
            "corner" if name == "tests/b-v0" else "corner4",
            name != "tests/c-v0",
        )
    a, b, c = frames.values()
    assert not (a == b).all()
    assert not (a == c).all()
