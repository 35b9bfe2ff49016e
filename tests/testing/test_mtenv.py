"""`check_mtenv` accepts environments that keep the contract, and names what others break."""

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


def keep_an_info(self, *returned):
    self.info = getattr(self, "info", returned[4])
    return *returned[:4], self.info


def resample_anything(self, options):
    if options and options.get("resample_task"):
        self.goal = count(self) % 3


DIFFER = "'seed repeats': two runs from reset(seed=3) with the same actions differ"
NEW = "'new arrays': what an earlier call returned has changed: an array or dict is reused"
GLOBAL = "'global random': reset or step draws from the global {}, or seeds it"
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
    "global np.random": (returns(step=draw_np), GLOBAL.format("np.random")),
    "global random": (returns(reset=draw), GLOBAL.format("random")),
    "fills options": (
        after_reset(lambda s, options: options is not None and options.update(seen=True)),
        "reset changed the caller's options from {} to {'seen': True}",
    ),
    "takes the task option": (
        after_reset(lambda s, options: options and options.pop("task_state", None)),
        "reset changed the caller's options from ['task_state'] to []",
    ),
    "reset outside": (
        returns(reset=lambda s, o, i: (put(o, 0, -1), i)),
        "reset(seed=3), observation['env_obs'][0]: expected a number in [0.0, 1000.0], got -1.0",
    ),
    "other dtype": (
        returns(observe=lambda s, o: {**o, "env_obs": o["env_obs"].astype(np.float32)}),
        "reset(seed=3), observation['env_obs']: expected dtype float64, got dtype float32",
    ),
    "info is None": (
        returns(reset=lambda s, o, i: (o, None)),
        "'types': ...reset(seed=3), info: expected a dict, got builtins.NoneType None",
    ),
    "step outside": (
        returns(step=lambda s, o, *rest: (put(o, 0, 1001), *rest)),
        "step 0, observation['env_obs'][0]: expected a number in [0.0, 1000.0], got 1001.0",
    ),
    "numpy reward": (
        returns(step=lambda s, o, r, *rest: (o, np.float64(r), *rest)),
        "step 0, reward: expected a float of Python, got numpy.float64 1.0",
    ),
    "int truncated": (
        returns(step=lambda s, o, r, end, cut, i: (o, r, end, int(cut), i)),
        "step 0, truncated: expected a bool of Python, got builtins.int 0",
    ),
    "more info": (
        returns(step=lambda s, *returned: (*returned[:4], {"goal": 0, "success": 0})),
        "'info keys': ...step 0, info: expected ['goal'], got ['goal', 'success']",
    ),
    "one buffer": (returns(observe=observe_in_a_buffer), NEW),
    "one info dict": (
        returns(step=keep_an_info),
        "'new arrays': ...step 1, info: expected a new array or dict, got the one of step 0",
    ),
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
    "observes another task": (
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
def test_the_rule_that_an_environment_breaks_is_named_for_any_seed(broken, message):
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
    with pytest.raises(AssertionError, match=re.escape(message)):
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
        with pytest.raises(
            AssertionError, match=r"step 4, reward: expected a float of Python, got .*int 5"
        ):
            check_mtenv(fifth_reward_is_int(), **kwargs)


def test_what_an_environment_raises_is_named_and_the_cause():
    broken = breaks(step=lambda s, action: fakes.raises(RuntimeError("no physics")))
    with pytest.raises(AssertionError, match="Broken fails 'runs': RuntimeError: no ph") as error:
        check_mtenv(broken())
    assert isinstance(error.value.__cause__, RuntimeError)
