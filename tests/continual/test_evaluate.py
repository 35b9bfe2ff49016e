"""Learning and forgetting along a stream: the metrics, and the episodes that they come from."""

import csv
import itertools
import math
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    TaskStream,
    VectorTaskStream,
    continual_evaluate,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.continual.evaluate import PhaseEvaluator, single_task_baselines
from mtwrappers.continual.result import ContinualResult
from mtwrappers.evaluation import Design, Episode, EvaluationResult, load_results, save_results
from mtwrappers.evaluation.evidence import digest, read_evidence
from tests.fakes import CountingEnv, counting_makers, equal
from tests.vector.fakes import exact

# Metrics, computed by hand.

POINTS = [0, 5, 10, 15, 20, 25, 30]
# Two runs of three phases of ten steps: at each point, the score of each phase.
RUNS = [
    [
        [0.0, 0.0, 0.2],
        [0.4, 0.0, 0.2],
        [0.8, 0.0, 0.2],  # the end of phase 0
        [0.6, 0.5, 0.2],
        [0.4, 1.0, 0.2],  # the end of phase 1
        [0.2, 0.6, 0.6],
        [0.2, 0.4, 0.9],  # the end of phase 2
    ],
    [
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.6, 0.0, 0.0],
        [0.6, 0.1, 0.0],
        [0.6, 0.2, 0.0],
        [0.6, 0.2, 0.0],
        [0.4, 0.4, 0.1],
    ],
]
# AUC^b is 0.5, 0.25 and 0.6.
ALONE = [[0.0, 0.4, 0.6], [0.9, 0.0, 0.5], [0.0, 0.4, 0.8]]


def at(steps, scores, budget=10, names="abc", seed=0):
    """A result of ten episodes of each phase, of which this share succeeds and pays as much."""
    labels = [f"{i} {name}" for i, name in enumerate(names)]
    design = Design(tasks=tuple(labels), phases=tuple((name, budget) for name in names))
    episodes = [
        Episode(labels[i], n, float(score), 5, n < round(10 * score), False)
        for i, score in scores.items()
        for n in range(10)
    ]
    result = EvaluationResult(episodes, design)
    return result.described(training_steps=steps, training_seed=seed)


def along(runs=RUNS, points=POINTS, **kwargs):
    return [
        at(steps, dict(enumerate(row)), seed=seed, **kwargs)
        for seed, run in enumerate(runs)
        for steps, row in zip(points, run, strict=True)
    ]


def baselines(curves=ALONE, points=(0, 5, 10), **kwargs):
    return [
        at(steps, {i: score}, **kwargs)
        for i, curve in enumerate(curves)
        for steps, score in zip(points, curve, strict=True)
    ]


def result(runs=RUNS, **kwargs):
    return ContinualResult(along(runs), **kwargs)


def test_the_metrics_of_a_run_are_those_computed_by_hand():
    one = result(RUNS[:1], baselines=baselines())
    assert one.R.shape == (7, 3)
    assert (one.phases, one.ends, one.points) == (("a", "b", "c"), (10, 20, 30), tuple(POINTS))
    each = one.per_phase
    assert each["score_after_phase"].tolist() == [[0.8, 1.0, 0.9]]
    assert each["score_at_end"].tolist() == [[0.2, 0.4, 0.9]]
    assert np.allclose(each["area"], [[0.6, 0.75, 0.75]])
    expected = {
        "average_performance": (0.2 + 0.4 + 0.9) / 3,
        "forgetting": (0.6 + 0.6 + 0.0) / 3,
        "backward_transfer": -(0.6 + 0.6) / 2,
        "forward_transfer": (0.1 / 0.5 + 0.5 / 0.75 + 0.15 / 0.4) / 3,
    }
    for name, value in expected.items():
        found = getattr(one, name)
        assert found.value == pytest.approx(value, abs=1e-12), name
        assert (found.low, found.high) == (None, None)
    assert np.allclose(each["forgetting"], [[0.6, 0.6, 0.0]])
    assert np.allclose(each["forward_transfer"], [[0.2, 2 / 3, 0.375]])


