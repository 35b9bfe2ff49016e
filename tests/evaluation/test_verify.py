"""`verify`: what is true is confirmed, and each falsification is caught and named."""

import dataclasses
import functools
import json
import os
import platform
import re
import subprocess
import sys
from contextlib import closing

import gymnasium
import numpy as np
import pytest

from mtwrappers import evaluate, protocols
from mtwrappers.evaluation import EvaluationResult, VerificationError, verify
from mtwrappers.evaluation.evidence import digest, read_evidence
from tests.evaluation.fakes import drawn, scripted
from tests.fakes import ROOT

ID = "mtwrappers/CustomMT-v0"
SETTINGS = {"train_classes": ["reach-v3", "push-v3"], "num_goals": 4, "max_episode_steps": 8}


def act(observations, rng):
    return np.array([own.uniform(-1, 1, 4) for own in rng], np.float32)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A directory with a true result of 3 episodes of 2 tasks, and its evidence."""
    where = tmp_path_factory.mktemp("played")
    envs = gymnasium.make_vec(ID, **SETTINGS)
    result = evaluate(act, envs, 3, seed=5, evidence=where / "r.npz", policy_name="random")
    envs.close()
    result.save(where / "r.json")
    return where


def falsified(played, where, change):
    """A changed copy of the result, whose numbers follow from its episodes."""
    data = json.loads((played / "r.json").read_text())
    change(data)
    EvaluationResult.from_dict(data).save(where / "r.json")
    return where / "r.json"


@pytest.mark.parametrize("settings", [{}, {"workers": 2}, {"fast": False}, {"sample": 0.4}])
@pytest.mark.slow_but("settings0", "settings2", "settings3")
def test_a_true_result_is_confirmed(settings, played):
    found = verify(played / "r.json", **settings)
    n = 2 if "sample" in settings else 3
    assert found.ok
    assert found.same == found.replayed == {"reach-v3": n, "push-v3": n}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("policy_in", ["parent", "workers"])
@pytest.mark.slow
def test_the_dtype_of_the_policy_is_that_of_the_replay(dtype, policy_in, tmp_path):
    """Such as float64, from which the environment computes other bits than from float32."""
    policy = lambda obs, rng: act(obs, rng).astype(dtype) / 3  # noqa: E731
    envs = gymnasium.make_vec(ID, **SETTINGS, workers=2)
    result = evaluate(policy, envs, 1, policy_in=policy_in, evidence=tmp_path / "r.npz")
    envs.close()
    result.save(tmp_path / "r.json")
    assert verify(tmp_path / "r.json").ok
    # In the other dtype the numbers are others.
    other = np.float32 if dtype == np.float64 else np.float64
    if dtype == np.float64:
        _write(tmp_path / "r.npz", lambda own: {k: a.astype(other) for k, a in own.items()})
        assert "the actions in " in verify(tmp_path / "r.json").difference


def _write(path, change):
    np.savez(path, **change(dict(read_evidence(path))))


@pytest.mark.parametrize("sizes", [{}, {"num_envs": 4}, {"meta_batch_size": 3}])
@pytest.mark.slow
def test_meta_learning_is_replayed_on_any_number_of_workers(sizes, tmp_path):
    settings = {**SETTINGS, "test_classes": ["door-open-v3"], **sizes}
    envs = gymnasium.make_vec("mtwrappers/CustomML-train-v0", **settings)
    evaluate(act, envs, 2, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    envs.close()
    assert verify(tmp_path / "r.json", workers=5).ok


@pytest.mark.slow
def test_continuous_goals_are_drawn_again_from_the_seed(tmp_path):
    settings = {key: value for key, value in SETTINGS.items() if key != "num_goals"}
    files = []
    for workers in (1, 2):
        path = tmp_path / f"{workers}.json"
        envs = gymnasium.make_vec(ID, goals="continuous", workers=workers, **settings)
        result = evaluate(act, envs, 3, seed=5, evidence=path.with_suffix(".npz"))
        envs.close()
        result.save(path)
        assert verify(path, workers=2).ok
        files.append((result.episodes, read_evidence(path.with_suffix(".npz"))))
    # One worker or two make no difference.
    (ones, actions), (others, other_actions) = files
    assert ones == others
    assert digest(actions) == digest(other_actions)
    data = json.loads((tmp_path / "1.json").read_text())
    data["seed"] = 6  # and so other goals
    EvaluationResult.from_dict(data).save(tmp_path / "1.json")
    found = verify(tmp_path / "1.json")
    assert found.difference.startswith("reach-v3, episode 0: episode_return is")


def test_environments_that_were_made_by_hand_are_given(tmp_path):
    make = functools.partial(scripted, [{"name": "a", "lengths": (3, 5), "success_at": 4}], k=2)
    evaluate(drawn, make(), 6, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    with pytest.raises(
        VerificationError, match=r"it does not say how to make its env.*envs=\.\.\."
    ):
        verify(tmp_path / "r.json")
    assert verify(tmp_path / "r.json", envs=make()).same == {"a": 6}
    longer = scripted([{"name": "a", "lengths": (7,), "success_at": 4}], k=2)
    found = verify(tmp_path / "r.json", envs=longer)
    assert found.same == {"a": 0}
    assert found.difference == "a, episode 0 does not end in the replay after its 3 steps"


# What was verified.


def test_what_was_verified_is_printed_with_the_score_that_the_replay_gave(tmp_path):
    rules = dataclasses.replace(
        protocols["metaworld-3.1"].on("MT1", "reach-v3"),
        **{"name": "short", "episodes_per_task": 4, "num_goals": 2, "max_episode_steps": 5},
    )
    result = rules.evaluate(act, seed=7, evidence=tmp_path / "r.npz", policy_name="mine, 技")
    dataclasses.replace(result, confidence=0.9).save(tmp_path / "r.json")
    found = verify(tmp_path / "r.json")
    assert found.result == dataclasses.replace(result, confidence=0.9)
    lines = str(found).splitlines()
    assert lines[0] == "policy        mine, 技"
    assert lines[1] == f"protocol      short ({rules.digest[:10]}, not a published protocol)"
    assert lines[2].startswith('environments  id="mtwrappers/MT1-v0", benchmark="MT1", ')
    assert "chosen        seed=7, episodes_per_task=4, tasks=null, max_episode_steps=null" in lines
    assert "replayed      4 of 4 episodes" in lines
    assert lines[-2:] == ["verified:", "mean over tasks   0.000  0.000 to 0.403 (90%)"]
    assert max(map(len, lines)) <= 80
    part = verify(tmp_path / "r.json", sample=0.5)
    assert "replayed      2 of 4 episodes" in str(part)
    assert "\nverified, as far as it was replayed:\n" in str(part)


def test_without_a_protocol_the_mean_success_or_return_is_printed(played, tmp_path):
    text = str(verify(played / "r.json"))
    assert "\nprotocol      none\n" in text
    assert text.endswith("\nsuccess at any step, mean over tasks   0.000  0.000 to 0.390 (95%)")
    make = functools.partial(scripted, [{"name": "a", "key": None}])
    result = evaluate(drawn, make(), 2, evidence=tmp_path / "r.npz")
    result.save(tmp_path / "r.json")
    text = str(verify(tmp_path / "r.json", envs=make()))
    mean = result.per_task["a"]["return"].value
    assert re.search(rf"\nreturn, mean over tasks   {mean:.3f}  .* to .* \(95%\)$", text)


CLAIMED = {
    "note": lambda data: data.update(note="on a laptop"),
    "authors": lambda data: data.update(authors=["me"]),
    "training_seed": lambda data: data["provenance"].update(training_seed=1),
    "training_steps": lambda data: data["provenance"].update(training_steps=0),
    "action_chunk": lambda data: data["provenance"].update(action_chunk=None),
    "policy": lambda data: data["provenance"].update(policy="theirs"),
    "task_encoding": lambda data: data["provenance"]["spec"]["kwargs"].update(task_encoding="none"),
    "workers": lambda data: data["provenance"]["spec"]["kwargs"].update(workers=3),
    "vectorization_mode": lambda data: data["provenance"]["spec"]["kwargs"].update(
        vectorization_mode="sync"
    ),
    "low": lambda data: data["normalization"]["low"].update(policy="weak"),
    "seconds": lambda data: data["rollout"].update(seconds=2.5),
}


def test_all_that_a_replay_cannot_verify_is_printed(played, tmp_path):
    kwargs = {**SETTINGS, "task_encoding": "onehot", "execution": "iterative"}
    with closing(gymnasium.make_vec(ID, **kwargs)) as envs:
        result = evaluate(act, envs, 1, seed=5, evidence=tmp_path / "r.npz", policy_name="random")
    low = EvaluationResult.load(played / "r.json")
    high = dataclasses.replace(
        low, episodes=[dataclasses.replace(e, episode_return=99.0) for e in low.episodes]
    )
    result = result.normalized(low=low, high=high)
    made = dataclasses.replace(result.provenance, action_chunk=5)
    dataclasses.replace(result, provenance=made).save(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    data["rollout"] = {"seconds": 1.5}
    said = {}
    for name, change in {"nothing": lambda data: None, **CLAIMED}.items():
        other = json.loads(json.dumps(data))
        change(other)
        (tmp_path / "r.json").write_text(json.dumps(other))
        found = verify(tmp_path / "r.json", sample=0)
        assert found.ok
        said[name] = str(found)
    printed = said.pop("nothing")
    claimed = " ".join(printed.partition("\nnot replayed  ")[2].partition("\nchosen")[0].split())
    assert claimed.startswith('task_encoding="onehot", execution="iterative", training_seed=null,')
    assert 'training_steps=null, action_chunk=5, normalization={"ranges": {' in claimed
    assert claimed.endswith('rollout={"seconds": 1.5}')
    assert len({printed, *said.values()}) == 1 + len(CLAIMED)


def test_what_is_not_true_has_no_score(played, tmp_path):
    text = str(
        verify(falsified(played, tmp_path, episode(4, success_final=True)), played / "r.npz")
    )
    assert text.splitlines()[-3:] == [
        "push-v3: 2 of 3 the same",
        "false: push-v3, episode 1: success_final is False in the replay, True in the result",
        "not verified: 5 of 6 episodes gave the same numbers",
    ]


# Other versions, and other processors.


def test_another_version_is_no_reason_to_refuse_and_is_named(played, tmp_path):
    def change(data):
        data["provenance"]["versions"].update(numpy="9.9.9", python="3.99.0", other="1")

    path = falsified(played, tmp_path, change)
    found = verify(path, played / "r.npz", sample=0)
    assert found.ok
    assert found.versions["numpy"] == ("9.9.9", np.__version__)
    assert found.versions["other"] == ("1", None)
    assert 'numpy="9.9.9, here ' in str(found)
    change_both = lambda data: (change(data), data["episodes"][0].update(steps_to_success=1))  # noqa: E731
    found = verify(falsified(played, tmp_path, change_both), played / "r.npz")
    assert found.difference.startswith("reach-v3, episode 0: steps_to_success is None in the re")
    assert "(perhaps because of other versions of numpy, other, python)" in str(found)


@pytest.mark.parametrize(
    ("factor", "ok"), [(1 + 3e-16, True), (1 + 9e-10, True), (1 + 2e-9, False)]
)
def test_returns_may_differ_by_rounding_which_is_said(factor, ok, played, tmp_path):
    def change(data):
        for one in data["episodes"]:
            one["episode_return"] *= factor

    found = verify(falsified(played, tmp_path, change), played / "r.npz")
    assert found.ok is ok
    if ok:
        assert 0 < found.rounding < 1e-9
        assert found.result.episodes == EvaluationResult.load(played / "r.json").episodes
        said = re.search(r"equal but for rounding, at most (\S+): other versions", str(found))
        assert found.rounding <= float(said[1]) < 3 * found.rounding
    else:
        assert found.same == {"reach-v3": 0, "push-v3": 0}
        assert found.difference.startswith("reach-v3, episode 0: episode_return is ")


def test_what_is_equal_to_the_last_bit_is_said_to_be(played):
    found = verify(played / "r.json")
    assert (found.rounding, found.versions) == (0.0, {})
    assert "returns are equal to the last bit" in str(found)


PLAYED_ELSEWHERE = """
import gymnasium
from mtwrappers import evaluate
from tests.evaluation.test_verify import ID, SETTINGS, act
envs = gymnasium.make_vec(ID, **SETTINGS)
evaluate(act, envs, 3, seed=5, evidence="{0}.npz").save("{0}.json")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other kernels")
@pytest.mark.slow
def test_results_of_other_processors_are_confirmed(played, tmp_path):
    ours = EvaluationResult.load(played / "r.json")
    differ = set()
    for kernel in ("Nehalem", "Haswell"):
        path = tmp_path / kernel
        code = [sys.executable, "-c", PLAYED_ELSEWHERE.format(path)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_CORETYPE": kernel}
        subprocess.run(code, cwd=tmp_path, env=env, timeout=120, check=True)
        found = verify(path.with_suffix(".json"))
        assert found.ok
        differ |= {found.rounding > 0}
        theirs = EvaluationResult.load(path.with_suffix(".json"))
        assert (theirs.episodes == ours.episodes) == (found.rounding == 0)
    assert len(differ) == 1


# Falsifications whose file still agrees with itself.


def episode(i, **change):
    return lambda data: data["episodes"][i].update(change)


def origin(**change):
    return lambda data: data["provenance"].update(change)


def order(*places):
    def change(data):
        data["episodes"] = [data["episodes"][i] for i in places]

    return change


def kwargs(**change):
    return lambda data: data["provenance"]["spec"]["kwargs"].update(change)


def of_id(env_id):
    return lambda data: data["provenance"]["spec"].update(id=env_id)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (episode(1, length=7), "reach-v3, episode 1 has 7 steps, and the evidence 8 actions"),
        (episode(1, task_state=3), "with its seed reach-v3, episode 1 has the goal"),
        (episode(1, task="sweep-v3"), "the evidence has no actions of sweep-v3, episode 1"),
        (order(0, 1, 2, 3, 4), "the evidence has actions of 'push-v3/2', not an episode of it"),
        (order(0, 1, 2, 3, 4, 5, 5), "push-v3, episode 2 is there 2 times"),
        (order(1, 0, 2, 3, 4, 5), "expected reach-v3, episode 0 in the place of reach-v3, epis"),
        (
            order(3, 4, 5, 0, 1, 2),
            "expected reach-v3, episode 0 in the place of push-v3, episode 0",
        ),
        (lambda data: data.update(seed=6), "with its seed reach-v3, episode . has the goal"),
        (origin(episodes_per_task=2), "reach-v3, episode 2 is not planned"),
        (origin(episodes_per_task=4), "it has 6 of 8 episodes: reach-v3, episode 3 is missing"),
        (origin(tasks=["push-v3"]), "reach-v3, episode 0 is not planned"),
        (origin(evidence=None), "it was saved without evidence"),
        (origin(goals="0123456789abcdef"), "its goals are not those of its environments"),
        (kwargs(num_goals=5), "its goals are not those of its environments"),
        (kwargs(num_goals=10**9), "num_goals must be at most 1,000, got 1,000,000,000"),
        (kwargs(train_classes=["reach-v3"]), "its goals are not those of its environments"),
        (kwargs(benchmark="MT1"), "has benchmark 'CustomMT', got 'MT1'"),
        (kwargs(nonsense=1), "it cannot be replayed: .* takes no 'nonsense'"),
        (
            of_id("os:system"),
            "its environments are 'os:system', and a results file never decides which code",
        ),
        (of_id("mtwrappers/MultiEnv-v0"), "and a results file never decides which code"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, message, played, tmp_path):
    path = falsified(played, tmp_path, change)
    with pytest.raises(VerificationError, match=message):
        verify(path, played / "r.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda data: data["episodes"][4].update(
                episode_return=data["episodes"][4]["episode_return"] * (1 + 1e-8)
            ),
            "push-v3, episode 1: episode_return is ",
        ),
        (
            episode(3, success_once=True, steps_to_success=8),
            "push-v3, episode 0: success_once is False in the replay, True in the result",
        ),
        (
            episode(5, success_final=True),
            "push-v3, episode 2: success_final is False in the replay",
        ),
        (episode(2, steps_to_success=1), "reach-v3, episode 2: steps_to_success is None in the "),
        (kwargs(reward_function_version="v1"), "reach-v3, episode 0: episode_return is"),
        (
            origin(max_episode_steps=7),
            "reach-v3, episode 0: length is 7 in the replay, 8 in the result",
        ),
    ],
)
def test_what_the_replay_gives_otherwise_is_named(change, message, played, tmp_path):
    found = verify(falsified(played, tmp_path, change), played / "r.npz")
    assert not found.ok
    assert sum(found.same.values()) < 6
    assert re.match(message, found.difference)


