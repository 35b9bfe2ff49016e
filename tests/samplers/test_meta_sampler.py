"""`MetaSampler`: exactly the paths asked for, of each of a batch of tasks."""

import gc
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import mtwrappers as mt
from mtwrappers.samplers.nested import join, map_arrays
from tests.fakes import CountingEnv, CountingSetTaskEnv, counting_makers, equal
from tests.samplers.fakes import TASKS, WORKERS, ChanceEnv, lazy, lengths, sample
from tests.vector.fakes import EXECUTORS, BagEnv, NestedEnv, WordEnv, both_executors

# How many paths, and which.


class LengthEnv(gymnasium.Env):
    """Its task says how long episodes are; it observes the length and the step."""

    def __init__(self):
        self.observation_space = Box(0, 1000, (2,), np.float64)
        self.action_space = Discrete(2)
        self.length = 1

    def set_task(self, task):
        self.length = task["length"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), float(self.steps), self.steps >= self.length, False, {}

    def _obs(self):
        return np.array([self.length, self.steps], np.float64)


@pytest.mark.parametrize(("envs_per_task", "longest"), [(1, 50), (2, 4), (3, 50), (5, 4)])
def test_every_task_gives_its_quota_of_whole_paths_whatever_the_lengths(envs_per_task, longest):
    tasks = [{"length": 1}, {"length": 9}, {"length": 4}]
    sampler = mt.MetaSampler(LengthEnv(), lazy, 5, 3, longest, envs_per_task=envs_per_task)
    sampler.update_tasks(tasks)
    for round_ in (1, 2):
        paths = sampler.obtain_samples()
        last = min(9, longest)
        assert lengths(paths) == {0: [1] * 5, 1: [last] * 5, 2: [4] * 5}
        assert sampler.total_timesteps_sampled == round_ * 5 * (1 + last + 4)
        for task, task_paths in paths.items():
            for path in task_paths:
                done = path["terminated"] | path["truncated"]
                assert done.tolist() == [False] * (len(done) - 1) + [True]
                assert path["observations"][:, 0].tolist() == [tasks[task]["length"]] * len(done)
                assert path["observations"][:, 1].tolist() == list(range(len(done)))


def chance_lengths(seed, episodes):
    """The lengths of the first episodes of an environment with this seed, stepped by itself."""
    env, drawn = ChanceEnv(), []
    env.reset(seed=seed)
    for _ in range(episodes):
        drawn.append(env.length)
        env.reset()
    return drawn


@pytest.mark.parametrize(("paths_a_task", "envs_per_task"), [(4, 4), (6, 2), (5, 3)])
def test_each_environment_gives_its_own_first_episodes_short_or_long(paths_a_task, envs_per_task):
    per_env, remainder = divmod(paths_a_task, envs_per_task)
    paths = sample(ChanceEnv(), lazy, paths_a_task, 2, 50, envs_per_task, seed=7, tasks=TASKS)
    expected = {task: [] for task in range(2)}
    for index in range(2 * envs_per_task):
        task, k = divmod(index, envs_per_task)
        expected[task] += chance_lengths(7 + index, per_env + (k < remainder))
    assert lengths(paths) == expected
    assert {n for task_lengths in expected.values() for n in task_lengths} == {1, 20}


def test_tasks_are_drawn_from_the_environment():
    sampler = mt.MetaSampler(CountingSetTaskEnv(), lazy, 2, 3, 5, seed=1)
    tasks = sampler.update_tasks()
    assert len({task["first"] for task in tasks}) == 3
    for task, task_paths in sampler.obtain_samples().items():
        for path in task_paths:
            assert path["observations"][0].tolist() == [tasks[task]["first"]] * 2


# Every trajectory is on the task that was set.


def reported(sampler, key="task_id"):
    """The tasks that the trajectories of a batch report, by the task that they were sampled for."""
    paths = sampler.obtain_samples()
    return {
        task: [{*path["env_infos"][key].tolist()} for path in task_paths]
        for task, task_paths in paths.items()
    }


MULTI_ENV = partial(gymnasium.make, "mtwrappers/MultiEnv-v0", max_episode_steps=5)
MT10 = partial(gymnasium.make, "mtwrappers/MT10-v0", num_goals=1, max_episode_steps=3)


