"""All that changes a score is a field of a protocol, or refused under it."""

import dataclasses
import inspect
import json
from contextlib import closing

import gymnasium
import numpy as np
import pytest

from mtwrappers import few_shot_evaluate, protocols
from mtwrappers.evaluation import Observer, VerificationError, evaluate, verify
from mtwrappers.evaluation.protocol import ARGUMENTS, fixed_by
from mtwrappers.metaworld.agent_view import UPSTREAM
from mtwrappers.metaworld.make import (
    KEYWORDS,
    TASK_IN_OBSERVATION,
    VECTOR_SETTINGS,
    make_vec_env,
    parameters_of,
)
from mtwrappers.vector.make import EXECUTOR_OPTIONS

SMALL = dataclasses.replace(
    protocols["metaworld-3.1"].on("MT1", "reach-v3"),
    **{"name": "small", "episodes_per_task": 3, "max_episode_steps": 40},
)
FEW = dataclasses.replace(
    protocols["metaworld-3.1-ml"].on("ML1", "reach-v3"),
    **{"name": "few", "num_goals": 4, "meta_batch_size": 2, "trials": 2, "episodes_per_task": 1},
    **{"adaptation_episodes": 2, "max_episode_steps": 60},
)


def towards(observations, at=slice(36, 39)):
    """Moves the hand to the goal, which solves reach-v3."""
    actions = np.zeros((len(observations), 4), np.float32)
    actions[:, :3] = np.clip(10 * (observations[:, at] - observations[:, :3]), -1, 1)
    return actions


class Reaches:
    """Does so where the goal is hidden; remembers, or adapts."""

    def __init__(self, envs):
        self.envs, self.lengths = envs, []

    def begin_trial(self): ...

    def __call__(self, observations):
        goals = np.array(self.envs.call("goal"))
        return towards(np.concatenate([observations, goals], axis=1), slice(-3, None))


class Adapts(Reaches):
    def adapt(self, paths):
        self.lengths += [len(path["rewards"]) for of_task in paths for path in of_task]


# The table.


def test_every_argument_is_fixed_refused_or_free():
    """A new argument fails this until it was decided."""
    ours = {UPSTREAM[name][0] if name in UPSTREAM else name for name in KEYWORDS}
    taken = {
        "evaluate": parameters_of(evaluate),
        "few_shot_evaluate": parameters_of(few_shot_evaluate),
        "make_vec": {*parameters_of(make_vec_env), *VECTOR_SETTINGS, *EXECUTOR_OPTIONS, *ours}
        | set(inspect.signature(gymnasium.make_vec).parameters) - {"kwargs"},
    }
    for function, names in taken.items():
        assert names == set(ARGUMENTS[function])
        # What is fixed has a value under some protocol.
        fixed = {name for name, kind in ARGUMENTS[function].items() if kind == "fixed"}
        of_some = set().union(
            *(fixed_by(one, function) for one in (*protocols.values(), *[SMALL, FEW]))
        )
        assert fixed - {"protocol", "envs"} == of_some
    kinds = ARGUMENTS["make_vec"]
    assert {kinds[name] for name in TASK_IN_OBSERVATION} == {"fixed"}


FREE = {
    **{"num_envs": 2, "execution": "iterative", "workers": 1, "context": "fork", "timeout": 9.0},
    **{"on_worker_failure": "recover", "journal": True, "fast": False},
    **{"ray_options": None, "autoreset_mode": "NextStep"},
    **{"unify": "pad", "render_mode": "rgb_array"},
    **{"record_episode_statistics": False, "select": "least_success"},
    **{"sample_tasks_on_reset": False, "normalize_reward_in_recurrent_info": False},
    **{"task_encoding": "onehot", "descriptions": "lerobot-0.6.1"},
    **{"recurrent_info_in_obs": True, "normalize_observations": True},
}