# A file that does not agree with itself.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda data: data["tasks"][1]["success_once"].update(value=0.9),
            "do not follow from its episodes: tasks, push-v3, success_once, value is 0.0, got 0.9",
        ),
        (
            lambda data: data["overall"]["mean"]["return"].update(high=1e9),
            "overall, mean, return, high is ",
        ),
        (lambda data: data.pop("overall"), "from its episodes: overall is missing"),
        (
            lambda data: data["tasks"].append({"task": "x"}),
            "do not follow from its episodes: tasks",
        ),
        (episode(0, episode_return=float("nan")), "episode_return of an episode must be of the"),
        (episode(0, success_once=1), "success_once of an episode must be of the type bool"),
        (lambda data: data.update(resamples=10**12), "at most 100,000 resamples are drawn"),
        (lambda data: data.update(provenance=None), "it was saved without evidence"),
        (lambda data: data["provenance"].pop("goals"), "expected provenance with"),
        (lambda data: data.update(format="mtwrappers.EvaluationResult/2"), "is not a result"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change, message, played, tmp_path):
    data = json.loads((played / "r.json").read_text())
    change(data)
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", played / "r.npz")
    for text in ("", "[" * 10**5, "{"):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(VerificationError, match="is not a result"):
            verify(tmp_path / "r.json", played / "r.npz")