def test_the_metrics_of_runs_are_their_means_with_intervals_between_them():
    both = result(baselines=baselines())
    values = {"average_performance": (0.5, 0.3), "forgetting": (0.4, (0.2 - 0.2 + 0.0) / 3)}
    values["backward_transfer"] = (-0.6, 0.0)
    for name, (first, second) in values.items():
        found = getattr(both, name)
        assert found.value == pytest.approx((first + second) / 2)
        reach = 12.7062 * abs(first - second) / 2  # t of one degree of freedom
        least = 0.0 if name == "average_performance" else -1.0
        ends = max(least, found.value - reach), min(1.0, found.value + reach)
        assert (found.low, found.high) == pytest.approx(ends, rel=1e-5)
    assert both.forward_transfer.value == pytest.approx(
        np.mean([[0.2, 2 / 3, 0.375], [-0.4, -0.1 / 0.75, -0.55 / 0.4]])
    )


def test_results_in_any_order_and_from_a_file_are_the_same(tmp_path):
    every, alone = along(), baselines()
    one = ContinualResult(every, alone)
    other = ContinualResult(every[::-1], alone[::-1])
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == str(other)
    save_results(tmp_path / "r.json", every)
    assert ContinualResult(load_results(tmp_path / "r.json"), alone) == one
    assert ContinualResult(every) != one


def test_intervals_of_runs_are_students():
    """The mean of 0.2, 0.4 and 0.9, and t = 4.3027 of two degrees of freedom."""
    found = result()._estimate(np.array([0.2, 0.4, 0.9]), -1.0)
    reach = 4.302653 * math.sqrt(0.13) / math.sqrt(3)
    assert (found.value, found.low) == pytest.approx((0.5, 0.5 - reach))
    assert found.high == 1.0  # no rate is higher
    same = result()._estimate(np.full(3, 0.1 + 0.2), 0.0)
    assert (same.low, same.high) == (None, None)


def test_scores_at_an_end_may_be_means_of_several_evaluations():
    """The code of Continual World takes five."""
    one = result(RUNS[:1], last=2)
    assert np.allclose(one.per_phase["score_after_phase"], [[0.6, 0.75, 0.75]])
    assert np.allclose(one.per_phase["score_at_end"], [[0.2, 0.5, 0.75]])
    every = result(RUNS[:1], last=9).per_phase
    assert equal(every["score_after_phase"], every["area"])


