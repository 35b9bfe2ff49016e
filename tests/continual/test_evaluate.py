"""Learning and forgetting along a stream: the metrics, and the episodes that they come from."""

import csv
import itertools
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mtwrappers import (
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    TaskStream,
    VectorRL2Observation,
    VectorTaskStream,
    continual_evaluate,
)
from mtwrappers.continual.evaluate import PhaseEvaluator, single_task_baselines
from mtwrappers.continual.result import ContinualResult
from mtwrappers.evaluation import Design, Episode, EvaluationResult, load_results, save_results
from mtwrappers.evaluation.evidence import digest, read_evidence
from mtwrappers.evaluation.remake import Environments
from tests.fakes import CountingEnv, counting_makers, equal
from tests.refusals import assert_refused, refusal, refusals
from tests.vector.fakes import exact

# Metrics, computed by hand.

POINTS = [0, 5, 10, 15, 20, 25, 30]
# Two runs of three phases of ten steps: of each phase, its score at each point.
CURVES = [
    [
        [0.0, 0.4, 0.8, 0.6, 0.4, 0.2, 0.2],  # trained until the third point
        [0.0, 0.0, 0.0, 0.5, 1.0, 0.6, 0.4],  # from there until the fifth
        [0.2, 0.2, 0.2, 0.2, 0.2, 0.6, 0.9],
    ],
    [
        [0.0, 0.0, 0.6, 0.6, 0.6, 0.6, 0.4],
        [0.0, 0.0, 0.0, 0.1, 0.2, 0.2, 0.4],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1],
    ],
]
RUNS = np.transpose(CURVES, (0, 2, 1))
# AUC^b is 0.5, 0.25 and 0.6.
ALONE = [[0.0, 0.4, 0.6], [0.9, 0.0, 0.5], [0.0, 0.4, 0.8]]


def at(steps, scores, budget=10, names="abc", seed=0, episodes=10):
    """A result of episodes of each phase, of which this share succeeds and pays as much.

    Without a share, episodes do not say whether they succeed.
    """
    labels = [f"{i} {name}" for i, name in enumerate(names)]
    design = Design(tasks=tuple(labels), phases=tuple((name, budget) for name in names))
    every = []
    for i, score in scores.items():
        for n in range(episodes):
            success = None if score is None else n < round(episodes * score)
            every.append(Episode(labels[i], n, score or 0.0, 5, success, success))
    result = EvaluationResult(every, design)
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


def make_result(runs=RUNS, **kwargs):
    return ContinualResult(along(runs), **kwargs)


def test_the_metrics_of_a_run_are_those_computed_by_hand():
    result = make_result(RUNS[:1], baselines=baselines())
    assert result.R.shape == (7, 3)
    assert (result.phases, result.ends, result.points) == (
        ("a", "b", "c"),
        (10, 20, 30),
        tuple(POINTS),
    )
    expected_per_phase = {
        "score_after_phase": [[0.8, 1.0, 0.9]],
        "score_at_end": [[0.2, 0.4, 0.9]],
        "forgetting": [[0.6, 0.6, 0.0]],
        "area": [[0.6, 0.75, 0.75]],
        "forward_transfer": [[0.2, 2 / 3, 0.375]],
    }
    assert result.per_phase.keys() == expected_per_phase.keys()
    assert all(
        np.allclose(result.per_phase[name], values) for name, values in expected_per_phase.items()
    )
    expected = {
        "average_performance": (0.2 + 0.4 + 0.9) / 3,
        "forgetting": (0.6 + 0.6 + 0.0) / 3,
        "backward_transfer": -(0.6 + 0.6) / 2,
        "forward_transfer": (0.1 / 0.5 + 0.5 / 0.75 + 0.15 / 0.4) / 3,
    }
    for name, value in expected.items():
        estimate = getattr(result, name)
        assert estimate.value == pytest.approx(value, abs=1e-12), name
        assert (estimate.low, estimate.high) == (None, None)
    two = make_result(RUNS[:1], last=2).per_phase
    assert np.allclose(two["score_after_phase"], [[0.6, 0.75, 0.75]])
    assert np.allclose(two["score_at_end"], [[0.2, 0.5, 0.75]])