@pytest.mark.parametrize("envs_per_task", [1, 3])
@pytest.mark.parametrize(
    "settings", [{}, {**WORKERS, "policy_in": "workers"}, {"on_worker_failure": "recover"}]
)
def test_environments_that_draw_tasks_stay_on_those_that_were_set(envs_per_task, settings):
    sampler = mt.MetaSampler(MULTI_ENV, lazy, 3, 2, 5, envs_per_task, seed=0, **settings)
    with closing(sampler):
        for tasks in ([0, 1], [1, 0]):
            sampler.update_tasks(tasks)
            for _ in range(2):
                assert reported(sampler) == {i: [{tasks[i]}] * 3 for i in range(2)}


def test_metaworlds_ids_stay_on_the_tasks_that_were_set():
    with closing(mt.MetaSampler(MT10, reaching, 2, 2, 3, seed=0)) as sampler:
        sampler.update_tasks([8, 1])
        for _ in range(2):
            expected = {0: [{"window-open-v3"}] * 2, 1: [{"push-v3"}] * 2}
            assert reported(sampler, "task_name") == expected


@pytest.mark.parametrize(
    "make",
    [MULTI_ENV, MT10, partial(MT10, sample_tasks_on_reset=False)],
    ids=["multi", "mt", "off"],
)
def test_no_trajectory_is_on_a_task_that_was_not_set(make):
    with closing(mt.MetaSampler(make, reaching, 2, 2, 3, seed=0)) as sampler:
        message = "call update_tasks before obtain_samples: .* would draw a task of its own"
        with pytest.raises(RuntimeError, match=message):
            sampler.obtain_samples()


def make_flat(num_tasks):
    return mt.FlattenMTEnv(mt.MultiEnvWrapper(counting_makers(num_tasks)))


def test_no_task_state_is_the_one_that_all_new_environments_have():
    with closing(mt.MetaSampler(partial(make_flat, 2), lazy, 2, 2, 5)) as sampler:
        message = "call update_tasks before obtain_samples: otherwise its 2 tasks are all the task"
        with pytest.raises(RuntimeError, match=message):
            sampler.obtain_samples()
        sampler.update_tasks([1, 0])
        assert reported(sampler, "task_id") == {0: [{1}] * 2, 1: [{0}] * 2}


@pytest.mark.parametrize("env", [CountingSetTaskEnv, CountingSetTaskEnv()])
def test_no_task_is_the_one_that_all_new_environments_have(env):
    with closing(mt.MetaSampler(env, lazy, 2, 3, 5)) as sampler:
        message = "call update_tasks before obtain_samples: otherwise its 3 tasks are all the task"
        with pytest.raises(RuntimeError, match=message):
            sampler.obtain_samples()
        sampler.update_tasks()
        assert lengths(sampler.obtain_samples()) == {task: [3, 3] for task in range(3)}


@pytest.mark.parametrize(
    ("env", "num_tasks"),
    [
        (CountingSetTaskEnv, 1),
        ([CountingSetTaskEnv] * 2, 2),
        (partial(CountingEnv, 2), 2),
        (partial(make_flat, 1), 2),
    ],
    ids=["one task", "constructors", "no tasks", "one task state"],
)
def test_tasks_need_not_be_set_if_there_are_none_to_set(env, num_tasks):
    paths = sample(env, lazy, 2, num_tasks, 5)
    assert [len(task_paths) for task_paths in paths.values()] == [2] * num_tasks


class DrawingEnv(CountingEnv):
    """Draws a task at every reset, or at each but the first."""

    def __init__(self, first=True):
        super().__init__(2)
        self.draws = first

    def set_task(self, task):
        self.task = task

    def get_task(self):
        return self.task

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        if self.draws:
            self.task = float(self.np_random.random())
        self.draws = True
        return obs, info


@pytest.mark.parametrize("settings", [{}, {**WORKERS, "policy_in": "workers"}])
@pytest.mark.parametrize("first", [True, False])
def test_a_reset_that_leaves_the_task_is_refused(first, settings):
    make = partial(DrawingEnv, first)
    with closing(mt.MetaSampler(make, lazy, 3, 2, 5, 1, seed=0, **settings)) as sampler:
        sampler.update_tasks([1.0, 2.0])
        with pytest.raises(
            ValueError, match="environment 0 left the task that was set when it was"
        ):
            sampler.obtain_samples()


def test_the_error_without_sample_tasks_suggests_task_states_that_the_environment_takes():
    make = partial(gymnasium.make, "mtwrappers/MT1-v0", env_name="reach-v3", task_states=[3])
    with closing(mt.MetaSampler(make, reaching, 2, 2, 3, seed=0)) as sampler:
        with pytest.raises(TypeError, match=r"task states, such as \[3, 3\]"):
            sampler.update_tasks()
        sampler.update_tasks([3, 3])


