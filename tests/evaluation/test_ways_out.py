"""Mistakes that people make: the message says what to do instead."""

import inspect
import json
import re
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from mtwrappers import as_vector, evaluate, few_shot_evaluate, protocols
from mtwrappers.evaluation import (
    Episode,
    EvaluationResult,
    IncomparableError,
    VerificationError,
    compare,
    curves,
    load_results,
    reference,
    scores,
    verify,
)
from mtwrappers.evaluation.scoring import Scoring
from tests.evaluation.fakes import scripted
from tests.fakes import CountingEnv, counting_makers
from tests.refusals import assert_refused, refusal, refusals

TRIAL_POLICY = SimpleNamespace(begin_trial=print, get_actions=print)
RESULT = EvaluationResult([Episode("a", 0, 1.0, 3, True, True)])
NEAR_AND_A = EvaluationResult([*RESULT.episodes, Episode("near", 0, 1.0, 3, True, True)])
MT10 = protocols["metaworld-3.1"]
EXAMPLE = "such as {'ppo': [result], 'random': [other_result]}, got"


def push(observations):
    return np.full((2, 2), 0.1)


def pull(observations):
    return np.full((2, 2), -0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of two policies with their evidence, ``push.json`` and ``pull.json``."""
    folder = tmp_path_factory.mktemp("results")
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    for policy in (push, pull):
        result = evaluate(policy, envs, 3, evidence=folder / f"{policy.__name__}.npz")
        result.save(folder / f"{policy.__name__}.json")
    envs.close()
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=4)
    evaluate(push, envs, 3, evidence=folder / "shorter.npz")
    envs.close()
    return folder


@refusals(
    refusal(
        lambda: compare(RESULT, RESULT),
        TypeError,
        f"compare takes the results of all policies in one dict, {EXAMPLE} 2 arguments",
    ),
    refusal(
        lambda: scores(RESULT, RESULT, RESULT),
        TypeError,
        f"scores takes the results of all policies in one dict, {EXAMPLE} 3 arguments",
    ),
    refusal(
        lambda: scores([RESULT]),
        TypeError,
        f"policies must be a dict of the results of each policy, {EXAMPLE} [<EvaluationResult: 1 "
        "episode of 1 task>]",
    ),
    refusal(lambda: curves([RESULT]), TypeError, "policies must be a dict of the results of each"),
    refusal(
        lambda: compare({"a": RESULT, "b": RESULT}),
        TypeError,
        "the results of 'a' must be a list of at least one result, got <EvaluationResult: 1 "
        "episode of 1 task> alone: pass [result]",
    ),
    refusal(
        lambda: compare({"a": ["a.json"], "b": [RESULT]}),
        TypeError,
        "expected an EvaluationResult as result 1 of 'a', got str: load the file, as by "
        "EvaluationResult.load('a.json')",
    ),
    refusal(
        lambda: compare({"a": [RESULT], "b": [NEAR_AND_A]}),
        IncomparableError,
        "a and b are not comparable: result 1 of 'a' does not have the task near, as result 1 of "
        "'b' does: evaluate it too, or leave the task out of the others with evaluate(..., tasks",
    ),
    refusal(
        lambda: NEAR_AND_A.per_task["nea"],
        KeyError,
        "\"no task 'nea'; did you mean 'near'?\"",
    ),
    refusal(
        lambda: NEAR_AND_A.per_goal["nea"],
        KeyError,
        "\"no task 'nea'; did you mean 'near'?\"",
    ),
    refusal(
        lambda: NEAR_AND_A.per_task["near"]["success"],
        KeyError,
        "\"no metric 'success'; did you mean 'success_once' or 'success_final'?\"",
    ),
    refusal(
        lambda: NEAR_AND_A.overall["mean"],
        KeyError,
        "\"no mean 'mean'; choose from 'mean over tasks'\"",
    ),
    refusal(
        lambda: RESULT.plot("x.pgn"),
        ValueError,
        "path must end in the suffix of an image, such as .png, .pdf or .svg, got 'x.pgn'; did you "
        "mean '.png'",
    ),
    refusal(
        lambda: verify(RESULT),
        TypeError,
        "result must be the name of a file from EvaluationResult.save, got <EvaluationResult: 1 "
        "episode of 1 task>: save it, and pass the name of the file",
    ),
    refusal(
        lambda: verify("x.npz"),
        VerificationError,
        "expected an evaluation in JSON, got x.npz, which is for evidence, the actions of a "
        "result: pass the file of EvaluationResult.save",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, None, trials=2, n_adapt=3),
        TypeError,
        "few_shot_evaluate got an unexpected keyword argument 'n_adapt': did you mean "
        "'adaptation_episodes'?",
    ),
    refusal(
        lambda: evaluate(push, "mtwrappers/MT10-v0"),
        TypeError,
        "envs must be ...got 'mtwrappers/MT10-v0': pass gymnasium.make_vec('mtwrappers/MT10-v0')",
    ),
    refusal(
        lambda: few_shot_evaluate(push, "CartPole-v1"),
        TypeError,
        "envs must be ...got 'CartPole-v1': pass mtwrappers.as_vector('CartPole-v1')",
    ),
    refusal(
        lambda: few_shot_evaluate(push, SyncVectorEnv(counting_makers(2))),
        TypeError,
        "envs must be ...got SyncVectorEnv(num_envs=2): pass mtwrappers.as_vector(env_fns) with "
        "the functions that make its environments",
    ),
    refusal(
        lambda: verify("r.json", as_vector(CountingEnv)),
        TypeError,
        "evidence is the name of a file: pass environments as envs=",
    ),
    refusal(
        lambda: verify("r.json", envs=counting_makers),
        TypeError,
        "envs must be a vector environment, got <function counting_makers ...>: call it",
    ),
    refusal(
        lambda: evaluate(push, counting_makers(2)),
        TypeError,
        "envs must be ...: pass mtwrappers.as_vector of these functions",
    ),
    refusal(
        lambda: MT10.evaluate(as_vector(CountingEnv, 4), push),
        TypeError,
        "policy and envs are swapped: the policy is first, got MetaIterativeEnvExecutor",
    ),
    refusal(
        lambda: MT10.variant("mine", horizon=20),
        TypeError,
        "Protocol.variant got ...keyword argument 'horizon': did you mean 'max_episode_steps'?",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector(CountingEnv, 4), [[0, 1, 2, 3]]),
        ValueError,
        "trials must be a number, or lists of 1 task, ... trial 0 has 4 tasks, (0, 1, 2, 3): for 4 "
        "task groups of one environment, pass functions that make them, as in as_vector([make] * 4",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector([CountingEnv] * 2), [0, 1]),
        ValueError,
        "...; got 0 as trial 0: if these are the tasks of a single trial, pass [trials]",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector(CountingEnv), [0, 1]),
        ValueError,
        "...; got 0 as trial 0: for a trial on each task, pass [[task] for task in trials]",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector([CountingEnv] * 3), [[0, 1, 2], 0]),
        ValueError,
        "...; got 0 as trial 1: each trial is a list of tasks, as in trials=[tasks]",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector([CountingEnv] * 2), [[0, 1], [0]]),
        ValueError,
        "... lists of 2 tasks, one list per trial; trial 1 has 1 task, (0,): give one to each task",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector(CountingEnv), tasks=[[0]]),
        TypeError,
        "few_shot_evaluate got ... 'tasks': did you mean 'trials'? It takes a list for each trial",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector(CountingEnv), policy_in="workers"),
        TypeError,
        "few_shot_evaluate got ... 'policy_in': the policy is always called in this process",
    ),
    refusal(
        lambda: verify("nothing.json"),
        FileNotFoundError,
        "[Errno 2] No such file or directory; expected a file of EvaluationResult.save: 'nothing.",
    ),
    refusal(
        lambda: MT10.evaluate(push, max_episode_steps=3),
        TypeError,
        "Protocol.evaluate got an unexpected keyword argument 'max_episode_steps': metaworld-3.1 "
        "fixes it: call evaluate of its variant('mine', max_episode_steps=...)",
    ),
    refusal(
        lambda: MT10.evaluate(push, n_eval_episodes=3),
        TypeError,
        "Protocol.evaluate got an unexpected keyword argument 'n_eval_episodes': metaworld-3.1 "
        "fixes it: call evaluate of its variant('mine', episodes_per_task=...)",
    ),
    refusal(
        lambda: MT10.variant("mine", n_eval_episodes=3),
        TypeError,
        "Protocol.variant got ... 'n_eval_episodes': did you mean 'episodes_per_task'?",
    ),
    refusal(
        lambda: evaluate(push, as_vector(CountingEnv, 2), n_eval_episodes=3),
        TypeError,
        "evaluate got an unexpected keyword argument 'n_eval_episodes': did you mean "
        "'episodes_per_task'?",
    ),
    refusal(
        lambda: evaluate(push, as_vector(CountingEnv, 2), deterministic=True),
        TypeError,
        "evaluate got ... 'deterministic': the policy decides, such as lambda obs: model.predict",
    ),
    refusal(
        lambda: evaluate(push, as_vector(CountingEnv, 2), protocol="metaworld-3.1"),
        TypeError,
        "evaluate got ... 'protocol': call its own evaluate, such as protocols['metaworld-3.1'].",
    ),
    refusal(
        lambda: few_shot_evaluate(TRIAL_POLICY, as_vector(CountingEnv, 2), episodes_per_task=3),
        TypeError,
        "few_shot_evaluate got ... 'episodes_per_task': did you mean 'evaluation_episodes'?",
    ),
    refusal(
        lambda: evaluate(push, SimpleNamespace(vec_env=as_vector(CountingEnv, 2))),
        TypeError,
        "envs must be a vector ...: pass the vector environment inside this adapter, its vec_env",
    ),
    refusal(
        lambda: evaluate(
            push, SimpleNamespace(vec_env=as_vector(CountingEnv, 2), normalize_obs=np.negative)
        ),
        TypeError,
        "envs must be a vector ..., its vec_env, and normalize in the policy: lambda obs: "
        "model.predict(venv.normalize_obs(obs), deterministic=True)[0], where venv is this one, or "
        "what VecNormalize.load(path, venv) makes of the file of its save(path)",
    ),
    refusal(
        lambda: MT10.evaluate(push, sed=3),
        TypeError,
        "Protocol.evaluate got an unexpected keyword argument 'sed': did you mean 'seed'?",
    ),
    refusal(
        lambda: MT10.on("ML10"),
        ValueError,
        "metaworld-3.1 is for MT1, MT10, MT25, MT50, got 'ML10'; protocols for that: "
        "metaworld-3.1-ml",
    ),
    refusal(
        lambda: MT10.variant("mine", benchmark="MT1"),
        ValueError,
        "MT1 has one class: name it by env_name=..., such as 'reach-v3'",
    ),
    refusal(
        lambda: Scoring(groups=(("easy", ("hop",)),)),
        ValueError,
        "group 'easy' must have classes of Meta-World, got 'hop'; such as 'reach-v3'; of other "
        "environments, average EvaluationResult.per_task over a group",
    ),
    refusal(
        lambda: reference("reference:ppo"),
        ValueError,
        "there are no reference results of 'reference:ppo'; pass 'ppo', because reference: is "
        "for the command line",
    ),
)
def test_a_wrong_argument_is_answered_by_the_right_one(call, error, message):
    assert_refused(call, error, message)


@pytest.mark.parametrize("load", [EvaluationResult.load, load_results, verify])
def test_a_folder_is_answered_by_the_file_in_it(load, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"such as its results\.json; got a folder: '"):
        load(tmp_path)


def test_missing_evidence_is_answered_by_its_place_and_by_the_argument(folder):
    (folder / "moved.json").write_text((folder / "push.json").read_text())
    with pytest.raises(VerificationError, match=r"there is no file .*moved\.npz ") as caught:
        verify(folder / "moved.json")
    for way_out in ('verify("result.json", "e.npz")', "ask those who", "evaluate again with"):
        assert way_out in str(caught.value)
    assert verify(folder / "moved.json", folder / "push.npz").ok


def test_evidence_of_another_result_is_named_before_the_numbers_that_differ(folder):
    verification = verify(folder / "push.json", folder / "pull.npz")
    assert not verification.ok
    message = rf"the actions in {folder / 'pull.npz'} are not those that the result was saved with"
    assert verification.difference.startswith(message)
    assert "; task 0, episode 0: episode_return is" in verification.difference
    message = "task 0, episode 0 has 5 steps, and the evidence 4 actions; the actions in "
    with pytest.raises(VerificationError, match=message):
        verify(folder / "push.json", folder / "shorter.npz")


def test_evidence_without_its_last_episodes_is_called_truncated(folder):
    data = (folder / "push.npz").read_bytes()
    (folder / "half.npz").write_bytes(data[: len(data) // 2])
    truncated = (
        r"half\.npz has the actions of 4 of the 6 episodes of the result, not of task 1, episode "
        r"1: the file was truncated, as by an interrupted copy, or is of another evaluation; pass "
    )
    with pytest.raises(VerificationError, match=truncated):
        verify(folder / "push.json", folder / "half.npz")


@pytest.mark.parametrize(
    ("names", "actual"),
    [
        (["near", "far"], r"\['near', 'far'\]"),
        (["b", "a"], r"\['b', 'a'\]"),
        (["a"], r"\['a'\]"),
        (["a", "b", "sticky"], r"\['a', 'b', 'sticky'\]"),
    ],
)
def test_environments_of_other_tasks_are_not_a_fault_of_the_file(names, actual, tmp_path):
    envs = scripted([{"name": "a"}, {"name": "b"}])
    evaluate(push, envs, 2, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    message = (
        r"the environments in envs are not those of the result: expected the tasks \['a', 'b'\], "
        rf"got {actual}; pass environments of these tasks alone, in this order"
    )
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", envs=scripted([{"name": name} for name in names]))


def drop_episode(data):
    del data["episodes"][1]


def drop_field(data):
    del data["evidence"]


def change_type(data):
    data["design"]["episodes_per_task"] = "3"


def change_length(data):
    data["episodes"][1]["length"] = 6


@pytest.mark.parametrize("change", [drop_episode, drop_field, change_type, change_length])
def test_an_edited_file_is_answered_by_the_file_without_edits(change, folder):
    data = json.loads((folder / "push.json").read_text())
    change(data)
    (folder / "edited.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match="; if the file was edited, verify it as"):
        verify(folder / "edited.json", folder / "push.npz")


def test_a_changed_number_is_false_and_may_be_an_edit(folder):
    data = json.loads((folder / "push.json").read_text())
    data["episodes"][1]["episode_return"] += 1
    (folder / "edited.json").write_text(json.dumps(data))
    verification = verify(folder / "edited.json", folder / "push.npz")
    assert not verification.ok
    assert "; if the file was edited, verify it as save() wrote it" in " ".join(
        str(verification).replace("\n ", "").split()
    )


def test_a_single_episode_is_not_plural():
    single = partial(EvaluationResult, [Episode("a", 0, 1.0, 3, True, True)])
    assert repr(single()) == "<EvaluationResult: 1 episode of 1 task>"
    assert "mine: 1 run, 1 episode." in str(scores({"mine": [single()]}))
    run = single().described(training_steps=5, training_seed=0)
    assert "1 run (training seed 0), 1 episode at each point." in "\n".join(
        curves({"mine": [run]}).caption
    )


@pytest.mark.parametrize("function", [evaluate, few_shot_evaluate])
def test_an_unknown_argument_names_all_arguments(function):
    names = [*inspect.signature(function).parameters]
    assert names.pop() == "unknown"
    with pytest.raises(TypeError, match=re.escape(f"'xyz': it takes {sorted(names)}")):
        function(push, None, xyz=3)