def test_the_metrics_of_runs_are_their_means_with_students_intervals():
    """t of one degree of freedom is 12.7062; no rate is below 0 or above 1."""
    both = make_result(baselines=baselines())
    expected = {
        "average_performance": ((0.5, 0.3), 0.0, 1.0),
        "forgetting": ((0.4, 0.0), -1.0, 1.0),
        "backward_transfer": ((-0.6, 0.0), -1.0, 1.0),
        "forward_transfer": ((1.49 / 3.6, -2.29 / 3.6), -np.inf, 1.0),
    }
    for name, (values, *ends) in expected.items():
        mean, reach = np.mean(values), 12.7062 * np.ptp(values) / 2
        estimate = getattr(both, name)
        wanted = mean, max(mean - reach, ends[0]), min(mean + reach, ends[1])
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(wanted, rel=1e-5)


def test_a_baselines_runs_count_the_same_however_many_points_they_have():
    many = [at(steps, {0: 1.0}, budget=10, names="a", seed=0) for steps in (1, 4, 7, 10)]
    few = [at(10, {0: 0.0}, budget=10, names="a", seed=1)]
    points = [at(steps, {0: 0.75}, names="a") for steps in (0, 10)]
    # The area is 0.8 (as 10 episodes round 0.75), and the baseline's is 0.5, not 0.8.
    transfer = ContinualResult(points, baselines=many + few).forward_transfer
    assert transfer.value == pytest.approx((0.8 - 0.5) / (1 - 0.5))


def test_results_in_any_order_and_from_a_file_are_the_same(tmp_path):
    results, baseline_results = along(), baselines()
    result = ContinualResult(results, baseline_results)
    reordered = ContinualResult(results[::-1], baseline_results[::-1])
    assert result == reordered
    assert hash(result) == hash(reordered)
    assert str(result) == str(reordered)
    save_results(tmp_path / "r.json", results)
    assert ContinualResult(load_results(tmp_path / "r.json"), baseline_results) == result
    assert ContinualResult(results) != result


