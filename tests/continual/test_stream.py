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
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from mtwrappers import (
    CheckpointError,
    EnvToMTEnv,
    FlattenMTEnv,
    MetaIterativeEnvExecutor,
    MultiEnvWrapper,
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
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
from tests.fakes import CountingEnv, check_env_warnings, counting_makers, equal
from tests.mixed_envs import RESCALED_PENDULUM
from tests.vector.fakes import all_modes, both_executors, exact
from tests.vector.faults import FragileEnv, kill, kill_itself, once, parallel, run_steps

LENGTHS = (4, 3, 6)
TEN = [(i % 3, 6) for i in range(10)]


def three_tasks(lengths=LENGTHS, **kwargs):
    """Tasks "a", "b", "c" that count from 0, 100, 200, and end after so many steps."""
    makers = [partial(CountingEnv, n, first=100 * i) for i, n in enumerate(lengths)]
    return MultiEnvWrapper(makers, task_names=list("abcdef"[: len(lengths)]), **kwargs)


def stream(phases, lengths=LENGTHS, **kwargs):
    return TaskStream(three_tasks(lengths), phases, **kwargs)


def flat(phases, **kwargs):
    return FlattenMTEnv(stream(phases, **kwargs))


def side_by_side(phases, n=2, mode=AutoresetMode.SAME_STEP, **kwargs):
    makers = [partial(flat, phases, **kwargs)] * n
    return VectorTaskStream(MetaIterativeEnvExecutor(makers, n, autoreset_mode=mode))


def run(env, steps):
    """The first number of each observation, the flags and the phase; resets in brackets."""
    seen = []
    for _ in range(steps):
        obs, _, terminated, truncated, info = env.step(0)
        seen.append((int(obs["env_obs"][0]), terminated, truncated, info["phase"]))
        if terminated or truncated:
            obs, info = env.reset()
            seen.append([int(obs["env_obs"][0]), info["phase"]])
    return seen


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
    theirs = ContinualPort(
        [
            TimeLimit(
                TaskOnehotWrapper(CountingEnv(LENGTHS[task], first=100 * task), i, len(visits)), 5
            )
            for i, task in enumerate(visits)
        ],
        budget,
    )
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
    for env in (ours, theirs):
        with pytest.raises(RuntimeError, match="finished"):
            env.step(0)


# One environment.


def test_a_phase_truncates_and_the_next_reset_is_of_the_next_task():
    env = stream([("a", 5), ("b", 2), ("a", 4)], at_end="raise")
    assert env.reset(seed=0)[1]["phase"] == 0
    assert run(env, 11) == [
        (1, False, False, 0),
        (2, False, False, 0),
        (3, False, False, 0),
        (4, True, False, 0),
        [0, 0],
        (1, False, True, 0),
        [100, 1],
        (101, False, False, 1),
        (102, False, True, 1),
        [0, 2],
        (1, False, False, 2),
        (2, False, False, 2),
        (3, False, False, 2),
        (4, True, True, 2),
        [0, 2],
    ]
    with pytest.raises(RuntimeError, match="its 3 phases have 11 steps, and all of them were tak"):
        env.step(0)


def test_a_phase_finishes_its_episode_in_the_budget_of_the_next():
    env = stream([("a", 5), ("b", 4), ("a", 3)], boundary="finish")
    env.reset(seed=0)
    assert run(env, 12) == [
        (1, False, False, 0),
        (2, False, False, 0),
        (3, False, False, 0),
        (4, True, False, 0),
        [0, 0],
        (1, False, False, 0),
        (2, False, False, 0),
        (3, False, False, 0),
        (4, True, False, 0),
        [100, 1],  # at step 8, one before the phase's end
        (101, False, False, 1),
        (102, False, False, 1),
        (103, True, False, 1),
        [0, 2],
        (1, False, True, 2),  # the end of the stream
        [0, 2],
    ]


@pytest.mark.parametrize("boundary", ["truncate", "finish"])
def test_after_the_end_the_last_task_goes_on_and_counts_for_nothing(boundary):
    env = stream([("a", 4), ("b", 2)], boundary=boundary)
    _, info = env.reset(seed=0)
    assert (info["stream_finished"], env.stream_finished, env.at_end) == (False, False, "stay")
    assert run(env, 6)[-2:] == [(102, False, True, 1), [100, 1]]
    assert (env.stream_finished, env.stream_steps) == (True, 6)
    for _ in range(3):
        # Whole episodes of the last task.
        *_, terminated, truncated, info = env.step(0)
        assert (terminated, truncated, info["phase"], info["stream_finished"]) == (
            False,
            False,
            1,
            True,
        )
        assert run(env, 2) == [(102, False, False, 1), (103, True, False, 1), [100, 1]]
    assert env.stream_steps == 6
    assert env.reset(options={"task_state": 0})[1]["stream_finished"]
    _, info = env.reset(seed=0)
    assert (info["phase"], info["stream_finished"], env.stream_steps) == (0, False, 0)
    assert run(env, 4)[-1] == [100, 1]


def test_the_last_step_of_a_stream_is_part_of_it_and_a_reset_follows():
    env = stream([("a", 2)])
    env.reset(seed=0)
    env.step(0)
    *_, truncated, info = env.step(0)
    assert (truncated, info["stream_finished"]) == (True, False)
    with pytest.raises(ResetNeeded, match="phase 0 goes on after the end of the stream"):
        env.step(0)
    env.held_phase = 0
    assert not env.reset()[1]["stream_finished"]  # an evaluation is not after the end


def test_a_stream_goes_on_after_its_end_from_its_state(tmp_path):
    phases = [("a", 3), (["b", "c"], 4)]
    env, other = stream(phases), stream(phases)
    env.reset(seed=3)
    run(env, 9)
    save_checkpoint(tmp_path / "stream", env=env)
    load_checkpoint(tmp_path / "stream", env=other)
    for one in (env, other):
        assert one.reset()[1]["stream_finished"]
    assert equal(run(other, 20), run(env, 20))
    assert other.stream_steps == 7


def test_phases_say_which_steps_they_have():
    env = stream([("a", 5), (["b", 2], 2), (range(2), 4)])
    assert [tuple(phase) for phase in env.phases] == [([0], 5), ([1, 2], 2), ([0, 1], 4)]
    assert env.total_steps == 11
    assert [env.phase_of(step) for step in range(11)] == [0] * 5 + [1] * 2 + [2] * 4
    for step in (-1, 11):
        with pytest.raises(
            ValueError, match=exact(f"step must be an integer in [0, 10], got {step}")
        ):
            env.phase_of(step)


def test_resets_draw_from_the_tasks_of_a_phase_as_the_seed_says():
    env = stream([([0, 2], 60)])
    drawn = []
    for seed in (1, 1, 2):
        ids = [env.reset(seed=seed)[1]["task_id"]]
        ids += [env.reset()[1]["task_id"] for _ in range(40)]
        assert set(ids) == {0, 2}
        drawn.append(ids)
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_name_stands_for_all_task_states_of_its_id():
    env = gymnasium.make("mtwrappers/CustomMT-v0", num_goals=3, task_encoding="dict")
    assert TaskStream(env, [("push-v3", 9)]).phases[0].tasks == [3, 4, 5]


def test_tasks_may_be_elements_of_a_space():
    tasks = Box(-5.0, 5.0, (1,), np.float64)
    env = EnvToMTEnv(CountingEnv(9), tasks, lambda env, task: setattr(env, "first", int(task[0])))
    env = TaskStream(env, [(np.full(1, -3.0), 1), ([np.full(1, 2.0), np.full(1, 4.0)], 20)])
    assert env.reset(seed=0)[0]["task_obs"] == -3.0
    env.step(0)
    assert {float(env.reset()[0]["task_obs"][0]) for _ in range(20)} == {2.0, 4.0}


def test_a_seed_begins_the_stream_anew_and_nothing_else_does():
    env = stream([("a", 2), ("b", 2)])
    env.reset(seed=0)
    run(env, 3)
    assert (env.stream_steps, env.reset()[1]["phase"]) == (3, 1)
    assert env.reset(seed=0)[1]["phase"] == env.stream_steps == 0


def test_a_task_that_is_asked_for_is_played_once_in_the_budget_of_the_phase():
    env = stream([("a", 2), ("b", 4)])
    env.reset(seed=0)

    obs, info = env.reset(options={"task_state": 2})
    assert (obs["env_obs"][0], info["task_id"], info["phase"]) == (200, 2, 0)
    env.set_task_state(1)
    with pytest.raises(ResetNeeded, match="a task was set"):
        env.step(0)
    assert env.reset()[1]["task_id"] == 1
    assert env.reset(options={"resample_task": True})[1]["task_id"] == 0
    run(env, 2)
    assert env.phase == 1


def test_after_a_boundary_a_reset_is_due():
    env = stream([("a", 2), ("b", 2)])
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    with pytest.raises(ResetNeeded, match="phase 1 continues with step 2"):
        env.step(0)


def test_a_held_phase_is_played_without_counting_and_without_an_end():
    env = stream([("a", 2), ("b", 2)], task_obs="phase")
    env.held_phase = 1
    obs, info = env.reset(seed=0)
    assert (obs["task_obs"], info["phase"], info["task_id"]) == (1, 1, 1)
    assert [entry for entry in run(env, 9) if entry != [100, 1]] == [
        (101, False, False, 1),
        (102, False, False, 1),
        (103, True, False, 1),
    ] * 3
    assert env.stream_steps == 0
    env.held_phase = None
    assert env.reset()[1]["phase"] == 0


# The words that are observed of a task.


WORDS = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.4], [0.0, 0.0, 1.0]])


