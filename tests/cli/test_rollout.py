"""`mtwrappers rollout`: its episodes, the files it leaves, and videos."""

import re
import sys
from importlib.metadata import version

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest

from mtwrappers import evaluate
from mtwrappers.cli import film, main, rollout
from mtwrappers.cli.user_code import UserPolicy, named_errors
from mtwrappers.common.errors import with_place
from mtwrappers.evaluation import PlannedEpisode
from mtwrappers.evaluation.result import Description, EvaluationResult
from mtwrappers.metaworld import opengl
from tests.cli.fakes import FILES, run_rollout


def test_a_rollout_leaves_results_a_table_and_a_chart(tmp_path, capsys):
    folder = tmp_path / "new" / "out"
    run = ["--training-seed", "0", "--training-steps", "2e6"]
    result = run_rollout(folder, "MT1", "--task", "push-v3", "--episodes", "2", *run)
    assert result.description == Description("expert", 0, 2_000_000)
    assert (result.design.seed, [episode.length for episode in result.episodes]) == (0, [500, 500])
    assert result.versions["metaworld"] == version("metaworld")
    assert len({episode.task_state for episode in result.episodes}) == 2
    mean = result.per_task["push-v3"]["return"].value
    table = (folder / "results.csv").read_text().splitlines()
    assert table[0] == "task,episodes,success_once,success_final,mean_return"
    assert table[1] == f"push-v3,2,1.0,1.0,{mean}"
    assert imageio.imread(folder / "success.png").shape[2] in (3, 4)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    output = capsys.readouterr().out
    rate = r"1\.00 0\.34-1\.00"
    assert re.search(rf"push-v3 +2 +{rate} +{rate} +{mean:.0f} +500\.0\n", output)
    assert output.startswith(f"Running MT1 on 1 worker: 2 episodes per class into {folder}\n")
    assert "1,000 steps in" in output
    assert "privileged" not in output


def test_experts_of_a_benchmark_that_hides_goals_succeed_with_the_goal_and_say_so(tmp_path, capsys):
    tasks = ["--task", "drawer-open-v3", "--task", "door-close-v3"]
    result = run_rollout(tmp_path, "ML10-test", *tasks, "--episodes", "1")
    successes = {episode.task: episode.success_once for episode in result.episodes}
    assert successes == {"drawer-open-v3": True, "door-close-v3": True}
    assert result.description.note == "the policy reads hidden goals"
    output = " ".join(capsys.readouterr().out.split())
    assert "ML10 has hidden goals" in output
    assert "privileged information that a learner does not have" in output


@pytest.mark.usefixtures("short_episodes")
def test_a_seed_determines_goals_and_actions_and_ml10_means_its_train_tasks(tmp_path):
    arguments = ["--policy", "random", "--episodes", "3", "--task", "reach-v3", "--seed"]
    first = run_rollout(tmp_path, "ML10", *arguments, "1")
    assert run_rollout(tmp_path, "ML10-train", *arguments, "1") == first
    other_result = run_rollout(tmp_path, "ML10", *arguments, str(2**32 - 2))
    for episode, other_episode in zip(first.episodes, other_result.episodes, strict=True):
        assert episode.task_state != other_episode.task_state
        assert episode.episode_return != other_episode.episode_return


@pytest.mark.usefixtures("short_episodes")
def test_zero_workers_mean_this_process(tmp_path, capsys):
    arguments = ["MT1", "--policy", "random", "--episodes", "2"]
    result = run_rollout(tmp_path / "here", *arguments, workers=0)
    assert "Running MT1 in this process: 2 episodes per class into" in capsys.readouterr().out
    assert result == run_rollout(tmp_path / "there", *arguments, workers=1)
    assert main(["verify", str(tmp_path / "here"), "--workers", "0"]) == 0


def test_a_class_of_a_protocol_has_an_environment_for_each_worker_not_for_each_class(monkeypatch):
    class Executor:
        def __init__(self, makers, num_groups, **options):
            self.size = len(makers), num_groups

    monkeypatch.setattr(rollout, "make_executor", Executor)
    options = rollout.Options(task=("reach-v3",), protocol="metaworld-3.1", workers=4)
    envs = rollout._make_envs(rollout._plan_rollout("MT50", options))
    assert envs.size == (4, 4)
    assert envs.spec.kwargs["max_episode_steps"] == 500


# A policy of one's own.