# Changed evidence.


def test_changed_actions_are_named_by_the_first_episode_that_comes_out_otherwise(played, tmp_path):
    actions = dict(read_evidence(played / "r.npz"))
    path = tmp_path / "other.npz"

    def verified(**change):
        np.savez(path, **{**actions, **change})
        return verify(played / "r.json", path).difference

    nudged = actions["push-v3/1"].copy()
    nudged[3, 0] = np.nextafter(nudged[3, 0], np.float32(0))  # which only rounds returns
    assert "r.npz are not" in verified(**{"push-v3/1": nudged}).replace("other.npz", "r.npz")
    nudged[3, 0] *= 0.99
    assert verified(**{"push-v3/1": nudged}).startswith("push-v3, episode 1: episode_return is ")
    swapped = {"reach-v3/0": actions["reach-v3/1"], "reach-v3/1": actions["reach-v3/0"]}
    assert verified(**swapped).startswith("reach-v3, episode 0: ")


def test_evidence_that_does_not_go_with_the_result_is_refused(played, tmp_path):
    actions = dict(read_evidence(played / "r.npz"))
    path = tmp_path / "other.npz"
    for change, message in (
        ({"push-v3/1": actions["push-v3/1"][:-1]}, "push-v3, episode 1 has 8 steps, and the evid"),
        ({"push-v3/3": actions["push-v3/1"]}, "has actions of 'push-v3/3', not an episode of it"),
        ({"push-v3/1": actions["push-v3/1"].astype(float)}, "has actions of several kinds"),
        ({k: own[:, :3] for k, own in actions.items()}, "expected actions of shape"),
    ):
        np.savez(path, **{**actions, **change})
        with pytest.raises(VerificationError, match=message):
            verify(played / "r.json", path)


def test_actions_that_make_no_difference_are_not_those_of_the_result_either(tmp_path):
    make = functools.partial(scripted, [{"name": "a"}])
    evaluate(drawn, make(), 1, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")

    def second_number(own):
        return {name: own * [1.0, 0.5] for name, own in own.items()}  # which pays nothing

    _write(tmp_path / "r.npz", second_number)
    found = verify(tmp_path / "r.json", envs=make())
    assert found.same == {"a": 1}
    assert "are not those that the result was saved with" in found.difference