def words(env, steps):
    """The embedding and the one-hot of each observation, from a seeded reset on."""
    obs, _ = env.reset(seed=0)
    seen = [(obs[2:5].tolist(), obs[5:].tolist())]
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(0)
        seen.append((obs[2:5].tolist(), obs[5:].tolist()))
        if terminated or truncated:
            obs, _ = env.reset()
            seen.append((obs[2:5].tolist(), obs[5:].tolist()))
    return seen


@pytest.mark.parametrize(("task_obs", "size", "third"), [("task", 3, 0), ("phase", 4, 2)])
def test_an_embedding_of_each_task_is_shown_in_its_phases(task_obs, size, third):
    phases = [("a", 2), ("b", 2), ("a", 2), (["b", "c"], 9)]
    env = TaskStream(three_tasks(task_embedding=WORDS), phases, task_obs=task_obs)
    check_mtenv(env)
    onehot = np.eye(size)
    first, second = (WORDS[0].tolist(), onehot[0].tolist()), (WORDS[1].tolist(), onehot[1].tolist())
    again = WORDS[0].tolist(), onehot[third].tolist()
    assert words(FlattenMTEnv(env), 6)[:9] == [first] * 3 + [second] * 3 + [again] * 3


def test_an_embedding_of_each_phase_is_shown_and_each_observation_has_its_own():
    phases = [("a", 2), ("b", 2), ("a", 2)]
    env = TaskStream(three_tasks(), phases, task_embedding=WORDS)
    check_mtenv(env)
    assert env.observation_space["task_embedding"] == Box(
        WORDS.min(axis=0), WORDS.max(axis=0), dtype=np.float64
    )
    observed = [embedding for embedding, _ in words(FlattenMTEnv(env), 6)]
    assert observed[:9] == [WORDS[i].tolist() for i in (0, 0, 0, 1, 1, 1, 2, 2, 2)]
    obs, _ = env.reset(seed=0)
    obs["task_embedding"][:] = 7
    assert equal(env.observe(obs["env_obs"])["task_embedding"], WORDS[0])
    flat = FlattenMTEnv(TaskStream(three_tasks(), phases, task_embedding=WORDS), "none")
    assert check_env_warnings(flat, skip_render_check=True) == []
    assert flat.observation_space.shape == (2 + 3,)


