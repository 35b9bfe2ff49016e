"""Environments that break one rule of `MTEnv` each, and what the checker says of them."""

import random
from functools import partial

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from mtwrappers import SeedNotSetError
from tests.fakes import CountingEnv, CountingMTEnv
from tests.testing import fakes
from tests.testing.fakes import count, raises

breaks = partial(fakes.breaks, CountingMTEnv)
steps = partial(fakes.steps, CountingMTEnv)


def resets(change):
    """A `CountingMTEnv` whose resets return ``change(env, obs, info)``."""
    return breaks(reset=lambda self, **kw: change(self, *CountingMTEnv.reset(self, **kw)))


def samples(change):
    """A `CountingMTEnv` that samples ``change(env, task_state)``, and which raises unseeded."""
    return breaks(sample_task_state=lambda s: change(s, CountingMTEnv.sample_task_state(s)))


def with_space(space):
    def init(self):
        CountingMTEnv.__init__(self)
        self.observation_space = space

    return breaks(__init__=init)


def put(obs, entry, value):
    obs["env_obs"][entry] = value
    return obs


def unseeded(instead):
    def sample(self):
        return CountingMTEnv.sample_task_state(self) if self._task_seed is not None else instead()

    return breaks(sample_task_state=sample)


def own_task_stream():
    def seed_task(self, seed=None):
        self.own = np.random.default_rng(seed)
        return [seed]

    def sample(self):
        if getattr(self, "own", None) is None:
            raise SeedNotSetError("my own stream was not seeded")
        return int(self.own.integers(3))

    return breaks(seed_task=seed_task, sample_task_state=sample)


def options_to(change):
    """An environment that hands on ``change(options)``."""

    def reset(self, *, seed=None, options=None):
        return CountingMTEnv.reset(self, seed=seed, options=change(options))

    return breaks(reset=reset)


def after_options(change):
    """An environment that does ``change(env, options)`` when it was reset."""

    def reset(self, *, seed=None, options=None):
        returned = CountingMTEnv.reset(self, seed=seed, options=options)
        change(self, options)
        return returned

    return breaks(reset=reset)


def without_task(options):
    if options and len(options) == 1:
        return {k: v for k, v in options.items() if k != "task_state"}
    return options


def first_of_both(options):
    return {"task_state": options["task_state"]} if options and len(options) == 2 else options


def both_raise(options):
    return raises(KeyError("both")) if options and len(options) == 2 else options


def resamples_anything(self, options):
    if options and options.get("resample_task"):
        self.goal = count(self) % 3


def observes(memory_of):
    """An environment whose observations are written into ``memory_of(env)``."""

    def observe(self, env_obs):
        memory = memory_of(self)
        memory[:] = env_obs
        return CountingMTEnv.observe(self, memory)

    return breaks(observe=observe)


def buffer(env):
    env.buffer = getattr(env, "buffer", np.zeros(2))
    return env.buffer


def overlapping(env):
    env.memory = getattr(env, "memory", np.zeros(1000))
    at = count(env)
    return env.memory[at : at + 2]


def buffered_step(self, obs, *rest):
    buffer(self)[:] = obs["env_obs"]
    return {**obs, "env_obs": self.buffer}, *rest


class NeverEndingEnv(CountingMTEnv):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


class SharedInfoEnv(CountingMTEnv):
    """Hands out one info."""

    shared: object = {}

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.info()

    def step(self, action):
        return *super().step(action)[:4], self.info()

    def info(self):
        return self.shared


class TupleInInfoEnv(SharedInfoEnv):
    """Hands out one array in the tuples of its infos."""

    shared = np.zeros(1)

    def info(self):
        return {"goal": (0, self.shared)}


class ChangesTheLastEnv(CountingMTEnv):
    """Writes into the observation that it handed out before in the episode."""

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        self.last = returned[0]
        return returned

    def step(self, action):
        self.last["env_obs"][1] = 77
        returned = super().step(action)
        self.last = returned[0]
        return returned


