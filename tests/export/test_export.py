"""`mtwrappers export` to Minari: the data, kills, and what is refused."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import time

import gymnasium
import numpy as np
import pytest

from mtwrappers import evaluate, few_shot_evaluate
from mtwrappers.cli import main
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.evaluation.evidence import read_evidence
from mtwrappers.evaluation.replay import replay
from mtwrappers.export import replay as module
from mtwrappers.export.writer import WriterProcess
from mtwrappers.metaworld import opengl
from mtwrappers.metaworld.experts import expert_actions
from mtwrappers.state.files import locked
from tests import forks
from tests.vector.processes import wait_until

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

NAME = "tests/experts-v0"
draws = pytest.mark.skipif(
    opengl.choose_gl() is None, reason="neither EGL nor OSMesa can render here"
)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Minari's folder of datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A result of two episodes, of which the second one fails."""
    path = tmp_path_factory.mktemp("result") / "results.json"
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", max_episode_steps=60)
    requests = []

    def act(observations):
        requests.append(observations)
        if len(requests) > 60:
            return np.full((1, 4), 3.0, np.float32)  # beyond the action space
        return expert_actions(["reach-v3"], observations, np.array(envs.get_attr("goal")))

    evaluation = evaluate(act, envs, 2, evidence=path.with_suffix(".npz"))
    assert [episode.success_once for episode in evaluation.episodes] == [True, False]
    evaluation.described(policy="mine").save(path)
    return path


def export(result, *options, name=NAME):
    return main(["export", str(result), f"minari:{name}", *options])


def refused_export(capsys, result, *options, name=NAME):
    """Returns the error line of an export that is refused."""
    with pytest.raises(SystemExit, match="2"):
        export(result, *options, name=name)
    return capsys.readouterr().err.removeprefix("mtwrappers: error: ").removesuffix("\n")


def replay_halved(envs, plan, actions):
    """Replays with halved actions."""
    return replay(envs, plan, {name: array / 2 for name, array in actions.items()})


def replay_halved_if_rounded(envs, plan, actions):
    """Replays with halved actions where these are rounded."""
    rounded = next(iter(actions.values())).dtype == np.float32
    return (replay_halved if rounded else replay)(envs, plan, actions)


@pytest.mark.parametrize("successes", [False, True])
def test_a_dataset_has_the_episodes_of_the_result_and_all_that_a_replay_takes(
    successes, result, root, capsys
):
    assert export(result, *["--successes"] * successes) == 0
    dataset, claim = minari.load_dataset(NAME), EvaluationResult.load(result)
    # The episode whose actions are clipped is the one that fails.
    clipped = (
        ""
        if successes
        else "actions clipped to [-1, 1] in 1 of 2 episodes, as the environments do; "
    )
    episodes = "1 episode" if successes else "2 episodes"
    assert capsys.readouterr().out == (
        f"minari:{NAME}: {episodes}, {dataset.total_steps} steps, "
        f"{clipped}all replayed bit for bit\n"
    )
    chosen = claim.episodes[:1] if successes else claim.episodes
    env = dataset.recover_environment()
    for episode, expected_episode in zip(dataset, chosen, strict=True):
        (episode_metadata,) = dataset.storage.get_episode_metadata([episode.id])
        expected = {"task_name": "reach-v3", "task_description": "Reach a goal position"}
        expected |= {"task_state": expected_episode.task_state, "number": expected_episode.number}
        assert expected.items() <= episode_metadata.items()
        length = expected_episode.steps_to_success if successes else 60
        assert episode.actions.dtype == np.float32
        assert np.abs(episode.actions).max() <= 1
        assert episode.terminations.tolist() == [False] * (length - 1) + [successes]
        assert episode.truncations.tolist() == [False] * (length - 1) + [not successes]
        assert successes or sum(episode.rewards.tolist()) == expected_episode.episode_return
        options = {"task_state": int(episode_metadata["task_state"])}
        obs, _ = env.reset(seed=int(episode_metadata["seed"]), options=options)
        assert episode_metadata["rand_vec"].tolist() == env.get_wrapper_attr("rand_vec").tolist()
        observations = [obs, *(env.step(action)[0] for action in episode.actions)]
        assert np.array_equal(observations, episode.observations)
    metadata = dataset.storage.metadata
    assert metadata["algorithm_name"] == "mine"
    expected = {"evidence": claim.evidence, "score": claim.score, "successes": successes}
    assert expected.items() <= metadata["mtwrappers_result"].items()
    assert {line.partition("==")[0] for line in metadata["requirements"]} >= {"mujoco", "minari"}
    assert sorted(os.listdir(root / "tests")) == ["experts-v0", "namespace_metadata.json"]