def test_mixed_environments_in_a_stream_return_embeddings():
    made = gymnasium.make(
        "mtwrappers/MultiEnv-v0",
        env_ids=[RESCALED_PENDULUM, "MountainCarContinuous-v0"],
        unify="pad",
        task_encoding="dict",
        task_embedding=WORDS[:2].tolist(),
    )
    env = FlattenMTEnv(TaskStream(made, [(RESCALED_PENDULUM, 2), ("MountainCarContinuous-v0", 2)]))
    observed = []
    for _ in range(2):
        obs, _ = env.reset(seed=None if observed else 0)
        observed += [obs[3:].tolist(), env.step(env.action_space.sample())[0][3:].tolist()]
        env.step(env.action_space.sample())
    expected = np.hstack([np.float32(WORDS[:2]), np.eye(2)]).tolist()
    assert equal(observed, [expected[0]] * 2 + [expected[1]] * 2)


def with_another_key():
    def change(obs):
        return {**obs, "words": np.zeros(1)}

    env = three_tasks()
    space = gymnasium.spaces.Dict({**env.observation_space, "words": Box(0, 1, (1,), np.float64)})
    return gymnasium.wrappers.TransformObservation(env, change, space)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"phases": []}, ValueError, "phases must hold at least one pair (tasks, steps), got none"),
        ({"phases": [3]}, TypeError, "phase 0 must be a pair (tasks, steps), got 3"),
        ({"phases": [("a", 0)]}, ValueError, "the steps of phase 0 must be a positive integer"),
        ({"phases": [("x", 1)]}, ValueError, "phase 0: a task must be one of ['a', 'b', 'c'], got"),
        ({"phases": [(0, 1), (3, 1)]}, ValueError, "phase 1: a task state must be an integer in"),
        ({"phases": [([], 1)]}, ValueError, "the tasks of phase 0 must hold at least one task"),
        ({"boundary": "end"}, ValueError, "boundary must be 'truncate' or 'finish', got 'end'"),
        ({"task_obs": "id"}, ValueError, "task_obs must be 'task' or 'phase', got 'id'"),
        ({"at_end": "stop"}, ValueError, "at_end must be 'stay' or 'raise', got 'stop'"),
        ({"env": CountingEnv()}, TypeError, "expected an MTEnv with observations {env_obs, task"),
        ({"env": FlattenMTEnv(three_tasks())}, TypeError, "wrappers that flatten observations"),
        ({"env": with_another_key()}, TypeError, "with the keys ['env_obs', 'task_obs', 'words']"),
        (
            {"task_embedding": [[1.0]] * 2},
            ValueError,
            "an array (1, E) of numbers, a row for each p",
        ),
        (
            {"env": three_tasks(task_embedding=[[1.0]] * 3), "task_embedding": [[1.0]]},
            ValueError,
            "has an embedding of each task already, got one of shape (1, 1)",
        ),
    ],
)
def test_what_is_no_stream_is_refused(change, error, message):
    given = {"env": three_tasks(), "phases": [("a", 1)], **change}
    with pytest.raises(error, match=exact(message)):
        TaskStream(given.pop("env"), given.pop("phases"), **given)


