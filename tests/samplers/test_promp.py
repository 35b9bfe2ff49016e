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
        self.resets = 0

    def reset(self, dones=None):
        self.resets += 1

    def get_actions(self, observations):
        tasks = list(zip(self.means, observations, strict=True))
        actions = [
            mean + STD * self.rng.normal(size=task_observations.shape)
            for mean, task_observations in tasks
        ]
        log_std = np.full(2, np.log(STD))
        return actions, [
            [{"mean": mean, "log_std": log_std} for _ in task_observations]
            for mean, task_observations in tasks
        ]


def step(batch):
    """The gradient of a task's return, as far as a batch of its paths knows it."""
    score = (batch["actions"] - batch["agent_infos"]["mean"]) / STD**2
    return 0.01 * (score * batch["advantages"][:, None]).mean(axis=0)


@pytest.mark.parametrize("parallel", [False, True])
def test_the_trainers_loop_runs_unchanged(parallel):
    logged, policy, baseline = {}, MetaGaussianPolicy(), LinearFeatureBaseline()
    sampler = MetaSampler(
        env=PointGoalEnv(),
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
    for itr in range(3):
        sampler.update_tasks()
        policy.means, returns = [policy.mean] * TASKS, []
        for inner in range(2):
            prefix = f"Step_{inner}-"
            paths = sampler.obtain_samples(log=True, log_prefix=prefix)
            data = sample_processor.process_samples(paths, log="all", log_prefix=prefix)
            everything = sum(list(paths.values()), [])  # noqa: RUF017 (as it is there)
            sample_processor.baseline.log_diagnostics(everything, prefix=prefix)
            returns.append(np.mean([path["rewards"].sum() for path in everything]))
            policy.means = [policy.mean + step(batch) for batch in data]
        policy.mean = policy.mean + np.mean([step(batch) for batch in data], axis=0) / 9
        assert sampler.total_timesteps_sampled == (itr + 1) * 2 * TASKS * 10 * 20
        assert returns[1] - returns[0] > 1
    sampler.close()
    assert policy.resets > 0
    assert {"Step_0-PolicyExecTime", "Step_1-EnvExecTime", "Step_1-AverageReturn"} <= set(logged)
