"""Streams of tasks, one environment at a time and side by side."""

import json
import pickle
import signal
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from mtwrappers import (
    EnvToMTEnv,
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    SeedNotSetError,
    TaskOnehotWrapper,
    TaskStream,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
    VectorTaskStream,
    evaluate,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.testing import check_meta_vector_env, check_mtenv
from tests.fakes import (
    CountingEnv,
    CountingMTEnv,
    check_env_warnings,
    counting_makers,
    equal,
)
from tests.vector.fakes import all_modes, exact
from tests.vector.faults import FragileEnv, kill, kill_itself, once, parallel, run_steps

LENGTHS = (4, 3, 6)
AB = [("a", 4), ("b", 4)]
RANDOM_PHASE = [(["a", "b", "c"], 9)]


def three_tasks(lengths=LENGTHS, **kwargs):
    """Tasks "a", "b", "c" that count from 0, 100, 200, and end after so many steps."""
    makers = [partial(CountingEnv, n, first=100 * i) for i, n in enumerate(lengths)]
    return MultiEnvWrapper(makers, task_names=list("abc"[: len(lengths)]), **kwargs)


def stream(phases, lengths=LENGTHS, **kwargs):
    return TaskStream(three_tasks(lengths), phases, **kwargs)


def flat(phases, **kwargs):
    return FlattenMTEnv(stream(phases, **kwargs))


def side_by_side(phases, n=2, mode=AutoresetMode.SAME_STEP, **kwargs):
    makers = [partial(flat, phases, **kwargs)] * n
    return VectorTaskStream(MetaIterativeEnvExecutor(makers, n, autoreset_mode=mode))


def uneven(phases, mode=AutoresetMode.SAME_STEP, at_end="raise", **kwargs):
    """Environment 0 has episodes of 2 steps and environment 1 of 3."""
    makers = [partial(flat, phases, lengths=(n, n), at_end=at_end, **kwargs) for n in (2, 3)]
    return VectorTaskStream(MetaIterativeEnvExecutor(makers, 2, autoreset_mode=mode))


def told(obs, info):
    """The phase, the task and the first number that is observed."""
    return f"{info['phase']}{'abc'[info['task_id']]}{int(obs['env_obs'][0])}"


def run(env, steps):
    """What each step returns: `told`, "." if it terminates, "|" if it truncates; [resets]."""
    seen = []
    for _ in range(steps):
        obs, _, terminated, truncated, info = env.step(0)
        seen.append(told(obs, info) + "." * terminated + "|" * truncated)
        if terminated or truncated:
            seen.append(f"[{told(*env.reset())}]")
    return " ".join(seen)


def rows(result):
    """The same of each environment, with the task that the one-hot names."""
    obs, _, terminated, truncated, infos = result
    columns = infos["phase"], obs[:, 2:].argmax(axis=1), obs[:, 0], terminated, truncated
    return " ".join(
        f"{phase}{'abc'[task]}{int(first)}" + "." * int(t) + "|" * int(u)
        for phase, task, first, t, u in zip(*columns, strict=True)
    )


def run_rows(envs, steps):
    return [rows(result) for result in run_steps(envs, [[0, 0]] * steps) if len(result) == 5]


# What Continual World does.


class ContinualPort:
    """``ContinualLearningEnv`` of Continual World, line by line, as its code says it.

    A list of environments is used one after another, each for so many steps. In the last of them
    the episode is said to be over by a time limit. ``seq_idx`` is whose turn it is; a step and a
    reset past the end of the last are refused.
    """

    def __init__(self, envs, steps_per_env):
        self.envs, self.steps_per_env = envs, steps_per_env
        self.steps_limit = len(envs) * steps_per_env
        self.cur_step = self.cur_seq_idx = 0

    def reset(self):
        self._check()
        return self.envs[self.cur_seq_idx].reset()[0]

    def step(self, action):
        self._check()
        obs, reward, terminated, truncated, _ = self.envs[self.cur_seq_idx].step(action)
        done, info = terminated or truncated, {"seq_idx": self.cur_seq_idx}
        self.cur_step += 1
        if self.cur_step % self.steps_per_env == 0:
            done = True
            info["TimeLimit.truncated"] = True
            self.cur_seq_idx += 1
        return obs, reward, done, info

    def _check(self):
        if self.cur_step >= self.steps_limit:
            raise RuntimeError("the steps are finished")


@pytest.mark.parametrize("budget", [1, 5, 7, 12])
def test_boundaries_infos_and_onehots_are_those_of_continual_world(budget):
    """Three tasks, visited twice; the second visits have ids of their own."""
    visits = [0, 1, 2, 0, 1, 2]
    envs = [CountingEnv(LENGTHS[task], first=100 * task) for task in visits]
    envs = [TaskOnehotWrapper(env, i, len(visits)) for i, env in enumerate(envs)]
    theirs = ContinualPort([TimeLimit(env, 5) for env in envs], budget)
    phases = [(task, budget) for task in visits]
    ours = TimeLimit(flat(phases, task_obs="phase", at_end="raise"), 5)
    obs, _ = ours.reset(seed=0)
    assert equal(obs, theirs.reset())
    for step in range(6 * budget):
        expected, reward, done, info = theirs.step(0)
        obs, actual, terminated, truncated, infos = ours.step(0)
        assert equal((obs, actual, terminated or truncated), (expected, reward, done))
        assert infos["phase"] == info["seq_idx"] == ours.unwrapped.phase_of(step)
        assert truncated or "TimeLimit.truncated" not in info
        if done and step + 1 < 6 * budget:
            assert equal(ours.reset()[0], theirs.reset())
    for env, message in ((ours, f"its 6 phases have {6 * budget} steps"), (theirs, "finished")):
        with pytest.raises(RuntimeError, match=message):
            env.step(0)


# One environment.


def test_a_step_before_the_next_phase_is_reset_is_refused_and_a_seed_restarts_the_stream():
    env = stream([("a", 5), ("b", 2), ("a", 4)], at_end="raise")
    env.reset(seed=0)
    run(env, 11)
    assert told(*env.reset(seed=0)) == "0a0"
    assert run(env, 4) == "0a1 0a2 0a3 0a4. [0a0]"
    env.step(0)
    with pytest.raises(ResetNeeded, match="at step 5 of the stream, in phase 1"):
        env.step(0)


def test_a_phase_finishes_its_episode_in_the_budget_of_the_next():
    env = stream([("a", 5), ("b", 4), ("a", 3)], boundary="finish")
    env.reset(seed=0)
    assert run(env, 12) == (
        "0a1 0a2 0a3 0a4. [0a0] 0a1 0a2 0a3 0a4. [1b100] "  # one step before the phase's end
        "1b101 1b102 1b103. [2a0] 2a1| [2a0]"  # the end of the stream
    )


@pytest.mark.parametrize("boundary", ["truncate", "finish"])
def test_after_the_end_the_last_task_goes_on_and_counts_for_nothing(boundary):
    env = stream([("a", 4), ("b", 2)], boundary=boundary)
    assert not env.reset(seed=0)[1]["stream_finished"]
    assert run(env, 5).endswith("[1b100] 1b101")
    *_, truncated, info = env.step(0)
    assert (truncated, info["stream_finished"], env.stream_finished) == (True, False, True)
    with pytest.raises(ResetNeeded, match="at step 6 of the stream"):
        env.step(0)
    assert env.reset()[1]["stream_finished"]
    assert run(env, 9) == " ".join(["1b101 1b102 1b103. [1b100]"] * 3)
    assert (env.stream_steps, env.step(0)[4]["stream_finished"]) == (6, True)
    assert env.reset(options={"task_state": 0})[1]["stream_finished"]
    env.held_phase = 0  # as an evaluation, which is not after the end
    assert not env.reset()[1]["stream_finished"]
    env.held_phase = None
    assert told(*env.reset(seed=0)) == "0a0"
    assert (env.stream_steps, env.stream_finished) == (0, False)


def test_the_state_of_a_stream_without_a_seed_unseeds_its_draws():
    state, restored = stream(AB).get_state(), stream(AB)
    restored.reset(seed=3)
    restored.set_state(state)
    with pytest.raises(SeedNotSetError, match="the task seed is not set"):
        restored.sample_task_state()


@pytest.mark.parametrize("steps", [3, 9])
def test_a_stream_goes_on_from_its_state(steps, tmp_path):
    """In a phase of several tasks, and after its end."""
    env, restored = (stream([("a", 2), (["b", "c"], 6)], lengths=(2, 2, 2)) for _ in range(2))
    env.reset(seed=3)
    run(env, steps)
    save_checkpoint(tmp_path / "stream", env=env)
    load_checkpoint(tmp_path / "stream", env=restored)
    with pytest.raises(ResetNeeded, match=exact("call reset() before step()")):
        restored.step(0)
    assert [told(*task_stream.reset()) for task_stream in (env, restored)].count("1b100") in (0, 2)
    assert run(restored, 20) == run(env, 20)
    assert restored.stream_steps == 8
    env.set_task_state(0)  # which a state keeps
    restored.set_state(env.get_state())
    assert [restored.reset()[1]["task_id"] == 0 for _ in range(2)] == [True, False]


def test_phases_say_which_steps_and_tasks_they_have():
    env = stream([("a", 5), (["b", 2], 2), (range(2), 4)])
    assert [tuple(phase) for phase in env.phases] == [([0], 5), ([1, 2], 2), ([0, 1], 4)]
    assert env.phase_names == ("a", "b, c", "a, b")
    assert env.total_steps == 11
    assert [env.phase_of(step) for step in range(11)] == [0] * 5 + [1] * 2 + [2] * 4
    for step in (-1, 11):
        with pytest.raises(ValueError, match=exact(f"must be an integer in [0, 10], got {step}")):
            env.phase_of(step)
    env = gymnasium.make("mtwrappers/CustomMT-v0", num_goals=3, task_encoding="dict")
    assert TaskStream(env, [("push-v3", 9)]).phases[0].tasks == [3, 4, 5]


def test_resets_draw_from_the_tasks_of_a_phase_as_the_seed_says():
    env = stream([([0, 2], 60)])
    drawn = []
    for seed in (1, 1, 2):
        ids = [env.reset(seed=seed)[1]["task_id"]]
        ids += [env.reset()[1]["task_id"] for _ in range(40)]
        assert set(ids) == {0, 2}
        drawn.append(ids)
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][:8] == [0, 0, 2, 2, 2, 2, 2, 0]
    copied = pickle.loads(pickle.dumps(env))
    assert copied.reset(seed=1)[1]["task_id"] == drawn[0][0]


