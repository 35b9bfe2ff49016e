"""`few_shot_evaluate`: trials of policies that adapt."""

import re
import warnings
from collections import Counter
from contextlib import closing
from functools import partial

import gymnasium
import imageio.v3 as imageio
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from mtwrappers import MetaIterativeEnvExecutor, evaluate, few_shot_evaluate, protocols
from mtwrappers.evaluation import EvaluationResult, Observer, verify
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.evaluation.fakes import Namesakes, ScriptedEnv
from tests.vector.fakes import HalfReward, all_modes, both_executors


class GoalEnv(ScriptedEnv):
    """Pays 1 for an action that is the task, which is success; a task is a number."""

    def __init__(self, length=2, name=None):
        super().__init__([length], name=name)
        self.task = None
        self.right = False
        self.resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)

    def sample_tasks(self, n):
        return self.np_random.uniform(size=n).round(3).tolist()

    def set_task(self, task):
        self.task = task

    def step(self, action):
        self.right = float(action[0]) == self.task
        obs, _, *rest = super().step(action)
        return obs, float(self.right), *rest

    def _info(self):
        info = super()._info()
        return {**info, "success": float(self.steps > 0 and self.right), "task": self.task or 0.0}


def goal_envs(m=2, k=1, length=2, executor=MetaIterativeEnvExecutor, **kwargs):
    return executor(partial(GoalEnv, length), m, k, **kwargs)


class Learner:
    """Does nothing right until it has adapted, and then everything, for ``k`` environments a task.

    It reads the task out of the paths that it is given.
    """

    def __init__(self, n, k=1):
        self.n, self.k = n, k
        self.log = []

    def begin_trial(self):
        self.log.append("begin")
        self.known = np.full(self.n, -1.0)

    def adapt(self, paths):
        self.log.append([len(task_paths) for task_paths in paths])
        tasks = [task_paths[0]["env_infos"]["task"][0] for task_paths in paths]
        assert all(
            (p["env_infos"]["task"] == t).all()
            for task_paths, t in zip(paths, tasks, strict=True)
            for p in task_paths
        )
        self.known = np.repeat(tasks, self.k)

    def __call__(self, observations):
        return np.stack([self.known, np.zeros(self.n)], axis=1)


class Memory:
    """Is right from its third episode of a trial on, as far as it was given."""

    def __init__(self, envs):
        self.envs = envs
        self.trials = 0

    def begin_trial(self):
        self.trials += 1
        self.episodes = np.zeros(self.envs.num_envs, int)

    def reset(self, mask):
        self.episodes[mask] += 1

    def __call__(self, observations):
        tasks = np.array(self.envs.get_attr("task"))
        first = np.where(self.episodes >= 3, tasks, -1.0)
        return np.stack([first, first], axis=1)


def values(result, metric):
    return [step.overall["mean over tasks"][metric].value for step in result.by_episode]


# The environments of a task share its episodes, and each adaptation step has new ones.
@pytest.mark.parametrize(
    ("k", "trials", "episodes", "steps"), [(1, 3, (4, 2), 1), (3, 1, (4, 2), 1), (1, 1, (3, 1), 2)]
)
def test_a_policy_that_adapts_between_episodes_is_evaluated_before_and_after(
    k, trials, episodes, steps
):
    learner, (n_adapt, n_scored) = Learner(2 * k, k), episodes
    result = few_shot_evaluate(
        learner, goal_envs(k=k), trials, n_adapt, n_scored, adaptation_steps=steps
    )
    assert learner.log == (["begin"] + [[n_adapt, n_adapt]] * steps) * trials
    # The first adaptation already finds the task.
    expected = [0] * n_adapt + [1] * (n_adapt * (steps - 1) + n_scored)
    assert values(result, "success_once") == expected
    assert values(result, "return") == [2 * right for right in expected]
    assert result.design.adaptation_length == n_adapt * steps
    assert len(result.adaptation.episodes) == trials * 2 * n_adapt * steps
    assert result.per_task["task 1"]["success_final"].value == 1.0
    counted = Counter(e.trial for e in result.scored)
    assert counted == dict.fromkeys(range(2 * trials), n_scored)


