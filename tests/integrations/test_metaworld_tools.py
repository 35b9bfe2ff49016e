"""Meta-World's own evaluation and wrappers on what this package makes."""

from __future__ import annotations

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.evaluation import evaluation, metalearning_evaluation
from metaworld.policies import ENV_POLICY_MAP
from metaworld.wrappers import AutoTerminateOnSuccessWrapper, RNNBasedMetaRLWrapper

from mtwrappers import MetaVectorWrapper

EXECUTORS = {
    "iterative": {"execution": "iterative"},
    "parallel": {"execution": "parallel", "workers": 2},
}
both = pytest.mark.parametrize("execution", EXECUTORS.values(), ids=EXECUTORS)


class Expert:
    """Meta-World's scripted experts as an agent, told the goals that observations hide."""

    def __init__(self, envs):
        by_class = {cls.__name__: name for name, cls in ALL_V3_ENVIRONMENTS.items()}
        self.envs = envs
        self.policies = [ENV_POLICY_MAP[by_class[n]]() for n in envs.get_attr("task_name")]

    def init(self):
        pass

    def reset(self, env_mask):
        pass

    def adapt(self):
        pass

    def adapt_action(self, observations):
        return self.eval_action(observations), {}

    def step(self, timestep):
        pass

    def eval_action(self, observations):
        each = zip(self.policies, observations, self.envs.call("goal"), strict=True)
        return np.stack([p.get_action(np.concatenate([obs[:36], goal])) for p, obs, goal in each])


def make(name, **kwargs):
    kwargs = {"num_goals": 2, "max_episode_steps": 70, **kwargs}
    return closing(gymnasium.make_vec(f"mtwrappers/{name}-v0", **kwargs))


def evaluate(envs, num_episodes=1):
    envs.reset(seed=4)
    return evaluation(Expert(envs), envs, num_episodes=num_episodes)


@both
def test_evaluation_goes_through_our_wrappers_with_the_same_numbers(execution):
    with make("CustomMT", envs_per_task=2, **execution) as envs:
        expected = evaluate(envs, num_episodes=2)
    with make("CustomMT", envs_per_task=2, **execution) as envs:
        wrapped = MetaVectorWrapper(MetaVectorWrapper(envs))
        assert evaluate(wrapped, num_episodes=2) == expected
    mean, _, rates, returns = expected
    assert rates.keys() == {"reach-v3", "push-v3"}
    assert {name: len(own) for name, own in returns.items()} == {"reach-v3": 2, "push-v3": 2}
    assert 0 < mean <= 1


def test_evaluation_can_be_repeated_and_leaves_the_environments_as_they_were():
    with make("CustomMT") as envs:
        envs.call("toggle_terminate_on_success", True)
        first = evaluate(envs)
        assert evaluate(envs) == first
        assert envs.get_attr("terminate_on_success") == (True, True)
        envs.call("toggle_terminate_on_success", False)
        evaluate(envs)
        assert envs.get_attr("terminate_on_success") == (False, False)
        assert envs.autoreset_mode is AutoresetMode.SAME_STEP
        assert envs.reset(seed=0)[0] in envs.observation_space


def test_meta_learning_evaluation_goes_through_our_wrappers_with_the_same_numbers():
    results = []
    for wrap in (lambda envs: envs, MetaVectorWrapper):
        with make("ML10-test", num_goals=3) as envs:
            wrapped = wrap(envs)
            wrapped.reset(seed=1)
            results.append(
                metalearning_evaluation(
                    Expert(wrapped),
                    wrapped,
                    num_evals=1,
                    adaptation_episodes=1,
                    evaluation_episodes=1,
                )
            )
    assert results[0] == results[1]
    assert len(results[0][2]) == 5


def test_meta_worlds_single_wrappers_work_on_a_made_environment():
    env = gymnasium.make("mtwrappers/MT1-v0", num_goals=2, max_episode_steps=5)
    plain = gymnasium.make("mtwrappers/MT1-v0", num_goals=2, max_episode_steps=5)
    wrapped = AutoTerminateOnSuccessWrapper(RNNBasedMetaRLWrapper(env, normalize_reward=False))
    obs, _ = wrapped.reset(seed=0)
    expected, _ = plain.reset(seed=0)
    assert obs.tolist() == [*expected, *[0.0] * 6]
    action = np.full(4, 0.5, np.float32)
    obs, reward, terminated, _, info = wrapped.step(action)
    expected, expected_reward, *_ = plain.step(action)
    assert obs.tolist() == pytest.approx([*expected, *action, expected_reward, 0.0])
    assert (reward, terminated) == (expected_reward, info["success"] == 1.0)
