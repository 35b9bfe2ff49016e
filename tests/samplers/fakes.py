"""Environments and policies for samplers, whose paths are known beforehand."""

from contextlib import closing
from functools import partial

import numpy as np

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, MetaSampler, evaluate
from tests.evaluation.fakes import ScriptedEnv
from tests.fakes import CountingSetTaskEnv

TASKS = [{"first": 0}, {"first": 100}]
WORKERS = {"workers": 2}


def lazy(observations):
    return np.zeros(len(observations), dtype=np.int64)


class ChanceEnv(CountingSetTaskEnv):
    """Episodes have 1 step or 20, by a coin that every reset throws."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed, options=options)
        self.length = 1 if self.np_random.random() < 0.5 else 20
        return obs, info


def lengths(paths):
    """How long the paths of each task are."""
    return {
        task: [len(path["rewards"]) for path in task_paths] for task, task_paths in paths.items()
    }


def sample(*args, tasks=None, **kwargs):
    """The paths of a sampler, which is closed after it."""
    sampler = MetaSampler(*args, **kwargs)
    try:
        if tasks is not None:
            sampler.update_tasks(tasks)
        return sampler.obtain_samples()
    finally:
        sampler.close()


class ReadEnv(ScriptedEnv):
    """A `ScriptedEnv` with a sentence of each episode's own: what it drew, which it observes.

    Without a ``name`` its task is another one in each episode, too.
    """

    def _info(self):
        return {**super()._info(), "task_name": self.name or f"task {self.draw % 3}"}

    @property
    def task_description(self):
        return f"move {self.draw / 2**31!r}"


def reads(observations, descriptions):
    """Pays what the sentence of each row says; rows without an episode have none."""
    paid = [float(text.removeprefix("move ") or 0.0) for text in descriptions]
    return np.repeat(np.array(paid)[:, None], 2, axis=1)


def read_envs(names=("a", "b"), lengths=(2, 5, 3), workers=0, **kwargs):
    """Two task groups of two `ReadEnv` each."""
    makers = [partial(ReadEnv, lengths, name=name) for name in names]
    if workers:
        return MetaParallelEnvExecutor(makers, 2, 2, workers=workers, **kwargs)
    return MetaIterativeEnvExecutor(makers, 2, 2, **kwargs)


def evaluated(policy, episodes_per_task=7, **kwargs):
    """An evaluation on `read_envs`."""
    with closing(read_envs(**kwargs)) as envs:
        return evaluate(policy, envs, episodes_per_task)