@pytest.mark.parametrize("method", ["__call__", "get_actions"])
def test_an_environment_that_acts_is_a_policy(method):
    def act(self, observations):
        actions = np.zeros(observations.shape)
        return actions if method == "__call__" else (actions, {})

    oracle = type("Oracle", (gymnasium.Wrapper,), {method: act})(mt.PointGoalEnv())
    with closing(mt.MetaSampler(mt.PointGoalEnv, oracle, 2, 2, 3, seed=0)) as sampler:
        sampler.update_tasks()
        assert sorted(sampler.obtain_samples()) == [0, 1]


def test_environments_of_a_task_that_draw_what_it_leaves_open_are_refused():
    make = partial(gymnasium.make, "mtwrappers/ML1-train-v0", goals="continuous")
    with closing(mt.MetaSampler(make, reaching, 2, 2, 3, seed=0)) as sampler:
        with pytest.raises(ValueError, match=r"environments of task 0 .* exact_task_state"):
            sampler.update_tasks([0, 0])
        with pytest.raises(RuntimeError, match="obtain_samples: the last tasks were refused"):
            sampler.obtain_samples()
        tasks = [sampler.env.unwrapped.exact_task_state(0, seed) for seed in (1, 2)]
        sampler.update_tasks(tasks)
        assert sampler.envs.call("get_task_state") == (tasks[0], tasks[0], tasks[1], tasks[1])


def test_a_checkpoint_holds_whether_tasks_were_set(tmp_path):
    def make():
        return mt.MetaSampler(MULTI_ENV, lazy, 3, 2, 5, 1, seed=0)

    with closing(make()) as sampler, closing(make()) as restored:
        sampler.update_tasks([1, 0])
        mt.save_checkpoint(tmp_path / "set", sampler=sampler)
        mt.load_checkpoint(tmp_path / "set", sampler=restored)
        assert reported(restored) == reported(sampler) == {0: [{1}] * 3, 1: [{0}] * 3}


@pytest.mark.parametrize("settings", [{}, {"journal": True}, {"workers": 2}])
def test_a_checkpoint_of_environments_whose_state_lacks_the_task_is_refused(settings):
    with closing(mt.MetaSampler(LengthEnv, lazy, 1, 2, 5, 1, seed=0, **settings)) as sampler:
        sampler.get_state()
        sampler.update_tasks([{"length": 2}, {"length": 3}])
        with pytest.raises(TypeError, match=r"the task of environment 0.* give LengthEnv the meth"):
            sampler.get_state()


def test_a_state_without_its_names_is_refused():
    message = r"expected \['env', 'envs', .* of MetaSampler, got"
    sampler = mt.MetaSampler(MULTI_ENV, lazy, 3, 2, 5, 1, seed=0)
    with closing(sampler), pytest.raises(ValueError, match=message):
        sampler.set_state({})


# What makes the environments.


def test_each_constructor_of_a_list_makes_the_environments_of_a_task():
    makers = mt.TaskOnehotWrapper.wrap_env_cons_list(counting_makers(3))
    with closing(mt.MetaSampler(makers, lazy, 2, 3, 5, seed=0)) as sampler:
        paths = sampler.obtain_samples()
        assert {
            task: task_paths[1]["observations"][0].tolist() for task, task_paths in paths.items()
        } == {
            0: [0, 0, 1, 0, 0],
            1: [100, 100, 0, 1, 0],
            2: [200, 200, 0, 0, 1],
        }
        message = r"has no sample_tasks\(n\); give .*, or leave it out if each constructor makes"
        with pytest.raises(TypeError, match=message):
            sampler.update_tasks()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"workers": None}, "MetaIterativeEnvExecutor"),
        ({"workers": 0}, "MetaIterativeEnvExecutor"),
        ({"workers": 1}, "MetaIterativeEnvExecutor"),
        ({"workers": None, "execution": "parallel"}, "MetaParallelEnvExecutor"),
    ],
)
def test_workers_are_those_of_make_vec(settings, name):
    with closing(mt.MetaSampler(LengthEnv, lazy, 1, 2, 5, **settings)) as sampler:
        assert type(sampler.envs).__name__ == name


def test_figures_are_logged_with_the_prefix():
    logged = {}
    sampler = mt.MetaSampler(LengthEnv(), lazy, 2, 2, 9, log_sink=logged.__setitem__)
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


def test_progress_changes_nothing():
    sizes = {"tasks": [{"length": 1}, {"length": 3}], "seed": 0}
    displayed = sample(LengthEnv(), lazy, 2, 2, 9, progress=True, **sizes)
    assert equal(displayed, sample(LengthEnv(), lazy, 2, 2, 9, **sizes))


