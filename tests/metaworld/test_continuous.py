"""Goals that are drawn anew for each episode: ``goals="continuous"``."""

import copy
import hashlib
import json
import pickle

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaWorldSetTaskEnv
from mtwrappers.evaluation import few_shot_evaluate
from mtwrappers.metaworld import MetaWorldMTEnv
from mtwrappers.metaworld.tasks import decode
from mtwrappers.state.env_state import get_state, set_state
from mtwrappers.testing import check_mtenv
from tests.fakes import equal
from tests.metaworld.fakes import ITERATIVE, PAIR, PARALLEL, make, make_bare, make_vec, run_episode

CONTINUOUS = {"benchmark": "CustomMT", "train_classes": PAIR, "goals": "continuous"}
IDS = {"train_classes": PAIR, "goals": "continuous", "max_episode_steps": 4}


def draw_vectors(env, n, **reset):
    """The task state and random vector after each of ``n`` resets, the first with arguments."""
    drawn = []
    for i in range(n):
        env.reset(**reset if i == 0 else {})
        drawn.append(env.unwrapped.get_task_state())
        assert drawn[-1][1] == tuple(env.unwrapped.rand_vec.tolist())
    return drawn


# Which goals they are.


def test_seeds_draw_what_the_classes_of_meta_world_draw_in_all_of_them():
    env = MetaWorldMTEnv("MT50", goals="continuous")
    drawn = [env.exact_task_state(k, seed) for k in range(50) for seed in range(1000, 1010)]
    code = hashlib.sha256(b"".join(np.array(vector).tobytes() for _, vector in drawn))
    # Of `_last_rand_vec` after env.seed(s); env.reset(seed=s) of each class, as in the next test.
    assert code.hexdigest()[:16] == "6c37ebc777b669aa"
    assert env.envs_built == 0


def test_resets_draw_what_a_class_of_meta_world_draws_after_the_same_seed():
    theirs = make_bare("push-v3")
    theirs._freeze_rand_vec, theirs.seeded_rand_vec = False, True
    env = make("MT1", env_name="push-v3", goals="continuous")
    for seed in (1003, 1000):
        theirs.seed(seed)
        expected = []
        for _ in range(2):  # a reset without a seed goes on with the stream
            theirs.reset()
            expected.append(tuple(theirs._last_rand_vec.tolist()))
        assert [vector for _, vector in draw_vectors(env, 2, seed=seed)] == expected
    of_set_task = MetaWorldSetTaskEnv("MT1", env_name="push-v3", goals="continuous")
    of_set_task.reset(seed=1003)
    first = decode(of_set_task.get_task()["inner"])["rand_vec"]
    assert tuple(first) == MetaWorldMTEnv(**CONTINUOUS).exact_task_state(1, 1003)[1]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("where", [ITERATIVE, PARALLEL])
@pytest.mark.slow_but("where0")
def test_every_environment_of_a_vector_draws_what_one_alone_draws_from_its_seed(where, mode):
    seeds = [1000, 1000, 1007, 1007]
    with make_vec("CustomMT", 4, **IDS, **where, autoreset_mode=mode) as envs:
        envs.reset(seed=1000)
        first = envs.call("get_task_state")
        run_episode(envs, seed=seeds)
        if mode is AutoresetMode.NEXT_STEP:
            envs.step(envs.action_space.sample())
        elif mode is AutoresetMode.DISABLED:
            envs.reset()
        second = envs.call("get_task_state")
    for i in range(4):
        env = MetaWorldMTEnv(**CONTINUOUS, task_states=[i // 2])
        assert draw_vectors(env, 1, seed=1000 + i) == [first[i]]
        assert draw_vectors(env, 2, seed=seeds[i])[1] == second[i]


def test_a_goal_depends_on_the_seed_alone_and_not_on_earlier_episodes():
    env, other_env = MetaWorldMTEnv(**CONTINUOUS), MetaWorldMTEnv(**CONTINUOUS)
    expected = draw_vectors(env, 6, seed=3)
    draw_vectors(other_env, 3, seed=8)
    assert draw_vectors(other_env, 6, seed=3) == expected
    assert len({vector for _, vector in expected}) == 6
    assert {k for k, _ in expected} == {0, 1}
    fresh = [draw_vectors(MetaWorldMTEnv(**CONTINUOUS), 1)[0] for _ in range(2)]
    assert fresh[0] != fresh[1]  # from entropy
    assert draw_vectors(MetaWorldMTEnv(**CONTINUOUS, seed=3), 6) == expected


# To set one again.


def test_an_exact_task_state_plays_its_goal_again_through_json_and_elsewhere():
    env = MetaWorldMTEnv(**CONTINUOUS)
    expected = run_episode(env, seed=5)
    state = env.get_task_state()
    env.reset()
    assert env.get_task_state() != state
    other_env = MetaWorldMTEnv(**CONTINUOUS)
    for equal_state in (state, json.loads(json.dumps(state)), (state[0], np.array(state[1]))):
        assert equal(run_episode(other_env, options={"task_state": equal_state}), expected)
        other_env.set_task_state(equal_state)
        assert other_env.get_task_state() == state
        assert equal(run_episode(other_env), expected)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (2, r"task state must be an integer in \[0, 1\], got 2"),
        ((2, [0.0] * 6), r"the class of task state must be an integer in \[0, 1\], got 2"),
        ((0,), r"must be the index of a class, or \(index, random vector\), got \(0,\)"),
        ((0, "abc"), "the random vector of task state must be 3 or 6 finite numbers, got 'abc'"),
        ((0, [0.0] * 3), r"task state of reach-v3 must be 6 numbers between \[-0.1, 0.6, 0.02"),
        # Meta-World would draw for ever.
        ((1, [0.1, 0.7, 0.02, 0.1, 0.8, 0.01]), "object and the goal too close together"),
    ],
)
def test_what_no_reset_draws_is_refused_and_the_present_goal_stays(state, message):
    env = MetaWorldMTEnv(**CONTINUOUS)
    env.reset(seed=0)
    state_before = env.get_task_state()
    for set_goal in (
        env.set_task_state,
        lambda state: env.reset(seed=1, options={"task_state": state}),
    ):
        with pytest.raises(ValueError, match=message):
            set_goal(state)
    assert env.get_task_state() == state_before
    env.step(env.action_space.sample())