def test_tasks_may_be_elements_of_a_space_or_those_of_any_mtenv():
    tasks = Box(-5.0, 5.0, (1,), np.float64)
    env = EnvToMTEnv(CountingEnv(9), tasks, lambda env, task: setattr(env, "first", int(task[0])))
    env = TaskStream(env, [(np.full(1, -3.0), 1), ([np.full(1, 2.0), np.full(1, 4.0)], 20)])
    assert env.phase_names == ("[-3.]", "[2.], [4.]")
    assert env.reset(seed=0)[0]["task_obs"] == -3.0
    env.step(0)
    assert {float(env.reset()[0]["task_obs"][0]) for _ in range(20)} == {2.0, 4.0}
    env = TaskStream(CountingMTEnv(), [(2, 1), ([0, 1], 20)])
    assert env.phase_names == ("2", "0, 1")
    assert env.reset(seed=0)[1]["goal"] == 2
    env.step(0)
    assert {env.reset()[1]["goal"] for _ in range(20)} == {0, 1}


def test_a_task_that_is_asked_for_has_one_episode_in_the_budget_of_the_phase():
    env = stream([("a", 2), ("b", 4)])
    env.reset(seed=0)
    assert told(*env.reset(options={"task_state": 2})) == "0c200"
    env.set_task_state(1)
    with pytest.raises(ResetNeeded, match="a task was set"):
        env.step(0)
    assert told(*env.reset()) == "0b100"
    assert told(*env.reset(options={"resample_task": True})) == "0a0"
    run(env, 2)
    assert env.phase == 1


