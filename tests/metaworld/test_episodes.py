"""How episodes begin and what a step is: ``idle_steps``, ``action_repeat``; and what is left."""

import weakref

import gymnasium
import numpy as np
import pytest

from mtwrappers import MetaWorldSetTaskEnv, evaluate
from tests.fakes import equal
from tests.metaworld.fakes import (
    ITERATIVE,
    PAIR,
    PAIR_ENV,
    PARALLEL,
    make,
    make_vec,
    random_actions,
    run_episode,
)

ZERO = np.zeros(4, np.float32)


@pytest.mark.parametrize("fast", ["auto", False])
def test_idle_steps_are_zero_actions_that_count_nowhere(fast):
    kwargs = {"env_name": "push-v3", "max_episode_steps": 3, "fast": fast}
    plain, idle = make("MT1", **kwargs), make("MT1", **kwargs, idle_steps=5)
    for _ in range(2):  # the second time from a snapshot
        plain.unwrapped.reset(seed=0)
        waited = [plain.unwrapped.step(ZERO) for _ in range(5)][-1]
        expected = [plain.unwrapped.step(action) for action in random_actions(3)]
        [(obs, info), *steps] = run_episode(idle, 3, seed=0)
        assert equal(obs, waited[0]["env_obs"])
        assert info["success"] == 0.0
        assert equal([step[0] for step in steps], [step[0]["env_obs"] for step in expected])
        assert equal([(step[1], step[4]) for step in steps], [(e[1], e[4]) for e in expected])
        assert [step[3] for step in steps] == [False, False, True]


@pytest.mark.parametrize("execution", [ITERATIVE, PARALLEL])
@pytest.mark.slow_but("where0")
def test_action_repeat_and_idle_steps_leave_the_horizon_to_the_agents_steps(execution):
    kwargs = {"idle_steps": 2, "action_repeat": 3, "max_episode_steps": 4, "num_goals": 2}
    env = make("CustomMT", **kwargs, task_states=[0])
    expected = run_episode(env, seed=5, options={"task_state": 0})
    assert [step[3] for step in expected[1:]] == [False, False, False, True]
    assert env._max_episode_steps == 4
    with make_vec("CustomMT", **kwargs, **execution) as envs:
        assert envs.get_attr("_max_episode_steps") == (4, 4)
        env_options = [{"task_state": 0}, None]
        results = run_episode(
            envs, seed=5, options={"env_options": env_options, "reset_mask": np.ones(2, bool)}
        )
        assert equal(results[0][0][0], expected[0][0])
        final = results[4][4]
        assert final["final_info"]["episode"]["l"].tolist() == [4, 4]
        assert final["final_info"]["episode"]["r"][0] == sum(step[1] for step in expected[1:])
        assert equal(final["final_obs"][0], expected[4][0])
        result = evaluate(lambda obs: np.zeros((2, 4)), envs, 2)
    assert {episode.length for episode in result.episodes} == {4}


def test_closed_environments_hold_no_simulation_and_a_reset_builds_it_anew():
    env, set_task = make("MT1"), MetaWorldSetTaskEnv(**PAIR_ENV)
    envs = gymnasium.make_vec("mtwrappers/CustomMT-v0", train_classes=PAIR, execution="iterative")
    expected = run_episode(env, seed=0)
    run_episode(envs, seed=0)
    run_episode(set_task)
    simulations = [weakref.ref(env.unwrapped._env.sawyer), weakref.ref(set_task._env.sawyer)]
    simulations += envs.call(lambda sub_env: weakref.ref(sub_env.unwrapped._env.sawyer))
    models = [weakref.ref(ref().model) for ref in simulations]
    assert None not in [ref() for ref in simulations]
    env.close()
    set_task.close()
    envs.close()
    assert [ref() for ref in (*simulations, *models)] == [None] * 8
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(ZERO)
    assert equal(run_episode(env, seed=0), expected)
    env.close()
    env.close()