def test_the_environments_that_the_sampler_made_are_closed_and_the_one_given_is_not():
    made_envs = []

    def make():
        made_envs.append(CountingSetTaskEnv())
        return made_envs[-1]

    given_env = CountingSetTaskEnv()
    for env in (make, given_env):
        sampler = mt.MetaSampler(env, lazy, 2, 2, 5)
        sampler.close()
        del sampler
    gc.collect()
    assert len(made_envs) >= 4
    assert all(env.closed for env in made_envs)
    assert not given_env.closed


def test_the_environments_of_a_sampler_that_cannot_be_made_are_closed():
    made_envs = []

    class Unseedable(CountingSetTaskEnv):
        def __init__(self):
            super().__init__()
            made_envs.append(self)

        def reset(self, *, seed=None, options=None):
            raise OSError("no entropy")

    with pytest.raises(OSError, match="no entropy"):
        mt.MetaSampler(Unseedable, lazy, 2, 2, 5, seed=0)
    assert len(made_envs) >= 2
    assert all(env.closed for env in made_envs)


@pytest.mark.parametrize("space", ["actions", "observations"])
def test_spaces_that_are_no_arrays_are_refused(space):
    env = WordEnv(3) if space == "actions" else BagEnv(3)
    with pytest.raises(TypeError, match=f"{space} must be arrays.* got (Tuple|Sequence)"):
        mt.MetaSampler(env, lazy, 2, 2, 5)


# What a path holds.


@both_executors
def test_nested_observations_are_recorded_as_nested_arrays(executor):
    class Asks:
        def get_actions(self, observations):
            assert observations["count"].shape == (2, 3, 2, 3)
            assert observations["parts"][0].shape == (2, 3)
            return np.zeros((2, 3, 2)), None

    parallel = WORKERS if executor is EXECUTORS["parallel"] else {}
    paths = sample(partial(NestedEnv, 4), Asks(), 3, 2, 9, seed=0, **parallel)
    single_env = NestedEnv(4)
    for i, path in enumerate(path for task_paths in paths.values() for path in task_paths):
        *seen, last = [
            single_env.reset(seed=i)[0],
            *(single_env.step(np.zeros(2))[0] for _ in range(4)),
        ]
        assert equal(path["observations"], join(seen, "observations", "step {}".format))
        assert equal(path["next_observation"], map_arrays(np.array, last))


def test_infos_that_some_tasks_report_are_kept_for_those():
    class Some(CountingSetTaskEnv):
        def _info(self):
            return {"steps": self.steps, **({"goal": 1.0} if self.first else {})}

    paths = sample(Some(2), lazy, 2, 2, 9, tasks=TASKS)
    assert [set(path["env_infos"]) for path in paths[0]] == [{"steps"}] * 2
    assert [set(path["env_infos"]) for path in paths[1]] == [{"steps", "goal"}] * 2


def test_agent_infos_that_change_their_form_are_refused():
    class Grows:
        size = 0

        def get_actions(self, observations):
            self.size += 1
            return observations, {"mean": observations[..., : self.size]}

    message = r"agent_infos\['mean'\] of step 1 must have shape .*1\).* got .*2\)"
    with pytest.raises(ValueError, match=message):
        sample([mt.PointGoalEnv] * 2, Grows(), 2, 2, 2)


# Meta-World.


def test_metaworld_paths_are_those_of_each_task_alone():
    env = mt.MetaWorldSetTaskEnv("ML1", "train", env_name="reach-v3", num_goals=2)
    tasks = env.sample_tasks(2)
    paths = sample(env, reaching, 2, 2, 5, 1, seed=4, tasks=tasks, **WORKERS)
    assert lengths(paths) == {0: [5, 5], 1: [5, 5]}
    single_env = mt.MetaWorldSetTaskEnv()
    for task, task_paths in paths.items():
        single_env.set_task(tasks[task])
        obs, _ = single_env.reset(seed=4 + task)
        for path in task_paths:
            for t in range(5):
                assert np.array_equal(path["observations"][t], obs)
                obs, reward, _, _, info = single_env.step(reaching(obs[None])[0])
                assert path["rewards"][t] == reward
                for key in ("success", "obj_to_target", "task_name"):
                    assert path["env_infos"][key][t] == info[key]
            assert np.array_equal(path["next_observation"], obs)
            assert path["truncated"].tolist() == [False] * 4 + [True]
            obs, _ = single_env.reset()
    assert paths[0][0]["rewards"].tolist() != paths[1][0]["rewards"].tolist()


def reaching(observations):
    return np.clip(observations[:, :4] - 0.3, -1, 1).astype(np.float32)
