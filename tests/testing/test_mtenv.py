"""`check_mtenv` accepts environments that keep the contract, and tells others what they break."""

import random
import re
from functools import partial

import numpy as np
import pytest
from gymnasium.spaces import Box

from mtwrappers import EnvToMTEnv, MultiEnvWrapper
from mtwrappers.testing import check_mtenv
from tests.fakes import CountingEnv, CountingMTEnv, counting_makers, equal
from tests.testing import fakes
from tests.testing.fakes import (
    DictTaskEnv,
    EndsOnceEnv,
    NeverEndingEnv,
    OneBufferEnv,
    count,
    draw,
    draw_np,
)

Base = CountingMTEnv
breaks, returns = partial(fakes.breaks, Base), partial(fakes.returns, Base)

# Environments that keep the contract.


GOOD = {
    "a subclass": CountingMTEnv,
    "tasks of arrays": DictTaskEnv,
    "no end": NeverEndingEnv,
    "truncates": EndsOnceEnv,
    "many": lambda: MultiEnvWrapper(counting_makers(3)),
    "one task": lambda: MultiEnvWrapper(counting_makers(1)),
    "a parameter": lambda: EnvToMTEnv(CountingEnv(), [1, 2], lambda env, task: None),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_an_environment_that_keeps_the_contract_passes_for_any_seed(make):
    before = random.getstate(), np.random.get_state(legacy=False)
    for seed in range(10):
        check_mtenv(make(), seed=seed)
    env = make()
    check_mtenv(env, steps=1)
    env.step(env.action_space.sample())  # it is left ready
    check_mtenv(env)
    assert equal((random.getstate(), np.random.get_state(legacy=False)), before)


# Environments that break one rule each.


def with_space(space):
    return breaks(__init__=lambda s: (Base.__init__(s), setattr(s, "observation_space", space))[0])


def resets(change):
    """One that resets with ``change(options)``."""
    return breaks(
        reset=lambda s, *, seed=None, options=None: Base.reset(
            s, seed=seed, options=change(options)
        )
    )


def after_reset(change):
    """One that does ``change(env, options)`` after a reset."""

    def reset(self, *, seed=None, options=None):
        returned = Base.reset(self, seed=seed, options=options)
        change(self, options)
        return returned

    return breaks(reset=reset)


def unseeded(instead):
    return breaks(
        sample_task_state=lambda s: Base.sample_task_state(s) if s._task_seed else instead()
    )


def put(obs, entry, value):
    obs["env_obs"][entry] = value
    return obs


def observe_in_a_buffer(self, obs):
    self.buffer = getattr(self, "buffer", obs["env_obs"])
    self.buffer[:] = obs["env_obs"]
    return {**obs, "env_obs": self.buffer}


def keep_as_last(self, *returned):
    self.last = returned[0]
    return returned


def change_the_last(self, *returned):
    self.last["env_obs"][1] = 77
    return keep_as_last(self, *returned)


def resample_anything(self, options):
    if options and options.get("resample_task"):
        self.goal = count(self) % 3


DIFFER = "two reset(seed=3) and the steps after them must agree"
NEW = "step must return new arrays and dicts"
# What is broken, and what is said: ``...`` stands for any text.
BROKEN = {
    "no MTEnv": (CountingEnv, "expected an MTEnv, got CountingEnv"),
    "flat space": (with_space(Box(0, 1)), "must be a Dict of env_obs and task_obs, got Box("),
    "samples unseeded": (unseeded(lambda: 1), "must raise SeedNotSetError, raised nothing"),
    "seed returns nothing": (returns(seed=lambda s, _: None), "seed(3) must return [3], got None"),
    "seed forgets": (breaks(seed=lambda s, seed=None: [seed]), "the environment seed is not set"),
    "tasks differ": (
        returns(sample_task_state=lambda s, _: count(s) // 5 % 3),
        "seed_task(3) must determine the tasks, got [[0, 0, 0, 0, 1], [1, ",
    ),
    "steps differ by a bit": (
        returns(step=lambda s, o, r, *rest: (o, r + 1e-9 * count(s), *rest)),
        DIFFER,
    ),
    "global np.random": (returns(step=draw_np), "used the global state of np.random"),
    "global random": (returns(reset=draw), "used the global state of random"),
    "fills options": (
        after_reset(lambda s, options: options is not None and options.update(seen=True)),
        "reset changed the caller's options to {'seen': True}",
    ),
    "takes the task option": (
        after_reset(lambda s, options: options and options.pop("task_state", None)),
        "reset changed the caller's options to []",
    ),
    "reset outside": (
        returns(reset=lambda s, o, i: (put(o, 0, -1), i)),
        "reset returned ...-1..., not in Dict(",
    ),
    "other dtype": (
        returns(observe=lambda s, o: {**o, "env_obs": o["env_obs"].astype(np.float32)}),
        "reset returned ...float32..., of another dtype than Dict(",
    ),
    "info is None": (
        returns(reset=lambda s, o, i: (o, None)),
        "reset must return an info dict, got None",
    ),
    "step outside": (
        returns(step=lambda s, o, *rest: (put(o, 0, 1001), *rest)),
        "step returned ...1001..., not in Dict(",
    ),
    "numpy reward": (
        returns(step=lambda s, o, r, *rest: (o, np.float64(r), *rest)),
        "reward must be a float, got float64",
    ),
    "int truncated": (
        returns(step=lambda s, o, r, end, cut, i: (o, r, end, int(cut), i)),
        "truncated must be a bool, got int",
    ),
    "more info": (
        returns(step=lambda s, *returned: (*returned[:4], {"goal": 0, "success": 0})),
        "keys of reset ['goal'] on step, got ['goal', 'success']",
    ),
    "one buffer": (returns(observe=observe_in_a_buffer), NEW),
    "changes the last": (returns(step=change_the_last, reset=keep_as_last), NEW),
    "sampling sets": (
        returns(sample_task_state=lambda s, task: Base.set_task_state(s, task) or task),
        "get_task_state() after sample_task_state must be ",
    ),
    "setting does nothing": (
        breaks(set_task_state=lambda s, task_state: None),
        "get_task_state() after set_task_state must be ..., got 2",
    ),
    "reset forgets the task": (
        after_reset(lambda s, options: options or setattr(s, "goal", 2)),
        "after set_task_state and reset must be ..., got 2",
    ),
    "shows another task": (
        returns(observe=lambda s, obs: {**obs, "task_obs": (s.goal + 1) % 3}),
        "task_obs must be get_task_obs() = ..., got ",
    ),
    "ignores the task option": (
        resets(lambda options: None if options and len(options) == 1 else options),
        "after reset(options={'task_state': ...}) must be ",
    ),
    "resamples anything": (
        after_reset(resample_anything),
        "options={'resample_task': True}) must determine the task, got [1, ",
    ),
    "takes both options": (
        resets(lambda options: None if options and len(options) == 2 else options),
        "task_state and resample_task must raise ValueError, raised nothing",
    ),
}


@pytest.mark.usefixtures("same_random_state")
@pytest.mark.parametrize(("broken", "message"), BROKEN.values(), ids=BROKEN)
def test_an_environment_that_breaks_a_rule_is_told_which_for_any_seed(broken, message):
    pattern = fakes.pattern(message)
    with pytest.raises(AssertionError, match=pattern):
        check_mtenv(broken())
    any_numbers = re.sub(r"\d+", r"\\d+", pattern)
    for seed in range(4, 14):
        with pytest.raises(AssertionError, match=any_numbers):
            check_mtenv(broken(), seed=seed)


@pytest.mark.parametrize(
    ("noisy", "message"),
    [
        ("obs", DIFFER),
        ("task", "seed_task(3) must determine the tasks, got "),
        ("sampling", "get_task_state() after sample_task_state must be "),
        ("reset", "get_task_state() after set_task_state and reset must be "),
        ("", NEW),
    ],
)
def test_what_differs_in_a_buffer_that_is_used_again_is_found(noisy, message):
    env = OneBufferEnv()
    env.noisy = noisy
    with pytest.raises(AssertionError, match=f"^{re.escape(message)}"):
        check_mtenv(env)


def test_the_check_of_an_unseeded_environment_is_left_out_on_a_seeded_one():
    env = BROKEN["samples unseeded"][0]()
    env.reset(seed=1)
    check_mtenv(env)


def test_the_check_goes_as_many_steps_as_it_was_asked_to():
    fifth_reward_is_int = fakes.returns(
        NeverEndingEnv, step=lambda s, obs, r, *rest: (obs, 5 if s.steps == 5 else r, *rest)
    )
    check_mtenv(fifth_reward_is_int(), steps=4)
    for kwargs in ({"steps": 5}, {}):
        with pytest.raises(AssertionError, match="reward must be a float, got int"):
            check_mtenv(fifth_reward_is_int(), **kwargs)