def test_a_held_phase_neither_counts_nor_ends():
    env = stream([("a", 2), ("b", 2)], task_obs="phase")
    env.held_phase = 1
    obs, _ = env.reset(seed=0)
    assert obs["task_obs"] == 1
    assert run(env, 9) == " ".join(["1b101 1b102 1b103. [1b100]"] * 3)
    assert env.stream_steps == 0
    env.held_phase = None
    assert told(*env.reset()) == "0a0"


@pytest.mark.parametrize("phase", [-1, 2, 0.5, "a"])
def test_a_held_phase_must_be_one_of_the_stream(phase):
    for env in (stream(AB), side_by_side(AB)):
        with pytest.raises(ValueError, match=exact("held_phase must be an integer in [0, 1], got")):
            env.held_phase = phase
        assert env.held_phase is None


def test_a_held_phase_of_a_shared_stream_is_that_of_all_environments():
    envs = side_by_side(AB)
    envs.reset(seed=0)
    envs.held_phase = 1
    assert envs.get_attr("held_phase") == (1, 1)
    assert envs.reset()[1]["phase"].tolist() == [1, 1]
    for _ in range(9):
        *_, infos = envs.step([0, 0])
        assert infos["phase"].tolist() == [1, 1]
    assert (envs.stream_steps, envs.phase) == (0, 1)
    assert envs.get_state() == {"stream_steps": 0, "held_phase": 1}
    envs.held_phase = None
    assert envs.reset()[1]["phase"].tolist() == [0, 0]
    assert envs.get_state() == {"stream_steps": 0}
    envs.set_state({"stream_steps": 2, "held_phase": 1})
    assert (envs.stream_steps, envs.held_phase) == (2, 1)


