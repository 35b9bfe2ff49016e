"""The families of tasks: their tasks and draws, and everything around a task environment."""

import copy
import functools
import importlib.util
import json
import math
import os
import pickle
import signal
import warnings
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.vector import SyncVectorEnv

import mtwrappers as mt
from mtwrappers.cli import main
from mtwrappers.common.registration import FAMILIES as NAMES
from mtwrappers.envs import distributions, mujoco_families
from mtwrappers.envs.families import FAMILIES
from mtwrappers.envs.family import FamilyTasks, load_published_tasks
from tests.fakes import ROOT, check_env_warnings, equal, play

SOURCES = [(name, source) for name, family in FAMILIES.items() for source in family.sources]
MUJOCO = [(name, source) for name, source in SOURCES if NAMES[name] == "mujoco"]
VEL, GOAL = "HalfCheetahVel", "AntGoal"


def make(name, **kwargs):
    return gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)


def make_vec(name, **kwargs):
    return gymnasium.make_vec(f"mtwrappers/{name}-v0", **kwargs)


def draw_actions(env, n):
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(n)]


# Ids.


def test_the_registered_ids_are_the_families():
    assert list(FAMILIES) == list(NAMES)


@pytest.mark.parametrize(("name", "source"), SOURCES)
@pytest.mark.slow_but("SwimmerVel-mended", "HopperRandParams-pearl", "HalfCheetahVel-pearl")
def test_each_source_of_each_id_keeps_gymnasiums_contract_and_its_spec_makes_it_again(name, source):
    env = make(name, source=source)
    warned = check_env_warnings(env, skip_render_check=True)
    assert [text for text in warned if "infinity" not in text] == []  # as Gymnasium's own
    spec = EnvSpec.from_json(env.spec.to_json())
    assert spec == env.spec == pickle.loads(pickle.dumps(env.spec))
    actions = draw_actions(env, 3)
    first = play(env, actions, seed=3)
    assert equal(play(env, actions, seed=3), first)
    assert equal(play(gymnasium.make(spec), actions, seed=3), first)
    assert not equal(play(env, actions), first)
    shown = make(name, source=source, task_encoding="dict")
    obs, _ = shown.reset(seed=3)
    assert obs in shown.observation_space
    assert equal(obs["env_obs"], first[0][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_each_id_passes_all_checks(name):
    assert main(["check", f"mtwrappers/{name}-v0", "--steps", "50"]) == 0


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.slow_but("SwimmerVel")
def test_each_id_makes_vector_environments_as_gymnasium_does_here_and_in_workers(name):
    kwargs = {"num_envs": 4, "max_episode_steps": 3}
    with (
        closing(SyncVectorEnv([lambda: make(name, max_episode_steps=3)] * 4)) as envs,
        closing(make_vec(name, **kwargs, autoreset_mode="NextStep")) as here,
        closing(make_vec(name, **kwargs, autoreset_mode="NextStep", workers=2)) as workers,
    ):
        actions = draw_actions(envs, 5)
        results = play(envs, actions, seed=5)
        assert equal(play(here, actions, seed=5), results)
        assert equal(play(workers, actions, seed=5), results)


@pytest.mark.parametrize(
    ("kwargs", "steps"),
    [
        ({}, 200),
        ({"source": "promp"}, 100),
        ({"episode_steps": 3}, 3),
        ({"max_episode_steps": 3}, 3),
        ({"source": "promp", "episode_steps": 120}, 120),
        ({"episode_steps": -1, "max_episode_steps": 250}, 250),
    ],
)
def test_an_episode_has_the_length_of_its_source_or_another(kwargs, steps):
    env = make(VEL, **kwargs)
    assert env.spec.max_episode_steps == steps
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, np.float32)
    truncated = [env.step(action)[3] for _ in range(steps)]
    assert truncated == [False] * (steps - 1) + [True]


def test_without_mujoco_the_error_names_the_extra(monkeypatch):
    def import_nothing(module, extra):
        raise DependencyNotInstalled(f"pip install '.[{extra}]'")

    monkeypatch.setattr(mujoco_families, "import_extra", import_nothing)
    with pytest.raises(DependencyNotInstalled, match=r"\.\[mujoco\]"):
        make(VEL)


# Tasks.


def test_resets_draw_a_task_until_one_is_set_which_then_stays():
    env = make("SwimmerVel", source="mended").unwrapped
    velocities = [env.reset(seed=0)[1]["task"]["velocity"]]
    velocities += [env.reset()[1]["task"]["velocity"] for _ in range(5)]
    assert len(set(velocities)) == 6
    assert env.reset(seed=0)[1]["task"]["velocity"] == velocities[0]
    env.set_task({"velocity": 0.15})
    with pytest.raises(ResetNeeded, match=r"task \{'velocity': 0.15\} was set but not reset"):
        env.step(np.zeros(2))
    for kwargs in ({}, {"seed": 1}, {}):
        assert env.reset(**kwargs)[1]["task"] == env.get_task() == {"velocity": 0.15}
    assert env.step(np.zeros(2))[4]["task"] == {"velocity": 0.15}
    env.sample_tasks_on_reset = True
    assert env.reset()[1]["task"]["velocity"] != 0.15
    options = {"task_state": {"velocity": np.float32(0.125)}}
    assert env.reset(options=options)[1]["task"] == {"velocity": 0.125}
    assert env.reset()[1]["task"]["velocity"] != 0.125


def test_a_seed_determines_what_sample_tasks_draws_and_drawing_moves_no_environment():
    env, other_env = make(GOAL).unwrapped, make(GOAL).unwrapped
    env.reset(seed=7)
    other_env.reset(seed=7)
    tasks = env.sample_tasks(3)
    assert tasks == other_env.sample_tasks(3)
    assert tasks != env.sample_tasks(3)
    assert all(type(value) is float for task in tasks for value in task["goal"])
    state = np.random.get_state()[1].tolist()
    assert len(make(GOAL).unwrapped.sample_tasks(2)) == 2  # from entropy
    assert np.random.get_state()[1].tolist() == state
    env.set_task(tasks[0])
    other_env.set_task(json.loads(json.dumps(tasks[0])))  # lists for tuples
    assert env.get_task() == other_env.get_task() == tasks[0]
    tasks[0]["goal"] = (9.0, 9.0)
    env.get_task()["goal"] = (9.0, 9.0)
    assert env.get_task() == other_env.get_task()


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        (VEL, {"velocity": 4}, r"'velocity' of task state must be in \[0, 3\]; got 4"),
        (VEL, {"speed": 1}, r"must be \{'velocity': a number, in \[0, 3\]\}, got \{'speed': 1\}"),
        (VEL, 1.0, r"must be \{'velocity': a number, in \[0, 3\]\}, got 1.0"),
        (VEL, {"velocity": math.nan}, r"must be a number, in \[0, 3\]; got nan"),
        (VEL, {"velocity": "fast"}, r"must be a number, in \[0, 3\]; got 'fast'"),
        ("HalfCheetahDir", {"direction": 0.5}, r"'direction' of task state must be one of -1, 1"),
        (
            "AntDir",
            {"direction": 1.0},
            r"must be numbers of shape \(2,\), on the circle of radius 1; got",
        ),
        ("AntDir", {"direction": (1.0, 1.0)}, r"must be on the circle of radius 1; got \(1.0, 1.0"),
        (GOAL, {"goal": (3.0, 0.5)}, r"must be in the disc of radius 3; got \(3.0, 0.5\)"),
        (
            GOAL,
            {"goal": ("1", "0")},
            r"must be numbers of shape \(2,\), in the disc .* got \('1', '0'\)",
        ),
        (
            GOAL,
            {"goal": [[1], [0, 1]]},
            r"must be numbers of shape \(2,\), in the disc .* got \[\[1\]",
        ),
        (VEL, {"velocity": "1"}, r"must be a number, in \[0, 3\]; got '1'"),
        (VEL, {"velocity": True}, r"must be a number, in \[0, 3\]; got True"),
    ],
)
def test_a_task_that_is_none_of_the_family_is_refused_and_the_task_is_kept(name, task, message):
    env = make(name).unwrapped
    present = env.get_task()
    with pytest.raises(ValueError, match=message):
        env.set_task(task)
    assert env.get_task() == present
    assert env.sample_tasks_on_reset


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"source": "rl2"}, ValueError, r"source must be .*'pearl'.* got 'rl2'"),
        ({"tasks": "all"}, ValueError, r"tasks must be .* got 'all'"),
        (
            {"source": "promp", "tasks": "train"},
            ValueError,
            r"'promp' of HalfCheetahVel has published no list .* got 'train'; .* \['pearl'\]",
        ),
        ({"task_encoding": "onehot"}, ValueError, r"task_encoding must be .* got 'onehot'"),
        ({"episode_steps": 0}, ValueError, r"(^|: )episode_steps, if .* positive integer, got 0"),
        ({"goal": 1}, TypeError, r"HalfCheetahVel got an unexpected keyword argument 'goal'"),
    ],
)
def test_other_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        make(VEL, **kwargs)
    with pytest.raises(error, match=message):
        make_vec(VEL, **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"num_envs": 5, "meta_batch_size": 2},
            r"with meta_batch_size=2 has 2 tasks: num_envs must be a multiple .*got 5",
        ),
        ({"num_envs": 31, "tasks": "test"}, r"HalfCheetahVel has 30 tasks: .* got 31"),
        ({"meta_batch_size": 0}, r"meta_batch_size must be a positive integer, got 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_vec(VEL, **kwargs)


# Draws.


def draw_values(name, source, entry, n=10_000):
    """Draws tasks without an environment for each, and returns their entries, ``(n, ...)``."""
    env = make(name, source=source).unwrapped
    env.reset(seed=0)
    return np.array([task[entry] for task in env.sample_tasks(n)])


def require_uniform(values, low, high):
    """Ten bins have the same share, up to five standard errors."""
    counts, _ = np.histogram(values, 10, (low, high))
    assert counts.sum() == len(values)
    share = len(values) / 10
    assert np.abs(counts - share).max() < 5 * math.sqrt(share * 0.9)


@pytest.mark.parametrize(
    ("name", "source", "low", "high"),
    [
        (VEL, "pearl", 0, 3),
        (VEL, "varibad", 0, 3),
        (VEL, "promp", 0, 3),
        (VEL, "maml", 0, 2),
        (VEL, "garage", 0, 2),
        ("Walker2dVel", "promp", 0, 10),
        ("SwimmerVel", "promp", 0.1, 0.2),
        ("SwimmerVel", "mended", 0.1, 0.2),
    ],
)
def test_velocities_are_uniform_in_the_range_of_the_source(name, source, low, high):
    require_uniform(draw_values(name, source, "velocity"), low, high)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *(("HalfCheetahDir", source) for source in ("pearl", "varibad", "promp", "maml", "garage")),
        *(("AntDir", source) for source in ("varibad", "promp", "maml")),
        ("HumanoidDir", "promp"),
    ],
)
def test_signs_are_equally_likely(name, source):
    values = draw_values(name, source, "direction")
    assert set(values) == {-1.0, 1.0}
    assert abs(values.mean()) < 0.05


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *(("AntDir", source) for source in ("pearl", "promp-2d")),
        *(("HumanoidDir", source) for source in ("pearl", "promp-2d")),
    ],
)
def test_directions_in_the_plane_are_uniform_in_their_angle(name, source):
    x, y = draw_values(name, source, "direction").T
    np.testing.assert_allclose(np.hypot(x, y), 1.0, rtol=1e-12)
    require_uniform(np.arctan2(y, x) % (2 * math.pi), 0, 2 * math.pi)


