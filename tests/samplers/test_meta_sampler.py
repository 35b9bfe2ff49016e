"""`MetaSampler`: exactly the paths asked for, of each of a batch of tasks."""

import gc

import numpy as np
import pytest

from mtwrappers import MetaSampler, MetaWorldSetTaskEnv, PointGoalEnv
from tests.fakes import CountingSetTaskEnv, equal
from tests.samplers.fakes import TASKS, WORKERS, ChanceEnv, LengthEnv, Walk, lazy, lengths, sample
from tests.vector.fakes import BagEnv, WordEnv

# How many paths, and which.


@pytest.mark.parametrize(("envs_per_task", "longest"), [(1, 50), (2, 4), (3, 50), (5, 4)])
def test_every_task_gives_its_quota_of_whole_paths_whatever_the_lengths(envs_per_task, longest):
    tasks = [{"length": 1}, {"length": 9}, {"length": 4}]
    sampler = MetaSampler(LengthEnv(), lazy, 5, 3, longest, envs_per_task=envs_per_task)
    sampler.update_tasks(tasks)
    for round_ in (1, 2):
        paths = sampler.obtain_samples()
        last = min(9, longest)
        assert lengths(paths) == {0: [1] * 5, 1: [last] * 5, 2: [4] * 5}
        assert sampler.total_timesteps_sampled == round_ * 5 * (1 + last + 4)
        for task, own in paths.items():
            for path in own:
                over = path["terminated"] | path["truncated"]
                assert over.tolist() == [False] * (len(over) - 1) + [True]
                assert path["observations"][:, 0].tolist() == [tasks[task]["length"]] * len(over)
                assert path["observations"][:, 1].tolist() == list(range(len(over)))


def chance_lengths(seed, episodes):
    """The lengths of the first episodes of an environment with this seed, played on its own."""
    env, drawn = ChanceEnv(), []
    env.reset(seed=seed)
    for _ in range(episodes):
        drawn.append(env.length)
        env.reset()
    return drawn


@pytest.mark.parametrize(("paths_a_task", "envs_per_task"), [(4, 4), (6, 2), (5, 3)])
def test_each_environment_gives_its_own_first_episodes_short_or_long(paths_a_task, envs_per_task):
    whole, rest = divmod(paths_a_task, envs_per_task)
    paths = sample(ChanceEnv(), lazy, paths_a_task, 2, 50, envs_per_task, seed=7)
    expected = {task: [] for task in range(2)}
    for index in range(2 * envs_per_task):
        task, k = divmod(index, envs_per_task)
        expected[task] += chance_lengths(7 + index, whole + (k < rest))
    assert lengths(paths) == expected
    assert {n for own in expected.values() for n in own} == {1, 20}


# Tasks.


def test_tasks_are_drawn_from_the_environment():
    sampler = MetaSampler(CountingSetTaskEnv(), lazy, 2, 3, 5, seed=1)
    tasks = sampler.update_tasks()
    assert len({task["first"] for task in tasks}) == 3
    for task, own in sampler.obtain_samples().items():
        for path in own:
            assert path["observations"][0].tolist() == [tasks[task]["first"]] * 2


# Seeds, and both executors.


def test_both_executors_give_equal_paths_and_the_seed_reproduces_them():
    same, again, parallel, other = (
        sample(ChanceEnv(), lazy, 3, 2, 9, 2, tasks=TASKS, **{"seed": 5, **options})
        for options in ({}, {}, WORKERS, {"seed": 6})
    )
    assert equal(same, again)
    assert equal(same, parallel)
    assert not equal(same, other)


def test_both_executors_draw_the_same_tasks():
    drawn = []
    for options in ({}, WORKERS):
        sampler = MetaSampler(PointGoalEnv(), Walk(), 1, 3, 4, seed=5, **options)
        drawn.append([sampler.update_tasks(), sampler.obtain_samples(), sampler.update_tasks()])
        sampler.close()
    assert equal(*drawn)
    assert drawn[0][0] != drawn[0][2]


class GlobalChanceEnv(CountingSetTaskEnv):
    """Draws from NumPy's global generator, against all advice."""

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed, options=options)
        self.draw = np.random.randint(2**31)
        return obs, self._info()


@pytest.mark.parametrize(
    ("env_type", "parallel"), [(CountingSetTaskEnv, WORKERS), (GlobalChanceEnv, {})]
)
def test_copies_of_a_used_environment_have_chances_of_their_own(env_type, parallel):
    env = env_type(1)
    env.reset(seed=3)
    paths = sample(env, lazy, 6, 2, 5, **parallel)
    draws = {int(path["env_infos"]["draw"][0]) for own in paths.values() for path in own}
    assert len(draws) == 12


