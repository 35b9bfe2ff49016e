"""Results from anywhere: nothing hangs, nothing crashes, and nothing draws on the terminal."""

import copy
import json
import os
import random
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from mtwrappers import evaluate, few_shot_evaluate
from mtwrappers.cli import main
from mtwrappers.common.errors import is_printable, printable
from mtwrappers.evaluation import (
    EvaluationResult,
    EvidenceError,
    FewShotResult,
    IncomparableError,
    Observer,
    VerificationError,
    compare,
    verify,
)
from mtwrappers.evaluation.evidence import digest, read_evidence
from tests.evaluation.fakes import drawn, scripted
from tests.evaluation.test_verify_few_shot import Adapts
from tests.fakes import ROOT

# Clears the screen and draws an answer.
FORGED = "\33[2J\33[Hverified: 50 of 50 episodes gave the same numbers"
CLASSES = {"train_classes": ["reach-v3", "push-v3"], "num_goals": 3, "max_episode_steps": 5}


def act(observations, rng):
    return np.array([own.uniform(-1, 1, 4) for own in rng], np.float32)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A directory with true results: of one class, of several, of few-shot trials."""
    where = tmp_path_factory.mktemp("played")
    for name, env_id, kwargs in (
        ("one", "MT1", {"goals": "continuous", "idle_steps": 2, "max_episode_steps": 5}),
        ("many", "CustomMT", CLASSES),
        ("meta", "CustomML-train", {**CLASSES, "test_classes": ["sweep-v3"], "num_envs": 4}),
    ):
        envs = gymnasium.make_vec(f"mtwrappers/{env_id}-v0", **kwargs)
        result = evaluate(act, envs, 2, evidence=where / f"{name}.npz", policy_name=name)
        envs.close()
        result.save(where / f"{name}.json")
    envs = gymnasium.make_vec(
        "mtwrappers/CustomML-test-v0",
        test_classes=["sweep-v3", "door-open-v3"],
        num_goals=2,
        max_episode_steps=5,
    )
    result = few_shot_evaluate(Adapts(), envs, 2, 1, 1, evidence=where / "few.npz")
    envs.close()
    result.save(where / "few.json")
    return where


@pytest.fixture
def within_a_minute():
    """Fails a test that hangs."""

    def late(*_):
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def changed(played, where, change, name="many"):
    """A changed copy of a result, whose numbers follow from its episodes if that can be."""
    data = json.loads((played / f"{name}.json").read_text())
    change(data)
    try:
        kind = FewShotResult if name == "few" else EvaluationResult
        data = kind.from_dict(data).to_dict()
    except ValueError:  # which is to be found out from the file
        pass
    (where / "r.json").write_text(json.dumps(data))
    return where / "r.json"


def provenance(data):
    return (data if "provenance" in data else data["evaluation"])["provenance"]


def kwargs(**given):
    return lambda data: provenance(data)["spec"]["kwargs"].update(given)


def origin(**given):
    return lambda data: provenance(data).update(given)


# Text.


def test_what_draws_nothing_or_moves_what_is_drawn_is_escaped():
    assert printable("push-v3, naïve, 技能, שלום, e\u0301") == "push-v3, naïve, 技能, שלום, e\u0301"
    for text, escaped in (
        ("a\33[2J\r\n\t\x9b", r"a\x1b[2J\r\n\t\x9b"),
        ("\u202e\u2066\u200f\u061c", r"\u202e\u2066\u200f\u061c"),
        (
            "a\u200b\u200d\ufeff\u2060\u3164\ufe0f\u2800",
            r"a\u200b\u200d\ufeff\u2060\u3164\ufe0f\u2800",
        ),
        ("a\u00a0\u2028\u3000", r"a\xa0\u2028\u3000"),
        ("\ud800\U000e0041", r"\ud800\U000e0041"),
    ):
        assert printable(text) == escaped
        assert not is_printable(text)
        assert is_printable(escaped)


FORGERIES = {
    "policy": origin(policy=FORGED),
    "a version": lambda data: data["provenance"]["versions"].update(numpy=FORGED),
    "the name of a version": lambda data: data["provenance"]["versions"].update({FORGED: "1"}),
    "tasks": origin(tasks=[FORGED]),
    "a task": lambda data: data["episodes"][0].update(task=FORGED),
    "an argument": kwargs(camera_name=FORGED),
    "an id": lambda data: data["provenance"]["spec"].update(id=FORGED),
    "an unknown key": lambda data: data.update({FORGED: 1}),
    "a protocol": origin(protocol={"name": FORGED}),
    "evidence": origin(evidence=FORGED),
    "the format": lambda data: data.update(format=FORGED),
    "a zero-width space": origin(policy="mine\u200b"),
    "another direction": origin(policy="\u202edeifirev"),
    "a lone surrogate": origin(policy="\ud800"),
}


@pytest.mark.parametrize("command", ["verify", "compare"])
@pytest.mark.parametrize("what", FORGERIES)
def test_no_file_writes_to_the_terminal_what_it_likes(what, command, played, tmp_path, capsys):
    data = json.loads((played / "many.json").read_text())
    FORGERIES[what](data)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    others = {"verify": ["--evidence", played / "many.npz"], "compare": [played / "many.json"]}
    with pytest.raises(SystemExit):
        main([command, *map(str, [path, *others[command]])])
    said = "".join(capsys.readouterr())
    assert all(map(is_printable, said.splitlines()))
    assert len(said) < 3000
    with pytest.raises(ValueError, match=r"expected an evaluation in JSON, .* cannot be printed"):
        EvaluationResult.load(path)


def test_the_names_of_files_and_of_their_parts_are_escaped(played, tmp_path, capsys):
    path = tmp_path / f"{FORGED}.json".replace("/", "")
    path.write_text("{}")
    with pytest.raises(SystemExit):
        main(["verify", str(path)])
    path.write_bytes((played / "many.json").read_bytes())
    with pytest.raises(SystemExit):
        main(["verify", str(path)])  # without evidence
    np.savez(tmp_path / "r.npz", **{FORGED: np.zeros((5, 4))})
    with pytest.raises(SystemExit):
        main(["verify", str(path), "--evidence", str(tmp_path / "r.npz")])
    assert all(map(is_printable, "".join(capsys.readouterr()).splitlines()))


@pytest.mark.parametrize("name", [FORGED, "mine\u200b", "a\nb"])
def test_a_name_that_cannot_be_printed_is_refused_before_anything_is_played(name):
    for evaluation in (
        lambda: evaluate(drawn, scripted([{}]), 1, policy_name=name),
        lambda: evaluate(drawn, scripted([{"name": name}]), 1),
    ):
        with pytest.raises(ValueError, match="must be printable, got '"):
            evaluation()


# Keys.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"seed": 0,', '"seed": 0, "score": 1.0,', "score does not belong there"),
        ('"headline": null', '"headline": null, "headline": null', "the key 'headline' twice"),
        ('"policy": "many"', '"policy": "theirs", "policy": "many"', "the key 'policy' twice"),
        ('"mean": {', '"best": 1.0, "mean": {', "overall, best does not belong there"),
        ('"value": 5.0', '"value": 5.0, "std": 0', "std does not belong there"),
        ('"number": 0', '"number": 0, "expert": true', "expected an episode, got "),
        ('"kwargs": {', '"score": 1.0, "kwargs": {', "spec of the provenance cannot be"),
        ('"versions": {', '"note": "", "versions": {', "expected provenance with"),
        (
            '"seed": 0,',
            '"rollout": {"score": 1.0}, "seed": 0,',
            "a rollout does not record {'score'",
        ),
        (
            '"seed": 0,',
            '"rollout": {"policy": {}}, "seed": 0,',
            "a rollout does not record policy {}",
        ),
    ],
)
def test_unknown_keys_and_keys_that_are_there_twice_are_refused(
    old, new, message, played, tmp_path
):
    text = (played / "many.json").read_text()
    assert old in text
    (tmp_path / "r.json").write_text(text.replace(old, new, 1))
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", played / "many.npz")


def test_no_argument_is_shown_as_the_id(played, tmp_path):
    path = changed(played, tmp_path, kwargs(id="mtwrappers/MT50-v0"))
    with pytest.raises(VerificationError, match="take no argument 'id'"):
        verify(path, played / "many.npz")

    def elsewhere(data):
        data["provenance"]["spec"].update(id="other")
        data["provenance"]["evidence"] = "0" * 64  # two runs never come to the same actions

    other = changed(played, tmp_path, elsewhere)
    results = {
        "a": [EvaluationResult.load(played / "many.json")],
        "b": [EvaluationResult.load(other)],
    }
    with pytest.raises(IncomparableError, match="id mtwrappers/CustomMT-v0 and other"):
        compare(results)


# Sizes.


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("many", origin(episodes_per_task=9_999_999), "it has 4 of 19,999,998 episodes"),
        ("many", kwargs(idle_steps=10**9), "idle_steps must be at most 1,000, got 1,000,000,000"),
        ("many", kwargs(action_repeat=10**9), "action_repeat must be at most 100"),
        (
            "meta",
            kwargs(meta_batch_size=10_000, envs_per_task=10_000),
            "it has 100,000,000 environments for 4 episodes",
        ),
        ("few", kwargs(envs_per_task=100), "it has 200 environments for 8 episodes"),
        (
            "many",
            kwargs(train_classes=[f"c{i}" for i in range(100_000)]),
            "train_classes must have at most 1,000 entries, got 100,000",
        ),
        ("many", origin(tasks=["push-v3"] * 100_000), "it has 4 of 200,000 episodes"),
        ("many", lambda data: data.update(resamples=10**5 + 1), "at most 100,000 resamples"),
        (
            "many",
            lambda data: data.update(
                episodes=[{**data["episodes"][0], "number": i} for i in range(50_001)], tasks=[]
            ),
            "it has 50,001 episodes, of which 2,000 resamples take too long",
        ),
        (
            "many",
            lambda data: data.update(
                episodes=[{**data["episodes"][0], "task": f"{i}"} for i in range(5001)]
            ),
            "its tables have 5,001 rows, more than 5,000",
        ),
        ("few", lambda data: data["trials"].update(trials=10**6), "it has 8 of 4,000,000 episodes"),
        ("few", kwargs(max_episode_steps=10**15), "its trials do not end in the replay after"),
        ("few", kwargs(max_episode_steps=None), "its trials do not end in the replay after"),
    ],
)
def test_what_a_small_file_asks_for_is_counted_before(name, change, message, played, tmp_path):
    data = json.loads((played / f"{name}.json").read_text())
    change(data)
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json", played / f"{name}.npz")


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize("limit", [10**15, None])
def test_an_episode_is_replayed_for_one_step_more_than_it_has_actions(limit, played, tmp_path):
    path = changed(played, tmp_path, kwargs(max_episode_steps=limit))
    found = verify(path, played / "many.npz")
    assert found.difference == "reach-v3, episode 0 does not end in the replay after its 5 steps"
    assert {one.length for one in found.result.episodes} == {6}
    assert found.same == {"reach-v3": 0, "push-v3": 0}


def test_more_steps_than_are_replayed_take_a_smaller_sample(tmp_path, monkeypatch):
    evaluate(drawn, scripted([{}]), 10, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    monkeypatch.setattr(sys.modules[verify.__module__], "_MAX_STEPS", 29)
    with pytest.raises(VerificationError, match="at most 29 are replayed: take a smaller sample"):
        verify(tmp_path / "r.json", envs=scripted([{}]))
    assert verify(tmp_path / "r.json", envs=scripted([{}]), sample=0.9).ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (kwargs(vector_kwargs=5), "take no argument 'vector_kwargs'"),
        (kwargs(wrappers=["os.system"]), "take no argument 'wrappers'"),
        (kwargs(height=10**30, observation="pixels", select={}), "it cannot be replayed: "),
        (lambda data: data["provenance"].update(max_episode_steps=10**30), "cannot be 10000"),
        (lambda data: data["episodes"][0].update(episode_return=10**400), "is not a result: "),
    ],
)
def test_odd_arguments_are_refused_and_not_raised(change, message, played, tmp_path):
    with pytest.raises(VerificationError, match=message):
        verify(changed(played, tmp_path, change), played / "many.npz")


def test_a_protocol_must_have_all_of_its_fields(tmp_path):
    from mtwrappers import protocols

    fields = protocols["metaworld-3.1"].to_dict()
    data = evaluate(drawn, scripted([{}]), 1, evidence=tmp_path / "r.npz").to_dict()
    for name in ("digest", "held_for"):
        left = {key: value for key, value in fields.items() if key != name}
        data["provenance"]["protocol"] = left
        (tmp_path / "r.json").write_text(json.dumps(data))
        with pytest.raises(VerificationError, match=f"metaworld-3.1 is without its {name}"):
            verify(tmp_path / "r.json", envs=scripted([{}]))


# Files that are made worse at random.

ODD = [None, True, -1, 0, 3, 10**9, 10**15, 10**30, 10**400, 0.5, 1e300, float("nan"), "", "x"]
ODD += [FORGED, "\ud800", "a" * 20_000, "mtwrappers/MT10-v0", [], {}, [[]], [None], {"a": 1}]
ODD += [["reach-v3"] * 2000, "continuous", "pixels", 9_999_999]
NEW = ["score", "id", "wrappers", "vector_kwargs", "num_envs", "envs_per_task", "meta_batch_size"]
NEW += ["action_repeat", "idle_steps", "goals", "observation", "width", "task_encoding", "select"]


def places(data, path=()):
    yield path
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


def worsen(data, rng):
    """Removes, replaces or adds something, mostly of what does not follow from the episodes."""
    everywhere = [path for path in places(data) if path]
    weights = [4 if {"provenance", "trials"} & {*path} else 1 for path in everywhere]
    [path] = rng.choices(everywhere, weights)
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    value, how = parent[path[-1]], rng.random()
    if how < 0.2:
        del parent[path[-1]]
    elif how < 0.4 and isinstance(value, dict):
        value[rng.choice(NEW)] = copy.deepcopy(rng.choice(ODD))
    else:
        # A number in the place of an equal one is no worse.
        odd = [one for one in ODD if not isinstance(one, int | float) or one != value]
        parent[path[-1]] = copy.deepcopy(rng.choice(odd))
    return path


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize("name", ["one", "many", "meta", "few"])
@pytest.mark.slow_but("one")
def test_whatever_is_made_worse_is_refused_in_printable_words(name, played, tmp_path):
    rng = random.Random(name)
    refused = 0
    for _ in range(40):
        data = json.loads((played / f"{name}.json").read_text())
        worse = [worsen(data, rng) for _ in range(rng.choice([1, 1, 2]))]
        (tmp_path / "r.json").write_text(json.dumps(data))
        try:
            found = verify(tmp_path / "r.json", played / f"{name}.npz")
        except (VerificationError, EvidenceError) as exc:
            refused += 1
            said = str(exc)
        else:
            said = str(found)
            # What nobody can know, and arguments that are chosen anew.
            unknown = {"versions", "policy", "workers", "vectorization_mode", "max_episode_steps"}
            unknown |= {"train_classes", "camera_name", "width", "spec", "tasks", "note", "authors"}
            unknown |= {"training_seed", "training_steps", "action_chunk", "normalization"}
            assert not found.ok or all({*map(str, path)} & unknown for path in worse), worse
        assert all(map(is_printable, said.split("\n")))
        assert len(said) < 3000
    assert refused > 20


# Saving.

KILLED = """
import os, sys
from mtwrappers.state import files
from mtwrappers.evaluation import EvaluationResult
real = files.os.replace
def dies(*args):
    os._exit(7)