def test_observers_follow_the_episodes_of_adaptation_too():
    class EpisodeList(Observer):
        def __init__(self):
            self.numbers = []

        def end(self, i, episode):
            self.numbers.append((episode.trial, episode.number))

    observer = EpisodeList()
    few_shot_evaluate(Learner(1, 1), goal_envs(m=1), 2, 1, 1, observers=[observer])
    assert observer.numbers == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_the_tasks_of_trials_may_be_numpys_numbers():
    tasks = [[0.25, 3], [0.5, 7]]
    results = [
        few_shot_evaluate(Learner(2), goal_envs(), trials, 1, 1, adaptation_steps=1)
        for trials in (tasks, [[np.float64(first), np.int64(second)] for first, second in tasks])
    ]
    assert results[0] == results[1]
    assert results[1].design.trial_tasks == ((0.25, 3), (0.5, 7))
    assert {type(task) for row in results[1].design.trial_tasks for task in row} == {int, float}
    with pytest.raises(ValueError, match=r"tasks must be numbers, such as task states, or dicts"):
        few_shot_evaluate(Learner(2), goal_envs(), [[np.True_, np.True_]], 1, 1)


@pytest.mark.parametrize(
    ("env_id", "held_out"),
    [
        ("PointGoal", [[{"goal": (0.5, 0.5)}, {"goal": (-0.5, 0.25)}], [{"goal": [0.0, 1.0]}] * 2]),
        ("Bandit", [[{"means": np.linspace(0, 1, 5)}, {"means": (0.5,) * 5}]]),
    ],
)
def test_trials_on_a_list_of_dicts_are_evaluated_saved_and_verified(env_id, held_out, tmp_path):
    class Still:
        def begin_trial(self):
            pass

        def __call__(self, observations):
            return np.zeros((2, *envs.single_action_space.shape), envs.single_action_space.dtype)

    with closing(gymnasium.make_vec(f"mtwrappers/{env_id}-v0", num_envs=2)) as envs:
        evidence = tmp_path / "r.npz"
        result = few_shot_evaluate(Still(), envs, held_out, 1, 1, evidence=evidence)
        with pytest.warns(UserWarning, match="4 of 4|8 of 8"):
            resumed = few_shot_evaluate(
                Still(), envs, held_out, 1, 1, evidence=evidence, resume=True
            )
        other_tasks = [[task] * 2 for row in held_out for task in row[:1]]
        changed = few_shot_evaluate(Still(), envs, other_tasks, 1, 1)
    assert len(result.episodes) == 4 * len(held_out)
    assert resumed == result
    assert changed != result
    result.save(tmp_path / "r.json")
    assert EvaluationResult.load(tmp_path / "r.json") == result
    assert hash(EvaluationResult.load(tmp_path / "r.json")) == hash(result)
    verification = verify(tmp_path / "r.json")
    assert verification.ok
    assert "trial_tasks=[[{" in str(verification)


def test_a_list_of_other_tasks_is_refused_with_the_way_to_pass_it():
    way_out = "sample_tasks of the environments, which may return those of a list"
    for task in ({"goal": "left"}, {0: 1.0}, object(), (0.5, 0.5)):
        with pytest.raises(ValueError, match=way_out):
            few_shot_evaluate(Learner(2), goal_envs(), [[task, task]], 1, 1)


def test_observations_that_change_their_form_are_refused():
    class Changes(MetaVectorWrapper):
        def step_wait(self):
            obs, *rest = self.env.step_wait()
            return np.float32(obs), *rest

    message = r"\(\(3,\), dtype\('float64'\)\) .* got \(\(3,\), dtype\('float32'\)\) in step 1"
    with pytest.raises(ValueError, match=message):
        few_shot_evaluate(Learner(2), Changes(goal_envs()), 1)


@pytest.mark.parametrize("k", [1, 2])
def test_a_policy_that_remembers_goes_straight_on_to_its_evaluation(k):
    envs = goal_envs(k=k)
    memory = Memory(envs)
    result = few_shot_evaluate(memory, envs, 5, 3, 2)
    assert memory.trials == 5
    assert values(result, "success_once") == [0, 0, 1, 1, 1]
    assert result.design.adaptation_length == 3
    assert result.adaptation.per_task["task 0"]["success_once"].value == pytest.approx(1 / 3)
    # Every environment is a trial of its own.
    assert Counter(e.trial for e in result.scored) == dict.fromkeys(range(10 * k), 2)


