"""What a path of `MetaSampler` holds."""

from functools import partial

import numpy as np
import pytest

from mtwrappers import MetaSampler, PointGoalEnv
from mtwrappers.samplers.nested import map_arrays
from tests.fakes import CountingSetTaskEnv, equal
from tests.samplers.fakes import TASKS, WORKERS, LengthEnv, Walk, lazy, sample
from tests.vector.fakes import EXECUTORS, NestedEnv, both_executors


def test_the_last_infos_of_a_path_are_its_own_and_not_of_the_next_episode():
    sampler = MetaSampler(LengthByTask(), lazy, 3, 2, 9, envs_per_task=1)
    sampler.update_tasks([{"first": 1}, {"first": 4}])
    for own, last in zip(sampler.obtain_samples().values(), (1, 4), strict=True):
        for path in own:
            assert path["env_infos"]["steps"].tolist() == list(range(1, last + 1))
            assert len(set(path["env_infos"]["draw"].tolist())) == 1
        assert len({int(path["env_infos"]["draw"][0]) for path in own}) == 3


class LengthByTask(CountingSetTaskEnv):
    """Counts from ``first``, for as many steps."""

    def set_task(self, task):
        super().set_task(task)
        self.length = task["first"]


@both_executors
def test_nested_observations_are_recorded_as_nested_arrays(executor):
    def shapes(path):
        count, (number, bits, below) = path["count"], path["parts"]
        return [np.shape(a) for a in (count, number, bits, below["grid"], below["one"])]

    class Asks:
        def get_actions(self, observations):
            assert shapes(observations)[:2] == [(2, 3, 2, 3), (2, 3)]
            return np.zeros((2, 3, 2)), None

    parallel = WORKERS if executor is EXECUTORS["parallel"] else {}
    paths = sample(partial(NestedEnv, 4), Asks(), 3, 2, 9, seed=0, **parallel)
    alone = NestedEnv(4)
    for i, path in enumerate(path for own in paths.values() for path in own):
        assert shapes(path["observations"]) == [(4, 2, 3), (4,), (4, 3), (4, 2), (4,)]
        seen = [alone.reset(seed=i)[0], *(alone.step(np.zeros(2))[0] for _ in range(4))]
        for t, obs in enumerate(seen[:-1]):
            assert equal(path["observations"]["count"][t], obs["count"])
            assert path["observations"]["parts"][0][t] == obs["parts"][0]
            assert equal(path["observations"]["parts"][2]["grid"][t], obs["parts"][2]["grid"])
        assert equal(path["next_observation"], map_arrays(lambda a, *_: np.array(a), seen[-1]))


def test_nested_agent_infos_are_nested_dicts_of_arrays():
    class Says(Walk):
        def get_actions(self, observations):
            actions, _ = super().get_actions(observations)
            return actions, [[{"dist": {"mean": a, "std": 0.5}} for a in own] for own in actions]

    for own in sample(PointGoalEnv(), Says(), 2, 2, 4, seed=0).values():
        for path in own:
            assert equal(path["agent_infos"]["dist"]["mean"], path["actions"])
            assert path["agent_infos"]["dist"]["std"].tolist() == [0.5] * 4


def test_infos_that_some_tasks_report_are_kept_for_those():
    class Some(CountingSetTaskEnv):
        def _info(self):
            return {"steps": self.steps, **({"goal": 1.0} if self.first else {})}

    paths = sample(Some(2), lazy, 2, 2, 9, tasks=TASKS)
    assert [set(path["env_infos"]) for path in paths[0]] == [{"steps"}] * 2
    assert [set(path["env_infos"]) for path in paths[1]] == [{"steps", "goal"}] * 2


def test_steps_after_the_last_path_of_an_environment_leave_its_infos_alone():
    class FirstEpisode(LengthEnv):
        episodes = 0

        def reset(self, **kwargs):
            self.episodes += 1
            obs, _ = super().reset(**kwargs)
            return obs, {"first": True}

        def step(self, action):
            obs, *rest, _ = super().step(action)
            return obs, *rest, {"first": True} if self.episodes == 1 else {}

    paths = sample(FirstEpisode, lazy, 1, 2, 9, tasks=[{"length": 1}, {"length": 4}])
    assert [path["env_infos"]["first"].tolist() for [path] in paths.values()] == [[1], [1] * 4]


@pytest.mark.parametrize(
    ("key", "size", "message"),
    [
        ("other", 2, "agent_infos of step 1 must be a dict with the keys .*'mean'.* got .*'other'"),
        ("mean", 1, r"agent_infos\['mean'\] of step 1 must have shape .*2\).* got .*1\)"),
    ],
)
def test_agent_infos_that_change_their_form_are_refused(key, size, message):
    answers = iter([("mean", 2), (key, size)])

    class Changes(Walk):
        def get_actions(self, observations):
            actions, _ = super().get_actions(observations)
            key, size = next(answers)
            return actions, {key: actions[..., :size]}

    with pytest.raises(ValueError, match=message):
        sample(PointGoalEnv(), Changes(), 2, 2, 2)
