"""`verify`: what is true is confirmed, and every forgery is false, refused, or said by the file."""

import dataclasses
import functools
import json
import os
import platform
import re
import subprocess
import sys
import tracemalloc
from contextlib import closing, suppress

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    EnvToMTEnv,
    FlattenMTEnv,
    PointGoalEnv,
    as_vector,
    evaluate,
    few_shot_evaluate,
    protocols,
)
from mtwrappers.evaluation import (
    EvaluationResult,
    EvidenceError,
    VerificationError,
    load_results,
    save_results,
    verify,
)
from mtwrappers.evaluation.evidence import digest, read_evidence, read_journal
from tests.evaluation.fakes import drawn, scripted
from tests.fakes import ROOT

ID = "mtwrappers/CustomMT-v0"
SETTINGS = {"train_classes": ["reach-v3", "push-v3"], "num_goals": 4, "max_episode_steps": 8}
TRIALS = "mtwrappers/CustomML-test-v0"
OF_TRIALS = {"train_classes": ["reach-v3"], "test_classes": ["pick-place-v3", "door-open-v3"]}
STREAM = functools.partial(
    gymnasium.make, "mtwrappers/CW10-v0", steps_per_task=4, max_episode_steps=3
)


# Of an expert of drawer-close on the first goal.
STEPS_TO_SUCCESS = 79


def act(observations, rng):
    return np.array([generator.uniform(-1, 1, 4) for generator in rng], np.float32)


class Adapts:
    """Random actions, which adaptation scales."""

    def begin_trial(self):
        self.scale = 1.0

    def adapt(self, paths):
        self.scale /= 2

    def __call__(self, observations, rng):
        return self.scale * act(observations, rng)


class Remembers(Adapts):
    adapt = None


def plain(where):
    with closing(gymnasium.make_vec(ID, **SETTINGS)) as envs:
        result = evaluate(act, envs, 3, seed=5, evidence=where / "r.npz")
    result.described(policy="random", training_seed=1, note="a note").save(where / "r.json")


def ruled(where):
    """By a protocol, with an expert that succeeds."""
    from mtwrappers.metaworld.experts import expert

    short = protocols["metaworld-3.1"].variant(
        "short",
        **{"benchmark": "MT1", "env_name": "drawer-close-v3", "num_goals": 5},
        **{"episodes_per_task": 5, "max_episode_steps": 150},
    )
    policy = expert("drawer-close-v3")
    result = short.evaluate(
        lambda obs: policy(obs[0], obs[0, 36:39])[None], evidence=where / "r.npz"
    )
    assert result.headline["mean over tasks"].value == 1.0
    result.save(where / "r.json")


def few_shot(where, policy=None, **kwargs):
    with closing(gymnasium.make_vec(TRIALS, max_episode_steps=6, **OF_TRIALS, **kwargs)) as envs:
        result = few_shot_evaluate(
            policy or Adapts(), envs, 2, 2, 1, seed=5, evidence=where / "r.npz"
        )
    result.save(where / "r.json")


def continual(where):
    from mtwrappers.continual.evaluate import PhaseEvaluator

    evaluator = PhaseEvaluator(STREAM, 1, phases=[0, 3], evidence=where / "r.npz")
    for step in (0, 4):
        evaluator(act, step)
    evaluator.close()
    save_results(where / "r.json", evaluator.results)