def test_the_metrics_are_those_of_continual_worlds_code():
    """Its `results_processing/tables.py` gives these numbers for logs with these scores."""
    rng = np.random.default_rng(0)
    points = [1000 * (k + 1) // 7 + 1000 * i for i in range(3) for k in range(7)]
    scores, baseline_scores = rng.random((2, 21, 3)).round(1), rng.random((2, 7, 3)).round(1) * 0.9
    by_hand = [
        result
        for seed, run in enumerate(baseline_scores)
        for result in baselines(run.T, points[:7], budget=1000, seed=seed, episodes=100)
    ]
    results = along(scores, points, budget=1000)
    result = ContinualResult(results, by_hand, last=5)
    expected = {
        "average_performance": 0.413333333333,
        "forgetting": 0.136666666667,
        "forward_transfer": 0.117725016529,
    }
    for name, value in expected.items():
        assert getattr(result, name).value == pytest.approx(value, abs=1e-12)


def test_what_cannot_be_known_is_none():
    result = ContinualResult([at(20, {0: 0.5, 1: 1.0}, names="ab")])
    metrics = (result.average_performance.value, result.forgetting, result.backward_transfer)
    assert metrics == (0.75, None, None)
    assert result.forward_transfer is None
    assert np.isnan(result.per_phase["score_after_phase"]).tolist() == [[True, False]]
    assert "-" in str(result).splitlines()[1]


def test_forward_transfer_is_unknown_of_other_metrics_than_rates_of_success():
    """The largest possible gain of a return or a length is not known: 900 alone may be the best."""
    for metric, name in (("return", "return"), ("length", "length of episodes")):
        result = make_result(RUNS[:1], baselines=baselines(), metric=metric)
        assert result.forward_transfer is None
        assert "forward_transfer" not in result.per_phase
        assert str(result).splitlines()[-1] == (
            f"{name}, 1 run, without intervals; forward transfer is of success rates alone"
        )
    assert result.forgetting.value == 0.0


def test_forward_transfer_is_unknown_of_a_visit_that_is_shorter_than_the_baselines_first_point():
    result = make_result(RUNS[:1], baselines=baselines(points=(0, 11, 12)))
    assert np.isnan(result.per_phase["forward_transfer"]).all()
    assert result.forward_transfer is None
    assert result.forgetting.value == pytest.approx(0.4)
    assert str(result).splitlines()[-1] == (
        "success at any step, 1 run, without intervals; forward transfer is unknown where a "
        "baseline is perfect or was not scored"
    )


def test_forward_transfer_is_unknown_if_a_run_of_a_baseline_ended_before_its_budget():
    """The first half of a baseline has a smaller area, which would look like transfer."""
    whole = baselines(points=(0, 5, 10))
    interrupted = [result for result in whole if result.description.training_steps < 10]
    second_run = [result.described(training_seed=1) for result in interrupted]
    for baseline_results in (interrupted, whole + second_run):
        result = make_result(RUNS[:1], baselines=baseline_results)
        assert np.isnan(result.per_phase["forward_transfer"]).all()
        assert result.forward_transfer is None
    assert make_result(RUNS[:1], baselines=whole).forward_transfer is not None


def test_a_point_without_any_success_counts_as_0_where_others_report_some():
    """An environment may report success only when it happens."""
    nothing, some = at(0, dict.fromkeys(range(3))), at(10, {0: 0.5, 1: None, 2: None})
    result = ContinualResult([nothing, some])
    assert result.R.tolist() == [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]
    assert "2 of 3 tasks report no success and count as 0: 1: b, 2: c" in str(result).splitlines()
    assert ContinualResult([nothing, some], metric="length").R.tolist() == [[5.0] * 3] * 2
    with pytest.raises(ValueError, match="episodes of '0 a' have no success_once"):
        ContinualResult([nothing])


def test_the_table_says_what_it_is_of():
    assert str(make_result(baselines=baselines())).splitlines() == [
        "phase  ends at  after phase  at the end  forgetting  forward transfer",
        "0: a        10         0.70        0.30        0.40             -0.10",
        "1: b        20         0.60        0.40        0.20              0.27",
        "2: c        30         0.50        0.50        0.00             -0.50",
        "-" * 69,
        "average performance (3 phases)   0.40  0.00 to 1.00",
        "forgetting (3 phases)            0.20  -1.00 to 1.00",
        "backward transfer (2 phases)    -0.30  -1.00 to 1.00",
        "forward transfer (3 phases)     -0.11  -6.78 to 1.00",
        "success at any step, 2 runs, 95% intervals over runs (Student's t)",
    ]


def test_the_points_of_all_curves_are_a_table(tmp_path):
    """Student's t with one degree of freedom is 12.7062; 0.8 and 0.6 are 0.7 +- 0.1."""
    text = make_result().to_csv(tmp_path / "stream.csv")
    assert (tmp_path / "stream.csv").read_text() == f"{text}\n"
    rows = [*csv.DictReader(text.splitlines())]
    assert len(rows) == 7 * 4
    names = ["agent_steps", "phase", "name", "success_once", "low", "high", "confidence", "runs"]
    # Both ends are cut off.
    assert [*rows[2].items()] == [
        *zip(names, ("10", "0", "a", "0.7", "0.0", "1.0", "0.95", "2"), strict=True)
    ]
    assert (rows[7]["phase"], rows[7]["low"], rows[7]["high"]) == ("1", "", "")  # runs are equal
    mean = rows[21 + 6]
    assert (mean["agent_steps"], mean["phase"], mean["name"]) == ("30", "", "mean over 3 phases")
    assert float(mean["success_once"]) == pytest.approx((0.2 + 0.4 + 0.9 + 0.4 + 0.4 + 0.1) / 6)


def test_the_picture_has_a_curve_for_each_phase(tmp_path):
    pytest.importorskip("matplotlib")
    make_result().plot(tmp_path / "r.svg", "a title", "a note")
    drawn = (tmp_path / "r.svg").read_text()
    texts = (
        "a title",
        "a note",
        "mean over 3 phases",
        "0: a",
        "2: c",
        "success at any step, 2 runs",
    )
    for text in texts:
        assert f"<!-- {text}" in drawn
    ticks = {text for text in re.findall("<!-- (.*) -->", drawn) if text.isdecimal()}
    assert ticks == {"0", "1", "10", "20", "30"}  # of rates, and the ends of all phases


@pytest.mark.parametrize(("points", "expected"), [((0, 5, 10), np.nan), ((0, 10, 30), 0.6)])
def test_a_baseline_over_another_budget_than_that_of_a_repeated_task_is_not_compared(
    points, expected
):
    """The task comes first for 10 steps, and again for 30."""
    design = Design(tasks=("0 a", "1 a"), phases=(("a", 10), ("a", 30)))

    def measure(tasks, steps, scores):
        episodes = [
            Episode(task, n, 0.0, 5, n < 10 * score, n < 10 * score)
            for task, score in zip(tasks, scores, strict=True)
            for n in range(10)
        ]
        result = EvaluationResult(episodes, replace(design, tasks=tasks))
        return result.described(training_steps=steps)

    stream = [measure(design.tasks, steps, (0.5, 0.75)) for steps in (10, 40)]
    baseline_results = [measure(("0 a",), steps, (0.5,)) for steps in points]
    transfer = ContinualResult(stream, baseline_results).per_phase["forward_transfer"]
    assert np.allclose(transfer, [[0.0, expected]], equal_nan=True)


CW10 = Environments("mtwrappers/CW10-v0", {"sequence": "CW10"})
CW10_V1 = Environments("mtwrappers/CW10-v0", {"sequence": "CW10", "reward_function_version": "v1"})


def measured_in(results, environments, **numbers):
    """Results as if they were measured in these environments, with other numbers."""
    return [
        replace(
            result,
            environments=environments,
            versions={"metaworld": "3"},
            design=replace(result.design, **numbers),
        )
        for result in results
    ]


@pytest.mark.parametrize(
    ("environments", "numbers", "baseline_environments", "message"),
    [
        (CW10_V1, {}, CW10, "got reward_function_version 'v2' and 'v1' (of '0 a' after 0 steps"),
        (CW10, {}, CW10_V1, "got reward_function_version 'v2' and 'v1' (of '0 a' after 0 steps"),
        (CW10, {"seed": 7}, CW10, "got seed 0 and 7 (of '0 a' after 0 steps with the training"),
        (CW10, {"episodes_per_task": 3}, CW10, "got episodes_per_phase 50 and 3 (of '0 a' after"),
    ],
)
def test_results_that_were_measured_in_different_ways_are_refused(
    environments, numbers, baseline_environments, message
):
    first_run, second_run = along()[:7], along()[7:]
    runs = [
        *measured_in(first_run, CW10),
        *measured_in(second_run, environments, **numbers),
    ]
    with pytest.raises(ValueError, match=re.escape(message)):
        ContinualResult(runs, measured_in(baselines(), baseline_environments))


def test_baselines_may_have_other_episodes_than_the_stream():
    baseline_results = measured_in(baselines(), CW10, seed=7, episodes_per_task=3)
    result_along = ContinualResult(measured_in(along(), CW10), baseline_results)
    assert result_along.forward_transfer == make_result(baselines=baselines()).forward_transfer


NO_STREAM = EvaluationResult([Episode("a", 0, 0.0, 5)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"results": []}, "expected at least one result, got none"),
        ({"results": [NO_STREAM]}, "results must be of continual_evaluate or a PhaseEvaluator"),
        ({"results": [3]}, "results must be a list of EvaluationResult, got 3"),
        ({"baselines": [NO_STREAM]}, "baselines must be of continual_evaluate or a PhaseEval"),
        ({"baselines": baselines(ALONE[:2])}, "baselines must have results of '2 c', got none"),
        ({"results": [*along(), at(1, {0: 1.0}, names="x")]}, "results must be of one stream, go"),
        ({"results": along()[1:]}, "runs must have the same points, each once"),
        ({"results": along() + along()}, "runs must have the same points, each once"),
        (
            {"last": 3},
            "last must be at most the number of evaluations in each phase, got 3, an",
        ),
        (
            {"baselines": along()},
            "each result of baselines must be of one phase, whose task w",
        ),
        ({"results": [at(0, dict.fromkeys(range(3)))]}, "episodes of '0 a' have no success_once"),
    ],
)
def test_what_is_no_result_is_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=exact(message)):
        ContinualResult(**{"results": along(), **arguments})


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