@pytest.mark.parametrize("source", ["pearl", "varibad", "promp"])
def test_goals_are_uniform_in_the_area_of_a_disc(source):
    x, y = draw_values(GOAL, source, "goal").T
    require_uniform(x**2 + y**2, 0, 9)
    require_uniform(np.arctan2(y, x) % (2 * math.pi), 0, 2 * math.pi)


def test_the_goals_of_maml_are_uniform_in_a_square():
    x, y = draw_values(GOAL, "maml", "goal").T
    require_uniform(x, -3, 3)
    require_uniform(y, -3, 3)


@pytest.mark.parametrize(("name", "shapes"), [("Walker2d", (8, 9, 8)), ("Hopper", (5, 6, 5))])
@pytest.mark.parametrize("entry", ["body_mass", "body_inertia", "dof_damping", "geom_friction"])
def test_multipliers_are_powers_with_a_uniform_exponent(name, shapes, entry):
    values = draw_values(f"{name}RandParams", "pearl", entry)
    bodies, joints, geoms = shapes
    shape = {"body_mass": (bodies,), "body_inertia": (bodies, 3), "dof_damping": (joints,)}
    assert values.shape[1:] == shape.get(entry, (geoms, 3))
    base = 1.3 if entry == "dof_damping" else 1.5
    exponents = np.log(values) / np.log(base)
    for column in exponents.reshape(len(values), -1).T:
        require_uniform(column, -3, 3)


