"""Meta-World's own evaluation and wrappers on what this package makes."""

from __future__ import annotations

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.evaluation import evaluation
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.metaworld import make_benchmark
from mtwrappers.wrappers.vector import MetaVectorWrapper

LIMIT = 80


class Expert:
    """Meta-World's scripted experts as an agent that knows the goals, which observations hide."""

    def __init__(self, envs):
        by_class = {cls.__name__: name for name, cls in ALL_V3_ENVIRONMENTS.items()}
        self.envs = envs
        self.policies = [ENV_POLICY_MAP[by_class[n]]() for n in envs.get_attr("task_name")]
        self.began = []
        self.sampled = []

    def init(self):
        self.sampled.append(self.envs.call("get_task_state"))

    def reset(self, env_mask):
        if env_mask.all():
            self.began.append(self.envs.call("get_task_state"))

    def adapt(self):
        pass

    def adapt_action(self, observations):
        return self.eval_action(observations), {}

    def step(self, timestep):
        assert timestep.observation.shape == (5, 39)

    def eval_action(self, observations):
        rows = zip(self.policies, observations, self.envs.call("goal"), strict=True)
        return np.stack(
            [policy.get_action(np.concatenate([obs[:36], goal])) for policy, obs, goal in rows]
        )


def make(name, **kwargs):
    envs = gymnasium.make_vec(f"mtwrappers/{name}-v0", max_episode_steps=LIMIT, **kwargs)
    return closing(MetaVectorWrapper(envs))


def bare_episode(task):
    """Runs the expert in bare Meta-World; returns its success, and the return until then."""
    env = ALL_V3_ENVIRONMENTS[task.env_name]()
    env.set_task(task)
    obs, _ = env.reset()
    policy = ENV_POLICY_MAP[task.env_name]()
    total = 0.0
    for _ in range(LIMIT):
        action = policy.get_action(np.concatenate([obs[:36], env._target_pos]))
        obs, reward, *_, info = env.step(action)
        total += float(reward)
        if info["success"] == 1.0:
            return True, total
    return False, total


@pytest.mark.slow
def test_evaluation_runs_unchanged_through_our_wrappers_and_finds_what_bare_meta_world_does():
    with make("MT10", num_goals=2, execution="parallel", workers=2) as envs:
        envs.reset(seed=4)
        agent = Expert(envs)
        mean, mean_return, rates, returns = evaluation(agent, envs, num_episodes=1)
    tasks = make_benchmark("MT10", num_goals=2).train_tasks
    bare_results = {tasks[state].env_name: bare_episode(tasks[state]) for state in agent.began[0]}
    assert rates == {name: float(success) for name, (success, _) in bare_results.items()}
    # Within 80 steps some experts succeed and some do not.
    assert set(rates.values()) == {0.0, 1.0}
    assert mean == np.mean(list(rates.values()))
    assert returns == {name: [total] for name, (_, total) in bare_results.items()}
    assert mean_return == np.mean(list(returns.values()))


def test_evaluation_can_be_repeated_and_leaves_the_environments_as_they_were():
    with make("CustomMT", num_goals=2) as envs:
        results = []
        for on in (True, True, False):
            envs.call("toggle_terminate_on_success", on)
            envs.reset(seed=4)
            results.append(evaluation(Expert(envs), envs, num_episodes=1))
            assert envs.get_attr("terminate_on_success") == (on, on)
        assert results[0] == results[1] == results[2]
        assert envs.autoreset_mode is AutoresetMode.SAME_STEP
        assert envs.reset(seed=0)[0] in envs.observation_space