@pytest.mark.slow
def test_what_is_free_changes_no_score():
    kinds = ARGUMENTS["make_vec"].items()
    free = {name for name, kind in kinds if kind == "free"} | set(TASK_IN_OBSERVATION)
    assert set(FREE) == free - {"id", "instruction"}  # which is for protocols with frames
    expected = SMALL.evaluate(towards)
    assert expected.headline["tasks"].value > 0
    for name, value in FREE.items():
        with closing(SMALL.make_vec(**{name: value})) as envs:
            result = SMALL.evaluate(lambda obs: towards(obs[:, :39]), envs)
        if name != "normalize_observations":  # which this policy does not know
            assert result.episodes == expected.episodes, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adaptation_steps": 4}, "few fixes adaptation_steps=1, got 4"),
        ({"adaptation_terminate_on_success": True}, "adaptation_terminate_on_success=False, got T"),
        ({"tasks": [[0, 0]] * 2}, "few takes no tasks in few_shot_evaluate, got "),
        ({"trials": 3}, "few fixes trials=2, got 3"),
    ],
)
def test_what_changes_a_few_shot_score_is_refused_and_so_is_a_saved_result(
    change, message, tmp_path
):
    with closing(FEW.make_vec()) as envs:
        with pytest.raises(ValueError, match=message):
            FEW.evaluate(Adapts(envs), envs, **change)
        given = {**fixed_by(FEW, "few_shot_evaluate"), **change}
        with pytest.raises(ValueError, match=message):
            few_shot_evaluate(Adapts(envs), envs, **given, protocol=FEW)
        result = FEW.evaluate(Adapts(envs), envs, evidence=tmp_path / "r.npz")
    data = result.to_dict()
    data["trials"].update(change)
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match=message):
        verify(tmp_path / "r.json")
    data["trials"] = None
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(VerificationError, match="a result of few says how its trials were run"):
        verify(tmp_path / "r.json")


def test_a_name_is_not_put_on_another_evaluation():
    with closing(SMALL.make_vec()) as envs:
        with pytest.raises(TypeError, match=r"protocol must be a Protocol, got \{'act"):
            evaluate(towards, envs, 3, protocol=SMALL.to_dict())
        with pytest.raises(ValueError, match="small fixes episodes_per_task=3, got 2"):
            evaluate(towards, envs, 2, protocol=SMALL)
        with pytest.raises(ValueError, match="few is measured by few_shot_evaluate, not by eval"):
            evaluate(towards, envs, 1, protocol=FEW)
        envs.call("toggle_terminate_on_success", False)
        with pytest.raises(ValueError, match="fixes terminate_on_success=True, which was changed"):
            SMALL.evaluate(towards, envs)
    with (
        closing(gymnasium.make_vec("mtwrappers/MT1-v0", max_episode_steps=40)) as envs,
        pytest.raises(ValueError, match="it fixes terminate_on_success=True, got False in "),
    ):
        evaluate(towards, envs, 3, protocol=SMALL)