BASE = CountingMTEnv
DIFFER = r"two reset\(seed=3\) and the steps after them must agree"
NEW = "step must return new arrays and dicts"
NO_SPACE = "must be a Dict of env_obs and task_obs, got "
BROKEN = {
    "no MTEnv": (CountingEnv, "expected an MTEnv, got CountingEnv"),
    "other space": (with_space(Dict({"goal": Discrete(2)})), NO_SPACE + r"Dict\(.*goal"),
    "flat space": (with_space(Box(0, 1)), NO_SPACE + r"Box\("),
    "samples unseeded": (
        unseeded(lambda: 1),
        "before a task seed was set must raise SeedNotSetError, raised nothing",
    ),
    "other error unseeded": (
        unseeded(lambda: raises(RuntimeError("seed me"))),
        "must raise SeedNotSetError, raised RuntimeError: seed me",
    ),
    "seed returns nothing": (
        breaks(seed=lambda s, seed=None: BASE.seed(s, seed) and None),
        r"seed\(3\) must return \[3\], got None",
    ),
    "seed_task returns another": (
        breaks(seed_task=lambda s, seed=None: [BASE.seed_task(s, seed)[0] + 1]),
        r"seed_task\(3\) must return \[3\], got \[4\]",
    ),
    "seed forgets": (breaks(seed=lambda s, seed=None: [seed]), "the environment seed is not set"),
    "seed_task forgets": (
        breaks(seed_task=lambda s, seed=None: [seed]),
        "the task seed is not set",
    ),
    "own task stream": (own_task_stream(), "the task seed is not set: call seed_task"),
    "tasks differ": (
        samples(lambda s, _: count(s) // 5 % 3),
        r"seed_task\(3\) must determine the tasks, got \[\[0, 0, 0, 0, 1\], \[1, ",
    ),
    "episodes differ": (resets(lambda s, obs, info: (put(obs, 1, count(s)), info)), DIFFER),
    "episodes differ by a bit": (
        resets(lambda s, obs, info: (put(obs, 1, obs["env_obs"][1] + 1e-9 * count(s)), info)),
        DIFFER,
    ),
    "steps differ": (steps(lambda s, obs, _, *rest: (obs, float(count(s)), *rest)), DIFFER),
    "later steps differ": (
        fakes.steps(
            NeverEndingEnv,
            lambda s, obs, r, *rest: (obs, float(count(s)) if s.steps > 1 else r, *rest),
        ),
        DIFFER,
    ),
    "global np.random": (
        steps(lambda s, *returned: (np.random.uniform(), returned)[1]),
        "used the global state of np.random",
    ),
    "global random": (
        samples(lambda s, task: (random.random(), task)[1]),
        "used the global state of random",
    ),
    "global seed": (
        breaks(seed=lambda s, seed=None: (np.random.seed(seed), BASE.seed(s, seed))[1]),
        "used the global state of np.random",
    ),
    "fills options": (
        after_options(lambda s, options: options is not None and options.update(seen=True)),
        r"reset changed the caller's options to {'seen': True}",
    ),
    "takes the task option": (
        after_options(lambda s, options: options and options.pop("task_state", None)),
        r"reset changed the caller's options to \[\]",
    ),
    "reset outside": (
        resets(lambda s, obs, info: (put(obs, 0, -1), info)),
        r"reset returned .*-1.*, not in Dict\(",
    ),
    "reset without task_obs": (
        resets(lambda s, obs, info: ({"env_obs": obs["env_obs"]}, info)),
        r"reset returned .*, not in Dict\(",
    ),
    "other dtype": (
        breaks(observe=lambda s, env_obs: BASE.observe(s, env_obs.astype(np.float32))),
        "float32",
    ),
    "step outside": (
        steps(lambda s, obs, *rest: (put(obs, 0, 1001), *rest)),
        r"step returned .*1001.*, not in Dict\(",
    ),
    "info is None": (
        resets(lambda s, obs, info: (obs, None)),
        "reset must return an info dict, got None",
    ),
    "numpy reward": (
        steps(lambda s, o, r, *rest: (o, np.float64(r), *rest)),
        "reward must be a float, got float64",
    ),
    "int reward": (
        steps(lambda s, o, r, *rest: (o, int(r), *rest)),
        "reward must be a float, got int",
    ),
    "numpy terminated": (
        steps(lambda s, o, r, te, *rest: (o, r, np.bool_(te), *rest)),
        "terminated must be a bool, got bool",
    ),
    "int truncated": (
        steps(lambda s, o, r, te, tr, i: (o, r, te, int(tr), i)),
        "truncated must be a bool, got int",
    ),
    "more info": (
        steps(lambda s, *returned: (*returned[:4], {**returned[4], "success": 0})),
        r"keys of reset \['goal'\] on step, got \['goal', 'success'\]",
    ),
    "less info": (
        steps(lambda s, *returned: (*returned[:4], {})),
        r"keys of reset \['goal'\] on step, got \[\]",
    ),
    "one buffer": (observes(buffer), NEW),
    "a buffer of steps": (steps(buffered_step), NEW),
    "overlapping views": (observes(overlapping), NEW),
    "one info": (SharedInfoEnv, NEW),
    "one array in infos": (TupleInInfoEnv, NEW),
    "changes the last": (ChangesTheLastEnv, NEW),
    "sampling sets": (
        samples(lambda s, task: BASE.set_task_state(s, task) or task),
        r"sample_task_state\(\) must not set the task, it changed \d to \d",
    ),
    "reset_task_state fails": (
        breaks(reset_task_state=lambda s: raises(AssertionError("cannot be drawn and set"))),
        "cannot be drawn and set",
    ),
    "setting does nothing": (
        breaks(set_task_state=lambda s, task_state: None),
        r"get_task_state\(\) after set_task_state must be \d, got 2",
    ),
    "reset forgets the task": (
        after_options(lambda s, options: options or setattr(s, "goal", 2)),
        r"after set_task_state and reset must be \d, got 2",
    ),
    "shows another task": (
        breaks(observe=lambda s, obs: {"env_obs": obs, "task_obs": (s.goal + 1) % 3}),
        r"task_obs must be get_task_obs\(\) = \d, got \d",
    ),
    "ignores the task option": (
        options_to(without_task),
        r"after reset\(options={'task_state': ...}\) must be \d, got \d",
    ),
    "resamples anything": (
        after_options(resamples_anything),
        r"options={'resample_task': True}\) must determine the task, got \[1, ",
    ),
    "takes both options": (
        options_to(first_of_both),
        "task_state and resample_task must raise ValueError, raised nothing",
    ),
    "other error for both": (options_to(both_raise), "must raise ValueError, raised KeyError: 'b"),
}