@draws
def test_frames_of_each_camera_are_stored_without_loss(result, root):
    frame_options = [
        "--observation",
        "pixels_agent_pos",
        "--camera",
        "corner",
        "--camera",
        "gripperPOV",
    ]
    assert export(result, *frame_options, "--size", "32", "--no-shadows", "--successes") == 0
    [episode] = dataset = minari.load_dataset(NAME)
    assert dataset.env_spec.kwargs["shadows"] is False
    env = dataset.recover_environment()
    (metadata,) = dataset.storage.get_episode_metadata([0])
    options = {"task_state": int(metadata["task_state"])}
    obs, _ = env.reset(seed=int(metadata["seed"]), options=options)
    for t, action in enumerate(episode.actions):
        assert obs["agent_pos"].tolist() == episode.observations["agent_pos"][t].tolist()
        for camera in ("corner", "gripperPOV"):
            frames = episode.observations["pixels"][camera]
            assert frames.shape == (len(episode) + 1, 32, 32, 3)
            assert np.array_equal(frames[t], obs["pixels"][camera])
        obs, *_ = env.step(action)
    env.close()
    [file] = root.rglob("*.hdf5")
    with h5py.File(file) as data:
        stored = data["episode_0/observations/pixels/corner"]
        assert stored.id.get_storage_size() < 0.6 * frames.nbytes
        assert stored.maxshape == (None, 32, 32, 3)  # as Minari's own, to which it can add


def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(
    result, root, tmp_path, capsys, monkeypatch
):
    def edit_result(episode, **fields):
        data = json.loads(result.read_text())
        data["episodes"][episode].update(fields)
        (tmp_path / "results.json").write_text(json.dumps(data))
        shutil.copy(result.with_suffix(".npz"), tmp_path / "results.npz")
        return tmp_path / "results.json"

    edited = edit_result(1, steps_to_success=3)
    assert refused_export(capsys, edited) == (
        f"cannot export {edited}: {edited} is false: reach-v3, episode 1: steps_to_success is None "
        "in the replay, 3 in the result"
    )
    frame_options = ["--observation", "pixels", "--size"]
    for options, message in [
        (
            [*frame_options, "100000"],
            "of 60 steps would take 1704.3 GB of memory, above the limit of 1 GB",
        ),
        ([*frame_options, "16", "--camera", "front"], "camera_name must be 'free', 'topview', "),
        (["--camera", "corner"], "--camera, --size and --no-shadows are for frames: add --observ"),
        (["--video"], "video is for LeRobot: Minari stores frames without loss"),
    ]:
        assert message in refused_export(capsys, result, *options)
    assert "must look like metaworld/mt10-expert-v0, got x" in refused_export(
        capsys, result, name="x"
    )
    assert "cannot read or write none: No such file" in refused_export(capsys, "none")
    # An episode whose replay differs, by a step that is not as it was.
    with monkeypatch.context() as patch:
        patch.setattr(module, "replay", replay_halved)
        assert "reach-v3, episode 0: success_once is False in the replay, True" in refused_export(
            capsys, result
        )
        assert "reach-v3, episode 0 does not succeed at step" in refused_export(
            capsys, result, "--successes"
        )
    assert [*root.rglob("*")] == []
    # Another export at the same time, and a dataset that is there.
    unfinished = root / "tests/.experts-v0.unfinished"
    unfinished.mkdir(parents=True)
    with locked(unfinished):
        assert "another export is writing" in refused_export(capsys, result)
    assert export(result) == 0
    assert f"{root / NAME} exists" in refused_export(capsys, result)