KINDS = {"plain": plain, "ruled": ruled, "few_shot": few_shot, "continual": continual}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A directory for each kind with a true result and its evidence."""
    folders = {}
    for name, make in KINDS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        make(folders[name])
    return folders


def forged(where, to, change):
    """A changed copy of a file, with the score that follows from it; its evidence stays."""
    data = json.loads((where / "r.json").read_text())
    first = data[0] if isinstance(data, list) else data
    change(first)
    if "score" in first:
        with suppress(ValueError, KeyError):
            first["score"] = EvaluationResult.from_dict(first).to_dict()["score"]
    (to / "r.json").write_text(json.dumps(data))
    for path in where.glob("*.npz"):
        (to / path.name).write_bytes(path.read_bytes())
    return to / "r.json"


# What is true.


@pytest.mark.parametrize("settings", [{}, {"workers": 2}, {"sample": 0.1}])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow_but("settings0", "plain-settings1", "few_shot-settings2")
def test_what_is_true_is_confirmed(settings, kind, played):
    verification = verify(played[kind] / "r.json", **settings)
    assert verification.ok, verification.difference
    assert verification.rounding == 0.0
    assert verification.same == verification.replayed
    expected = {
        "plain": {"reach-v3": 3, "push-v3": 3},
        "ruled": {"drawer-close-v3": 5},
        "few_shot": {"pick-place-v3": 6, "door-open-v3": 6},
        "continual": {"0 hammer-v3": 2, "3 push-back-v3": 2},
    }
    if "sample" not in settings:
        assert verification.same == expected[kind]
    assert [*verification.results] == load_results(played[kind] / "r.json")


@pytest.mark.parametrize(
    ("policy", "kwargs"), [(Adapts(), {"envs_per_task": 2}), (Remembers(), {"envs_per_task": 2})]
)
@pytest.mark.parametrize("goals", ["list", "continuous"])
@pytest.mark.slow_but("list-policy0-kwargs0", "continuous-policy1-kwargs1")
def test_environments_that_share_trials_are_made_again_as_they_were(
    policy, kwargs, goals, tmp_path
):
    few_shot(tmp_path, policy, goals=goals, **kwargs)
    assert verify(tmp_path / "r.json", workers=2).ok


@pytest.mark.parametrize(
    ("env_id", "settings", "forged_number"),
    [
        ("PointGoal-v0", {"num_envs": 6, "meta_batch_size": 3}, 3),
        ("Bandit-v0", {"num_envs": 4, "meta_batch_size": 2}, 2),
        ("PointRobot-v0", {"num_envs": 40, "tasks": "test"}, 20),
    ],
)
def test_a_number_of_environments_that_share_tasks_is_said_by_the_file(
    env_id, settings, forged_number, tmp_path
):
    with closing(gymnasium.make_vec(f"mtwrappers/{env_id}", **settings)) as envs:
        space = envs.single_action_space
        still = np.zeros(space.shape, space.dtype)
        if env_id == "PointGoal-v0":  # whose resets draw no tasks
            envs.set_tasks(envs.call("sample_tasks", 3)[0])
        result = evaluate(
            lambda obs: np.stack([still] * len(obs)), envs, 2, evidence=tmp_path / "r.npz"
        )
    result.save(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    data["environments"]["kwargs"]["num_envs"] = forged_number
    (tmp_path / "r.json").write_text(json.dumps(data))
    verification = verify(tmp_path / "r.json")
    assert verification.ok
    assert verification.said_by_file[0]["num_envs"] == forged_number


def test_environments_of_ones_own_are_given(tmp_path):
    make = functools.partial(scripted, [{"name": "a", "lengths": (3, 5), "success_at": 4}], k=2)
    evaluate(drawn, make(), 6, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    message = r"it does not say how to make its env.*envs=\.\.\."
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json")
    assert verify(tmp_path / "r.json", envs=make()).same == {"a": 6}
    longer = scripted([{"name": "a", "lengths": (7,), "success_at": 4}], k=2)
    verification = verify(tmp_path / "r.json", envs=longer)
    assert verification.same == {"a": 0}
    assert verification.difference == "a, episode 0 does not end in the replay after its 3 steps"
    shorter = scripted([{"name": "a", "lengths": (2,)}], k=2)
    assert "length is 2 in the replay, 3" in verify(tmp_path / "r.json", envs=shorter).difference


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"workers": -3}, ValueError, "workers must be zero or a positive integer, got -3"),
        ({"workers": "two"}, ValueError, "workers must be zero or a positive integer, got 'two'"),
        ({"envs": 1, "workers": 3}, TypeError, "workers are for environments made by this call"),
    ],
)
def test_workers_are_checked_before_the_file_is_read(arguments, error, message, tmp_path):
    with pytest.raises(error, match=message):
        verify(tmp_path / "missing.json", **arguments)


@pytest.mark.filterwarnings("ignore:evaluates 1 of 2 tasks")
def test_tasks_that_are_not_metaworlds_are_task_states(tmp_path):
    goals = [{"goal": (0.5, 0.0)}, {"goal": (0.0, 0.5)}]
    env = EnvToMTEnv(gymnasium.wrappers.TimeLimit(PointGoalEnv(), 3), goals)
    with closing(as_vector([lambda: FlattenMTEnv(env)])) as envs:
        evaluate(
            lambda observations: np.full((1, 2), 0.1), envs, 2, evidence=tmp_path / "r.npz"
        ).save(tmp_path / "r.json")
        verification = verify(tmp_path / "r.json", envs=envs)
        assert "steps to success and task states are equal" in str(verification)
        data = json.loads((tmp_path / "r.json").read_text())
        data["episodes"][1]["task_state"] = 1
        (tmp_path / "r.json").write_text(json.dumps(data))
        with pytest.raises(VerificationError, match="must have the task state 0, got 1"):
            verify(tmp_path / "r.json", envs=envs)


def test_a_normalization_that_the_replayed_returns_exceed_is_an_error_of_the_file(tmp_path):
    make = functools.partial(scripted, [{"name": "a", "lengths": (3,)}])
    result = evaluate(drawn, make(), 1, evidence=tmp_path / "r.npz")
    [episode] = result.episodes
    assert episode.episode_return != 0.0
    forged_result = dataclasses.replace(
        result,
        episodes=(dataclasses.replace(episode, episode_return=0.0),),
        normalization={"a": (0.0, 1e-308)},
    )
    forged_result.save(tmp_path / "r.json")
    with pytest.raises(VerificationError, match=r"it cannot be replayed: .*finite"):
        verify(tmp_path / "r.json", envs=make())


# What is said.


@pytest.mark.parametrize("workers", [1, 2])
def test_of_chosen_classes_no_other_is_made(workers, tmp_path, monkeypatch):
    with closing(gymnasium.make_vec("mtwrappers/MT10-v0", max_episode_steps=4)) as envs:
        result = evaluate(act, envs, 2, tasks=["push-v3"], evidence=tmp_path / "r.npz")
    result.save(tmp_path / "r.json")
    monkeypatch.setattr(gymnasium, "make_vec", lambda *args, **kwargs: pytest.fail("of all"))
    assert verify(tmp_path / "r.json", workers=workers).replayed == {"push-v3": 2}


@pytest.mark.parametrize("name", ["lr-0.5", "ppo.v2", "ppo.v2.json"])
def test_evidence_is_found_by_the_name_of_its_result_dots_included(name, played, tmp_path):
    (tmp_path / name).write_bytes((played["plain"] / "r.json").read_bytes())
    evidence = f"{name.removesuffix('.json')}.npz"
    (tmp_path / evidence).write_bytes((played["plain"] / "r.npz").read_bytes())
    assert verify(tmp_path / name).ok


def test_what_the_replay_shows_and_what_only_the_file_says_are_printed(played):
    verification = verify(played["ruled"] / "r.json")
    lines = str(verification).splitlines()
    rules = verification.result.protocol
    assert lines[0] == f"protocol          short ({rules.digest[:10]}, not a published protocol)"
    assert lines[1].startswith('environments      id="mtwrappers/MT1-v0", benchmark="MT1",')
    assert "design            seed=0, episodes_per_task=5" in lines
    assert "replayed          5 of 5 episodes" in lines
    assert lines[-2:] == ["verified:", "mean over 1 task  1.000  0.566 to 1.000 (95%)"]
    assert max(map(len, lines)) <= 80
    text = str(verify(played["plain"] / "r.json", sample=0.4))
    assert 'said by the file  policy="random", training_seed=1, note="a note"' in text
    assert "replayed          4 of 6 episodes" in text
    assert "returns are equal to the last bit\nverified, as far as it was replayed:\n" in text
    assert text.endswith("\nsuccess at any step 0.000 (0.000 to 0.390, 95%), mean over 2 tasks")


@pytest.mark.parametrize(
    ("factor", "ok"), [(1 + 3e-16, True), (1 + 9e-10, True), (1 + 2e-9, False)]
)
def test_returns_may_differ_by_rounding_which_is_said(factor, ok, played, tmp_path):
    def change(data):
        for episode_data in data["episodes"]:
            episode_data["episode_return"] *= factor

    verification = verify(forged(played["plain"], tmp_path, change))
    assert verification.ok is ok
    if ok:
        match = re.search(
            r"equal but for rounding, at most (\S+): another processor\n", str(verification)
        )
        assert 0 < verification.rounding <= float(match[1]) < 3 * verification.rounding
        elsewhere = dataclasses.replace(verification, versions={"numpy": ("1", "2")})
        assert ": other versions or another\nprocessor\n" in str(elsewhere)
    else:
        assert verification.same == {"reach-v3": 0, "push-v3": 0}


PLAYED_ELSEWHERE = """
import pathlib, sys
from tests.evaluation.test_verify import plain
plain(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other kernels")
@pytest.mark.slow
def test_results_of_other_processors_are_confirmed(tmp_path):
    for kernel in ("Nehalem", "Haswell"):
        (place := tmp_path / kernel).mkdir()
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_CORETYPE": kernel}
        code = [sys.executable, "-c", PLAYED_ELSEWHERE, str(place)]
        subprocess.run(code, env=env, timeout=120, check=True)
        assert verify(place / "r.json").ok


# What is not true: every field, one at a time.


def list_fields(data, path=()):
    """The path of every field in JSON; of the entries of a list, the first and the last."""
    if path:
        yield path
    if isinstance(data, dict):
        for key in data:
            yield from list_fields(data[key], (*path, key))
    elif isinstance(data, list):
        for i in {0, len(data) - 1} if data else ():
            yield from list_fields(data[i], (*path, i))


def get_field(data, path):
    """The value of a field."""
    for key in path:
        data = data[key]
    return data


def set_field(data, path, value):
    """Changes the value of a field."""
    get_field(data, path[:-1])[path[-1]] = value


def name_field(path):
    """The name of a field, whichever entry of a list it is in: "episodes.length"."""
    return ".".join(key for key in path if isinstance(key, str))


def false_values(value):
    """Other values than that of a field: one of its type, and None."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case float():
            yield value * 1.001 + 0.5
        case str():
            yield f"{value}x"
        case list() if value:
            yield value[:-1]
        case dict():
            yield {**value, "x": 1}
    yield 1 if value is None else None


def verdict(path):
    """How `verify` judges a file: "false", "refused", or the report that it prints."""
    try:
        verification = verify(path)
    except (VerificationError, EvidenceError) as exc:
        return "refused" if len(str(exc).splitlines()) == 1 else "several lines"
    return str(verification) if verification.ok else "false"


def said_by_the_file(report):
    """The part of a report that no replay depends on, and the line of the protocol."""
    fields = report.partition("said by the file")[2].partition("\nreplayed")[0]
    return report.splitlines()[0], fields


# The fields that no replay depends on, beside the description and the versions.
MODE = "environments.kwargs.vectorization_mode"
SAID = {
    "plain": {MODE},
    "ruled": {
        MODE,
        "environments.kwargs.seed",
        "environments.kwargs.workers",
        "protocol",
        "protocol.name",
        "protocol.source",
    },
    "few_shot": {MODE, "design.adapts"},
    "continual": set(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow_but("plain")
def test_each_forged_field_is_false_refused_or_said_by_the_file(kind, played, tmp_path):
    data = json.loads((played[kind] / "r.json").read_text())
    first = data[0] if isinstance(data, list) else data
    true_report = verdict(played[kind] / "r.json")
    said_fields, unnoticed = set(), []
    for field in list_fields(first):
        if field[0] in ("score", "format"):
            continue
        for value in false_values(get_field(first, field)):
            change = functools.partial(set_field, path=field, value=value)
            report = verdict(forged(played[kind], tmp_path, change))
            if report in ("false", "refused"):
                continue
            said_fields.add(name_field(field))
            # In the arguments of environments, None stands for their default.
            is_default = field[:2] == ("environments", "kwargs") and value is None
            if said_by_the_file(report) == said_by_the_file(true_report) and not is_default:
                unnoticed.append(f"{name_field(field)} = {value!r}: {report}")
    assert unnoticed == []
    fields = {
        field for field in said_fields if field.split(".")[0] not in ("description", "versions")
    }
    assert fields == SAID[kind]


def one_goal(where, steps, ends):
    """One goal, which an expert reaches in 79 steps."""
    from mtwrappers.metaworld.experts import expert_actions

    settings = {"env_name": "drawer-close-v3", "num_goals": 1, "idle_steps": 0}
    settings |= {"max_episode_steps": steps, "terminate_on_success": ends}
    act = functools.partial(expert_actions, ["drawer-close-v3"])
    with closing(gymnasium.make_vec("mtwrappers/MT1-v0", **settings)) as e:
        result = evaluate(act, e, 2, evidence=where / "r.npz")
    assert [episode.steps_to_success for episode in result.episodes] == [STEPS_TO_SUCCESS] * 2
    result.save(where / "r.json")


def one_class(where):
    """One of the two classes."""
    with closing(gymnasium.make_vec(ID, seed=0, **SETTINGS)) as envs:
        evaluate(act, envs, 3, tasks=["reach-v3"], evidence=where / "r.npz").save(where / "r.json")


def given_tasks(where):
    """Trials on tasks that are given."""
    settings = {"env_name": "reach-v3", "num_goals": 4, "seed": 0, "max_episode_steps": 3}
    with closing(gymnasium.make_vec("mtwrappers/ML1-train-v0", **settings)) as envs:
        trials = [[2], [1]]
        few_shot_evaluate(Adapts(), envs, trials, 1, 1, evidence=where / "r.npz").save(
            where / "r.json"
        )


def no_reward(where):
    """Of new goals, without any reward, because the drawer is not touched."""
    settings = {"env_name": "drawer-close-v3", "goals": "continuous", "max_episode_steps": 3}
    settings |= {"reward_function_version": "v2", "action_repeat": 1, "idle_steps": 0}
    with closing(gymnasium.make_vec("mtwrappers/MT1-v0", **settings)) as envs:
        result = evaluate(lambda obs: np.zeros((len(obs), 4)), envs, 2, evidence=where / "r.npz")
    assert [episode.episode_return for episode in result.episodes] == [0.0, 0.0]
    result.save(where / "r.json")


@pytest.mark.parametrize(
    ("make", "said_fields", "replayed"),
    [
        (
            no_reward,
            ["reward_function_version", "action_repeat", "idle_steps", "design_seed"],
            ["goals", "env_name", "max_episode_steps", "episodes_per_task"],
        ),
        (
            functools.partial(one_goal, steps=STEPS_TO_SUCCESS, ends=True),
            ["design_seed", "terminate_on_success", "max_episode_steps"],
            ["num_goals", "idle_steps", "id", "goals_digest"],
        ),
        (
            functools.partial(one_goal, steps=STEPS_TO_SUCCESS, ends=False),
            ["design_seed", "terminate_on_success"],
            ["max_episode_steps"],
        ),
        (
            functools.partial(one_goal, steps=STEPS_TO_SUCCESS + 5, ends=True),
            ["max_episode_steps"],
            ["terminate_on_success"],
        ),
        (
            functools.partial(one_goal, steps=STEPS_TO_SUCCESS + 5, ends=False),
            [],
            ["max_episode_steps", "terminate_on_success"],
        ),
        (
            one_class,
            ["train_classes", "id", "benchmark", "goals_digest"],
            ["num_goals", "seed", "tasks"],
        ),
        (
            given_tasks,
            ["design_seed", "num_goals", "design_episodes_per_task", "design_adapts"],
            ["seed", "trials", "trial_tasks", "env_name"],
        ),
        (
            few_shot,
            ["train_classes", "design_adaptation_steps", "design_adaptation_episodes"],
            ["test_classes", "seed", "trials"],
        ),
        (
            continual,
            ["id", "sequence", "steps_per_task", "design_phases"],
            ["tasks", "episodes_per_task", "seed"],
        ),
    ],
)
def test_what_no_replay_of_a_result_depends_on_is_said_by_the_file(
    make, said_fields, replayed, tmp_path
):
    make(where=tmp_path)
    verification = verify(tmp_path / "r.json")
    assert verification.ok
    replayed_text, _, said_text = str(verification).partition("said by the file")
    for name in said_fields:
        assert re.search(rf"\b{name}=", said_text), name
        assert not re.search(rf"[ ,]{name}=", replayed_text), name
    for name in replayed:
        assert re.search(rf"\b{name}=", replayed_text), name


def test_what_only_episodes_that_were_not_replayed_depend_on_is_said_by_the_file(played):
    verification = verify(played["ruled"] / "r.json")
    assert "terminate_on_success=" in str(verification).partition("said by the file")[0]
    none = dataclasses.replace(verification, episodes=((),))
    assert "terminate_on_success=" in str(none).partition("said by the file")[2]


def episode(i, **change):
    return lambda data: data["episodes"][i].update(change)


def order(*places):
    def change(data):
        data["episodes"] = [data["episodes"][i] for i in places]

    return change


def kwargs(**change):
    return lambda data: data["environments"]["kwargs"].update(change)


def change_id(env_id):
    return lambda data: data["environments"].update(id=env_id)


def design(**change):
    return lambda data: data["design"].update(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (episode(1, length=7), "reach-v3, episode 1 has 7 steps, and the evidence 8 actions"),
        (
            episode(1, task_state=3),
            "with its seed 5, reach-v3, episode 1 must have the goal ., got 3; if the file",
        ),
        (episode(1, task="sweep-v3"), "sweep-v3, episode 1 has 8 steps, and the evidence 0"),
        (order(0, 1, 2, 3, 4), "the evidence has actions of 'push-v3/2', not an episode of it"),
        (order(0, 1, 2, 3, 4, 5, 5), "episodes must differ, got 'push-v3', episode 2 twice"),
        (order(1, 0, 2, 3, 4, 5), "expected reach-v3, episode 0, got reach-v3, episode 1"),
        (design(seed=6), "with its seed 6, reach-v3, episode . must have the goal"),
        (
            design(episodes_per_task=2),
            "its 6 episodes must be the 4 of its plan: expected push-v3, episode 0, got r",
        ),
        (design(episodes_per_task=10**6), "it has 6 of 2,000,000 episodes"),
        (design(trials=1), "adaptation_episodes must be a positive integer, got 0"),
        (lambda data: data.pop("score"), "its score is 'success at any step 0.000 .*, got 'None'"),
        (
            lambda data: data.update(format="0"),
            "expected an evaluation of the format '.*', got '0'",
        ),
        (lambda data: data.update(evidence=None), "it was saved without evidence"),
        (
            lambda data: data["environments"].update(goals="0"),
            "goals.* digest '0', got '.*'; if th",
        ),
        (kwargs(num_goals=10**9), "num_goals must be at most 1,000, got 1,000,000,000"),
        (
            kwargs(total_tasks_per_cls=20_000, num_goals=10**6),
            "num_goals must be at most 1,000, got 20,000",
        ),
        (kwargs(wrappers="Half"), "environments: wrappers must be a list of names, got 'Half'"),
        (design(tasks=["reach-v3"] * 2), "tasks must differ, got 'reach-v3' 2 times"),
        (kwargs(benchmark="MT1"), "has benchmark 'CustomMT', got 'MT1'"),
        (kwargs(nonsense=1), "it cannot be replayed: .* unexpected keyword argument 'nonsense'"),
        (change_id("mtwrappers/MultiEnv-v0"), "and a results file never decides which code"),
        (episode(0, episode_return=float("nan")), "episode_return must be of the type float"),
        (episode(0, more=1), "cannot have 'more'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change, message, played, tmp_path):
    with pytest.raises(VerificationError, match=message):
        verify(forged(played["plain"], tmp_path, change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (episode(3, success_once=True), "push-v3, episode 0: success_once is False in the replay"),
        (kwargs(reward_function_version="v1"), "reach-v3, episode 0: episode_return is"),
        (kwargs(max_episode_steps=7), "reach-v3, episode 0: length is 7 in the replay, 8 in the"),
    ],
)
def test_what_the_replay_gives_otherwise_is_named(change, message, played, tmp_path):
    verification = verify(forged(played["plain"], tmp_path, change))
    assert verification.difference.startswith(message)
    lines = str(verification).splitlines()
    assert max(map(len, lines)) <= 80
    [*counts, last] = lines[lines.index("") + 1 :]
    outcome = " ".join(line.strip() for line in counts)
    assert re.match(r"\S+: \d of 3 the same ", outcome)
    edited = "; if the file was edited, verify it as save() wrote it"
    assert outcome.endswith(f"false: {verification.difference}{edited}")
    same = sum(verification.same.values())
    assert last == f"not verified: {same} of 6 episodes gave the same numbers"


def test_another_version_is_no_reason_to_refuse_and_is_named(played, tmp_path):
    def change(data):
        data["versions"].update(numpy="9.9.9", other="1")

    verification = verify(forged(played["plain"], tmp_path, change), sample=0)
    assert verification.ok
    assert verification.versions["numpy"] == ("9.9.9", np.__version__)
    assert 'numpy="9.9.9, here ' in str(verification)


# Evidence.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {"push-v3/1": data["push-v3/1"] * 0.9}, "push-v3, episode 1: episode_return"),
        (lambda data: {"reach-v3/0": data["reach-v3/1"]}, "reach-v3, episode 0: "),
        (lambda data: {"push-v3/1": data["push-v3/1"][:-1]}, "8 steps, and the evidence 7 actions"),
        (lambda data: {"push-v3/3": data["push-v3/1"]}, "actions of 'push-v3/3', not an episode"),
        (lambda data: {"push-v3/1": data["push-v3/1"].astype(float)}, "actions of several kinds"),
        (lambda data: {k: a[:, :3] for k, a in data.items()}, "it cannot be replayed: "),
        (lambda data: {"push-v3/1": data["push-v3/1"] * np.nan}, "has actions that are NaN"),
    ],
)
def test_changed_actions_are_found(change, message, played, tmp_path):
    actions = dict(read_evidence(played["plain"] / "r.npz"))
    np.savez(tmp_path / "other.npz", **{**actions, **change(actions)})
    try:
        text = verify(played["plain"] / "r.json", tmp_path / "other.npz").difference
    except (VerificationError, EvidenceError) as exc:
        text = str(exc)
    assert message in text


def test_actions_that_make_no_difference_are_not_those_of_the_result_either(tmp_path):
    make = functools.partial(scripted, [{"name": "a"}])
    evaluate(drawn, make(), 1, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    actions = read_evidence(tmp_path / "r.npz")
    halved = {name: array * [1.0, 0.5] for name, array in actions.items()}  # which pays nothing
    assert digest(halved) != digest(actions)
    np.savez(tmp_path / "r.npz", **halved)
    verification = verify(tmp_path / "r.json", envs=make())
    assert verification.same == {"a": 1}
    assert "are not those that the result was saved with" in verification.difference


ENDS = ("false", "refused")


@pytest.mark.parametrize("name", ["r.json", "r.npz"])
def test_a_mutated_file_is_an_error_of_one_line_or_changes_nothing(name, played, tmp_path):
    """25 files, each with some bytes changed, cut or doubled."""
    rng, where = np.random.default_rng(0), played["plain"]
    kinds = set()
    data, tracing = (where / name).read_bytes(), tracemalloc.start()
    assert tracing is None
    for _ in range(25):
        mutated = bytearray(data)
        at = int(rng.integers(len(mutated)))
        match rng.integers(4):
            case 0:
                mutated[at] = int(rng.integers(256))
            case 1:
                del mutated[at : at + int(rng.integers(1, 200))]
            case 2:
                mutated[at:at] = mutated[at : at + int(rng.integers(1, 200))]
            case 3:
                mutated[at:at] = b"999999999"
        for file_name in ("r.json", "r.npz"):
            (tmp_path / file_name).write_bytes(
                bytes(mutated) if file_name == name else (where / file_name).read_bytes()
            )
        report = verdict(tmp_path / "r.json")
        kinds.add(report if report in ENDS else "ok")
        if name == "r.npz":
            with suppress(EvidenceError):
                read_journal(tmp_path / name, {}, [])
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()
    assert kinds <= {*ENDS, "ok"}
    assert "refused" in kinds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "expected an evaluation in JSON") for text in ("", "[" * 10**5, "{")),
        ('{"a": 1, "a": 2}', "expected an evaluation in JSON"),
        ("[]", "it has no result"),
        ("3", "expected an evaluation"),
    ],
)
def test_what_is_no_result_is_refused(text, message, played, tmp_path):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", played["plain"] / "r.npz")