# Where states and processes go.


def test_it_keeps_the_contract_of_mtenv():
    check_mtenv(MetaWorldMTEnv(**CONTINUOUS), steps=1)


def test_states_copies_and_pickles_go_on_with_the_same_goals():
    env = MetaWorldMTEnv(**CONTINUOUS)
    draw_vectors(env, 2, seed=0)
    state = json.loads(json.dumps(env.get_state()))
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env)), MetaWorldMTEnv(**CONTINUOUS)]
    present = env.get_task_state()
    expected = draw_vectors(env, 4)
    copies[2].set_state(state)
    assert [copied_env.get_task_state() for copied_env in copies] == [present] * 3
    for copied_env in copies:
        assert draw_vectors(copied_env, 4) == expected
    with pytest.raises(ValueError, match="expected goals 'list', got 'continuous'"):
        set_state(MetaWorldMTEnv("CustomMT", train_classes=PAIR), get_state(env))
    del state["goal_stream"]
    with pytest.raises(ValueError, match="expected a state with 'goal_stream', got"):
        copies[2].set_state(state)


def test_goals_of_meta_learning_stay_until_they_are_sampled():
    with make_vec("CustomML-train", **IDS, test_classes=["door-open-v3"]) as envs:
        envs.reset(seed=1000)
        first = envs.call("get_task_state")
        assert first[0] == MetaWorldMTEnv(**CONTINUOUS).exact_task_state(0, 1000)
        run_episode(envs, n=6)
        assert envs.call("get_task_state") == first
        envs.call("sample_tasks")
        second = envs.call("get_task_state")
        assert [k for k, _ in second] == [0, 1]
        assert not {vector for _, vector in first} & {vector for _, vector in second}


class Trials:
    """A policy that could remember the episodes of a trial, and notes the goals of each."""

    def __init__(self, envs):
        self.envs, self.goals = envs, []

    def begin_trial(self):
        self.goals.append([])

    def reset(self, mask):
        self.goals[-1].append(self.envs.call("get_task_state"))

    def __call__(self, obs):
        return np.zeros((len(obs), 4), np.float32)


def test_a_few_shot_trial_stays_on_one_goal_in_all_environments_of_its_group():
    kwargs = {**IDS, "test_classes": ["door-open-v3"], "envs_per_task": 2}
    with make_vec("CustomML-train", **kwargs) as envs:
        policy = Trials(envs)
        results = [few_shot_evaluate(policy, envs, 2, 2, 2, seed=3) for _ in range(2)]
    assert equal(results[0].to_dict(), results[1].to_dict())
    goals = [{tasks[i : i + 2] for tasks in trial for i in (0, 2)} for trial in policy.goals]
    assert [len(trial) for trial in goals] == [2] * 4
    assert all(first_goal == second_goal for trial in goals for first_goal, second_goal in trial)
    assert goals[0] == goals[2] != goals[1] == goals[3]


def test_set_tasks_have_new_goals_and_play_them_in_another_process():
    env = MetaWorldSetTaskEnv(**CONTINUOUS, seed=2)
    tasks = env.sample_tasks(6)
    assert env.num_tasks == 2
    assert sorted(task["inner"].env_name for task in tasks) == sorted(PAIR * 3)
    assert len({task["inner"].data for task in tasks}) == 6
    state = env.get_state()
    next_tasks, other_env = env.sample_tasks(3), MetaWorldSetTaskEnv()
    for task in tasks[:3]:
        env.set_task(task)
        other_env.set_task(pickle.loads(pickle.dumps(task)))
        assert equal(run_episode(env), run_episode(other_env))
    restored = MetaWorldSetTaskEnv(**CONTINUOUS)
    restored.set_state(state)
    assert restored.sample_tasks(3) == next_tasks
    restored.seed_tasks(2)
    assert restored.sample_tasks(6) == tasks