def test_a_reset_that_is_refused_leaves_the_stream_where_it_was():
    env, expected = stream(RANDOM_PHASE), stream(RANDOM_PHASE)
    for task_stream in (env, expected):
        task_stream.reset(seed=0)
        run(task_stream, 2)
    with pytest.raises(ValueError, match="task state must be an integer in"):
        env.reset(seed=1, options={"task_state": 99})
    assert env.stream_steps == expected.stream_steps == 2
    draws, expected_draws = (
        [task_stream.sample_task_state() for _ in range(20)] for task_stream in (env, expected)
    )
    assert draws == expected_draws


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.clear(), "expected ['draws', 'env', 'held_phase', 'stream_steps', "),
        (lambda state: state.update(stream_steps=-1), "stream_steps of a state must be zero or a"),
        (lambda state: state.update(held_phase=2), "held_phase must be an integer in [0, 1], got"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, message):
    env = stream(AB)
    env.reset(seed=0)
    run(env, 3)
    state_before, state = env.get_state(), stream(AB).get_state()
    change(state)
    with pytest.raises(ValueError, match=exact(message)):
        env.set_state(state)
    assert equal(env.get_state(), state_before)
    with pytest.raises(ValueError, match=exact("expected ['stream_steps'] of VectorTaskStream")):
        side_by_side(AB).set_state({})


WORDS = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.4], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("of", ["task", "phase"])
@pytest.mark.parametrize("task_obs", ["task", "phase"])
def test_an_embedding_of_each_task_or_phase_comes_before_the_onehot(of, task_obs):
    phases = [("a", 2), ("b", 2), ("a", 2)]
    if of == "task":
        env = TaskStream(three_tasks(task_embedding=WORDS), phases, task_obs=task_obs)
    else:
        env = TaskStream(three_tasks(), phases, task_obs=task_obs, task_embedding=WORDS)
    check_mtenv(env)
    flattened = FlattenMTEnv(env)
    assert check_env_warnings(flattened, skip_render_check=True) == []
    seen = [flattened.reset(seed=0)[0]]
    for _ in range(6):
        obs, _, _, truncated, _ = flattened.step(0)
        seen += [obs, flattened.reset()[0]] if truncated else [obs]
    number = {"task": [0, 1, 0], "phase": [0, 1, 2]}
    expected = np.hstack([WORDS[number[of]], np.eye(3)[number[task_obs]]]).repeat(3, axis=0)
    assert equal(np.array(seen)[:9, 2:], expected)
    seen, _ = env.reset(seed=0)
    seen["task_embedding"][:] = 7  # each observation has its own
    assert equal(env.observe(seen["env_obs"])["task_embedding"], WORDS[0])
    box = Box(WORDS.min(axis=0), WORDS.max(axis=0), dtype=np.float64)
    assert env.observation_space["task_embedding"] == box