def make(*budgets, tasks=(0, 1, 2), **kwargs):
    """A stream of tasks 0, 1, ..., or of others."""
    env = MultiEnvWrapper([partial(ChoiceEnv, i) for i in range(3)])
    phases = [*zip(tasks, budgets, strict=False)]
    return FlattenMTEnv(TaskStream(env, phases, **kwargs))


def side_by_side(*budgets, n=2, **kwargs):
    envs = MetaIterativeEnvExecutor([partial(make, *budgets, **kwargs)] * n, n)
    return VectorRL2Observation(VectorTaskStream(envs))


class Learner:
    """Takes whole rollouts, and does what was right in the last step; at first that is 0."""

    def __init__(self, env, length=1, asked=None):
        self.env, self.length, self.asked = env, length, [] if asked is None else asked
        self.n, self.right = getattr(env, "num_envs", 0), 0
        env.reset(seed=0)

    def __call__(self, steps):
        self.asked.append(steps)
        rollouts = -(-steps // (self.length * max(self.n, 1)))
        for _ in range(rollouts * self.length):
            *_, terminated, truncated, info = self.env.step([0] * self.n if self.n else 0)
            self.right = np.ravel(info.get("final_info", info)["task_id"])[0]
            if not self.n and (terminated or truncated):
                self.env.reset()
        return lambda obs, right=self.right: np.full(len(obs), right)


VISITS = {"tasks": (0, 1, 0)}
BUDGETS = (20, 30, 20)


@pytest.mark.parametrize("n", [1, 2])
def test_all_phases_are_evaluated_before_and_along_the_stream(n):
    asked, train_in = [], None if n == 1 else partial(side_by_side, *BUDGETS, **VISITS)
    results = continual_evaluate(
        partial(Learner, asked=asked),
        partial(make, *BUDGETS, **VISITS),
        2,
        train_in=train_in,
        episodes_per_phase=2,
    )
    result = ContinualResult(results)
    assert result.phases == ("task 0", "task 1", "task 0")
    # Two environments side by side take 16 steps for 15.
    assert result.points == (0, 10, 20, 35 if n == 1 else 36, 50, 60, 70)
    assert (result.ends, result.metric) == ((20, 50, 70), "success_once")
    first, second = [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]
    assert result.R.tolist() == [first, first, first, second, second, first, first]
    assert asked == [0, 10, 10, 15, 15 if n == 1 else 14, 10, 10]
    assert result.forgetting.value == pytest.approx(1 / 3)
    assert result.backward_transfer.value == pytest.approx(-0.5)


def list_points(results):
    """The steps at which each task was evaluated."""
    by_task = itertools.groupby(results, key=lambda result: result.tasks[0])
    return {
        task: [result.description.training_steps for result in task_results]
        for task, task_results in by_task
    }


def list_success_rates(results):
    return [result.overall["mean over tasks"]["success_once"].value for result in results]


def test_points_are_at_the_nearest_step_and_baselines_are_of_each_task_alone_and_once(tmp_path):
    making = partial(make, *BUDGETS, **VISITS)
    results = continual_evaluate(Learner, making, 3, episodes_per_phase=1)
    assert ContinualResult(results).points == (0, 7, 13, 20, 30, 40, 50, 57, 63, 70)
    asked, settings = [], {"episodes_per_phase": 1, "evidence": tmp_path / "b.npz"}
    baseline_results = single_task_baselines(partial(Learner, asked=asked), making, 2, **settings)
    actions = [read_evidence(tmp_path / f"b-{i}.npz") for i in range(6)]
    assert [digest(recorded) for recorded in actions] == [
        result.evidence for result in baseline_results
    ]
    assert list_points(baseline_results) == {"0 task 0": [0, 10, 20], "1 task 1": [0, 15, 30]}
    assert list_success_rates(baseline_results) == [1, 1, 1, 0, 1, 1]
    assert asked == [0, 10, 10, 0, 15, 15]


def test_an_interrupted_run_goes_on_with_the_episodes_in_its_files(tmp_path):
    making = partial(make, 40, 60)
    settings = {"episodes_per_phase": 2, "evidence": tmp_path / "r.npz"}
    expected = continual_evaluate(Learner, making, 1, **settings)
    (tmp_path / "r-2.npz").unlink()
    with pytest.warns(
        UserWarning, match="4 of 4 episodes are taken from .*, and the policy is not"
    ) as warned:
        results = continual_evaluate(Learner, making, 1, resume=True, progress=True, **settings)
    assert results == expected
    assert {warning.filename for warning in warned} == {__file__}
    assert (tmp_path / "r-2.npz").exists()
    with pytest.raises(ValueError, match="resume=True continues from the episodes in evidence"):
        continual_evaluate(Learner, making, 1, resume=True)


def test_a_learner_is_scored_where_it_stands_if_its_rollouts_do_not_divide_the_phases():
    """Three phases of 40 steps and rollouts of 32: it stands at 0, 32, 64, 96 and 120."""
    arguments = partial(Learner, length=32), partial(make, 40, 40, 40), 2
    result = ContinualResult(continual_evaluate(*arguments, episodes_per_phase=1))
    assert result.points == (0, 32, 64, 96, 120)
    assert result.R.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    assert round(result.forgetting.value, 2) == 0.67
    assert "scored at" in str(result).splitlines()[0]
    assert [line.split()[4] for line in str(result).splitlines()[1:4]] == ["32", "64", "120"]
    baseline_results = single_task_baselines(*arguments, episodes_per_phase=1)
    assert list_points(baseline_results) == {f"{i} task {i}": [0, 32, 64] for i in range(3)}


def test_the_step_of_several_environments_that_ends_a_phase_is_its_end():
    """Three environments use up 40 steps with the 42nd; nobody has met the next task yet."""
    settings = {"train_in": partial(side_by_side, 40, 40, 40, n=3), "episodes_per_phase": 1}
    arguments = Learner, partial(make, 40, 40, 40), 1
    result = ContinualResult(continual_evaluate(*arguments, **settings))
    assert result.points == (0, 40, 80, 120)
    assert result.R.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    baseline_results = single_task_baselines(*arguments, **settings)
    assert list_points(baseline_results) == {f"{i} task {i}": [0, 40] for i in range(3)}
    assert list_success_rates(baseline_results) == [1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("function", "length", "per_phase", "message"),
    [
        # It stands at 64 in phase 1 before phase 0 was scored.
        (continual_evaluate, 32, 1, "phase 0, from step 0 to 40, has no score: learn(steps) ret"),
        (continual_evaluate, 100, 2, "at the steps [0, 100], none of which is in the phase. Let"),
        (single_task_baselines, 64, 2, "phase 0, from step 0 to 40, has no score"),
        (continual_evaluate, 0, 2, "expected a step after 0, got 0: between two evaluations, a l"),
    ],
)
def test_a_learner_that_passes_a_phase_without_a_score_or_never_steps_is_refused(
    function, length, per_phase, message
):
    learner = (
        partial(Learner, length=length) if length else lambda env: lambda steps: Learner(env)(0)
    )
    with pytest.raises(ValueError, match=exact(message)):
        function(learner, partial(make, 40, 40, 40), per_phase, episodes_per_phase=1)


@pytest.mark.parametrize(
    ("train_in", "message"),
    [
        (partial(make, 40, 30, 40), "phase 1 must be ('task 1', Phase(tasks=[1], steps=40)), got"),
        (partial(make, 40, 40, 40, **VISITS), "got ('task 0', Phase(tasks=[0], steps=40))"),
    ],
)
def test_a_stream_to_train_in_must_be_the_one_that_is_evaluated(train_in, message):
    for function in (continual_evaluate, single_task_baselines):
        with pytest.raises(ValueError, match=exact(message)):
            function(Learner, partial(make, 40, 40, 40), 1, train_in=train_in)


def test_an_evaluation_observes_each_phase_as_the_stream_does_and_leaves_the_stream_alone():
    making = partial(make, *BUDGETS, **VISITS, task_obs="phase")
    stream = making()
    stream.reset(seed=0)
    stream.step(0)
    stream_state = stream.unwrapped.get_state()
    seen = []
    evaluator = PhaseEvaluator(making, 1, phases=[2, 0])
    evaluator(lambda obs: seen.append(obs[:, 2:]) or np.zeros(2, int), 1)
    assert equal(seen[0], np.eye(3)[[2, 0]])
    assert evaluator.results[0].tasks == ("2 task 0", "0 task 0")
    assert equal(stream.unwrapped.get_state(), stream_state)
    evaluator.close()


def slow_learner(env):
    """Takes a fourth of the steps that it should."""
    learner = Learner(env)
    return lambda steps: learner(steps // 4)


def act(observations):
    return np.zeros(len(observations[:, 0]), int)


LEARNER = "make_learner(env) must return a function learn(steps), which trains in env for that many"


@refusals(
    refusal(
        lambda: continual_evaluate(lambda env: act, partial(make, 40, 40)),
        TypeError,
        f"in learn(0): {LEARNER} steps and returns the policy: 'int' object is not subscriptable",
    ),
    refusal(
        lambda: continual_evaluate(lambda env: lambda steps: None, partial(make, 40, 40)),
        TypeError,
        f"learn(0) must return a policy, got None: {LEARNER}",
    ),
    refusal(
        lambda: continual_evaluate(slow_learner, partial(make, 40, 40), 1, episodes_per_phase=1),
        ValueError,
        "phase 1, from step 40 to 80, has no score: the learner was only at step 27 when "
        "learn(steps) returned for the last time, and must take at least `steps` steps in its env",
    ),
    refusal(
        lambda: continual_evaluate(Learner, partial(make, 40, 40), 1, 2),
        TypeError,
        "continual_evaluate takes 3 positional arguments (make_learner, make, "
        "evaluations_per_phase), got 4: pass others by name: train_in, episodes_per_phase, ",
    ),
    refusal(
        lambda: single_task_baselines(Learner, partial(make, 40, 40), episodes=2),
        TypeError,
        "single_task_baselines got an unexpected keyword argument 'episodes': did you mean "
        "'episodes_per_phase'?",
    ),
    refusal(
        lambda: EvaluationResult([Episode("a", 0, 1.0, 5)]).described(seed=1),
        TypeError,
        "EvaluationResult.described got an unexpected keyword argument 'seed': did you mean "
        "'training_seed'?",
    ),
    refusal(
        lambda: EvaluationResult([Episode("a", 0, 1.0, 5)]).described("ppo"),
        TypeError,
        "EvaluationResult.described takes 0 positional arguments, got 1: pass others by name: "
        "policy, training_seed, training_steps, note",
    ),
)
def test_a_call_that_cannot_be_evaluated_is_answered_by_a_right_one(call, error, message):
    assert_refused(call, error, message)


def test_what_cannot_be_evaluated_is_refused():
    with pytest.raises(TypeError, match="expected an environment with a TaskStream inside"):
        PhaseEvaluator(CountingEnv)
    with pytest.raises(TypeError, match="that make_learner returns must be callable, got None"):
        continual_evaluate(lambda env: None, partial(make, 9), 1)
    with pytest.raises(TypeError, match="argument 'envs_per_phase'"):
        PhaseEvaluator(partial(make, 9), envs_per_phase=2)


def test_a_phase_that_was_not_evaluated_is_named():
    message = "'1 b' was not evaluated after 10 steps: a PhaseEvaluator without phases=... eval"
    results = [at(0, {0: 0.5, 1: 0.5}, names="ab"), at(10, {0: 0.5}, names="ab")]
    with pytest.raises(ValueError, match=exact(message)):
        ContinualResult(results)


def test_episodes_without_success_are_scored_by_their_returns():
    def silent():
        return FlattenMTEnv(TaskStream(MultiEnvWrapper(counting_makers(2)), [(0, 9)]))

    evaluator = PhaseEvaluator(silent, 1)
    silence = [evaluator(lambda obs: np.zeros(1, int), 0)]
    evaluator.close()
    assert ContinualResult(silence, metric="return").R.tolist() == [[6.0]]
