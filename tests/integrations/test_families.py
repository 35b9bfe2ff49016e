"""Families of tasks beyond Meta-World: classic control, MuJoCo locomotion, a class of one's own."""

from __future__ import annotations

import re
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import (
    EnvToMTEnv,
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MultiEnvWrapper,
)
from mtwrappers.testing import check_meta_vector_env, check_mtenv
from tests.fakes import check_env_warnings, equal
from tests.integrations.examples import load_example, run_example

# Classic control, padded.


def test_the_example_on_classic_control_solves_its_tasks(tmp_path):
    first, *lines = run_example("classic_control.py", tmp_path)
    assert first == "observations: (6,) actions: Discrete(3)"
    returns = {}
    for line in lines:
        name, _, value = line.split()
        returns.setdefault(name, []).append(float(value))
    assert [len(values) for values in returns.values()] == [3, 3, 3]
    # Random actions reach about 22, -200 and -500 (the last two are the limits of an episode).
    assert min(returns["CartPole"]) > 200
    assert min(returns["MountainCar"]) > -200
    assert min(returns["Acrobot"]) > -200


def test_classic_control_keeps_the_contract_of_an_mtenv():
    makers = list(load_example("classic_control.py").MAKERS.values())
    make = partial(MultiEnvWrapper, makers, unify="pad", sample_tasks_on_reset=True)
    check_mtenv(make())
    # CartPole's own bounds are infinite, and the checker says so.
    warned = check_env_warnings(make(), skip_render_check=True)
    assert [text for text in warned if "infinity" not in text] == []
    env = make()
    padding = {}
    for index in range(3):
        obs, _ = env.reset(seed=0, options={"task_state": index})
        padding[index] = int((obs["env_obs"] == 0).sum())
    # CartPole has four numbers, MountainCar two (its car starts at rest), Acrobot six.
    assert padding == {0: 2, 1: 5, 2: 0}


# MuJoCo locomotion with goal velocities.


def test_the_example_on_locomotion_prints_a_return_for_each_goal(tmp_path):
    pytest.importorskip("mujoco")
    lines = run_example("locomotion_goal_velocity.py", tmp_path)
    found = [re.fullmatch(r"goal (\S+) m/s: return +(\S+)", line).groups() for line in lines]
    goals, returns = np.array(found, float).T
    assert len(set(goals)) == 4
    assert (goals >= 0).all()
    assert (goals <= 2).all()
    # Random actions go nowhere: a hundred times the goal, and the cost of the actions.
    assert np.corrcoef(goals, returns)[0, 1] < -0.9


@pytest.mark.parametrize(("env_id", "parallel"), [("HalfCheetah-v5", False), ("Ant-v5", True)])
def test_locomotion_with_goal_velocities_is_a_batch_of_tasks(env_id, parallel):
    pytest.importorskip("mujoco")
    family = load_example("locomotion_goal_velocity.py")

    def make():
        return family.GoalVelocity(gymnasium.make(env_id))

    single = make()
    single.reset(seed=0)
    tasks = single.sample_tasks(2)
    # Forked, for a spawned worker cannot import the example.
    executor = (
        partial(MetaParallelEnvExecutor, context="fork") if parallel else MetaIterativeEnvExecutor
    )
    envs = executor(make, 2, 2, max_path_length=5)
    envs.set_tasks(tasks)
    envs.reset(seed=7)
    envs.action_space.seed(0)
    steps = [(actions := envs.action_space.sample(), envs.step(actions)) for _ in range(4)]
    # By hand, the second environment of the second task.
    single.set_task(tasks[1])
    single.reset(seed=7 + 3)
    for actions, (obs, rewards, *_, infos) in steps:
        alone, reward, _, _, info = single.step(actions[3])
        assert obs[3].tolist() == alone.tolist()
        assert rewards[3] == reward
        assert infos["goal"].tolist() == [task["velocity"] for task in tasks for _ in range(2)]
        distance = abs(info["velocity"] - tasks[1]["velocity"])
        assert reward == pytest.approx(-distance - single.unwrapped.control_cost(actions[3]))
    envs.close()
    single.close()


def test_locomotion_is_one_environment_that_moves_between_velocities():
    pytest.importorskip("mujoco")
    family = load_example("locomotion_goal_velocity.py")
    tasks = [{"velocity": 0.5}, {"velocity": 1.5}]
    check_mtenv(EnvToMTEnv(family.make(), tasks))
    env = EnvToMTEnv(family.make(), tasks)
    rewards = []
    for index in range(2):
        env.reset(seed=0, options={"task_state": index})
        *_, info = step = env.step(np.zeros(6, np.float32))
        assert info["task_id"] == index
        rewards.append(step[1])
    # The cheetah hardly moves, so the second goal is farther by about one.
    assert rewards[0] - rewards[1] == pytest.approx(1.0, abs=1e-6)


# A class of one's own.


def test_the_example_of_an_own_class_reaches_every_temperature(tmp_path):
    assert run_example("own_class.py", tmp_path) == [
        "task 0: 16.0 degrees, True",
        "task 1: 18.0 degrees, True",
        "task 2: 20.0 degrees, True",
        "task 3: 22.0 degrees, True",
        "returns of constant heating: [-80.0, -57.2, -61.9, -57.4]",
    ]


def test_an_own_class_keeps_the_contracts():
    room = load_example("own_class.py").Room
    check_mtenv(EnvToMTEnv(room(), [16.0, 18.0, 20.0]))
    check_meta_vector_env(
        lambda makers, **kwargs: MetaIterativeEnvExecutor(makers, 2, 2, **kwargs), [room] * 4
    )
    envs = MetaIterativeEnvExecutor(room, 2, 2)
    envs.set_tasks([16.0, 22.0])
    obs, _ = envs.reset(seed=0)
    rewards = envs.step(np.zeros((4, 1)))[1]
    assert equal(rewards, -np.abs(obs[:, 0] - [16, 16, 22, 22]))
    envs.close()