def with_another_key():
    def change(obs):
        return {**obs, "words": np.zeros(1)}

    env = three_tasks()
    space = gymnasium.spaces.Dict({**env.observation_space, "words": Box(0, 1, (1,), np.float64)})
    return gymnasium.wrappers.TransformObservation(env, change, space)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": []}, "phases must hold at least one pair (tasks, steps), got none"),
        ({"phases": [3]}, "phase 0 must be a pair (tasks, steps), got 3"),
        ({"phases": [("x", 1)]}, "phase 0: a task must be one of ['a', 'b', 'c'], got 'x'"),
        ({"phases": [(0, 1), (3, 1)]}, "phase 1: a task state must be an integer in [0, 2], got 3"),
        ({"phases": [([], 1)]}, "the tasks of phase 0 must hold at least one task"),
        ({"env": CountingEnv()}, "expected an MTEnv with observations {env_obs, task_obs}"),
        ({"env": FlattenMTEnv(three_tasks())}, "such as FlattenMTEnv (or task_encoding of"),
        ({"env": with_another_key()}, "wrappers that change observations"),
        ({"task_embedding": [[1.0]] * 2}, "an array (1, E) of numbers, a row for each phase, got"),
        (
            {"env": three_tasks(task_embedding=[[1.0]] * 3), "task_embedding": [[1.0]]},
            "has an embedding of each task already, got one of shape (1, 1)",
        ),
    ],
)
def test_what_is_no_stream_is_refused(change, message):
    arguments = {"env": three_tasks(), "phases": [("a", 1)], **change}
    with pytest.raises((TypeError, ValueError), match=exact(message)):
        TaskStream(arguments.pop("env"), arguments.pop("phases"), **arguments)


# Side by side.


def test_at_a_boundary_same_step_resets_all_and_keeps_what_they_have_seen():
    envs = side_by_side(AB, at_end="raise")
    envs.reset(seed=0)
    assert rows(envs.step([0, 0])) == "0a1 0a1"
    result = envs.step([0, 0])
    assert rows(result) == "1b100| 1b100|"
    assert [obs.tolist() for obs in result[4]["final_obs"]] == [[2, 2, 1, 0, 0]] * 2
    assert result[4]["final_info"]["phase"].tolist() == [0, 0]
    assert run_rows(envs, 2) == ["1b101 1b101", "1b100| 1b100|"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="its 2 phases have 8 steps"):
            envs.step([0, 0])
        envs.reset()
    envs.reset(seed=0)
    assert rows(envs.step([0, 0])) == "0a1 0a1"