@pytest.fixture(scope="module")
def float64_result(tmp_path_factory):
    """A result of two successes, with actions of NumPy's default dtype."""
    path = tmp_path_factory.mktemp("float64") / "results.json"
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", env_name="push-v3", max_episode_steps=100)

    def act(observations):
        goals = np.array(envs.get_attr("goal"))
        return expert_actions(["push-v3"], observations, goals).astype(np.float64).clip(-1, 1) * 0.9

    evaluate(act, envs, 2, evidence=path.with_suffix(".npz")).save(path)
    return path


@pytest.mark.parametrize("successes", [False, True])
def test_actions_of_another_dtype_are_rounded_which_is_said(successes, float64_result, capsys):
    assert export(float64_result, *["--successes"] * successes) == 0
    dataset, claim = minari.load_dataset(NAME), EvaluationResult.load(float64_result)
    assert re.fullmatch(
        rf"minari:{NAME}: 2 episodes, {dataset.total_steps} steps, actions converted from float64 "
        r"to float32: success unchanged in 2 of 2 episodes, returns differ by up to \de-\d\d "
        r"\(relative\)\n",
        capsys.readouterr().out,
    )
    metadata = dataset.storage.metadata
    ends = ", each until its first success" * successes
    expected = f"The verified episodes of a result, with actions rounded to float32{ends}."
    assert metadata["description"] == expected
    assert metadata["mtwrappers_result"]["rounded_from"] == "float64"
    recorded, env = read_evidence(float64_result.with_suffix(".npz")), dataset.recover_environment()
    for episode, expected_episode in zip(dataset, claim.episodes, strict=True):
        length = expected_episode.steps_to_success if successes else 100
        actions = recorded[f"push-v3/{expected_episode.number}"][:length]
        assert episode.actions.tolist() == actions.astype(np.float32).tolist()
        (episode_metadata,) = dataset.storage.get_episode_metadata([episode.id])
        options = {"task_state": int(episode_metadata["task_state"])}
        obs, _ = env.reset(seed=int(episode_metadata["seed"]), options=options)
        observations = [obs, *(env.step(action)[0] for action in episode.actions)]
        assert np.array_equal(observations, episode.observations)


def test_actions_that_succeed_otherwise_once_they_are_rounded_are_refused(
    float64_result, root, capsys, monkeypatch
):
    monkeypatch.setattr(module, "replay", replay_halved_if_rounded)
    why = "; a dataset has actions of float32 in [-1, 1], and its own are float64 in [-0.9, 0.9]"
    for options, message in (
        ([], "push-v3, episode 0: success_once is False in the replay, True in the result"),
        (["--successes"], "push-v3, episode 0 does not succeed at step 63 in the replay"),
    ):
        assert refused_export(capsys, float64_result, *options).endswith(f"{message}{why}")
    assert [*root.rglob("*")] == []


def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(result, root, tmp_path):
    def export_on_a_full_disk():
        # A limit on the size of files fails as a full disk does, in the middle of one.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return export(result)

    process = forks.start(export_on_a_full_disk, output=tmp_path / "output")
    process.join()
    assert process.exitcode == 2
    assert re.fullmatch(
        f"mtwrappers: error: cannot read or write {root / NAME}: its writer ended with "
        r"\w+ \d+, as HDF5 does if the disk is full\n",
        (tmp_path / "output").read_text(),
    )
    assert [*root.rglob("*")] == []


def test_an_error_of_a_writer_is_raised_here(tmp_path):
    message = "No such file or directory: '/nowhere/file'"
    with (
        pytest.raises(FileNotFoundError, match=message),
        WriterProcess(_write_into_nowhere, tmp_path) as writer,
    ):
        writer.send("item")
    message = "^TypeError: object of type 'generator' has no len"
    with pytest.raises(RuntimeError, match=message), WriterProcess(len, tmp_path):
        pass