def test_the_metrics_are_those_of_continual_worlds_code():
    """Its `results_processing/tables.py` gives these numbers for logs with these scores."""
    rng = np.random.default_rng(0)
    points = [1000 * (k + 1) // 7 + 1000 * i for i in range(3) for k in range(7)]
    scores, alone = rng.random((2, 21, 3)).round(1), rng.random((2, 7, 3)).round(1) * 0.9
    by_hand = [
        one
        for seed, run in enumerate(alone)
        for one in baselines(run.T, points[:7], budget=1000, seed=seed)
    ]
    given = along(scores, points, budget=1000)
    one = ContinualResult(given, by_hand, metric="return", last=5)
    expected = {
        "average_performance": 0.413333333333,
        "forgetting": 0.136666666667,
        "forward_transfer": 0.117725016529,
    }
    for name, value in expected.items():
        assert getattr(one, name).value == pytest.approx(value, abs=1e-12)


def test_what_cannot_be_known_is_none():
    one = ContinualResult([at(20, {0: 0.5, 1: 1.0}, names="ab")])
    found = (one.average_performance.value, one.forgetting, one.backward_transfer)
    assert found == (0.75, None, None)
    assert one.forward_transfer is None
    assert np.isnan(one.per_phase["score_after_phase"]).tolist() == [[True, False]]
    assert "-" in str(one).splitlines()[1]


def test_the_table_says_what_it_is_of():
    assert str(result(baselines=baselines())).splitlines() == [
        "phase  ends at  after phase  at the end  forgetting  forward transfer",
        "0 a         10         0.70        0.30        0.40             -0.10",
        "1 b         20         0.60        0.40        0.20              0.27",
        "2 c         30         0.50        0.50        0.00             -0.50",
        "-" * 69,
        "average performance   0.40  0.00 to 1.00",
        "forgetting            0.20  -1.00 to 1.00",
        "backward transfer    -0.30  -1.00 to 1.00",
        "forward transfer     -0.11  -6.78 to 1.00",
        "success_once of 2 runs, 95% intervals over runs (Student's t)",
    ]


def test_the_points_of_all_curves_are_a_table(tmp_path):
    """Student's t with one degree of freedom is 12.7062; 0.8 and 0.6 are 0.7 +- 0.1."""
    text = result().to_csv(tmp_path / "stream.csv")
    assert (tmp_path / "stream.csv").read_text() == f"{text}\n"
    rows = [*csv.DictReader(text.splitlines())]
    assert len(rows) == 7 * 4
    assert rows[2] == {
        "agent_steps": "10",
        "phase": "0",
        "name": "a",
        "success_once": "0.7",
        "low": "0.0",  # cut off
        "high": "1.0",
        "confidence": "0.95",
        "runs": "2",
    }
    assert (rows[7]["phase"], rows[7]["low"], rows[7]["high"]) == ("1", "", "")  # runs are equal
    mean = rows[21 + 6]
    assert (mean["agent_steps"], mean["phase"], mean["name"]) == ("30", "", "mean of all")
    assert float(mean["success_once"]) == pytest.approx((0.2 + 0.4 + 0.9 + 0.4 + 0.4 + 0.1) / 6)


def test_the_picture_has_a_curve_for_each_phase(tmp_path):
    pytest.importorskip("matplotlib")
    result().plot(tmp_path / "r.svg", "a title", "a note")
    drawn = (tmp_path / "r.svg").read_text()
    for text in ("a title", "a note", "mean of all", "0 a", "2 c", "success_once of 2 runs"):
        assert f"<!-- {text}" in drawn


NO_STREAM = EvaluationResult([Episode("a", 0, 0.0, 5)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"results": []}, "expected at least one result, got none"),
        ({"results": [NO_STREAM]}, "results must be of continual_evaluate or a PhaseEvaluator"),
        ({"results": [3]}, "results must be a list of EvaluationResult, got 3"),
        ({"baselines": [NO_STREAM]}, "baselines must be of continual_evaluate or a PhaseEval"),
        ({"baselines": baselines(ALONE[:2])}, "baselines must have results of '2 c', got none"),
        ({"results": [*along(), at(1, {0: 1.0}, names="x")]}, "results must be of one stream, go"),
        ({"results": along()[1:]}, "runs must have the same points, each once"),
        ({"results": along() + along()}, "runs must have the same points, each once"),
        ({"metric": "reward"}, "metric must be 'success_once', 'success_final', 'return' or"),
        ({"last": 0}, "last must be a positive integer, got 0"),
    ],
)
def test_what_is_no_result_is_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=exact(message)):
        ContinualResult(**{"results": along(), **given})


# Episodes.


class ChoiceEnv(CountingEnv):
    """Succeeds if the action is the task's."""

    def __init__(self, right):
        super().__init__(length=4, num_actions=3)
        self.right, self.success = right, False

    def reset(self, *, seed=None, options=None):
        self.success = False
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.success = action == self.right
        return super().step(action)

    def _info(self):
        return {"success": self.success}


PHASES = [("left", 20), ("right", 30), ("left", 20)]