POLICIES = """
import functools
import numpy as np, helper
from mtwrappers import ActionChunks

def act(observations):
    return observations[:, :4] * helper.SCALE

class Policy:
    def get_actions(self, observations):
        return act(observations.reshape(-1, observations.shape[-1])).reshape(
            *observations.shape[:2], 4
        ), {}

def reads(observations, task_names, descriptions):
    assert set(zip(task_names, descriptions)) <= {("push-v3", "Push the puck to a goal")}
    return act(observations)

def plan(observations):
    return np.repeat(act(observations)[:, None], 10, axis=1)

def make(scale=1):
    return act

@functools.cache
def cached():
    return act

def passes_on(*args, **kwargs):
    return act(*args, **kwargs)

class Module:  # as those of PyTorch
    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, observations):
        return act(observations)

policy = Policy()
module = Module()
partly = functools.partial(make, scale=2)
chunks = ActionChunks(plan, 7)
"""


@pytest.fixture
def policy_file(tmp_path, monkeypatch):
    """A file with policies, which imports another one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "helper.py").write_text("SCALE = -0.5\n")
    path = tmp_path / "own.py"
    path.write_text(POLICIES)
    yield path
    for name in ("own", "helper", "user_file"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("short_episodes")
def test_a_policy_of_ones_own_is_run_from_a_file_or_a_module(
    policy_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", env_name="push-v3", seed=0, max_episode_steps=40)
    expected = evaluate(lambda obs: obs[:, :4] * -0.5, envs, 2)
    names = ("act", "make", "Policy", "reads", "module", "passes_on", "cached", "partly")
    policies = (f"{policy_file}:act", f"{policy_file}:policy", *(f"own:{name}" for name in names))
    for policy in policies:
        arguments = ["MT1", "--task", "push-v3", "--episodes", "2", "--policy", policy]
        result = run_rollout(tmp_path / "out", *arguments)
        assert result.description.policy == policy
        assert result.episodes == expected.episodes
    chunks = ["MT1", "--task", "push-v3", "--policy", "own:plan", "--action-chunk", "7"]
    assert run_rollout(tmp_path / "out", *chunks).description.action_chunk == 7
    with pytest.raises(SystemExit):
        main(["rollout", *chunks[:-1], "8", "--out", str(tmp_path / "out"), "--resume"])
    message = "it was begun with action_chunk 7, got 8: resume it with the settings that it was"
    assert message in capsys.readouterr().err
    chunks = ["MT1", "--task", "push-v3", "--policy", "own:chunks"]
    assert run_rollout(tmp_path / "out", *chunks).description.action_chunk == 7
    with pytest.raises(SystemExit, match=r"^2$"):
        run_rollout(tmp_path / "out", *chunks, "--action-chunk", "5")
    assert "own:chunks is an ActionChunks, which has a number of its own" in capsys.readouterr().err


@pytest.mark.slow
def test_a_policy_observes_frames_and_sentences(policy_file, tmp_path, monkeypatch):
    monkeypatch.setattr("mtwrappers.cli.rollout.EPISODE_STEPS", 3)
    policy_file.write_text(
        "def act(obs):\n"
        "    assert obs['pixels'].shape[1:] == (480, 480, 3)\n"
        "    assert set(obs['instruction']) == {'Reach a goal position'}\n"
        "    return [[0.0] * 4] * len(obs['pixels'])\n"
    )
    observation = ["--observation", "pixels", "--instruction"]
    folder = tmp_path / "out"
    policy = ["--policy", f"{policy_file}:act"]
    result = run_rollout(folder, "MT1", "--task", "reach-v3", *observation, *policy, "--video")
    assert [episode.length for episode in result.episodes] == [3] * 5
    assert "camera_name" not in result.environments.kwargs  # filmed by the policy's own
    assert main(["verify", str(folder / "results.json")]) == 0


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.parametrize("threads", [None, "3"])
def test_a_policy_leaves_the_cores_to_the_workers(threads, tmp_path, monkeypatch):
    if threads is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    path = tmp_path / "reads.py"
    path.write_text(
        "import os\n\n"
        f"assert os.environ['OMP_NUM_THREADS'] == '{threads or 1}'  # when torch is imported\n\n"
        "def act(observations):\n"
        "    return [[0.0] * 4] * len(observations)\n"
    )
    run_rollout(tmp_path / "out", "MT1", "--episodes", "1", "--policy", f"{path}:act")


def test_an_error_of_an_environment_is_not_said_to_be_one_of_the_policy():
    with (
        pytest.raises(ValueError, match=r"^it broke\nenvironment 3$"),
        named_errors(UserPolicy("own.py:act", "own.py", None)),
    ):
        raise with_place(ValueError("it broke"), "environment 3")


@pytest.mark.usefixtures("short_episodes")
def test_a_resumed_rollout_says_how_many_episodes_there_were(tmp_path, capsys):
    command = ["MT1", "--task", "reach-v3", "--episodes", "2"]
    run_rollout(tmp_path, *command)
    assert main(["rollout", *command, "--resume", "--out", str(tmp_path)]) == 0
    error = capsys.readouterr().err
    assert "warning: 2 of 2 episodes are taken from" in error
    assert "whichever policy" not in error  # the experts are always the same


@pytest.mark.usefixtures("short_episodes")
def test_a_resumed_rollout_of_a_file_says_how_to_tell_its_policies_apart(tmp_path, capsys):
    path = tmp_path / "still.py"
    path.write_text("def act(observations):\n    return [[0.0] * 4] * len(observations)\n")
    command = ["MT1", "--task", "reach-v3", "--episodes", "2", "--policy", f"{path}:act"]
    for name, ending in (
        ([], "give every model another --name\n"),
        (["--name", "a"], "for them\n"),
    ):
        folder = tmp_path / f"out{len(name)}"
        run_rollout(folder, *command, *name)
        capsys.readouterr()
        assert main(["rollout", *command, *name, "--resume", "--out", str(folder)]) == 0
        warning = capsys.readouterr().err.replace("\n", " ").strip()
        assert warning.endswith(ending.strip())


ADAPTING = """
import numpy as np

