"""The input of RL^2, of environments and vector environments; see also ``test_forms.py``."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode
from metaworld.wrappers import RNNBasedMetaRLWrapper

import mtwrappers as mt
from mtwrappers.vector.calls import has_trials
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers, equal, play
from tests.samplers.fakes import lazy
from tests.vector.fakes import BoxCountingEnv
from tests.wrappers.fakes import tasked_makers


def play_tails(env, actions, **reset):
    """Plays an episode, and returns what is appended to the two numbers of each observation."""
    return [result[0][..., 2:].tolist() for result in play(env, actions, **reset)]


def make_two_tasks():
    return mt.FlattenMTEnv(mt.MultiEnvWrapper(counting_makers(2)), "none")


def make_stepped_envs(**kwargs):
    """Makes a vector environment of three tasks, and makes a step."""
    envs = mt.VectorRL2Observation(mt.MetaIterativeEnvExecutor(tasked_makers(), 3, **kwargs))
    envs.reset(seed=0)
    envs.step([1] * 3)
    return envs


# What is appended, and when a trial begins.


def test_the_last_action_reward_and_end_are_appended_and_stay_across_a_trials_episodes():
    env = mt.RL2Observation(CountingEnv(2))
    assert play_tails(env, [1, 0], seed=0) == [[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 2, 1]]
    assert env.step(0)[0][:2].tolist() == [3, 3]
    assert play_tails(env, [1]) == [[1, 0, 3, 1], [0, 1, 1, 0]]
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]  # that episode was cut
    assert env.reset()[0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("make", "reset"),
    [
        (make_two_tasks, {"seed": 0}),
        (make_two_tasks, {"options": {"task_state": 0}}),
        (make_two_tasks, {"options": {"resample_task": True}}),
        (CountingSetTaskEnv, {"options": {"task": {"first": 0}}}),
    ],
)
def test_a_seed_or_asking_for_a_task_begins_a_trial_whichever_it_is(make, reset):
    env = mt.RL2Observation(make())
    play_tails(env, [1], seed=0)
    assert env.reset(**reset)[0][2:].tolist() == [0] * 4
    assert env.reset()[0][2:].tolist() == [0] * 4  # nothing was done since


class IdentifiedEnv(CountingEnv):
    task_id = 0

    def _info(self):
        return {**super()._info(), "task_id": self.task_id}


@dataclass
class Goal:
    position: Any


class GoalEnv(CountingEnv):
    """Has tasks that are objects with an array."""

    def set_task(self, task):
        self.task = Goal(np.array([1.0, task]))

    def get_task(self):
        return self.task


@pytest.mark.parametrize(
    ("make", "set_task"),
    [
        (GoalEnv, lambda env, task: env.unwrapped.set_task(task)),
        (make_two_tasks, lambda env, task: env.get_wrapper_attr("set_task_state")(task)),
        (CountingSetTaskEnv, lambda env, task: env.unwrapped.set_task({"first": task})),
        (IdentifiedEnv, lambda env, task: setattr(env.unwrapped, "task_id", task)),
    ],
    ids=["object", "state", "task", "id"],
)
def test_another_task_begins_a_trial_and_the_same_one_again_does_not(make, set_task):
    env = mt.RL2Observation(make())
    set_task(env, 0)
    play_tails(env, [1], seed=0)
    for task, tail in ((0, [0, 1, 1, 1]), (1, [0] * 4), (1, [0, 1, 1, 1])):
        set_task(env, task)
        assert env.reset()[0][2:].tolist() == tail
        env.step(1)


class UntoldTaskEnv(CountingEnv):
    """Has tasks, and neither a method nor infos that tell them."""

    def set_task(self, task):
        pass


@pytest.mark.parametrize("make", [CountingSetTaskEnv, UntoldTaskEnv, make_two_tasks])
@pytest.mark.parametrize("workers", [0, 2])
def test_tasks_that_a_vector_environment_sets_begin_trials_even_the_same_again(make, workers):
    task = 0 if make is make_two_tasks else {"first": 0}
    makers = [lambda: mt.RL2Observation(make()), lambda: mt.RL2Observation(make())]
    envs = mt.as_vector(makers, workers=workers)
    for _ in range(2):
        envs.set_tasks([task] * 2)
        assert envs.reset()[0][:, 2:].tolist() == [[0] * 4] * 2
        envs.step([1] * 2)
        assert envs.reset()[0][:, 2:].tolist() == [[0, 1, 1, 1]] * 2
    envs.close()


def test_update_tasks_of_a_sampler_begins_trials_and_its_next_samples_continue_them():
    sampler = mt.MetaSampler(lambda: mt.RL2Observation(CountingSetTaskEnv()), lazy, 1, 2, 9)
    for _ in range(2):
        sampler.update_tasks([{"first": 10}, {"first": 20}])
        for appended in ([0, 0, 0, 0], [1, 0, 3, 1]):
            paths = sampler.obtain_samples()
            for task in (0, 1):
                assert paths[task][0]["observations"][0, 2:].tolist() == appended
    sampler.close()


class MovingGoalEnv(CountingEnv):
    """Has another task in every episode, in one and the same dict; infos do not say so."""

    task = {"goal": 0}  # noqa: RUF012

    def get_task(self):
        return self.task

    def reset(self, *, seed=None, options=None):
        self.task["goal"] += 1
        return super().reset(seed=seed, options=options)


def make_rl2():
    return mt.RL2Observation(CountingSetTaskEnv())


def test_an_update_and_the_old_interface_begin_trials_even_on_the_same_task_again():
    update, env = mt.SetTaskUpdate(make_rl2, {"first": 10}), make_rl2()
    old = mt.OldGym(env, [{"first": 10}])
    for _ in range(2):
        assert old.reset_task(0)[2:].tolist() == [0] * 4
        old.step(1)
        assert old.reset()[2:].tolist() == [0, 1, 1, 1]
    env = update()
    for _ in range(2):
        env = update(env)
        assert env.reset()[0][2:].tolist() == [0] * 4
        env.step(1)
        assert env.reset()[0][2:].tolist() == [0, 1, 1, 1]


class OwnTrialsEnv(CountingSetTaskEnv):
    """Has a method of the same name, which means something else."""

    def begin_trial(self, number):
        raise AssertionError("nobody asked for it")


def test_only_wrappers_are_told_that_a_trial_begins():
    envs = mt.as_vector([OwnTrialsEnv])
    envs.set_tasks([{"first": 10}])
    assert envs.reset()[0].tolist() == [[10, 10]]
    mt.OldGym(OwnTrialsEnv()).set_task({"first": 10})
    update = mt.SetTaskUpdate(OwnTrialsEnv, {"first": 10})
    assert update(update()).reset()[0].tolist() == [10, 10]


def test_an_interrupt_of_the_first_set_tasks_costs_no_trial(monkeypatch):
    envs = mt.as_vector([make_rl2])
    call_each, called = envs._call_each, []

    def interrupt_first(name, arguments, *command):
        if name is has_trials and not called:
            called.append(name)
            raise KeyboardInterrupt
        return call_each(name, arguments, *command)

    monkeypatch.setattr(envs, "_call_each", interrupt_first)
    with pytest.raises(KeyboardInterrupt):
        envs.set_tasks([{"first": 10}])
    for _ in range(2):
        envs.set_tasks([{"first": 10}])
        assert envs.reset()[0][0, 2:].tolist() == [0] * 4
        envs.step([1])


class DrawingEnv(CountingSetTaskEnv):
    """Draws a task at every reset."""

    def reset(self, *, seed=None, options=None):
        obs = super().reset(seed=seed, options=options)
        self.first += 10
        return obs


def test_a_task_that_an_environment_of_several_draws_by_itself_begins_a_trial(tmp_path):
    def make(env_class):
        return mt.FlattenMTEnv(mt.MultiEnvWrapper([env_class, env_class]), "none")

    for env_class, tail in ((CountingSetTaskEnv, [0, 1, 1, 1]), (DrawingEnv, [0] * 4)):
        env = mt.RL2Observation(make(env_class))
        play_tails(env, [1], seed=0)
        assert env.reset()[0][2:].tolist() == tail
        envs = mt.VectorRL2Observation(mt.as_vector([partial(make, env_class)] * 2, journal=True))
        play_tails(envs, [[1, 1]], seed=0)
        mt.save_checkpoint(tmp_path / "envs.npz", envs=envs)
        assert envs.reset()[0][:, 2:].tolist() == [tail] * 2


def test_a_task_that_is_changed_in_place_is_another_though_infos_do_not_tell():
    envs = mt.VectorRL2Observation(mt.MetaIterativeEnvExecutor(partial(MovingGoalEnv, 2), 1))
    assert play_tails(envs, [[1]] * 3) == [[[0] * 4], [[0, 1, 1, 0]], [[0] * 4], [[0, 1, 1, 0]]]
    env = mt.RL2Observation(MovingGoalEnv())
    assert play_tails(env, [1])[1] == [0, 1, 1, 0]
    assert env.reset()[0][2:].tolist() == [0] * 4


@pytest.mark.parametrize(
    ("reset", "begins_trial"),
    [
        ({}, [False, False, False]),
        ({"seed": 1}, [True, True, True]),
        ({"seed": [None, 4, None]}, [False, True, False]),
        ({"options": {"resample_task": True}}, [True, True, True]),
        ({"options": {"env_options": [None, {"task_state": 0}, {}]}}, [False, True, False]),
        ({"tasks": [{"task": i} for i in range(3)]}, [True, True, True]),
    ],
)
def test_which_resets_begin_trials_side_by_side(reset, begins_trial):
    envs = make_stepped_envs()
    if "tasks" in reset:  # even of the same tasks
        envs.set_tasks(reset["tasks"])
        reset = {}
    assert (envs.reset(**reset)[0][:, 2:] == 0).all(axis=1).tolist() == begins_trial
    envs.step([1] * 3)
    assert envs.reset()[0][:, 2:].tolist() == [[0, 1, 1, 1]] * 3


def test_a_reset_of_some_leaves_the_others_as_they_are():
    envs = make_stepped_envs(autoreset_mode=AutoresetMode.DISABLED)
    obs, _ = envs.reset(seed=0, options={"reset_mask": np.array([True, False, False])})
    assert obs[:, 2:].tolist() == [[0] * 4, [0, 1, 1, 0], [0, 1, 1, 0]]


# How actions are written.


class ActionEnv(CountingEnv):
    def __init__(self, space):
        super().__init__()
        self.action_space = space


@pytest.mark.parametrize(
    ("space", "action", "code"),
    [
        (Discrete(3, start=5), 6, [0, 1, 0]),
        (MultiDiscrete([2, 3]), [1, 0], [0, 1, 1, 0, 0]),
        (MultiDiscrete([2, 2], start=[4, 7]), [5, 7], [0, 1, 1, 0]),
        (MultiDiscrete([3]), [2], [0, 0, 1]),
        (MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (Box(1.0, 3.0, (1, 2), np.float32), [[0.5, 2.5]], [1.0, 2.5]),  # clipped
    ],
)
def test_how_actions_are_written_one_by_one_and_many_at_once(space, action, code):
    action = np.array(action, space.dtype)
    env = mt.RL2Observation(ActionEnv(space))
    envs = mt.VectorRL2Observation(mt.MetaIterativeEnvExecutor(partial(ActionEnv, space), 2))
    obs, _ = env.reset(seed=0)
    assert obs[2:].tolist() == [0] * (len(code) + 2)  # with which a trial begins
    assert obs in env.observation_space
    envs.reset(seed=0)
    obs = env.step(action)[0]
    assert obs[2:-2].tolist() == code
    assert obs in env.observation_space
    assert envs.step(np.array([action, action]))[0][:, 2:-2].tolist() == [code, code]


@pytest.mark.parametrize("divisor", [1, 10])
def test_it_can_append_what_meta_worlds_wrapper_appends(divisor):
    ours = mt.RL2Observation(BoxCountingEnv(3), reward_divisor=divisor, across_episodes=False)
    theirs = RNNBasedMetaRLWrapper(BoxCountingEnv(3), normalize_reward=divisor == 10)
    actions = np.array([[0.5, -0.25], [1, 0], [0.125, -1]], np.float32)
    for _ in range(2):
        results = zip(play(ours, actions), play(theirs, actions), strict=True)
        for (obs, *_), (expected_obs, *_) in results:
            assert obs.tolist() == expected_obs.tolist()


def test_side_by_side_a_state_of_more_environments_is_refused_before_anything_changes():
    envs = make_stepped_envs()
    larger = mt.VectorRL2Observation(mt.MetaIterativeEnvExecutor(tasked_makers() * 2, 6))
    larger.reset(seed=0)
    state = envs.get_state()
    for change in (
        larger.get_state(),
        {**state, "tails": state["tails"][:1]},
        {**state, "tasks": state["tasks"][:1]},
        {**state, "stepped": [True]},
        {**state, "set": [True]},
    ):
        with pytest.raises(ValueError, match="of 3 environments"):
            envs.set_state(change)
        assert equal(envs.get_state(), state)


def test_a_malformed_state_is_refused_before_anything_changes():
    single = mt.RL2Observation(CountingEnv())
    for env in (single, make_stepped_envs()):
        state = env.get_state()
        flags = ["no"] * len(state["stepped"])
        for change, error, message in (
            ({}, ValueError, r"expected \[.*'stepped', 'tails', 'tasks'\] of .*RL2Obs.*, got \[\]"),
            ({**state, "stepped": flags}, TypeError, "stepped of the state must be True or False"),
            ({**state, "tails": state["tails"].astype(str)}, ValueError, "expected numbers as app"),
        ):
            with pytest.raises(error, match=message):
                env.set_state(change)
            assert equal(env.get_state(), state)


class PlainTask:
    def __init__(self, goal):
        self.goal = goal


def test_an_episode_on_the_same_plain_object_continues_the_trial():
    class PlainTaskEnv(CountingEnv):
        task = PlainTask(1)

        def get_task(self):
            return self.task

    env = mt.RL2Observation(PlainTaskEnv())
    play_tails(env, [1], seed=0)
    assert env.reset()[0][-1] == 1
    env.unwrapped.task = PlainTask(2)
    assert env.reset()[0][-1] == 0