def test_a_file_of_other_environments_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    SMALL.evaluate(towards, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    data["provenance"]["spec"]["kwargs"]["reward_normalization_method"] = "exponential"
    (tmp_path / "r.json").write_text(json.dumps(data))
    monkeypatch.setattr(gymnasium, "make_vec", lambda *_, **__: pytest.fail("it makes them"))
    with pytest.raises(VerificationError, match="small takes no reward_normalization_method in"):
        verify(tmp_path / "r.json")


# What the agent observes of its task.


def test_a_policy_that_was_trained_on_mt1_is_scored_on_its_39_numbers(tmp_path):
    def policy(observations):
        assert observations.shape == (1, 39)
        return towards(observations)

    made = {"env_name": "reach-v3", "terminate_on_success": True, "max_episode_steps": 40}
    made |= {"seed": None, "use_one_hot": False}
    expected = SMALL.evaluate(policy)
    with closing(gymnasium.make_vec("mtwrappers/MT1-v0", **made)) as envs:
        result = SMALL.evaluate(policy, envs, evidence=tmp_path / "r.npz")
    assert result == expected
    result.save(tmp_path / "r.json")
    assert verify(tmp_path / "r.json").ok
    with closing(SMALL.make_vec(use_one_hot=True)) as envs:
        assert envs.single_observation_space.shape == (40,)
        assert SMALL.evaluate(lambda obs: policy(obs[:, :39]), envs) == expected
    of_ten = protocols["metaworld-3.1"].make_vec(), protocols["tdmpc2"].on("MT10").make_vec()
    for envs in of_ten:
        assert envs.single_observation_space.shape == (49,)  # as of MT10-v0
        envs.close()


@pytest.mark.parametrize(
    ("protocol", "change", "message"),
    [
        (FEW, {"task_encoding": "onehot"}, "few fixes task_encoding='none', got 'onehot'"),
        (
            FEW,
            {"descriptions": "lerobot-0.6.1"},
            "few fixes descriptions=None, got 'lerobot-0.6.1'",
        ),
        (
            protocols["lerobot-0.6"],
            {"descriptions": "metaworld"},
            "lerobot-0.6 fixes descriptions='lerobot-0.6.1', got 'metaworld'",
        ),
        (protocols["rlinf"], {"use_one_hot": True}, "rlinf fixes task_encoding='none', got 'one"),
    ],
)
def test_where_the_task_is_inferred_or_read_what_says_it_is_fixed(protocol, change, message):
    with pytest.raises(ValueError, match=message):
        protocol.make_vec(**change)


def test_lerobots_environments_say_what_lerobot_says():
    one = protocols["lerobot-0.6"].on("MT1", "push-back-v3")
    env = one.make()
    assert env.get_wrapper_attr("task_description") == "Push the puck to a goal"
    assert set(env.observation_space) == {"pixels", "agent_pos"}
    env = gymnasium.make("mtwrappers/MT1-v0", env_name="push-back-v3")
    assert env.get_wrapper_attr("task_description") == "Pull a puck to a goal"


# Adaptation.


@pytest.mark.parametrize("policy", [Reaches, Adapts])
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.slow
def test_episodes_of_adaptation_go_on_after_a_success(policy, workers, tmp_path):
    with closing(FEW.make_vec(workers=workers)) as envs:
        learner = policy(envs)
        result = FEW.evaluate(learner, envs, evidence=tmp_path / "r.npz")
        assert envs.get_attr("terminate_on_success") == (True, True)
        ends = dataclasses.replace(FEW, name="ends", adaptation_terminate_on_success=True)
        other = ends.evaluate(policy(envs), envs)
    assert {(e.length, e.success_once) for e in result.adaptation.episodes} == {(60, True)}
    assert set(learner.lengths) <= {60}
    assert all(e.length < 60 and e.success_final for e in result.evaluation.episodes)
    assert all(e.length < 60 for e in other.episodes)
    # This policy has nothing to learn: what is counted is the same.
    assert other.evaluation.episodes == result.evaluation.episodes
    result.save(tmp_path / "r.json")
    assert result.trials.adaptation_terminate_on_success is False
    assert verify(tmp_path / "r.json", workers=2).ok


def test_what_ends_episodes_is_as_it_was_after_a_failure():
    class Fails(Adapts):
        def adapt(self, paths):
            raise KeyError("adapt")

    with closing(FEW.make_vec()) as envs:
        with pytest.raises(KeyError, match="adapt"):
            FEW.evaluate(Fails(envs), envs)
        assert envs.get_attr("terminate_on_success") == (True, True)
    with (
        closing(gymnasium.make_vec("mtwrappers/PointGoal-v0")) as envs,
        pytest.raises(ValueError, match="needs environments with toggle_terminate_on_success"),
    ):
        few_shot_evaluate(Adapts(envs), envs, adaptation_terminate_on_success=False)


# Names.


@pytest.mark.parametrize(
    "name",
    ["metaworld-3.1 ", " a", "metaworld\u20113.1", "a\u200bb", "a\nb", "\x1b[2Ja", "", "a" * 81],
)
def test_a_name_is_printable_ascii_without_spaces_around_it(name):
    with pytest.raises(ValueError, match="must be printable ASCII without spaces around it") as exc:
        dataclasses.replace(SMALL, name=name)
    assert str(exc.value).isascii()
    assert str(exc.value).isprintable()
    with pytest.raises(ValueError, match="groups of a protocol must be printable ASCII"):
        dataclasses.replace(SMALL, groups=(("\x1b", ("reach-v3",)),))


@pytest.mark.parametrize(
    "name",
    [
        *("lerobot-0.6-states", "lerobot-0.6 on MT1", "rlinf-states on MT10", "tdmpc2 on MT10"),
        *("metaworld-3.1-states", "lerobot-0.6 on MT50", "lerobot-0.6 on Mars"),
    ],
)
def test_the_names_of_what_is_derived_are_the_packages_own(name):
    with pytest.raises(
        ValueError, match=r"reserved for a protocol derived|give a variant another|is for"
    ):
        dataclasses.replace(SMALL, name=name)


def test_what_is_derived_comes_back_from_a_file_and_nothing_else_does():
    states = protocols["lerobot-0.6"].with_states()
    for one in (states, states.on("MT10"), protocols["rlinf"].on("MT1", "push-v3")):
        assert type(one).from_dict(json.loads(json.dumps(one.to_dict()))) == one
    other = {**states.to_dict(), "max_episode_steps": 400}
    del other["digest"]
    with pytest.raises(ValueError, match=r"lerobot-0\.6-states has max_episode_steps=500, got 400"):
        type(states).from_dict(other)


def test_a_name_is_printed_with_its_digest_and_whether_it_is_published():
    published = protocols["metaworld-3.1"]
    assert published.label == f"metaworld-3.1 ({published.digest[:10]})"
    for one in (SMALL, protocols["rlinf"].with_states(), protocols["rlinf"].on("MT10")):
        assert one.label == f"{one.name} ({one.digest[:10]}, not a published protocol)"


# Other benchmarks.


@pytest.mark.parametrize("name", ["metaworld-3.1", "lerobot-0.6", "rlinf", "tdmpc2"])
def test_every_multi_task_protocol_goes_to_one_class_and_to_ten(name):
    source = protocols[name]
    one, ten = source.on("MT1", "push-v3"), source.on("MT10")
    has = source.benchmarks
    assert one.name == (name if "MT1" in has else f"{name} on MT1")
    assert ten.name == (name if "MT10" in has else f"{name} on MT10")
    assert (one.benchmark, one.env_name) == ("MT1", "push-v3")
    if source.groups:
        assert (one.means, one.groups) == (("tasks",), ())
        assert ten.means == source.means
        assert [(group, len(tasks)) for group, tasks in ten.groups] == [
            *(("easy", 7), ("medium", 1), ("hard", 2))
        ]
    unchanged = {"name", "benchmark", "benchmarks", "env_name", "groups", "means"}
    for field in {field.name for field in dataclasses.fields(source)} - unchanged:
        assert getattr(one, field) == getattr(ten, field) == getattr(source, field)
    if one.name != name:
        with pytest.raises(ValueError, match=f"{name} on MT1 is for MT1, got 'MT10'"):
            one.on("MT10")


def test_few_shot_on_one_class_gives_each_goal_as_many_trials():
    one = protocols["metaworld-3.1-ml"].on("ML1", "push-v3")
    assert (one.name, one.trials) == ("metaworld-3.1-ml on ML1", 2)
    goals = [e.task_state for e in one.plan(0) if e.number == 0]
    assert sorted(goals) == list(range(40))
    assert protocols["metaworld-3.1-ml"].on("ML45").name == "metaworld-3.1-ml"


# The plan, and environments for another program's loop.


def run(env, one, protocol, act):
    """Return, length and success of a planned episode in a loop of one's own."""
    obs, _ = env.reset(seed=one.seed, options={"task_state": one.task_state})
    total, length, once, over = 0.0, 0, False, False
    while not over:
        obs, reward, terminated, truncated, info = env.step(act(obs[None])[0])
        total, length, once = total + reward, length + 1, once or bool(info["success"])
        over = terminated or truncated
    final = bool(info["success"])
    return one.task, one.task_state, total, length, once, final


@pytest.mark.parametrize(
    ("name", "steps"), [("metaworld-3.1", 40), ("lerobot-0.6", 40), ("tdmpc2", 12), ("rlinf", 10)]
)
@pytest.mark.slow_but("tdmpc2-12")
def test_another_programs_loop_plays_the_same_episodes(name, steps, monkeypatch):
    protocol = protocols[name].with_states().on("MT10")
    short = {"episodes_per_task": 3, "max_episode_steps": steps}
    protocol = dataclasses.replace(protocol, name="short", **short)
    with monkeypatch.context() as patch:
        for module, function in ((gymnasium, "make"), (gymnasium, "make_vec")):
            patch.setattr(module, function, lambda *_, **__: pytest.fail("it makes environments"))
        plan = protocol.plan(seed=7)
    assert [one.number for one in plan] == [0, 1, 2] * 10
    chosen = list(dict.fromkeys(one.task for one in plan))[:2]  # reach-v3 and push-v3
    with closing(protocol.make_vec()) as envs:
        result = protocol.evaluate(lambda obs: towards(obs[:, :39]), envs, seed=7, tasks=chosen)
    expected = [
        (e.task, e.task_state, e.episode_return, e.length, e.success_once, e.success_final)
        for e in result.episodes
    ]
    found = []
    for i, task in enumerate(chosen):
        with closing(protocol.make(i)) as env:
            of_task = [one for one in plan if one.task == task]
            found += [run(env, one, protocol, towards) for one in of_task]
    assert found == expected
    assert any(once for *_, once, _ in found) or steps < 20


@pytest.mark.slow
def test_the_plan_is_what_is_planned_however_many_environments_share_a_task():
    class Stops(Observer):
        def plan(self, episodes):
            raise InterruptedError(*episodes)

    protocol = protocols["metaworld-3.1"].on("MT10")
    for each in (1, 3):
        with closing(protocol.make_vec(envs_per_task=each)) as envs:
            with pytest.raises(InterruptedError) as stopped:
                protocol.evaluate(towards, envs, seed=5, observers=[Stops()])
            assert list(stopped.value.args) == protocol.plan(5)
    assert len(protocol.plan(5)) == 500


@pytest.mark.parametrize("policy", [Reaches, Adapts])
def test_the_plan_of_few_shot_evaluation_is_what_is_played(policy):
    with closing(FEW.make_vec()) as envs:
        result = FEW.evaluate(policy(envs), envs, seed=3)
    plan = FEW.plan(3, adapts=policy is Adapts)
    expected = sorted(result.episodes, key=lambda e: (e.trial, e.number))
    fields = ("task", "number", "task_state", "trial")
    assert [[getattr(e, name) for name in fields] for e in plan] == [
        [getattr(e, name) for name in fields] for e in expected
    ]
    seeded = [one.number for one in plan if one.seed is not None]
    assert seeded == ([0, 2] if policy is Adapts else [0]) * 4
    # One trial in a loop of one's own.
    with closing(FEW.make("reach-v3")) as env:
        goal = env.get_wrapper_attr
        for one, episode in zip(plan[:3], expected[:3], strict=True):
            env.set_wrapper_attr("terminate_on_success", one.number >= 2)
            given = {} if one.seed is None else {"task_state": one.task_state}
            obs, _ = env.reset(seed=one.seed, options=given)
            total, over = 0.0, False
            while not over:
                row = np.concatenate([obs, goal("goal")])[None]
                obs, reward, terminated, truncated, _ = env.step(towards(row, slice(-3, None))[0])
                total, over = total + reward, terminated or truncated
            assert total == episode.episode_return


def test_make_refuses_what_the_protocol_does_not_have():
    with pytest.raises(ValueError, match="task must be 'reach-v3', got 'push-v3'"):
        SMALL.make("push-v3")
    with pytest.raises(ValueError, match=r"task must be an integer in \[0, 0\], got 1"):
        SMALL.make(1)
    for steps in (9, None):
        with pytest.raises(ValueError, match=f"small fixes max_episode_steps=40, got {steps}"):
            SMALL.make(max_episode_steps=steps)
