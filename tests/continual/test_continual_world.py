"""The streams of Continual World on Meta-World's classes."""

import inspect
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import compare
from mtwrappers.common.registration import STREAM_DEFAULTS
from mtwrappers.continual import continual_world
from mtwrappers.continual.evaluate import PhaseEvaluator
from mtwrappers.evaluation import IncomparableError
from tests.metaworld.fakes import make, make_vec


@pytest.mark.parametrize(("name", "visits"), [("CW10", 1), ("CW20", 2)])
def test_tasks_budgets_and_horizon_are_those_of_continual_world(name, visits):
    env = make(name)
    stream = env.unwrapped
    assert stream.phase_names == visits * (
        *("hammer-v3", "push-wall-v3", "faucet-close-v3", "push-back-v3", "stick-pull-v3"),
        *("handle-press-side-v3", "push-v3", "shelf-place-v3", "window-close-v3"),
        "peg-unplug-side-v3",
    )
    assert {phase.steps for phase in stream.phases} == {1_000_000}
    assert env.spec.max_episode_steps == 200
    assert env.observation_space.shape == (39 + 10 * visits,)


def test_budget_and_horizon_are_arguments():
    env = make("CW10", steps_per_task=3, max_episode_steps=2)
    seen = []
    obs, info = env.reset(seed=0)
    for _ in range(6):
        obs, *_, truncated, info = env.step(np.zeros(4))
        seen.append((int(obs[39:].argmax()), info["phase"], info["task_name"], truncated))
        if truncated:
            env.reset()
    # The second truncation is the horizon's, the third the budget's.
    first, second = (0, 0, "hammer-v3"), (1, 1, "push-wall-v3")
    ends = (False, True, True)
    assert seen == [(*task, end) for task in (first, second) for end in ends]


@pytest.mark.parametrize(("task_obs", "size", "place"), [("phase", 20, 10), ("task", 10, 0)])
def test_a_second_visit_has_another_id_unless_it_is_of_the_task(task_obs, size, place):
    env = make("CW20", task_obs=task_obs)
    env.unwrapped.stream_steps = 10_000_000
    obs, info = env.reset()
    assert (info["phase"], info["task_name"]) == (10, "hammer-v3")
    assert obs[39:].tolist() == np.eye(size)[place].tolist()


def test_goals_are_new_in_every_episode_or_those_of_the_list():
    def goals(**kwargs):
        env = make("CW10", **kwargs)
        return [tuple(env.reset(seed=3 if i == 0 else None)[0][:39]) for i in range(12)]

    assert len(set(goals())) == 12
    assert goals() == goals()
    assert len(set(goals(goals="list", num_goals=2))) == 2


@pytest.mark.parametrize("goals", ["continuous", "list"])
def test_the_argument_seed_determines_the_tasks_where_no_reset_has_a_seed(goals):
    """Each environment of a vector draws what one with its seed draws."""

    def drawn(seed):
        env = make("CW10", seed=seed, goals=goals)
        states = [env.reset() and env.unwrapped.get_task_state() for _ in range(3)]
        return env.action_space.sample().tolist(), states

    with make_vec("CW10", 2, seed=5, goals=goals) as envs:
        both = [envs.reset() and envs.call("get_task_state") for _ in range(3)]
    assert [list(states) for states in zip(*both, strict=True)] == [drawn(5)[1], drawn(6)[1]]
    assert drawn(5) == drawn(5) != drawn(6)


def test_streams_share_goals_if_their_seeds_are_fewer_apart_than_their_environments():
    goals = {}
    for seed in (0, 1, 2):
        with make_vec("CW10", num_envs=2, goals="list", seed=seed) as envs:
            obs, _ = envs.reset()
            goals[seed] = [row.tolist() for row in obs]
    assert goals[0][1] == goals[1][0]
    assert not [goal for goal in goals[0] if goal in goals[2]]


def test_arguments_of_the_other_form_and_none_are_refused():
    with pytest.raises(
        TypeError,
        match=r"make of CW10 got an unexpected keyword argument 'workers'.*it is for make_vec",
    ):
        make("CW10", workers=2)
    with pytest.raises(
        TypeError,
        match=r"make_vec of CW20 got an .* keyword argument 'steps_per_tsk'.*steps_per_task",
    ):
        make_vec("CW20", steps_per_tsk=2)


def evaluated(**settings):
    """A result of two phases, whose environments were made with these arguments."""
    make_stream = partial(gymnasium.make, "mtwrappers/CW10-v0", **settings)
    with closing(PhaseEvaluator(make_stream, 1, phases=[0, 1])) as evaluator:
        return evaluator(lambda observations: np.zeros((2, 4), np.float32), 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"goals": "continuous", "steps_per_task": 1_000_000, "max_episode_steps": 200},
        {"num_goals": 50, "reward_function_version": "v2", "action_repeat": 1},
        {"task_obs": "task", "observation": "state", "boundary": "finish"},
    ],
)
def test_defaults_that_are_written_out_and_what_is_observed_do_not_make_results_incomparable(
    settings,
):
    results = evaluated().described(training_seed=0), evaluated(**settings)
    compare({"a": [results[0]], "b": [results[1].described(training_seed=1)]})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"goals": "list"}, "goals continuous and list"),
        ({"steps_per_task": 9}, "steps_per_task 1000000 and 9"),
        ({"max_episode_steps": 9}, "max_episode_steps 200 and 9"),
        ({"reward_function_version": "v1"}, "reward_function_version v2 and v1"),
    ],
)
def test_results_of_streams_with_other_goals_budgets_horizons_or_rewards_are_not_compared(
    settings, reason
):
    with pytest.raises(IncomparableError, match=reason):
        compare({"a": [evaluated()], "b": [evaluated(**settings)]})


def test_the_defaults_that_results_are_compared_by_are_those_of_the_functions():
    for function in (continual_world.make_env, continual_world.make_vec_env):
        parameters = inspect.signature(function).parameters
        names = STREAM_DEFAULTS.keys() & parameters.keys()
        assert {name: parameters[name].default for name in names} == {
            name: STREAM_DEFAULTS[name] for name in names
        }