def test_an_environment_that_is_quick_adapts_on_no_more_episodes_than_a_slow_one():
    makers = [partial(GoalEnv, 1, "quick"), partial(GoalEnv, 6, "slow")]
    envs = MetaIterativeEnvExecutor(makers, 2)
    result = few_shot_evaluate(Memory(envs), envs, 1, 3, 2)
    for step, right in zip(result.by_episode, [0, 0, 1, 1, 1], strict=True):
        assert [task["success_once"].value for task in step.per_task.values()] == [right] * 2
    assert [e.length for e in result.of_task("slow")] == [6, 6]


@both_executors
def test_the_seed_decides_unless_tasks_are_given(executor):
    expected = few_shot_evaluate(Learner(4), goal_envs(4), 2, 2, 1, seed=5)
    with closing(goal_envs(4, executor=executor)) as envs:
        assert few_shot_evaluate(Learner(4), envs, 2, 2, 1, seed=5) == expected
        seen = []
        for kwargs in ({"seed": 5}, {"seed": 5}, {"seed": 6}, {"trials": [[0.1, 0.2, 0.3, 0.4]]}):
            learner = Learner(4)
            few_shot_evaluate(learner, envs, **{"trials": 1, **kwargs}, **ONE)
            seen.append(learner.known.tolist())
    assert seen[0] == seen[1] != seen[2]
    assert len(set(seen[0])) == 4
    assert seen[3] == [0.1, 0.2, 0.3, 0.4]


@all_modes
@pytest.mark.parametrize("wrap", [lambda envs: envs, HalfReward, RecordEpisodeStatistics])
def test_trials_are_the_same_in_every_autoreset_mode(mode, wrap):
    """An episode that continues a trial begins with one reset, without a seed."""
    with closing(goal_envs(k=2, autoreset_mode=mode)) as inner:
        envs = wrap(inner)
        result = few_shot_evaluate(Learner(4, 2), envs, [[0.1, 0.2]], 4, 2, seed=3)
        assert result == few_shot_evaluate(
            Learner(4, 2), wrap(goal_envs(k=2)), [[0.1, 0.2]], 4, 2, seed=3
        )
        paid = 1.0 if wrap is HalfReward else 2.0
        assert values(result, "return") == [0, 0, 0, 0, paid, paid]
        if wrap is RecordEpisodeStatistics and mode.value == "SameStep":
            return  # environments in it go on to reset themselves, too
        # To name the tasks, two at the start of the stages, and one more before the second episode
        # of adaptation.
        assert inner.get_attr("resets") == (4, 4, 4, 4)
        memory = Memory(envs.unwrapped)
        result = few_shot_evaluate(memory, envs, [[0.1, 0.2]], 2, 2, seed=3)
        assert values(result, "success_once") == [0, 0, 1, 1]
        assert inner.get_attr("resets") == (9, 9, 9, 9)


ONE = {"adaptation_episodes": 1, "evaluation_episodes": 1}


class OldGoalEnv(GoalEnv):
    """Draws tasks from the global generator."""

    def sample_tasks(self, n):
        return np.random.uniform(size=n).round(3).tolist()


@pytest.mark.usefixtures("same_random_state")
def test_tasks_that_do_not_follow_from_the_seed_are_reported():
    np.random.seed(5)
    expected = np.random.uniform(size=2).round(3).tolist()
    np.random.seed(5)
    envs, learner = MetaIterativeEnvExecutor(OldGoalEnv, 2), Learner(2)
    with pytest.warns(
        UserWarning, match=r"draws other tasks .* seed=3 .* or pass trials with task"
    ):
        few_shot_evaluate(learner, envs, 1, seed=3, **ONE)
    assert learner.known.tolist() == expected
    few_shot_evaluate(learner, envs, [[0.1, 0.2]], seed=3, **ONE)  # they are given