def _write_into_nowhere(items):
    assert [*items] == ["item"]
    os.listdir("/nowhere/file")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data/x-v0", "no part of a name for Minari may be 'data', as the folders in its datas"),
        ("a-v0/data/c-v0", "no part of a name for Minari may be 'data'"),
        ("some//more/x-v0", "or empty: got some//more/x-v0"),
        ("a-v0/b-v0", "a-v0 has a folder 'data' and so is a dataset for Minari, which finds none"),
        ("link-v0", "link-v0 exists: choose another name, or delete it"),
    ],
)
def test_a_dataset_that_minari_would_not_find_is_refused_at_once(
    name, message, result, root, capsys, monkeypatch
):
    (root / "a-v0/data").mkdir(parents=True)
    (root / "link-v0").symlink_to(root / "nowhere")
    monkeypatch.setattr(module, "verify", lambda *args, **kwargs: pytest.fail("it is verified"))
    assert message in refused_export(capsys, result, name=name)
    assert sorted(os.listdir(root)) == ["a-v0", "link-v0"]


def test_a_dataset_in_a_relative_folder_or_of_a_long_name_is_written(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", "relative")
    name = f"tests/{'n' * 252}-v0"
    assert export(result, name=name) == 0
    assert os.listdir("relative/tests") == [f"{'n' * 252}-v0", "namespace_metadata.json"]


def test_a_dataset_has_the_classes_and_the_observations_of_its_result(tmp_path):
    """Not those that an id has by default."""
    classes = ["push-v3", "door-open-v3"]
    kwargs = {"envs_list": classes, "num_goals": 2, "task_encoding": "none", "action_repeat": 2}
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", max_episode_steps=3, **kwargs)
    result = evaluate(
        lambda obs: np.full((2, 4), 0.5, np.float32), envs, 1, evidence=tmp_path / "r.npz"
    )
    result.save(tmp_path / "r.json")
    assert export(tmp_path / "r.json") == 0
    dataset = minari.load_dataset(NAME)
    names = [metadata["task_name"] for metadata in dataset.storage.get_episode_metadata([0, 1])]
    assert names == classes
    assert dataset.observation_space.shape == (39,)
    kwargs["train_classes"] = kwargs.pop("envs_list")  # by the name of this package
    assert kwargs.items() <= dataset.env_spec.kwargs.items()


def test_only_plain_evaluations_on_meta_world_with_success_are_exported(tmp_path, capsys):
    path = tmp_path / "results.json"
    unsuccessful = gymnasium.make_vec("mtwrappers/MT1-v0", max_episode_steps=3)
    not_metaworld = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=3)
    few_shot = gymnasium.make_vec("mtwrappers/ML1-train-v0", max_episode_steps=3)

    class Still:
        def __call__(self, observations):
            return np.zeros((1, 4), np.float32)

        def begin_trial(self):
            pass

    for result, message in (
        (
            evaluate(lambda obs: np.zeros((2, 2)), not_metaworld, 1),
            "only evaluations on Meta-World's",
        ),
        (
            few_shot_evaluate(Still(), few_shot, 1, 1, 1),
            "the episodes of few-shot trials follow from one another",
        ),
        (
            evaluate(Still().__call__, unsuccessful, 1),
            "no episode is a success, so there is nothing to export",
        ),
    ):
        result.save(path)
        assert message in refused_export(capsys, path, "--successes")


def test_a_killed_or_interrupted_export_leaves_no_dataset_and_is_run_again(result, root):
    command, unfinished = ["export", str(result), f"minari:{NAME}"], "tests/.experts-v0.unfinished"
    output = root.parent / "output"
    for signum, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        for pause in (0.0, 0.4, 0.8):
            shutil.rmtree(root / unfinished, ignore_errors=True)
            process = forks.start(main, command, output=output)
            assert wait_until(lambda: (root / unfinished).exists()), output.read_text()
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signum)
            process.join()
            assert process.exitcode in (code, 0), output.read_text()
            assert (process.exitcode != 0) or (root / NAME).exists()
            if (root / NAME).exists():  # it was whole before the signal came
                assert minari.load_dataset(NAME).total_episodes == 2
                shutil.rmtree(root / NAME)
        # With no pause, the folder may have been made just before the interrupt.
        assert signum == signal.SIGKILL or not (root / unfinished).exists()
    assert main(command) == 0
    assert minari.load_dataset(NAME).total_episodes == 2
    assert sorted(os.listdir(root / "tests")) == ["experts-v0", "namespace_metadata.json"]