@pytest.mark.parametrize("task_obs", ["task", "phase"])
def test_the_contracts_of_single_environments_are_kept(task_obs):
    phases = [("a", 50), (["b", "c"], 50)]
    check_mtenv(stream(phases, task_obs=task_obs))
    assert check_env_warnings(flat(phases, task_obs=task_obs), skip_render_check=True) == []
    copied = pickle.loads(pickle.dumps(stream(phases, task_obs=task_obs)))
    assert copied.reset(seed=3)[1]["phase"] == 0


def test_a_stream_goes_on_from_its_state(tmp_path):
    env, other = (stream([([0, 1], 5), ([1, 2], 50)], lengths=(2, 2, 2)) for _ in range(2))
    env.reset(seed=3)
    run(env, 7)
    save_checkpoint(tmp_path / "stream", env=env)
    load_checkpoint(tmp_path / "stream", env=other)
    for one in (env, other):
        one.reset()
    assert equal(run(other, 12), run(env, 12))
    with pytest.raises(CheckpointError, match=r"another TaskStream: expected phases "):
        load_checkpoint(tmp_path / "stream", env=stream([(0, 5)]))


def test_a_state_asks_for_a_reset_and_keeps_the_task_that_was_set():
    env, other = stream([("a", 9)]), stream([("a", 9)])
    env.reset(seed=3)
    env.set_task_state(2)
    other.reset(seed=3)
    other.set_state(env.get_state())
    with pytest.raises(ResetNeeded, match=exact("call reset() before step()")):
        other.step(0)
    assert [other.reset()[1]["task_id"] for _ in range(2)] == [2, 0]


# Side by side.


def rows(result):
    """The first number of each observation, the end of each onehot, the flags and the phases."""
    obs, _, terminated, truncated, infos = result
    return (
        obs[:, 0].tolist(),
        obs[:, 2:].argmax(axis=1).tolist(),
        terminated.tolist(),
        truncated.tolist(),
        infos["phase"].tolist(),
    )


