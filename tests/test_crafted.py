"""Checkpoints that somebody has crafted: they run nothing, write nowhere, and end."""

import functools
import sys
from contextlib import closing, suppress
from functools import partial
from types import ModuleType

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium import wrappers
from metaworld.wrappers import PseudoRandomTaskSelectWrapper, RandomTaskSelectWrapper

import mtwrappers
from mtwrappers import (
    CheckpointError,
    EnvToMTEnv,
    MetaIterativeEnvExecutor,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.metaworld import tasks as mw_tasks
from mtwrappers.state.env_state import get_state, set_state
from tests.crafted import craft, paths, payload, read, replace
from tests.fakes import CountingEnv

pytestmark = pytest.mark.filterwarnings("ignore:.*Box observation space:UserWarning")
of_one = partial(MetaIterativeEnvExecutor, meta_batch_size=1, journal=True)


@functools.cache
def benchmark():
    return metaworld.ML1("reach-v3", seed=0)


# What runs a command.


class Sawyer(metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]):
    """A user's class, which may be turned to a task by its number as well."""

    def set_task(self, task):
        super().set_task(benchmark().train_tasks[task] if isinstance(task, int) else task)


class Choose(gymnasium.Wrapper):
    """A user's wrapper, which chooses a task at each reset."""

    def __init__(self, env, tasks, **more):
        super().__init__(env)
        self.tasks, self.given = tasks, None

    def reset(self, **kwargs):
        self.unwrapped.set_task(self.tasks[0] if self.given is None else self.given)
        return self.env.reset(**kwargs)


class Composed(gymnasium.Env):
    """A user's environment, which has one of Meta-World's and is none."""

    def __init__(self):
        self.parts = {"arm": [bare(Sawyer)]}
        [self.arm] = self.parts["arm"]
        self.observation_space, self.action_space = (
            self.arm.observation_space,
            self.arm.action_space,
        )

    def set_task(self, task):
        self.arm.set_task(task)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.arm.reset()

    def step(self, action):
        return self.arm.step(action)


def registered():
    """Meta-World's own environment, whose wrapper draws one of its tasks."""
    settings = {"env_name": "reach-v3", "disable_env_checker": True, "seed": 1}
    env = gymnasium.make("Meta-World/MT1", **settings)
    env.get_wrapper_attr("sample_tasks")()
    return env


def upstream(select=RandomTaskSelectWrapper):
    """The same, but for its other wrappers, in less time."""
    return select(bare(metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]), benchmark().train_tasks[:3])


def bare(cls):
    env = cls()
    env.set_task(benchmark().train_tasks[0])
    return env


def chosen():
    return Choose(bare(Sawyer), benchmark().train_tasks[:2])


class Optional(gymnasium.Wrapper):
    """A user's wrapper, which sets the task in the options of a reset."""

    def reset(self, *, seed=None, options=None):
        if options:
            self.unwrapped.set_task(options["task"])
        return self.env.reset(seed=seed)


def optional(cls=None):
    return Optional(bare(Sawyer) if cls is None else cls())


def of_list():
    return EnvToMTEnv(bare(Sawyer), benchmark().train_tasks[:2])


def in_state(**change):
    """Changes the state of the wrapper that has these attributes."""

    def apply(layers):
        for *_, kept in layers:
            if isinstance(kept, dict) and change.keys() <= kept.keys():
                kept.update(change)

    return apply


def in_reset(**options):
    """Changes the options of the first environment's reset."""

    def apply(layers):
        layers[0][2]["logs"][0]["reset"][1] = options

    return apply


def in_state_of_log(**change):
    return lambda layers: in_state(**change)(layers[0][2]["logs"][0]["state"])


ROADS = {
    "state": (registered, lambda evil: in_state(tasks=["list", [evil]])),
    "state of a pseudorandom wrapper": (
        partial(upstream, PseudoRandomTaskSelectWrapper),
        lambda evil: in_state(tasks=["list", [evil]], current_task_idx=-1),
    ),
    "state in a vector environment": (
        partial(of_one, upstream),
        lambda evil: in_state_of_log(tasks=["list", [evil]]),
    ),
    "options of a reset": (partial(of_one, optional), lambda evil: in_reset(task=evil)),
    "options of a reset, to a part": (
        partial(of_one, partial(optional, Composed)),
        lambda evil: in_reset(task=evil),
    ),
    "task state of one of several": (
        partial(of_one, of_list),
        lambda evil: in_reset(task_state=evil),
    ),
    "list of a user's wrapper": (chosen, lambda evil: in_state(tasks=["list", [evil]])),
    "attribute of a user's wrapper": (chosen, lambda evil: in_state(given=evil)),
    "text": (chosen, lambda evil: in_state(given=np.bytes_(evil.tobytes()))),
    "user's wrapper in a vector environment": (
        partial(of_one, chosen),
        lambda evil: in_state_of_log(given=evil),
    ),
}


def load_and_reset(path, env):
    """Either may be where it is found that something is no task."""
    load_checkpoint(path, env=env)
    env.reset()