def test_each_distribution_takes_what_it_draws_and_nothing_beside_it():
    rng = np.random.default_rng(0)
    half = distributions.Circle(2.0, math.pi)
    for distribution in (
        *(half, distributions.Circle(), distributions.Disc(3.0), distributions.Choice((1.0, 4.0))),
        *(distributions.Uniform(-2.0, 5.0, (2, 3)), distributions.Power(1.5, 3.0, (2,))),
    ):
        for _ in range(200):
            value = distributions.freeze(distribution.draw(rng))
            assert distribution.check(value, "value") == value
            assert np.array(value) in distribution.space
    for angle, ok in ((0.0, True), (math.pi, True), (-0.01, False), (math.pi + 0.01, False)):
        point = np.array([2 * math.cos(angle), 2 * math.sin(angle)])
        assert half.can_draw(point) is ok
    assert str(half) == "on the circle of radius 2, at an angle in [0, 3.142]"


@pytest.mark.parametrize(
    ("distribution", "value", "factor"),
    [
        (distributions.Uniform(0.0, 3.0), 3.0, 1 + 1e-7),
        (distributions.Power(1.5, 3.0), 1.5**3, 1 + 1e-7),
        (distributions.Choice((-1.0, 1.0)), 1.0, 1 - 1e-7),
        (distributions.Choice((-1.0, 1.0)), -1.0, 1 + 1e-7),
        (distributions.Circle(2.0), (2.0, 0.0), 1 + 1e-7),
        (distributions.Disc(2.0), (0.0, -2.0), 1 + 1e-7),
        (distributions.Dirichlet((2,)), (1.0, 0.0), 1 + 1e-7),
    ],
)
def test_a_rounded_value_is_moved_into_the_space_and_no_other_is(distribution, value, factor):
    rounded = np.array(value) * factor
    assert distribution.check(rounded, "value") == value
    with pytest.raises(ValueError, match="value must be"):
        distribution.check(np.array(value) * factor**100, "value")