files.os.replace = dies
EvaluationResult.load("r.json").save("r.json")
"""


def test_a_kill_or_a_full_disk_leaves_the_result_of_before(played, tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_bytes((played / "many.json").read_bytes())
    before = path.read_bytes()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=env, timeout=60)
    assert done.returncode == 7
    assert path.read_bytes() == before
    EvaluationResult.load(path).save(path)
    assert os.listdir(tmp_path) == ["r.json"]  # without what the kill has left
    assert path.read_bytes() == before

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mtwrappers.state.files.os.fsync", full)
    for kind, name in ((EvaluationResult, "many"), (FewShotResult, "few")):
        with pytest.raises(OSError, match="No space left"):
            kind.load(played / f"{name}.json").save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["r.json"]


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i2", "<f2"])
def test_actions_are_kept_whatever_the_order_of_their_bytes(dtype, tmp_path):
    class Keeps(Observer):
        actions = None

        def step(self, step):
            self.actions = step.actions.copy()

    keeps = Keeps()
    policy = lambda obs: (10 * drawn(obs)).astype(dtype)  # noqa: E731
    result = evaluate(policy, scripted([{}]), 2, observers=[keeps], evidence=tmp_path / "r.npz")
    result.save(tmp_path / "r.json")
    found = read_evidence(tmp_path / "r.npz")
    assert digest(found) == result.provenance.evidence
    [last] = keeps.actions
    assert keeps.actions.dtype == dtype
    assert (found["task 0/1"][-1] == last).all()
    assert found["task 0/1"].dtype == np.dtype(dtype).newbyteorder("<")
    assert verify(tmp_path / "r.json", envs=scripted([{}])).ok