# The policy.


def test_observations_come_task_by_task_and_resets_as_masks():
    class Watching:
        masks, shapes = [], set()

        def reset(self, mask):
            self.masks.append(mask.tolist())

        def get_actions(self, observations):
            self.shapes.add(observations.shape)
            return [[0, 0], [0, 0]], None

    policy = Watching()
    sample(LengthEnv(), policy, 4, 2, 9, 2, tasks=[{"length": 1}, {"length": 3}])
    assert policy.shapes == {(2, 2, 2)}
    # The first task's environments are done after two steps, the second's after six.
    first = [True, True, False, False]
    assert policy.masks == [[True] * 4, first, [False, False, True, True]]


# Logging and progress.


def test_figures_are_logged_with_the_prefix():
    logged = {}
    sampler = MetaSampler(LengthEnv(), lazy, 2, 2, 9, log_sink=logged.__setitem__)
    sampler.update_tasks([{"length": 1}, {"length": 3}])
    sampler.obtain_samples()
    assert logged == {}
    sampler.obtain_samples(log=True, log_prefix="step_0/")
    assert logged.pop("step_0/PolicyExecTime") > 0
    assert logged.pop("step_0/EnvExecTime") > 0
    # The returns are 1, 1, 6 and 6.
    assert logged == {
        "step_0/n_timesteps": 8,
        "step_0/TotalTimestepsSampled": 16,
        "step_0/NumTrajs": 4,
        "step_0/AverageReturn": 3.5,
        "step_0/StdReturn": 2.5,
        "step_0/MinReturn": 1,
        "step_0/MaxReturn": 6,
    }


def test_progress_shows_the_paths_and_changes_none(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(
        "rich.progress.Progress.advance", lambda self, task, paths: done.append(paths)
    )
    tasks = [{"length": 1}, {"length": 3}]
    shown = sample(LengthEnv(), lazy, 2, 2, 9, tasks=tasks, progress=True, seed=0)
    assert equal(shown, sample(LengthEnv(), lazy, 2, 2, 9, tasks=tasks, seed=0))
    # After the first step two paths are whole; the second task's two end with the third step.
    assert done == [2, 0, 2]
    capsys.readouterr()


# Bad sizes, and the end.


@pytest.mark.parametrize("what", ["actions", "observations"])
def test_spaces_that_are_no_arrays_are_refused(what):
    env = WordEnv(3) if what == "actions" else BagEnv(3)
    with pytest.raises(TypeError, match=f"{what} must be arrays.* got (Tuple|Sequence)"):
        MetaSampler(env, lazy, 2, 2, 5)


def test_every_environment_that_the_sampler_made_is_closed():
    made = []

    def make():
        made.append(CountingSetTaskEnv())
        return made[-1]

    sampler = MetaSampler(make, lazy, 2, 2, 5)
    sampler.close()
    assert len(made) >= 4
    assert all(env.closed for env in made)


def test_the_environment_that_is_given_is_not_closed():
    env = CountingSetTaskEnv()
    sampler = MetaSampler(env, lazy, 2, 2, 5)
    sampler.close()
    del sampler
    gc.collect()
    assert not env.closed


# Meta-World.


def test_metaworld_paths_are_those_of_each_task_played_alone_on_both_executors():
    env = MetaWorldSetTaskEnv("ML1", "train", env_name="reach-v3", num_goals=2)
    tasks = env.sample_tasks(2)
    iterative, parallel = (
        sample(env, reaching, 2, 2, 5, 1, seed=4, tasks=tasks, **options)
        for options in ({}, WORKERS)
    )
    assert equal(iterative, parallel)
    assert lengths(iterative) == {0: [5, 5], 1: [5, 5]}
    alone = MetaWorldSetTaskEnv()
    for task, own in iterative.items():
        alone.set_task(tasks[task])
        obs, _ = alone.reset(seed=4 + task)
        for path in own:
            for t in range(5):
                assert np.array_equal(path["observations"][t], obs)
                obs, reward, _, _, info = alone.step(reaching(obs[None])[0])
                assert path["rewards"][t] == reward
                assert path["env_infos"]["success"][t] == info["success"]
                assert path["env_infos"]["obj_to_target"][t] == info["obj_to_target"]
                assert path["env_infos"]["task_name"][t] == "reach-v3"
            assert np.array_equal(path["next_observation"], obs)
            assert path["truncated"].tolist() == [False] * 4 + [True]
            obs, _ = alone.reset()
    rewards = [own[0]["rewards"].tolist() for own in iterative.values()]
    assert rewards[0] != rewards[1]


def reaching(observations):
    return np.clip(observations[:, :4] - 0.3, -1, 1).astype(np.float32)