NONE, ALL = [False, False], [True, True]


def test_at_a_boundary_same_step_resets_all_and_keeps_what_they_have_seen():
    envs = side_by_side([("a", 4), ("b", 4)], at_end="raise")
    envs.reset(seed=0)
    assert rows(envs.step([0, 0])) == ([1, 1], [0, 0], NONE, NONE, [0, 0])
    result = envs.step([0, 0])
    assert rows(result) == ([100, 100], [1, 1], NONE, ALL, [1, 1])
    assert [obs.tolist() for obs in result[4]["final_obs"]] == [[2, 2, 1, 0, 0]] * 2
    assert result[4]["final_info"]["phase"].tolist() == [0, 0]
    assert rows(envs.step([0, 0])) == ([101, 101], [1, 1], NONE, NONE, [1, 1])
    result = envs.step([0, 0])
    assert rows(result)[2:] == (NONE, ALL, [1, 1])
    assert [obs[0] for obs in result[4]["final_obs"]] == [102, 102]
    with pytest.raises(RuntimeError, match="its 2 phases have 8 steps"):
        envs.step([0, 0])
    envs.reset()
    with pytest.raises(RuntimeError, match="the stream is finished"):
        envs.step([0, 0])
    assert envs.reset(seed=0)[1]["phase"].tolist() == [0, 0]
    assert rows(envs.step([0, 0])) == ([1, 1], [0, 0], NONE, NONE, [0, 0])


def uneven(phases, mode, at_end="raise"):
    """Environment 0 has episodes of 2 steps and environment 1 of 3."""
    makers = [partial(flat, phases, lengths=(n, n), at_end=at_end) for n in (2, 3)]
    return VectorTaskStream(MetaIterativeEnvExecutor(makers, 2, autoreset_mode=mode))