def test_an_option_that_no_family_reads_is_refused():
    env = make("PointRobot")
    for name in ("goal", "task"):
        message = rf"takes the reset options \['res.*', 'task_state'\], got \['{name}'\]; a task_st"
        with pytest.raises(ValueError, match=message):
            env.reset(options={name: {"goal": (0.5, 0.5)}})


# Published lists.


def test_the_published_lists_are_those_that_the_script_draws():
    path = ROOT / "docs" / "published_tasks.py"
    spec = importlib.util.spec_from_file_location("published_tasks", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    drawn = json.loads(json.dumps(script.draw_lists()))
    assert json.loads(script.FILE.read_text("utf-8")) == drawn
    sizes = {
        name: (len(lists["train"]), len(lists["test"]))
        for name, lists in load_published_tasks().items()
    }
    assert sizes["PEARL, HalfCheetahVel"] == (100, 30)
    assert sizes["PEARL, HalfCheetahDir"] == (2, 2)
    # The first draws after np.random.seed(1337).
    first = [task["velocity"] for task in load_published_tasks()["PEARL, HalfCheetahVel"]["train"]]
    assert first[:3] == pytest.approx([0.786074, 0.476052, 0.834380], abs=1e-6)


def test_a_list_is_drawn_in_sweeps_and_other_tasks_can_be_set():
    env = make(VEL, tasks="test").unwrapped
    assert env.num_tasks == len(env.tasks) == 30
    env.seed_task(0)
    first = env.sample_tasks(30)
    assert first != env.tasks
    assert sorted(task["velocity"] for task in first) == sorted(
        task["velocity"] for task in env.tasks
    )
    first[0].clear()
    assert {} not in env.sample_tasks(60)
    env.set_task({"velocity": 1.5})
    assert env.reset()[1]["task"] == {"velocity": 1.5}
    assert not hasattr(make(VEL).unwrapped, "num_tasks")


def test_a_vector_environment_of_a_list_has_a_group_for_each_of_its_tasks():
    with closing(make_vec("HalfCheetahDir", tasks="train", num_envs=4)) as envs:
        for kwargs in ({"seed": 0}, {}):
            _, infos = envs.reset(**kwargs)
            assert infos["task"]["direction"].tolist() == [-1, -1, 1, 1]
    with closing(make_vec(VEL, tasks="test", meta_batch_size=3)) as envs:  # these draw from it
        listed = {task["velocity"] for task in envs.get_attr("tasks")[0]}
        drawn = {v for _ in range(4) for v in envs.reset()[1]["task"]["velocity"]}
        assert drawn <= listed
        assert len(drawn) > 3


# Executors, state and other classes.


def test_set_tasks_sets_the_task_of_each_group_through_autoresets_and_a_killed_worker():
    kwargs = {"num_envs": 4, "meta_batch_size": 2, "max_episode_steps": 3}

    def run(envs, kill=()):
        envs.set_tasks([{"velocity": 0.11}, {"velocity": 0.19}])
        results = [envs.reset(seed=2)]
        assert results[0][1]["task"]["velocity"].tolist() == [0.11, 0.11, 0.19, 0.19]
        for t, action in enumerate(draw_actions(envs, 7)):
            if t in kill:
                os.kill(envs.worker_pids[t % 2], signal.SIGKILL)
            results.append(envs.step(action))
        return results

    with closing(make_vec("SwimmerVel", **kwargs)) as envs:
        expected = run(envs)
    recover = {"workers": 2, "on_worker_failure": "recover"}
    with closing(make_vec("SwimmerVel", **kwargs, **recover)) as envs, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a worker was replaced
        assert equal(run(envs, kill=(1, 4)), expected)
        assert envs.recoveries == 2


@pytest.mark.parametrize("make_copy", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("name", ["HopperRandParams", VEL])
def test_copies_are_on_the_same_task(name, make_copy):
    env = make(name)
    env.reset(seed=1)
    copied_env = make_copy(env)
    task = env.unwrapped.get_task()
    assert copied_env.unwrapped.get_task() == task
    options = {"task_state": task}
    actions = draw_actions(env, 3)
    assert equal(
        play(copied_env, actions, seed=4, options=options),
        play(env, actions, seed=4, options=options),
    )


@pytest.mark.parametrize("name", ["HopperRandParams", VEL])
def test_a_checkpoint_in_mid_episode_goes_on_with_the_same_bits(name, tmp_path):
    tasks = {"tasks": "train"} if name == VEL else {}
    with (
        closing(make_vec(name, meta_batch_size=2, journal=True, **tasks)) as envs,
        closing(make_vec(name, meta_batch_size=2, journal=True, **tasks)) as other_envs,
    ):
        envs.reset(seed=0)
        envs.reset()
        actions = draw_actions(envs, 6)
        for action in actions[:2]:
            envs.step(action)
        mt.save_checkpoint(tmp_path / "run", envs=envs)
        mt.load_checkpoint(tmp_path / "run", envs=other_envs)
        for action in actions:
            assert equal(other_envs.step(action), envs.step(action))
        assert equal(other_envs.reset(), envs.reset())


@pytest.mark.parametrize("name", ["PointRobot", "Bandit", VEL])
def test_a_checkpoint_has_the_tasks_that_were_set(name, tmp_path):
    with (
        closing(make_vec(name, meta_batch_size=2, journal=True)) as envs,
        closing(make_vec(name, meta_batch_size=2, journal=True)) as other_envs,
    ):
        envs.reset(seed=0)
        envs.set_tasks(envs.call("sample_tasks", 2)[0])
        envs.reset()
        actions = draw_actions(envs, 6)
        for action in actions[:2]:
            envs.step(action)
        mt.save_checkpoint(tmp_path / "run", envs=envs)
        mt.load_checkpoint(tmp_path / "run", envs=other_envs)
        assert other_envs.call("get_task") == envs.call("get_task")
        for action in actions:
            assert equal(other_envs.step(action), envs.step(action))


@pytest.mark.parametrize("name", ["SparsePointRobot", VEL])
def test_a_sampler_of_a_family_goes_on_from_a_checkpoint(name, tmp_path):
    def make_sampler():
        env = gymnasium.make(f"mtwrappers/{name}-v0")
        size = env.action_space.shape
        env.close()
        return mt.MetaSampler(
            functools.partial(gymnasium.make, f"mtwrappers/{name}-v0"),
            lambda obs: np.full((len(obs), *size), 0.1),
            rollouts_per_meta_task=1,
            meta_batch_size=2,
            max_path_length=3,
            seed=0,
        )

    with closing(make_sampler()) as sampler, closing(make_sampler()) as other:
        sampler.update_tasks()
        sampler.obtain_samples()
        mt.save_checkpoint(tmp_path / "run", sampler=sampler)
        mt.load_checkpoint(tmp_path / "run", sampler=other)
        assert equal(other.obtain_samples(), sampler.obtain_samples())
        assert equal(other.update_tasks(), sampler.update_tasks())
        assert equal(other.obtain_samples(), sampler.obtain_samples())


@pytest.mark.parametrize("name", ["PointRobot", "SparsePointRobot", "Bandit", "TabularMDP"])
def test_a_checkpoint_compares_the_arguments_of_a_small_family(name, tmp_path):
    env = gymnasium.make(f"mtwrappers/{name}-v0")
    env.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.save_checkpoint(tmp_path / "a.ckpt", env=env)


def test_a_task_option_stays_after_set_task_and_lasts_an_episode_while_resets_draw():
    env = gymnasium.make("mtwrappers/PointRobot-v0").unwrapped
    env.reset(seed=0)
    env.reset(options={"task_state": {"goal": (0.5, 0.5)}})
    env.reset()
    assert env.get_task() != {"goal": (0.5, 0.5)}
    env.set_task({"goal": (0.25, 0.25)})
    env.reset(options={"task_state": {"goal": (0.5, 0.5)}})
    env.reset()
    assert env.get_task() == {"goal": (0.5, 0.5)}


def test_a_meta_sampler_collects_trajectories_of_the_tasks_that_it_draws():
    env = functools.partial(make, "SwimmerVel", source="mended")

    def zeros(obs):
        return np.zeros((len(obs), 2), np.float32)

    sampler = mt.MetaSampler(env, zeros, 2, 3, 5, seed=0)
    tasks = sampler.update_tasks()
    paths = sampler.obtain_samples()
    for m, task in enumerate(tasks):
        for path in paths[m]:
            infos = path["env_infos"]
            errors = np.abs(infos["x_velocity"] - task["velocity"])
            assert infos["reward_run"].tolist() == (-errors).tolist()
    sampler.envs.close()


def test_env_to_mtenv_takes_an_environment_of_a_family():
    env = mt.EnvToMTEnv(make("SwimmerVel"), [{"velocity": 0.1}, {"velocity": 0.2}])
    for state, velocity in ((1, 0.2), (0, 0.1)):
        obs, info = env.reset(options={"task_state": state})
        assert info["task"] == {"velocity": velocity}
        assert obs["task_obs"] == state


def test_a_few_shot_evaluation_over_the_test_tasks_is_replayed(tmp_path):
    class Still:
        def begin_trial(self):
            self.adapted = 0

        def adapt(self, paths):
            self.adapted += len(paths)

        def __call__(self, obs):
            return np.zeros((len(obs), 6), np.float32)

    with closing(make_vec("HalfCheetahDir", tasks="test", max_episode_steps=4)) as envs:
        result = mt.few_shot_evaluate(
            Still(), envs, 3, 1, 2, seed=1, evidence=tmp_path / "result.npz"
        )
        assert envs.get_attr("sample_tasks_on_reset") == (False, False)
    assert "return (95%)" in str(result)
    assert len(result.scored) == 3 * 2 * 2
    result.save(tmp_path / "result.json")
    text = str(mt.verify(tmp_path / "result.json"))
    assert "\nlengths are equal;\n" in text  # neither success nor goals are in the file
    assert "verified:" in text
    with closing(make_vec("HalfCheetahDir", num_envs=2, max_episode_steps=2)) as envs:
        mt.few_shot_evaluate(Still(), envs, 2, 1, 1)  # though resets draw tasks otherwise
        assert envs.get_attr("sample_tasks_on_reset") == (True, True)
        held_out = [[{"direction": 1.0}, {"direction": -1.0}]]
        result = mt.few_shot_evaluate(Still(), envs, held_out, 1, 1)
        assert {episode.task for episode in result.scored} == {"task 0", "task 1"}


def test_a_set_of_tasks_checks_its_list():
    with pytest.raises(ValueError, match=r"'x' of a task must be in \[0, 1\]; got 2.0"):
        FamilyTasks({"x": distributions.Uniform(0.0, 1.0)}, [{"x": 0.5}, {"x": 2.0}])


@pytest.mark.parametrize("selection", [{}, {"sweep": [80]}, {"sweep": "0"}])
def test_a_sweep_that_the_list_has_not_is_refused_and_nothing_is_changed(selection):
    env = make("PointRobot", tasks="train").unwrapped
    env.reset(seed=0)
    state = env.get_state()
    with pytest.raises(
        ValueError, match=r"expected \['sweep'\] of FamilyTasks|sweep of tasks must"
    ):
        env.set_state({**state, "was_set": True, "selection": selection})
    assert env.get_state() == state


def test_two_limits_of_an_episode_are_refused():
    with pytest.raises(ValueError, match="max_episode_steps=7 and episode_steps=3"):
        gymnasium.make_vec("mtwrappers/PointRobot-v0", episode_steps=3, max_episode_steps=7)