class Remembers:
    def __init__(self):
        self.trials = 0

    def begin_trial(self):
        self.trials += 1

    def __call__(self, observations):
        return np.full((len(observations), 4), 0.1 * self.trials)
"""


def test_a_few_shot_protocol_lets_a_policy_adapt(tmp_path, capsys, monkeypatch):
    published = rollout.protocols["metaworld-3.1-ml"].on("ML1", "reach-v3")
    short = {"trials": 2, "adaptation_episodes": 1, "max_episode_steps": 4, "meta_batch_size": 2}
    protocol = published.variant("short", num_goals=4, **short)
    monkeypatch.setattr(rollout, "protocols", {"short": protocol})
    path = tmp_path / "adapting.py"
    path.write_text(ADAPTING)
    policy = ["--policy", f"{path}:Remembers", "--workers", "1"]
    command = ["rollout", "ML1", "--protocol", "short", *policy, "--out", str(tmp_path / "out")]
    assert main(command) == 0
    result = EvaluationResult.load(tmp_path / "out/results.json")
    assert (len(result.scored), len(result.adaptation.episodes)) == (12, 4)
    assert result.protocol == protocol
    output, errors = capsys.readouterr()
    assert "does not adapt" not in errors
    path.write_text(ADAPTING.replace("def begin_trial", "def adapt"))
    with pytest.raises(SystemExit, match="2"):
        main([*command[:-1], str(tmp_path / "none")])
    output_of_refusal, errors = capsys.readouterr()
    assert "in trials, a policy must have begin_trial()" in " ".join(errors.split())
    assert "Running" not in output_of_refusal
    path.write_text(ADAPTING)
    assert "Running ML1-test on 1 worker: 2 trials, 3 episodes after adaptation per goal" in output
    scope = {}
    exec(ADAPTING, scope)
    assert result.episodes == protocol.evaluate(scope["Remembers"]()).episodes
    assert main([*command, "--resume"]) == 0
    assert "16 of 16 episodes are taken from" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "out"), "--workers", "0"]) == 0
    # Episodes of a variant are those of each goal, after adaptation.
    assert main([*command[:-1], str(tmp_path / "short"), "--episodes", "1"]) == 0
    output = capsys.readouterr().out
    assert "This is a variant of short, which has 3 episodes per goal:\n" in output
    result = EvaluationResult.load(tmp_path / "short/results.json")
    assert result.protocol.name == "short with 1 episode per goal"
    assert (len(result.scored), len(result.adaptation.episodes)) == (4, 4)
    assert main(["verify", str(tmp_path / "short"), "--workers", "0"]) == 0


def test_a_rollout_without_a_protocol_says_that_a_policy_does_not_adapt(tmp_path, capsys):
    path = tmp_path / "adapting.py"
    path.write_text(ADAPTING)
    run_rollout(tmp_path / "out", "MT1", "--task", "push-v3", "--policy", f"{path}:Remembers")
    message = "which does not call its adapt() or begin_trial(): add --protocol metaworld-3.1-ml"
    assert message in capsys.readouterr().err
    path.write_text(ADAPTING + "    adapt = begin_trial = None")
    run_rollout(tmp_path / "none", "MT1", "--task", "push-v3", "--policy", f"{path}:Remembers")
    assert message not in capsys.readouterr().err


def test_the_result_is_written_and_printed_before_the_chart(tmp_path, capsys, monkeypatch):
    def draw(result, path, title):
        assert EvaluationResult.load(tmp_path / "out/results.json") == result
        assert "7 steps in " in capsys.readouterr().out
        raise KeyboardInterrupt

    monkeypatch.setattr(EvaluationResult, "plot", draw)
    arguments = ["MT1", "--policy", "random", "--episodes", "1", "--workers", "0"]
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 7)
    assert main(["rollout", *arguments, "--out", str(tmp_path / "out")]) == 130
    assert "1 of 1 episodes were finished" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "out"), "--workers", "0"]) == 0


# Video.


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # imageio's reader
@pytest.mark.slow
def test_a_video_has_the_size_and_the_length_that_are_asked_for(tmp_path):
    if opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    command = ["MT1", "--task", "reach-v3", "--episodes", "1", "--video"]
    run_rollout(tmp_path, *command, "--size", "42", "--video-steps", "9")
    # The frames of steps 0, 4 and 8, and of the last step.
    assert imageio.imread(tmp_path / "reach-v3.mp4").shape == (4, 42, 42, 3)


class Filmed:
    """Counts its steps; a frame has their number. It ends at the step 6."""

    def __init__(self):
        self.steps = 0

    def reset(self, seed, options):
        self.steps = 0

    def step(self, action):
        self.steps += 1
        return None, 0.0, self.steps == 6, False, {}

    def render(self):
        return self.steps


@pytest.mark.parametrize(("length", "frames"), [(1, [0, 1]), (4, [0, 4]), (6, [0, 4, 6])])
def test_a_video_has_the_frame_after_the_last_step(length, frames):
    counts = []
    episode = PlannedEpisode("reach-v3", 0, 1, 0)
    assert [*film._draw_frames(Filmed(), episode, [None] * length, counts.append)] == frames
    assert len(counts) == len(frames) == film.count_frames(length)


@pytest.mark.slow
def test_frames_that_a_policy_observes_have_the_size_that_is_asked_for(tmp_path, monkeypatch):
    if opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 2)
    path = tmp_path / "sees.py"
    path.write_text(
        "def act(obs):\n"
        "    assert obs.shape[1:] == (48, 48, 3)\n"
        "    return [[0.0] * 4] * len(obs)\n"
    )
    observation = ["--observation", "pixels", "--size", "48", "--policy", f"{path}:act"]
    result = run_rollout(tmp_path / "out", "MT1", *observation, "--episodes", "1")
    assert result.environments.kwargs["width"] == 48


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # imageio's reader
@pytest.mark.slow
def test_a_video_shows_the_first_episode_of_each_class(tmp_path, capsys):
    if opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    command = ["MT1", "--task", "reach-v3", "--episodes", "2", "--video"]
    run_rollout(tmp_path, *command)
    assert [path.name for path in tmp_path.glob("*.mp4")] == ["reach-v3.mp4"]
    (tmp_path / "reach-v3.mp4").unlink()
    assert main(["rollout", *command, "--resume", "--out", str(tmp_path)]) == 0  # it is complete
    frames = imageio.imread(tmp_path / "reach-v3.mp4")
    assert frames.shape == (11, 480, 480, 3)  # the last one shows the end
    assert len(np.unique(frames[0])) > 1
    # The hand has moved; compression alone changes a pixel by a tenth of this.
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 150
    assert imageio.immeta(tmp_path / "reach-v3.mp4")["fps"] == 20.0
    assert "wrote" in capsys.readouterr().out


@pytest.mark.usefixtures("short_episodes")
def test_without_a_renderer_the_rollout_goes_on_and_says_what_to_install(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(film, "choose_gl", lambda: None)
    assert len(run_rollout(tmp_path, "MT1", "--episodes", "2", "--video").episodes) == 2
    assert list(tmp_path.glob("*.mp4")) == []
    error = capsys.readouterr().err
    assert error.startswith(
        "mtwrappers: warning: no video: neither EGL nor OSMesa can render here;"
    )
    assert "libegl1 or libosmesa6" in error