def test_at_a_boundary_next_step_resets_in_the_step_after_it_and_does_not_count_resets():
    envs = uneven([("a", 7), ("b", 5)], AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    seen = [(*rows(envs.step([0, 0])), envs.stream_steps) for _ in range(8)]
    assert seen == [
        ([1, 1], [0, 0], NONE, NONE, [0, 0], 2),
        ([2, 2], [0, 0], [True, False], NONE, [0, 0], 4),
        ([0, 3], [0, 0], [False, True], NONE, [0, 0], 5),  # environment 0 is reset
        ([1, 0], [0, 0], NONE, NONE, [0, 0], 6),
        ([2, 1], [0, 0], [True, False], ALL, [0, 0], 8),  # a step beyond the end at 7
        ([100, 100], [1, 1], NONE, NONE, [1, 1], 8),
        ([101, 101], [1, 1], NONE, NONE, [1, 1], 10),
        ([102, 102], [1, 1], [True, False], ALL, [1, 1], 12),
    ]
    with pytest.raises(RuntimeError, match="the stream is finished"):
        envs.step([0, 0])


def test_what_is_reset_in_the_step_of_a_boundary_begins_the_next_phase():
    envs = uneven([("a", 5), ("b", 9)], AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    envs.step([0, 0])
    envs.step([0, 0])
    expected = ([100, 3], [1, 0], [False, True], [False, True], [1, 0])
    assert rows(envs.step([0, 0])) == expected
    assert rows(envs.step([0, 0])) == ([101, 100], [1, 1], NONE, NONE, [1, 1])


def test_at_a_boundary_disabled_leaves_the_resets_to_the_caller():
    envs = uneven([("a", 8), ("b", 4)], AutoresetMode.DISABLED)
    envs.reset(seed=0)
    results = [rows(one)[:4] for one in run_steps(envs, [[0, 0]] * 4) if len(one) == 5]
    assert results == [
        ([1, 1], [0, 0], NONE, NONE),
        ([2, 2], [0, 0], [True, False], NONE),
        ([1, 3], [0, 0], [False, True], NONE),
        ([2, 1], [0, 0], [True, False], ALL),
    ]
    with pytest.raises(RuntimeError, match="the stream is finished"):
        run_steps(envs, [[0, 0]] * 9)
    assert envs.stream_steps == 12
    fresh = uneven([("a", 8), ("b", 4)], AutoresetMode.DISABLED)
    fresh.reset(seed=0)
    run_steps(fresh, [[0, 0]] * 3)
    fresh.step([0, 0])
    with pytest.raises(ResetNeeded, match=exact("environments [0, 1] have ended")):
        fresh.step([0, 0])
    obs, infos = fresh.reset(options={"reset_mask": np.array([True, False])})
    assert (obs[:, 0].tolist(), infos["phase"].tolist()) == ([100, 1], [1, 0])


def test_episodes_that_finish_go_to_the_next_phase_one_by_one():
    makers = [
        partial(flat, [("a", 4), ("b", 8)], lengths=(n, n), boundary="finish") for n in (2, 3)
    ]
    envs = VectorTaskStream(MetaIterativeEnvExecutor(makers, 2))
    envs.reset(seed=0)
    assert [rows(envs.step([0, 0])) for _ in range(6)] == [
        ([1, 1], [0, 0], NONE, NONE, [0, 0]),
        ([100, 2], [1, 0], [True, False], NONE, [1, 0]),
        ([101, 100], [1, 1], [False, True], NONE, [1, 1]),
        ([100, 101], [1, 1], [True, False], NONE, [1, 1]),
        ([101, 102], [1, 1], NONE, NONE, [1, 1]),
        ([100, 100], [1, 1], ALL, ALL, [1, 1]),
    ]


@all_modes
def test_after_the_end_all_environments_stay_with_the_last_task(mode):
    envs = uneven([("a", 7), ("b", 5)], mode, at_end="stay")
    envs.reset(seed=0)
    run_steps(envs, [[0, 0]] * 8)
    assert (envs.stream_finished, envs.at_end) == (True, "stay")
    steps = envs.stream_steps
    assert steps in (12, 13)
    later = [result for result in run_steps(envs, [[0, 0]] * 12)[2:] if len(result) == 5]
    assert all(result[-1]["stream_finished"].all() for result in later)
    assert all(result[-1]["phase"].tolist() == [1, 1] for result in later)
    assert not any(result[3].any() for result in later)
    # Episodes have their own lengths, 2 and 3.
    ended = [result[2] for result in later]
    assert all(np.count_nonzero(column) >= 2 for column in np.transpose(ended))
    assert envs.stream_steps == steps
    assert not envs.reset(seed=0)[1]["stream_finished"].any()
    assert envs.stream_steps == 0


def test_the_step_that_ends_a_stream_is_the_last_that_counts():
    envs = side_by_side([("a", 3)])
    envs.reset(seed=0)
    envs.step([0, 0])
    *_, truncated, infos = envs.step([0, 0])
    assert (truncated.tolist(), infos["stream_finished"].tolist()) == (ALL, ALL)
    assert infos["final_info"]["stream_finished"].tolist() == NONE
    assert envs.stream_steps == 4  # a step beyond the end, as at every boundary
    *_, infos = envs.step([0, 0])
    assert (infos["stream_finished"].tolist(), envs.stream_steps) == (ALL, 4)


@all_modes
def test_statistics_of_tasks_stop_at_the_end_of_a_stream(mode):
    envs = uneven([("a", 6), ("b", 6)], mode, at_end="stay")
    envs = VectorNormalizeRewardPerTask(VectorNormalizeObservationPerTask(envs))
    envs.reset(seed=0)
    while not envs.env.env.stream_finished:
        run_steps(envs, [[0, 0]])
    if mode is AutoresetMode.NEXT_STEP:
        run_steps(envs, [[0, 0]])

    def statistics():
        return [
            {k: one.get_state()[k] for k in ("count", "mean", "m2")} for one in (envs, envs.env)
        ]

    before = statistics()
    state = json.loads(json.dumps([envs.get_state(), envs.env.get_state()]))
    assert state[0]["episodes"]["uncounted"] == [0, 1]
    run_steps(envs, [[0, 0]] * 6)
    assert statistics() == before
    for one, kept in zip((envs, envs.env), state, strict=True):
        one.set_state(kept)
    run_steps(envs, [[0, 0]] * 3)
    assert statistics() == before
    envs.reset(seed=0)
    run_steps(envs, [[0, 0]])
    assert statistics() != before


def test_statistics_of_one_environment_stop_at_the_end_of_a_stream():
    env = NormalizeRewardPerTask(NormalizeObservationPerTask(flat([("a", 2), ("b", 3)])))
    env.reset(seed=0)
    counts = []
    for _ in range(9):
        *_, terminated, truncated, _ = env.step(0)
        counts.append([sum(one.get_state()["count"]) // 1 for one in (env, env.env)])
        if terminated or truncated:
            env.reset()
    # The last step that counts is the fifth: with two resets, seven observations were seen.
    assert counts[4:] == [[5.0, 7.0]] * 5


def test_each_plays_what_it_would_alone_with_its_share_of_the_budgets():
    """In step with each other, three environments divide a budget evenly."""
    phases = [([0, 1], 15), ("b", 9), ([1, 2], 21)]
    share = [(tasks, steps // 3) for tasks, steps in phases]
    ours = side_by_side(phases, 3)
    alone = SyncVectorEnv([partial(flat, share)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert equal(ours.reset(seed=5), alone.reset(seed=5))
    for _ in range(15):
        assert equal(ours.step([0] * 3), alone.step([0] * 3))


def test_environments_that_rest_do_not_count():
    envs = side_by_side([("a", 6), ("b", 6)])
    envs.reset(seed=0)
    envs.unwrapped.pause(np.array([True, False]))
    for _ in range(3):
        envs.step([0, 0])
    assert envs.stream_steps == 3
    envs.reset()
    assert [rows(envs.step([0, 0]))[3:] for _ in range(2)] == [(NONE, [0, 0]), (ALL, [1, 1])]


def test_a_reset_that_a_pause_postponed_does_not_count():
    envs = side_by_side([("b", 9), ("a", 9)], mode=AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    for _ in range(3):  # whose last one ends both episodes
        envs.step([0, 0])
    counts = []
    for paused in (True, False):
        envs.unwrapped.pause(np.array([paused, False]))
        envs.step([0, 0])  # resets the second one; then the first one, and steps the second
        counts.append(envs.stream_steps)
    assert counts == [6, 7]


def test_a_step_that_was_interrupted_or_refused_counts_for_nobody():
    envs = side_by_side([("a", 4), ("b", 4)])
    envs.reset(seed=0)
    envs.step([0, 0])
    with pytest.raises(ValueError, match="actions"):
        envs.step([0])
    envs.env.envs[1].unwrapped.env.active_env.step = lambda action: signal.raise_signal(
        signal.SIGINT
    )
    with pytest.raises(KeyboardInterrupt):
        envs.step([0, 0])
    del envs.env.envs[1].unwrapped.env.active_env.step
    assert envs.reset()[1]["phase"].tolist() == [0, 0]
    assert rows(envs.step([0, 0]))[3:] == (ALL, [1, 1])


@pytest.mark.parametrize("seed", [[1, None], 1])
def test_a_seed_for_some_is_refused(seed):
    envs = side_by_side([("a", 4), ("b", 4)])
    envs.reset(seed=0)
    mask = {} if isinstance(seed, list) else {"reset_mask": np.array([True, False])}
    with pytest.raises(ValueError, match="a seed restarts the stream"):
        envs.reset(seed=seed, options=mask)


def test_what_is_no_shared_stream_is_refused():
    with pytest.raises(TypeError, match="every environment is a TaskStream"):
        VectorTaskStream(MetaIterativeEnvExecutor(counting_makers(2), 2))
    makers = [partial(flat, [("a", n)]) for n in (4, 5)]
    with pytest.raises(ValueError, match=r"must have one stream, got .* in environment 1"):
        VectorTaskStream(MetaIterativeEnvExecutor(makers, 2))
    makers = [partial(flat, [("a", 4)], at_end=at_end) for at_end in ("stay", "raise")]
    with pytest.raises(ValueError, match="got at_end stay in environment 0 and raise in environ"):
        VectorTaskStream(MetaIterativeEnvExecutor(makers, 2))
    with pytest.raises(ValueError, match="at least 3 steps, one per environment, got 2 for"):
        side_by_side([("a", 4), ("b", 2)], 3)


def test_an_evaluation_does_not_take_place_in_a_stream():
    envs = side_by_side([("a", 40)])
    envs.reset(seed=0)
    envs.step([0, 0])
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
    """Kills its worker in step ``at`` of an episode, once for each path."""

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
def test_a_kill_at_a_boundary_changes_nothing(mode, at, tmp_path):
    """The third step of an episode ends a phase, and its reset begins one."""

    path = tmp_path / "done"
    makers = [partial(deadly, path, at, i) for i in range(4)]
    undisturbed = [partial(deadly, tmp_path, at, i) for i in range(4)]
    actions = np.zeros((9, 4), dtype=np.int64)
    with (
        closing(parallel(makers, autoreset_mode=mode, on_worker_failure="recover")) as inner,
        closing(MetaIterativeEnvExecutor(undisturbed, 2, 2, autoreset_mode=mode)) as other,
    ):
        results = []
        for envs in (VectorTaskStream(inner), VectorTaskStream(other)):
            first = envs.reset(seed=1)
            results.append([first, run_steps(envs, actions), envs.stream_steps])
        assert equal(*results)
        assert inner.recoveries == 1


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.usefixtures("leaves_nothing_behind")
@all_modes
@pytest.mark.slow_but("NextStep")
def test_after_the_end_kills_checkpoints_and_workers_change_nothing(mode, tmp_path):
    makers = [partial(deadly, tmp_path, 2, i) for i in range(4)]
    actions = np.zeros((18, 4), dtype=np.int64)
    with closing(MetaIterativeEnvExecutor(makers, 2, 2, autoreset_mode=mode)) as inner:
        envs = VectorTaskStream(inner)
        envs.reset(seed=1)
        expected, steps = run_steps(envs, actions), envs.stream_steps
        assert envs.stream_finished

    def same(found):
        over = [result[-1]["stream_finished"] for result in expected[-6:]]
        assert np.all(over)
        assert equal(found, expected)

    for workers in (1, 2, 4):
        made = parallel(makers, workers=workers, autoreset_mode=mode)
        with closing(made) as inner:
            envs = VectorTaskStream(inner)
            envs.reset(seed=1)
            same(run_steps(envs, actions))

    # Killed after the end, and saved and loaded in mid-episode after it.
    with (
        closing(parallel(makers, autoreset_mode=mode, on_worker_failure="recover")) as inner,
        closing(MetaIterativeEnvExecutor(makers, 2, 2, autoreset_mode=mode, journal=True)) as other,
    ):
        envs, others = VectorTaskStream(inner), VectorTaskStream(other)
        envs.reset(seed=1)
        found = run_steps(envs, actions[:14])
        assert envs.stream_finished
        kill(inner, 1)
        found += run_steps(envs, actions[14:16])
        save_checkpoint(tmp_path / "stream", envs=envs)
        load_checkpoint(tmp_path / "stream", envs=others)
        same(found + run_steps(others, actions[16:]))
        assert inner.recoveries == 1
        assert others.stream_steps == steps


@both_executors
@all_modes
@pytest.mark.slow_but("iterative", "NextStep-parallel")
def test_a_checkpoint_in_phase_7_goes_on_as_the_unbroken_run(executor, mode, tmp_path):
    def make():
        makers = [partial(flat, TEN, lengths=(n, 3, 5), task_obs="phase") for n in (2, 4)]
        inner = (
            executor(makers, 2, journal=True, autoreset_mode=mode)
            if local
            else executor(makers, 2, on_worker_failure="recover", autoreset_mode=mode)
        )
        return VectorRL2Observation(VectorTaskStream(inner))

    local = executor is MetaIterativeEnvExecutor
    with closing(make()) as envs, closing(make()) as others:
        envs.reset(seed=3)
        while envs.env.stream_steps < 43 or (
            mode is AutoresetMode.NEXT_STEP and not envs.unwrapped.next_rows()[1].any()
        ):
            run_steps(envs, [[0, 0]])  # in NEXT_STEP, until one of them is to be reset
        assert envs.env.phase == 7
        save_checkpoint(tmp_path / "stream", envs=envs)
        load_checkpoint(tmp_path / "stream", envs=others)
        steps = (60 - envs.env.stream_steps) // 2
        assert equal(run_steps(others, [[0, 0]] * steps), run_steps(envs, [[0, 0]] * steps))
        assert others.env.stream_steps == envs.env.stream_steps > 50
