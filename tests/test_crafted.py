"""Checkpoints that somebody has crafted: they run nothing, write nowhere, and end."""

import copy
import functools
import os
import pickle
import sys
from contextlib import closing, suppress
from functools import partial
from types import ModuleType

import gymnasium
import metaworld
import numpy as np
import pytest
from gymnasium import wrappers
from metaworld.wrappers import RandomTaskSelectWrapper

from mtwrappers import (
    CheckpointError,
    EnvToMTEnv,
    MetaIterativeEnvExecutor,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.metaworld import tasks as mw_tasks
from mtwrappers.state.checkpoint import _MAGIC, VERSION, _fingerprint, from_bytes, to_bytes
from mtwrappers.state.env_state import get_state, set_state
from tests.fakes import CountingEnv

pytestmark = pytest.mark.filterwarnings("ignore:.*Box observation space:UserWarning")
make_vector = partial(MetaIterativeEnvExecutor, meta_batch_size=1, journal=True)


def read(path):
    """The plain values of a checkpoint."""
    return from_bytes(path.read_bytes().split(b"\n", 1)[1])


def write(path, states):
    """A checkpoint of plain values, with the right checksum."""
    data = to_bytes(states)
    path.write_bytes(b"%s %d %s\n" % (_MAGIC, VERSION, _fingerprint(data)) + data)


@functools.cache
def benchmark():
    return metaworld.ML1("reach-v3", seed=0)


# What runs a command.


class Command:
    """Makes a directory where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class Sawyer(metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]):
    """A user's class, which may be turned to a task by its number as well."""

    def set_task(self, task):
        super().set_task(benchmark().train_tasks[task] if isinstance(task, int) else task)


class Choose(gymnasium.Wrapper):
    """A user's wrapper, which chooses a task at each reset."""

    def __init__(self, env, tasks):
        super().__init__(env)
        self.tasks, self.given = tasks, None

    def reset(self, **kwargs):
        self.unwrapped.set_task(self.tasks[0] if self.given is None else self.given)
        return self.env.reset(**kwargs)


class Composed(gymnasium.Env):
    """A user's environment, which has one of Meta-World's and is none; options set its task."""

    def __init__(self):
        self.parts = {"arm": [bare(Sawyer)]}
        [arm] = self.parts["arm"]
        self.observation_space, self.action_space = arm.observation_space, arm.action_space
        self.step = arm.step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if options:
            self.parts["arm"][0].set_task(options["task"])
        return self.parts["arm"][0].reset()


def bare(cls=metaworld.ALL_V3_ENVIRONMENTS["reach-v3"]):
    env = cls()
    env.set_task(benchmark().train_tasks[0])
    return env


def upstream(select=RandomTaskSelectWrapper):
    """Meta-World's own environment and the wrapper that draws one of its tasks."""
    return select(bare(), benchmark().train_tasks[:1])


def chosen():
    return Choose(bare(Sawyer), benchmark().train_tasks[:1])


def make_mt_env():
    return EnvToMTEnv(bare(Sawyer), benchmark().train_tasks[:2])


MAKES = {
    "Meta-World's wrapper": (upstream, None),
    "a user's wrapper": (chosen, None),
    "a vector environment": (partial(make_vector, chosen), None),
    "options of a reset": (partial(make_vector, Composed), {"task": 1}),
    "task state of one of several": (partial(make_vector, make_mt_env), {"task_state": 1}),
}


def places(values, place=()):
    """The way to each of some plain values, however deep."""
    inner = values.items() if isinstance(values, dict) else ()
    if type(values) in (list, tuple):
        inner = enumerate(values)
    for key, value in inner:
        yield (*place, key)
        yield from places(value, (*place, key))


def replaced(values, place, value):
    """The plain values with another one at the end of this way."""
    if not place:
        return value
    key, *inner_place = place
    if isinstance(values, tuple):
        return tuple(
            replaced(v, inner_place, value) if i == key else v for i, v in enumerate(values)
        )
    values[key] = replaced(values[key], inner_place, value)
    return values


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.slow_but("Meta-World's wrapper", "a user's wrapper", "a vector environment")
def test_nothing_in_a_checkpoint_is_unpickled_wherever_it_stands(kind, tmp_path):
    path, (make, options) = tmp_path / "x", MAKES[kind]
    # An array, or text, has an attribute `data` as a task has.
    array = np.frombuffer(pickle.dumps(Command(tmp_path / "it ran")), np.uint8)
    with closing(make()) as env:
        env.reset(seed=0, options=options)
        save_checkpoint(path, env=env)
        load_checkpoint(path, env=env)  # as it is, it is taken
        state = read(path)["env"]
        # In the states of layers.
        layer_places = [place for place in places(state) if place[1:2] == (2,)]
        for place in layer_places:
            for evil in (array, np.bytes_(array.tobytes())):
                write(path, {"env": replaced(copy.deepcopy(state), place, evil)})
                with suppress(Exception):
                    load_checkpoint(path, env=env)
                    env.reset()
    assert len(layer_places) >= 3
    assert not (tmp_path / "it ran").exists()


def test_a_guarded_class_still_takes_what_its_own_method_does():
    with closing(make_vector(partial(bare, Sawyer))) as envs:
        envs.reset(seed=0)
        envs.call("set_task", 3)
        envs.call("set_task", benchmark().train_tasks[4])
        with pytest.raises(TypeError, match=r"expected a metaworld.Task, got array.*unpickles"):
            envs.call("set_task", np.zeros(3))


# Where things are written.


class Recorder(wrappers.RecordVideo):
    """A user's subclass, whose state is that of Gymnasium's own."""

    episodes = 0


@pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning")
@pytest.mark.parametrize("kind", [wrappers.RecordVideo, Recorder])
def test_no_checkpoint_decides_where_videos_are_written(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))

    def make(folder):
        env = CountingEnv(3, render_mode="rgb_array")
        return kind(env, str(tmp_path / folder), episode_trigger=lambda n: False)

    with closing(make_vector(partial(make, "mine"))) as envs, closing(make("mine, too")) as env:
        envs.reset(seed=0)
        save_checkpoint(tmp_path / "x", envs=envs, env=env)
        load_checkpoint(tmp_path / "x", envs=envs, env=env)
        with closing(make("another")) as restored:
            set_state(restored, get_state(env))
            assert restored.video_folder == str(tmp_path / "another")
        for name in ("video_folder", "name_prefix", "_video_name"):
            save_checkpoint(tmp_path / "x", env=env)
            states = read(tmp_path / "x")
            states["env"][0][2][name] = "theirs"
            write(tmp_path / "x", states)
            with pytest.raises(CheckpointError, match=r"expected \["):
                load_checkpoint(tmp_path / "x", env=env)


def test_a_random_vector_with_which_a_reset_never_ends_is_refused(tmp_path):
    push = metaworld.MT1("push-v3", seed=0).train_tasks[0]
    vector = mw_tasks.decode(push)["rand_vec"]
    near = np.concatenate([vector[:3], vector[:3]])  # the object at its goal
    for wrong, message in ((near, "too close together"), (vector * np.nan, "must be 6 numbers")):
        save_checkpoint(tmp_path / "x", it={"task": mw_tasks.with_vector(push, wrong)})
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(tmp_path / "x", it={})