def make(phases=PHASES, **kwargs):
    tasks = MultiEnvWrapper([partial(ChoiceEnv, i) for i in (0, 1)], task_names=["left", "right"])
    return FlattenMTEnv(TaskStream(tasks, phases, **kwargs))


def make_several():
    return VectorTaskStream(MetaIterativeEnvExecutor([make] * 2, 2))


class Habit:
    """Does what was right in most of the last ten steps; at first that is 1."""

    def __init__(self, env, asked):
        self.env, self.asked, self.right = env, asked, [1]
        self.several = isinstance(env, VectorTaskStream)
        env.reset(seed=0)

    def __call__(self, steps):
        self.asked.append(steps)
        n = 2 if self.several else 1
        for _ in range(-(-steps // n)):
            _, _, terminated, truncated, info = self.env.step([0, 0] if self.several else 0)
            successes = np.ravel(info.get("final_info", info)["success"])
            self.right += [int(not success) for success in successes]
            if not self.several and (terminated or truncated):
                self.env.reset()
        action = round(np.mean(self.right[-10:]))
        return lambda obs: np.full(len(obs), action)


@pytest.mark.parametrize("train_in", [None, make_several])
def test_all_phases_are_evaluated_before_and_along_the_stream(train_in):
    asked = []
    results = continual_evaluate(
        lambda env: Habit(env, asked), make, 2, train_in=train_in, episodes_per_phase=2
    )
    found = ContinualResult(results)
    assert found.phases == ("left", "right", "left")
    # Two environments side by side take 16 steps for 15.
    assert found.points == (0, 10, 20, 35 if train_in is None else 36, 50, 60, 70)
    assert (found.ends, found.metric) == ((20, 50, 70), "success_once")
    # It is "right" before it was trained, forgets what it did in the phase before, and is then
    # as good at the task that comes again as at its first visit.
    left, right = [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]
    assert found.R.tolist() == [right, left, left, right, right, left, left]
    assert asked == (
        [0, 10, 10, 15, 15, 10, 10] if train_in is None else [0, 10, 10, 15, 14, 10, 10]
    )
    assert found.forgetting.value == pytest.approx(1 / 3)
    assert found.backward_transfer.value == pytest.approx(-0.5)


def test_a_learner_whose_rollouts_do_not_divide_the_phases_is_scored_where_it_stands():
    """Three phases of 40 steps and rollouts of 32: it stands at 0, 32, 64, 96 and 120."""
    make_learner = lambda env: Rollouts(env, 32)  # noqa: E731
    results = continual_evaluate(
        make_learner, partial(make_three, 40, 40, 40), 2, episodes_per_phase=1
    )
    found = ContinualResult(results)
    assert found.points == (0, 32, 64, 96, 120)
    assert found.R.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert round(found.forgetting.value, 2) == 0.67
    assert "scored at" in str(found).splitlines()[0]
    assert [line.split()[4] for line in str(found).splitlines()[1:4]] == ["32", "64", "120"]


class Rollouts:
    """Takes whole rollouts, and does what was right in the last of them; at first that is 0."""

    def __init__(self, env, length):
        self.env, self.length, self.right = env, length, 0
        env.reset(seed=0)

    def __call__(self, steps):
        for _ in range(-(-steps // self.length)):
            for _ in range(self.length):
                *_, terminated, truncated, info = self.env.step(0)
                self.right = info["task_id"]
                if terminated or truncated:
                    self.env.reset()
        return lambda obs, right=self.right: np.full(len(obs), right)


def make_three(*budgets, at_end="stay"):
    tasks = MultiEnvWrapper([partial(ChoiceEnv, i) for i in range(3)])
    return FlattenMTEnv(TaskStream(tasks, [*enumerate(budgets)], at_end=at_end))


def three_side_by_side(*budgets, n=2, mode=AutoresetMode.SAME_STEP, **kwargs):
    makers = [partial(make_three, *budgets, **kwargs)] * n
    return VectorTaskStream(MetaIterativeEnvExecutor(makers, n, autoreset_mode=mode))


@pytest.mark.parametrize(
    ("length", "per_phase", "message"),
    [
        # It stands at 64 in phase 1 before phase 0 was scored.
        (32, 1, "phase 0, from step 0 to 40, has no score, because the learner was at the steps"),
        (100, 2, "[0, 100] when it returned its policies: let the length of its rollouts"),
    ],
)
def test_a_learner_that_goes_through_a_phase_before_it_was_scored_is_refused(
    length, per_phase, message
):
    with pytest.raises(ValueError, match=exact(message)):
        continual_evaluate(
            lambda env: Rollouts(env, length),
            partial(make_three, 40, 40, 40),
            per_phase,
            episodes_per_phase=1,
        )
    with pytest.raises(ValueError, match=exact("phase 0, from step 0 to 40, has no score")):
        single_task_baselines(
            lambda env: Rollouts(env, 64), partial(make_three, 40, 40, 40), 2, episodes_per_phase=1
        )


def points(found):
    """The steps at which each task was evaluated."""
    by_task = itertools.groupby(found, key=lambda one: one.tasks[0])
    return {task: [one.description.training_steps for one in own] for task, own in by_task}


def scores_of(found):
    return [one.overall["mean"]["success_once"].value for one in found]


def test_baselines_are_scored_where_their_learners_stand():
    """Rollouts of 32 in a phase of 40 steps stand at 32 and at 64, which is not in it."""
    found = single_task_baselines(
        lambda env: Rollouts(env, 32), partial(make_three, 40, 40, 40), 2, episodes_per_phase=1
    )
    assert points(found) == {f"{i} task {i}": [0, 32, 64] for i in range(3)}
    assert scores_of(found)[1::3] == [1.0] * 3


@pytest.mark.parametrize(
    ("learn", "message"),
    [
        (
            lambda env: lambda steps: None,
            "learn(20) was called at step 0 of the stream, which is at step 0 now",
        ),
        (
            lambda env: lambda steps: env.reset(seed=0) and Rollouts(env, 8)(steps and 8),
            "at step 8",
        ),
    ],
)
def test_a_learner_that_never_steps_or_begins_anew_is_refused(learn, message):
    def make_learner(env):
        asked = learn(env)
        return lambda steps: asked(steps) or (lambda obs: np.zeros(len(obs), int))

    with pytest.raises(ValueError, match=exact(message)):
        continual_evaluate(make_learner, partial(make_three, 40, 40), 2, episodes_per_phase=1)


def test_the_step_of_several_environments_that_ends_a_phase_is_its_end():
    """Three environments use up 40 steps with the 42nd; nobody has met the next task yet."""

    def make_learner(env):
        env.reset(seed=0)
        right = 0

        def learn(steps):
            nonlocal right
            for _ in range(-(-steps // 3)):
                *_, infos = env.step([0] * 3)
                right = infos.get("final_info", infos)["task_id"][0]
            return lambda obs, right=right: np.full(len(obs), right)

        return learn

    train_in = partial(three_side_by_side, 40, 40, 40, n=3)
    settings = {"train_in": train_in, "episodes_per_phase": 1}
    results = continual_evaluate(make_learner, partial(make_three, 40, 40, 40), 1, **settings)
    found = ContinualResult(results)
    assert found.points == (0, 40, 80, 120)
    assert found.R.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    alone = single_task_baselines(make_learner, partial(make_three, 40, 40, 40), 1, **settings)
    assert points(alone) == {f"{i} task {i}": [0, 40] for i in range(3)}


@pytest.mark.parametrize(
    ("train_in", "message"),
    [
        (partial(make_three, 40, 30, 40), "phase 1 must be 40 steps of task 1 (task states [1]), "),
        (partial(make_three, 40, 40), "40 steps of task 2 (task states [2]), got none"),
        (partial(make, [("left", 40)] * 3), "task 0 (task states [0]), got 40 steps of left (task"),
        (partial(three_side_by_side, 40, 30, 40), "phase 1 must be 40 steps of task 1 (task stat"),
    ],
)
def test_a_stream_to_train_in_must_be_the_one_that_is_evaluated(train_in, message):
    for function in (continual_evaluate, single_task_baselines):
        with pytest.raises(ValueError, match=exact(message)):
            function(lambda env: None, partial(make_three, 40, 40, 40), 1, train_in=train_in)


def test_points_are_at_the_nearest_step_and_the_last_at_the_end_of_a_phase():
    found = continual_evaluate(lambda env: Habit(env, []), make, 3, episodes_per_phase=1)
    assert ContinualResult(found).points == (0, 7, 13, 20, 30, 40, 50, 57, 63, 70)


def test_baselines_are_of_each_task_alone_and_once(tmp_path):
    asked, settings = [], {"episodes_per_phase": 1, "evidence": tmp_path / "b.npz"}
    found = single_task_baselines(lambda env: Habit(env, asked), make, 2, **settings)
    actions = [read_evidence(tmp_path / f"b-{i}.npz") for i in range(6)]
    assert [digest(one) for one in actions] == [one.evidence for one in found]
    assert points(found) == {"0 left": [0, 10, 20], "1 right": [0, 15, 30]}
    assert scores_of(found) == [0, 1, 1, 1, 1, 1]
    assert asked == [0, 10, 10, 0, 15, 15]
    alone = single_task_baselines(
        lambda env: Habit(env, []), make, 2, train_in=make_several, episodes_per_phase=1
    )
    assert points(alone) == {"0 left": [0, 10, 20], "1 right": [0, 16, 30]}
    assert scores_of(alone) == scores_of(found)


def test_an_evaluation_shows_each_phase_as_the_stream_does_and_leaves_the_stream_alone():
    stream = make(task_obs="phase")
    stream.reset(seed=0)
    stream.step(0)
    before = stream.unwrapped.get_state()
    seen = []
    evaluator = PhaseEvaluator(partial(make, task_obs="phase"), 1, envs_per_phase=2)
    evaluator(lambda obs: seen.append(obs[:, 2:]) or np.zeros(6, int), 1)
    assert equal(seen[0], np.eye(3).repeat(2, axis=0))
    assert equal(stream.unwrapped.get_state(), before)
    evaluator.close()


def test_an_evaluator_goes_on_from_a_checkpoint(tmp_path):
    first, second = (PhaseEvaluator(make, 1) for _ in range(2))
    first(lambda obs: np.zeros(3, int), 0)
    save_checkpoint(tmp_path / "e", evaluator=first)
    load_checkpoint(tmp_path / "e", evaluator=second)
    for one in (first, second):
        one(lambda obs: np.ones(3, int), 10)
        one.close()
    assert len(first.results) == 2
    assert first.results == second.results


def test_what_cannot_be_evaluated_is_refused():
    with pytest.raises(TypeError, match="expected an environment with a TaskStream inside"):
        PhaseEvaluator(CountingEnv)
    evaluator = PhaseEvaluator(make, 1)
    evaluator(lambda obs: np.zeros(3, int), 10)
    with pytest.raises(ValueError, match="expected a step after 10, got 10"):
        evaluator(lambda obs: np.zeros(3, int), 10)
    evaluator.close()

    def silent():
        return FlattenMTEnv(TaskStream(MultiEnvWrapper(counting_makers(2)), [(0, 9)]))

    evaluator = PhaseEvaluator(silent, 1)
    silence = [evaluator(lambda obs: np.zeros(1, int), 0)]
    evaluator.close()
    with pytest.raises(ValueError, match="no success_once, because infos do not say"):
        ContinualResult(silence)
    assert ContinualResult(silence, metric="return").R.tolist() == [[6.0]]