@pytest.mark.parametrize("road", ROADS)
def test_nothing_in_a_checkpoint_is_unpickled(road, tmp_path):
    make, crafted = ROADS[road]
    with closing(make()) as first, closing(make()) as other:
        first.reset(seed=0)
        save_checkpoint(tmp_path / "x", env=first)
        load_checkpoint(tmp_path / "x", env=other)  # as it is, it is taken
        change = crafted(payload(tmp_path / "it ran"))
        craft(tmp_path / "x", lambda states: change(states["env"]))
        message = r"metaworld\.Task|task state must be"
        with pytest.raises((CheckpointError, TypeError), match=message):
            load_and_reset(tmp_path / "x", other)
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("make", [upstream, chosen], ids=["Meta-World's wrapper", "a user's"])
def test_nothing_is_unpickled_wherever_it_stands(make, tmp_path):
    path, evil = tmp_path / "x", payload(tmp_path / "it ran")
    with closing(make()) as env:
        env.reset(seed=0)
        save_checkpoint(path, env=env)
        whole = path.read_bytes()
        places = [*paths(read(path)["env"])]
        for place in places:
            path.write_bytes(whole)
            craft(path, lambda states, place=place: replace(states, ("env", *place), evil))
            with suppress(Exception):
                load_and_reset(path, env)
    assert len(places) > 10
    assert not (tmp_path / "it ran").exists()


def test_a_guarded_class_still_takes_what_its_own_method_does():
    with closing(of_one(partial(bare, Sawyer))) as envs:
        envs.reset(seed=0)
        envs.call("set_task", 3)
        envs.call("set_task", benchmark().train_tasks[4])
        with pytest.raises(TypeError, match=r"expected a metaworld.Task, got array.*unpickles"):
            envs.call("set_task", np.zeros(3))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["list", []], "expected a list of metaworld.Tasks"),
        ("reach-v3", "expected a list of metaworld.Tasks"),
        (["dict", [["a", 1]]], "expected a list of metaworld.Tasks"),
        (["list", [1]], "expected only metaworld.Tasks in tasks, got 1"),
        (["list", [metaworld.ML1("push-v3").train_tasks[0]]], "got one of 'push-v3'"),
    ],
)
def test_tasks_of_another_kind_are_refused(tasks, message, tmp_path):
    with closing(upstream()) as env:
        save_checkpoint(tmp_path / "x", env=env)
        craft(tmp_path / "x", lambda states: in_state(tasks=tasks)(states["env"]))
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(tmp_path / "x", env=env)
        env.reset()


# Where things are written.


class Recorder(wrappers.RecordVideo):
    """A user's subclass, whose attributes that are plain data are its state."""

    episodes = 0


@pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning")
@pytest.mark.parametrize("kind", [wrappers.RecordVideo, Recorder])
@pytest.mark.parametrize("name", ["video_folder", "name_prefix", "_video_name"])
def test_no_checkpoint_decides_where_videos_are_written(kind, name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))

    def make(folder):
        env = CountingEnv(3, render_mode="rgb_array")
        return kind(env, str(tmp_path / folder), episode_trigger=lambda n: False)

    with closing(of_one(partial(make, "mine"))) as envs, closing(make("mine, too")) as env:
        envs.reset(seed=0)
        save_checkpoint(tmp_path / "x", envs=envs, env=env)
        load_checkpoint(tmp_path / "x", envs=envs, env=env)
        with closing(make("another")) as other:
            set_state(other, get_state(env))
            assert other.video_folder == str(tmp_path / "another")
        save_checkpoint(tmp_path / "x", env=env)
        craft(tmp_path / "x", lambda states: states["env"][0][2].update({name: "theirs"}))
        with pytest.raises(CheckpointError, match=r"expected \[|is not plain data"):
            load_checkpoint(tmp_path / "x", env=env)


def test_a_random_vector_with_which_a_reset_never_ends_is_refused(tmp_path):
    push = metaworld.MT1("push-v3", seed=0).train_tasks[0]
    vector = mw_tasks.decode(push)["rand_vec"]
    near = np.concatenate([vector[:3], vector[:3]])  # the object at its goal
    endless = mw_tasks.with_vector(push, near)
    save_checkpoint(tmp_path / "x", it={"task": endless})
    with pytest.raises(CheckpointError, match="too close together"):
        load_checkpoint(tmp_path / "x", it={})
    save_checkpoint(tmp_path / "x", it={"task": mw_tasks.with_vector(push, vector * np.nan)})
    with pytest.raises(CheckpointError, match="must be 6 numbers"):
        load_checkpoint(tmp_path / "x", it={})
    env = metaworld.ALL_V3_ENVIRONMENTS["push-v3"]()
    env.set_task(push)
    with closing(env):
        save_checkpoint(tmp_path / "x", env=env)
        craft(tmp_path / "x", lambda states: in_state(_last_rand_vec=near)(states["env"]))
        with pytest.raises(CheckpointError, match="too close together"):
            load_checkpoint(tmp_path / "x", env=env)


def test_every_task_of_meta_world_comes_through_a_checkpoint(tmp_path):
    make = mtwrappers.metaworld.make_benchmark
    tasks = [*make("MT50", num_goals=2).train_tasks, *make("ML10", num_goals=2).test_tasks]
    save_checkpoint(tmp_path / "x", it={"tasks": tasks})
    found = {}
    load_checkpoint(tmp_path / "x", it=found)
    assert found["tasks"] == tasks