def test_at_a_boundary_next_step_resets_in_the_step_after_it_and_does_not_count_resets():
    envs = uneven([("a", 7), ("b", 5)], AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    assert [(rows(envs.step([0, 0])), envs.stream_steps) for _ in range(8)] == [
        ("0a1 0a1", 2),
        ("0a2. 0a2", 4),
        ("0a0 0a3.", 5),  # environment 0 is reset
        ("0a1 0a0", 6),
        ("0a2.| 0a1|", 8),  # a step beyond the end at 7
        ("1b100 1b100", 8),
        ("1b101 1b101", 10),
        ("1b102.| 1b102|", 12),
    ]
    with pytest.raises(RuntimeError, match="the stream is finished"):
        envs.step([0, 0])
    envs = uneven([("a", 5), ("b", 9)], AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    # Environment 0 is reset in the step of a boundary.
    assert run_rows(envs, 4) == ["0a1 0a1", "0a2. 0a2", "1b100 0a3.|", "1b101 1b100"]


def test_at_a_boundary_disabled_leaves_the_resets_to_the_caller():
    envs = uneven([("a", 8), ("b", 4)], AutoresetMode.DISABLED)
    envs.reset(seed=0)
    assert run_rows(envs, 3) == ["0a1 0a1", "0a2. 0a2", "0a1 0a3."]
    assert rows(envs.step([0, 0])) == "0a2.| 0a1|"
    with pytest.raises(ResetNeeded, match=exact("environments [0, 1] have ended")):
        envs.step([0, 0])
    obs, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert (obs[:, 0].tolist(), infos["phase"].tolist()) == ([100, 1], [1, 0])
    envs.reset(options={"reset_mask": np.array([False, True])})
    with pytest.raises(RuntimeError, match="the stream is finished"):
        run_steps(envs, [[0, 0]] * 9)
    assert envs.stream_steps == 12


def test_episodes_that_finish_go_to_the_next_phase_one_by_one():
    envs = uneven([("a", 4), ("b", 8)], boundary="finish", at_end="stay")
    envs.reset(seed=0)
    assert run_rows(envs, 6) == [
        *("0a1 0a1", "1b100. 0a2", "1b101 1b100.", "1b100. 1b101", "1b101 1b102"),
        "1b100.| 1b100.|",
    ]


@all_modes
def test_after_the_end_all_stay_with_the_last_task_and_statistics_of_tasks_stop(mode):
    inner = uneven([("a", 7), ("b", 5)], mode, at_end="stay")
    envs = VectorNormalizeRewardPerTask(VectorNormalizeObservationPerTask(inner))
    envs.reset(seed=0)
    run_steps(envs, [[0, 0]] * 10)
    steps = inner.stream_steps
    assert (inner.stream_finished, steps in (12, 13)) == (True, True)  # a step beyond the end

    def statistics():
        return [{**wrapper.get_state(), "episodes": None} for wrapper in (envs, envs.env)]

    statistics_at_end = statistics()
    state = json.loads(json.dumps([envs.get_state(), envs.env.get_state()]))
    assert state[0]["episodes"]["uncounted"] == [0, 1]
    later = [result for result in run_steps(envs, [[0, 0]] * 12) if len(result) == 5]
    assert all(result[4]["stream_finished"].all() for result in later)
    assert all(result[4]["phase"].tolist() == [1, 1] for result in later)
    assert not any(result[3].any() for result in later)
    # Episodes have their own lengths, 2 and 3.
    assert (np.count_nonzero([result[2] for result in later], axis=0) >= 2).all()
    for wrapper, wrapper_state in zip((envs, envs.env), state, strict=True):
        wrapper.set_state(wrapper_state)
    run_steps(envs, [[0, 0]] * 3)
    assert (statistics(), inner.stream_steps) == (statistics_at_end, steps)
    assert not envs.reset(seed=0)[1]["stream_finished"].any()
    assert inner.stream_steps == 0
    run_steps(envs, [[0, 0]])
    assert statistics() != statistics_at_end


def test_the_step_that_ends_a_stream_is_the_last_that_counts():
    envs = side_by_side([("a", 3)])
    envs.reset(seed=0)
    envs.step([0, 0])
    *_, truncated, infos = envs.step([0, 0])
    assert (truncated.tolist(), infos["stream_finished"].tolist()) == ([True] * 2, [True] * 2)
    assert infos["final_info"]["stream_finished"].tolist() == [False] * 2
    assert envs.stream_steps == 4  # a step beyond the end, as at every boundary
    env = NormalizeRewardPerTask(NormalizeObservationPerTask(flat([("a", 2), ("b", 3)])))
    env.reset(seed=0)
    counts = []
    for _ in range(9):
        *_, terminated, truncated, _ = env.step(0)
        counts.append([sum(wrapper.get_state()["count"]) // 1 for wrapper in (env, env.env)])
        if terminated or truncated:
            env.reset()
    # The last step that counts is the fifth: with two resets, seven observations were seen.
    assert counts[4:] == [[5.0, 7.0]] * 5


def test_environments_that_are_paused_do_not_count():
    envs = side_by_side([("a", 6), ("b", 6)])
    envs.reset(seed=0)
    envs.unwrapped.pause(np.array([True, False]))
    for _ in range(3):
        envs.step([0, 0])
    assert envs.stream_steps == 3
    envs.reset()
    assert run_rows(envs, 2) == ["0a1 0a1", "1b100| 1b100|"]
    # A reset that a pause postponed does not count either.
    envs = side_by_side([("b", 9), ("a", 9)], mode=AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    run_rows(envs, 3)  # whose last one ends both episodes
    counts = []
    for paused in (True, False):
        envs.unwrapped.pause(np.array([paused, False]))
        envs.step([0, 0])  # resets the second one; then the first one, and steps the second
        counts.append(envs.stream_steps)
    assert counts == [6, 7]


def test_a_phase_that_ended_during_a_pause_needs_a_reset():
    envs = side_by_side([("a", 4), ("b", 4)])
    envs.reset(seed=0)
    envs.step([0, 0])
    envs.unwrapped.pause(np.array([True, False]))
    for _ in range(2):
        envs.step([0, 0])
    envs.unwrapped.pause(np.array([False, False]))
    with pytest.raises(ResetNeeded, match="ended during a pause, at step 4"):
        envs.step([0, 0])


def test_a_step_that_was_interrupted_or_refused_counts_for_nobody():
    envs = side_by_side(AB)
    envs.reset(seed=0)
    envs.step([0, 0])
    with pytest.raises(ValueError, match="actions"):
        envs.step([0])
    active = envs.env.envs[1].unwrapped.env.active_env
    active.step = lambda action: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        envs.step([0, 0])
    del active.step
    assert envs.reset()[1]["phase"].tolist() == [0, 0]
    assert rows(envs.step([0, 0])) == "1b100| 1b100|"


def test_what_is_no_shared_stream_is_refused():
    def make_stream(*makers):
        return VectorTaskStream(MetaIterativeEnvExecutor(makers, len(makers)))

    with pytest.raises(TypeError, match="every environment is a TaskStream"):
        make_stream(*counting_makers(2))
    for first, second in (({}, {"phases": [("a", 5)]}), ({}, {"at_end": "raise"})):
        arguments = ({"phases": [("a", 4)], **kwargs} for kwargs in (first, second))
        with pytest.raises(ValueError, match=r"must have the same phases.* in environment 1"):
            make_stream(*(partial(flat, **kwargs) for kwargs in arguments))
    with pytest.raises(ValueError, match="at least 3 steps, one per environment, got 2"):
        side_by_side([("a", 4), ("b", 2)], 3)
    envs = side_by_side([("a", 40)])
    envs.reset(seed=0)
    envs.step([0, 0])
    for seed, mask in (([1, None], {}), (1, {"reset_mask": np.array([True, False])})):
        with pytest.raises(ValueError, match="a seed restarts the stream"):
            envs.reset(seed=seed, options=mask)
    with pytest.raises(ValueError, match="would become part of the stream: evaluate in separate"):
        evaluate(lambda obs: [0] * len(obs), envs, 1)
    assert envs.stream_steps == 2


def test_the_contract_of_vector_environments_is_kept():
    def make(makers, **kwargs):
        return VectorTaskStream(MetaIterativeEnvExecutor(makers, len(makers), **kwargs))

    phases = [("a", 500), (["b", "c"], 500)]
    check_meta_vector_env(make, [partial(flat, phases, lengths=(n, 3, 4)) for n in (2, 3, 5)])


# Kills and checkpoints.


class DeadlyEnv(FragileEnv):
    """Kills its worker in step ``at`` of an episode, or in a reset, once for each path."""

    def __init__(self, path, at, **kwargs):
        super().__init__(**kwargs)
        self.path, self.at = path, at

    def step(self, action):
        if self.steps == self.at:
            once(self.path, kill_itself)
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if self.at == "reset":
            once(self.path, kill_itself)
        return super().reset(seed=seed, options=options)


def deadly(path, at, i):
    """A stream of two tasks; the worker of environment 2 is killed where it says."""
    makers = [partial(FragileEnv, first=0, length=5)]
    makers += [partial(DeadlyEnv, path, at, first=100, length=5)]
    if i != 2:
        makers[1] = partial(FragileEnv, first=100, length=5)
    return FlattenMTEnv(TaskStream(MultiEnvWrapper(makers), [(1, 12), ([0, 1], 12), (1, 16)]))


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.usefixtures("leaves_nothing_behind")
@all_modes
@pytest.mark.parametrize("at", [2, 1, "reset"])
@pytest.mark.slow_but("1-SameStep", "2-NextStep", "reset-Disabled")
def test_kills_and_checkpoints_change_nothing_at_a_boundary_and_after_the_end(mode, at, tmp_path):
    """The third step of an episode ends a phase, and its reset begins one."""

    def make_stream(executor, path, *sizes, **kwargs):
        makers = [partial(deadly, path, at, i) for i in range(4)]
        inner = executor(makers, *sizes, autoreset_mode=mode, **kwargs)
        return closing(VectorRL2Observation(VectorTaskStream(inner)))

    actions = np.zeros((18, 4), dtype=np.int64)
    with (
        make_stream(MetaIterativeEnvExecutor, tmp_path, 2, 2) as undisturbed,
        make_stream(parallel, tmp_path / "done", on_worker_failure="recover") as killed,
        make_stream(MetaIterativeEnvExecutor, tmp_path, 2, 2, journal=True) as restored,
    ):
        expected = [undisturbed.reset(seed=1), *run_steps(undisturbed, actions)]
        assert all(result[-1]["stream_finished"].all() for result in expected[-4:])
        actual = [killed.reset(seed=1), *run_steps(killed, actions[:5])]
        for begin, end in ((5, 10), (10, 16), (16, 18)):  # in the second phase, the third, after it
            save_checkpoint(tmp_path / "stream", envs=killed)
            load_checkpoint(tmp_path / "stream", envs=restored)
            next_steps = run_steps(killed, actions[begin:end])
            assert equal(run_steps(restored, actions[begin:end]), next_steps)
            actual += next_steps
            kill(killed.unwrapped, 1)
        assert equal(actual, expected)
        assert killed.unwrapped.recoveries == 3
        assert len({envs.env.stream_steps for envs in (undisturbed, killed, restored)}) == 1
