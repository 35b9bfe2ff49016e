"""Odd evaluations and results: what was expected and what came."""

from functools import partial
from types import SimpleNamespace

import numpy as np
from gymnasium.vector import SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor, evaluate, few_shot_evaluate
from mtwrappers.evaluation import Design, Episode, EvaluationResult
from tests.fakes import counting_makers
from tests.refusals import (
    NAN,
    ChangedEnv,
    assert_refused,
    drawing_tasks,
    make_vec,
    refusal,
    refusals,
    three_envs,
)

RESULT = EvaluationResult([Episode("a", 0, 1.0, 3)])
ADAPTING_POLICY = SimpleNamespace(adapt=print, get_actions=print)
TRIAL_POLICY = SimpleNamespace(begin_trial=print, get_actions=print)
TRIALS = {"trials": 2, "adaptation_episodes": 1, "adaptation_steps": 1}
point_envs = partial(make_vec, "PointGoal", num_envs=2)


def evaluate_env(env_fn):
    """Evaluates one environment of two actions."""
    return evaluate(lambda obs: np.zeros(1, int), MetaIterativeEnvExecutor(env_fn, 1), 1)


@refusals(
    refusal(
        lambda: evaluate(np.negative, SyncVectorEnv(counting_makers(2))),
        TypeError,
        "envs must be a vector ...got SyncVectorEnv(num_envs=2)",
    ),
    refusal(
        lambda: evaluate(np.negative, point_envs(), 1, evidence="r.json"),
        ValueError,
        "evidence must ...npz, got 'r.json'",
    ),
    refusal(
        lambda: evaluate(np.negative, point_envs(), 1, evidence=True),
        TypeError,
        "evidence must be the name of a file that ends in .npz, such as evidence='e.npz'",
    ),
    refusal(
        lambda: evaluate(np.negative, point_envs(), 1, tasks=["x"]),
        ValueError,
        "tasks must be among ['task ...got ['x']",
    ),
    refusal(
        lambda: evaluate_env(lambda: ChangedEnv(reward=NAN)),
        ValueError,
        "rewards must be finite, got a return of nan from environment",
    ),
    refusal(
        lambda: evaluate_env(lambda: ChangedEnv(info={"success": NAN})),
        ValueError,
        "info['success'] must be a bool, 0 or 1, got",
    ),
    refusal(
        lambda: few_shot_evaluate(np.negative, point_envs()),
        TypeError,
        "in trials, a policy must have begin_trial(), ...; give one that does not adapt, or whose "
        "adapt() itself begins afresh, a begin_trial() that does nothing. Got <ufunc 'negative'>",
    ),
    refusal(
        lambda: few_shot_evaluate(ADAPTING_POLICY, point_envs()),
        TypeError,
        "in trials, a policy must have begin_trial(), which returns it to what it was before any ",
    ),
    refusal(
        lambda: few_shot_evaluate(SimpleNamespace(adapt=print), point_envs()),
        TypeError,
        "...have get_actions...callable",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, point_envs(), 2, adaptation_steps=0),
        ValueError,
        "adaptation_steps must be a",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, point_envs(), 2, adaptation_steps=2),
        ValueError,
        "...needs a policy with adapt(paths)",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, point_envs(), [[0, 1], [0]]),
        ValueError,
        "trials must be ",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, three_envs(), 2),
        ValueError,
        "...: pass tasks, 3 for each of 2 trials",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, MetaIterativeEnvExecutor(drawing_tasks, 2)),
        ValueError,
        "..._on_reset=False",
    ),
    refusal(
        lambda: few_shot_evaluate(ADAPTING_POLICY, point_envs(), adaptation_episodes=-1),
        ValueError,
        "...got -1",
    ),
    refusal(
        lambda: few_shot_evaluate(ADAPTING_POLICY, point_envs(), adaptation_episodes=0),
        ValueError,
        "adaptation_episodes must be a positive integer, got 0: for the baseline without "
        "adaptation, pass 1 or more and read result.unadapted",
    ),
    refusal(
        lambda: EvaluationResult([3]), TypeError, "episodes must be of the type Episode, got 3"
    ),
    refusal(
        lambda: evaluate(np.negative, point_envs(), 1, observers=[3]),
        TypeError,
        "observers must be a list of Observer",
    ),
    refusal(lambda: Design(phases="x"), TypeError, "phases must be a list of at least one pair"),
    refusal(lambda: Design(phases=[("a",)]), TypeError, "each of phases must be a pair (name, st"),
    refusal(lambda: Design(phases=[(0, 5)]), TypeError, "the name of a phase must be a string"),
    refusal(lambda: Design(phases=[("a", 0)]), ValueError, "the steps of 'a' must be a positive"),
    refusal(lambda: Design(**TRIALS, adapts="no"), TypeError, "adapts must be True or False"),
    refusal(
        lambda: Design(**TRIALS, adaptation_terminate_on_success="no"),
        TypeError,
        "adaptation_terminate_on_success must be True or False, got 'no'",
    ),
    refusal(
        lambda: EvaluationResult([]),
        ValueError,
        "an evaluation needs at least one episode after adaptation",
    ),
    refusal(lambda: RESULT.of_task("b"), ValueError, "task must be one of ['a'], got 'b'"),
    refusal(
        lambda: EvaluationResult.load(__file__),
        ValueError,
        "expected an evaluation in JSON, ...test_refusals.py",
    ),
    refusal(
        lambda: RESULT.save("actions.npz"),
        ValueError,
        "a result is saved as JSON, ...got actions.npz",
    ),
    refusal(
        lambda: EvaluationResult.from_dict({"format": RESULT.to_dict()["format"]}),
        ValueError,
        "...no 'episodes'",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
