"""ProMP's trainer, with its calls in its order and its keywords, on our sampler and processor."""

import numpy as np
import pytest

from mtwrappers import LinearFeatureBaseline, MetaSampleProcessor, MetaSampler, PointGoalEnv

TASKS, STD = 4, 0.05


class MetaGaussianPolicy:
    """A mean per task, adapted from one before adaptation: what ProMP's policies look like."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.mean = np.zeros(2)
        self.resets, self.diagnosed = 0, []

    def reset(self, dones=None):
        self.resets += 1

    def switch_to_pre_update(self):
        self.means = [self.mean] * TASKS

    def update_task_parameters(self, means):
        self.means = means

    def get_actions(self, observations):
        assert len(observations) == TASKS
        actions = [
            mean + STD * self.rng.normal(size=own.shape)
            for mean, own in zip(self.means, observations, strict=True)
        ]
        agent_infos = [
            [{"mean": mean, "log_std": np.full(2, np.log(STD))} for _ in own]
            for mean, own in zip(self.means, observations, strict=True)
        ]
        return actions, agent_infos

    def log_diagnostics(self, paths, prefix=""):
        self.diagnosed.append((len(paths), prefix))


class FirstOrderMAML:
    def __init__(self, policy):
        self.policy = policy

    def _adapt(self, samples):
        self.policy.update_task_parameters([self.policy.mean + self.step(own) for own in samples])

    def optimize_policy(self, all_samples_data):
        last = all_samples_data[-1]
        self.policy.mean = self.policy.mean + np.mean([self.step(own) for own in last], axis=0) / 9

    def step(self, own):
        score = (own["actions"] - own["agent_infos"]["mean"]) / STD**2
        return 0.01 * (score * own["advantages"][:, None]).mean(axis=0)


@pytest.mark.parametrize("parallel", [False, True])
def test_the_trainers_loop_runs_unchanged(parallel):
    logged = {}
    policy, env, baseline = MetaGaussianPolicy(), PointGoalEnv(), LinearFeatureBaseline()
    sampler = MetaSampler(
        env=env,
        policy=policy,
        rollouts_per_meta_task=10,
        meta_batch_size=TASKS,
        max_path_length=20,
        parallel=parallel,
        seed=0,
        log_sink=logged.__setitem__,
    )
    sample_processor = MetaSampleProcessor(
        baseline=baseline,
        discount=0.99,
        gae_lambda=1,
        normalize_adv=True,
        positive_adv=False,
        log_sink=logged.__setitem__,
    )
    algo, gains = FirstOrderMAML(policy), []
    for itr in range(3):
        sampler.update_tasks()
        policy.switch_to_pre_update()
        all_samples_data, all_paths = [], []
        for step in range(2):
            paths = sampler.obtain_samples(log=True, log_prefix=f"Step_{step}-")
            all_paths.append(paths)
            samples_data = sample_processor.process_samples(
                paths, log="all", log_prefix=f"Step_{step}-"
            )
            all_samples_data.append(samples_data)
            everything = sum(list(paths.values()), [])  # noqa: RUF017 (as it is there)
            policy.log_diagnostics(everything, prefix=f"Step_{step}-")
            sample_processor.baseline.log_diagnostics(everything, prefix=f"Step_{step}-")
            if step < 1:
                algo._adapt(samples_data)
        algo.optimize_policy(all_samples_data)
        assert sampler.total_timesteps_sampled == (itr + 1) * 2 * TASKS * 10 * 20
        before, after = (
            np.mean([path["rewards"].sum() for own in paths.values() for path in own])
            for paths in all_paths
        )
        gains.append(after - before)
    sampler.close()
    assert min(gains) > 1
    assert policy.diagnosed == [(TASKS * 10, "Step_0-"), (TASKS * 10, "Step_1-")] * 3
    assert policy.resets > 0
    assert {"Step_0-PolicyExecTime", "Step_1-EnvExecTime", "Step_1-AverageReturn"} <= set(logged)