def test_tasks_of_one_name_are_refused():
    makers = [partial(Namesakes, [2]), partial(Namesakes, [3])]
    with pytest.raises(ValueError, match="names that differ, got 'a' for the tasks 0 and 1"):
        few_shot_evaluate(Unused(), MetaIterativeEnvExecutor(makers, 2), [[0, 1]], 1, 1)


class Unused:
    def adapt(self, paths):
        pytest.fail("it is called")

    __call__ = adapt

    def begin_trial(self):
        pytest.fail("it is called")


def test_a_warning_says_that_trials_do_not_keep_the_tasks_that_were_set(recwarn):
    class Still:
        def begin_trial(self):
            pass

        def __call__(self, observations):
            return np.zeros((2, 2))

    tasks = [{"goal": (0.5, 0.5)}, {"goal": (-0.5, 0.25)}]
    with closing(gymnasium.make_vec("mtwrappers/PointRobot-v0", num_envs=2)) as envs:
        few_shot_evaluate(Still(), envs, 1, 1, 1)
        envs.set_tasks(tasks)
        few_shot_evaluate(Still(), envs, [tasks] * 3, 1, 1)
        assert not recwarn
        with pytest.warns(UserWarning, match=r"are not used\. .* pass trials=\[tasks\] \* 3$"):
            result = few_shot_evaluate(Still(), envs, 3, 1, 1)
        envs.set_attr("sample_tasks_on_reset", [True] * 2)
        envs.reset()  # draws tasks
        few_shot_evaluate(Still(), envs, 3, 1, 1)
    assert [*result.per_goal["task 1"]] == [1, 3, 5]  # the numbers of its three trials


def test_the_result_prints_saves_and_plots(tmp_path):
    result = few_shot_evaluate(Learner(2), goal_envs(), 3, 2, 1)
    lines = str(result).splitlines()
    assert lines[0] == "after adaptation:"
    assert lines[2].split()[:7] == ["task", "0", "3", "1.00", "0.44-1.00", "1.00", "0.44-1.00"]
    assert "over trials" in lines[-6]
    assert lines[-4].split()[:7] == ["mean", "over", "2", "tasks", "n", "once", "(95%)"]
    assert lines[-3].startswith("adaptation, episode 1 6  0.00 ")
    assert lines[-1].startswith("evaluation, episode 3 6  1.00 ")
    result.save(tmp_path / "few.json")
    assert EvaluationResult.load(tmp_path / "few.json") == result
    result.plot(tmp_path / "few.png", "Title")
    assert imageio.imread(tmp_path / "few.png").shape[1] == 960
    result.plot(tmp_path / "few.svg")
    drawn = (tmp_path / "few.svg").read_text()
    assert "<!-- Shaded: 2 episodes of adaptation. Bands: 95% intervals over trials, 3" in drawn
    numbers = {text for text in re.findall("<!-- (.*) -->", drawn) if text.isdecimal()}
    assert numbers - {"0", "1"} == {"2", "3"}  # the episodes; 0 and 1 are rates as well
    assert drawn.count("<!-- 0 -->") == 1  # of a rate, beside the first of the small panels


@pytest.mark.parametrize("method", ["adapt", "begin_trial"])
@pytest.mark.parametrize("acting", ["__call__", "get_actions"])
def test_a_warning_says_that_evaluate_does_not_adapt_and_what_to_pass_instead(method, acting):
    def act(self, observations):
        actions = np.zeros((*np.shape(observations)[:-1], 2))
        return (actions, None) if acting == "get_actions" else actions

    policy = type("Policy", (), {method: print, acting: act})()
    message = rf"does not call {method}\(\) .* use few_shot_evaluate, whose .* warning \((.*)\)$"
    with pytest.warns(UserWarning, match=message) as caught:
        result = evaluate(policy, goal_envs(), 1)
    [way_out] = re.findall(message, str(caught[0].message))
    with warnings.catch_warnings():
        eval(way_out)
        assert evaluate(policy, goal_envs(), 1) == result  # without a warning
    protocol = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    with (
        pytest.warns(UserWarning, match="use few_shot_evaluate"),
        pytest.raises(ValueError, match="fixes id="),
    ):
        protocol.evaluate(policy, envs=goal_envs())
