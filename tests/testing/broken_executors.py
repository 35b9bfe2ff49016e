"""Executors that break one rule of `MetaVectorEnv` each, and what is said of it."""

from functools import partial

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor as Base
from tests.testing import fakes
from tests.testing.fakes import count, draw_np, raises

breaks, returns = partial(fakes.breaks, Base), partial(fakes.returns, Base)


def says(**attributes):
    """One that says something else of itself."""

    def init(self, *args, **kwargs):
        Base.__init__(self, *args, **kwargs)
        vars(self).update(attributes)

    return breaks(__init__=init)


def infos(change):
    """One whose steps change their infos in place."""
    return returns(step=lambda s, *returned: (change(returned[4]), returned)[1])


def asks(change):
    """One that resets with ``change(envs, seed, options)`` instead of what it is asked."""

    def reset(self, *, seed=None, options=None):
        seed, options = change(self, seed, options)
        return Base.reset(self, seed=seed, options=options)

    return breaks(reset=reset)


def masks(change):
    """One that resets with ``change(envs, mask)``."""

    def changed(self, seed, options):
        if options and "reset_mask" in options:
            options = {"reset_mask": change(self, options["reset_mask"])}
        return seed, options

    return asks(changed)


def seeds(change):
    return asks(lambda s, seed, options: (change(seed), options))


def acts(change):
    """One that steps with ``change(envs, actions)``."""
    return breaks(step=lambda s, actions: Base.step(s, change(s, actions)))


def sets(change):
    """One that sets ``change(values)``."""
    return breaks(set_attr=lambda s, name, values: Base.set_attr(s, name, change(values)))


def keep_an_info(self, *returned):
    self.kept = returned[4]["_steps"] = getattr(self, "kept", returned[4]["_steps"])
    return returned


def without_reset(instead):
    """One that does ``instead(envs, actions)`` where a reset is due."""

    def step(self, actions):
        try:
            self.last = Base.step(self, actions)
        except ResetNeeded:
            return instead(self, actions)
        return self.last

    return breaks(step=step)


def last_result(self, actions):
    return self.last if hasattr(self, "last") else raises(ResetNeeded("reset first"))


def change_options(self, seed, options):
    if options is not None:
        options["seen"] = True
    return seed, None


def steps_before_it_refuses(self, actions):
    if np.isnan(actions).any():
        self.envs[0].step(actions[0])
    return actions


def alter_a_reward(self, obs, rewards, *rest):
    rewards[1] += 1e-12 * (count(self) == 3)
    return obs, rewards, *rest


def alter_final_infos(infos):
    if "final_info" in infos:
        infos["final_info"]["steps"][:] += 1


def after_close(instead):
    return breaks(reset=lambda s, **kwargs: instead() if s.closed else Base.reset(s, **kwargs))


DIFFER = "and SyncVectorEnv differ in mode {}: "
NEXT = DIFFER.format("NextStep")
BROKEN = {
    # What it says of itself.
    "no mode in metadata": (says(metadata={}), "; got AutoresetMode.NEXT_STEP and None"),
    "another space": (says(observation_space=Discrete(2)), "observation_space must be "),
    "miscounts tasks": (says(meta_batch_size=3), "3 tasks times 2 environments must be"),
    # What it returns.
    "single precision": (
        returns(reset=lambda s, obs, infos: (obs.astype(np.float32), infos)),
        NEXT
        + "reset(seed=[21, 24, 27, 30]), observation: expected dtype float64, got dtype float32",
    ),
    "a reward": (returns(step=alter_a_reward), NEXT + "environment 1, step 2, reward[1]: "),
    "flags swapped": (
        returns(step=lambda s, o, r, end, cut, i: (o, r, cut, end, i)),
        NEXT + "environment 0, step 1, terminated[0]: expected True, got False",
    ),
    "drops a mask": (infos(lambda i: i.pop("_draw")), NEXT + "step 0, info['_draw']: "),
    "other final infos": (
        infos(alter_final_infos),
        DIFFER.format("SameStep")
        + "environment 0, step 1, info['final_info']['steps'][0]: expected 2, got 3",
    ),
    "the same info": (
        returns(step=keep_an_info),
        "step 1, info['_steps']: expected a new array or dict, got the one of step 0",
    ),
    # What it does with seeds, options and actions.
    "seeds all alike": (
        seeds(lambda seed: [seed] * 4 if isinstance(seed, int) else seed),
        NEXT + "environment 1, reset(seed=3), info['draw'][1]: ",
    ),
    "the first of the seeds": (
        seeds(lambda s: s[0] if isinstance(s, list) else s),
        NEXT + "environment 1, reset(seed=[21, 24, 27, 30]), info['draw'][1]: ",
    ),
    "changes options": (
        asks(change_options),
        "reset changed the caller's options from {} to {'seen': True}",
    ),
    "takes the mask": (
        asks(lambda s, seed, o: (seed, o and {"reset_mask": o.pop("reset_mask")})),
        "reset takes 'reset_mask' out of the caller's options",
    ),
    "ignores the mask": (
        masks(lambda s, mask: mask | (s.autoreset_mode is AutoresetMode.DISABLED)),
        DIFFER.format("Disabled") + "environment 1, the reset after step 1, observation[1, 0]: ",
    ),
    "changes actions": (
        breaks(step=lambda s, a: (Base.step(s, a), np.copyto(a, 0))[0]),
        "changes the action that it is given in place: environment 0, step 0, action[0, 0]: ",
    ),
    "global np.random": (
        returns(step=draw_np),
        "'global random': reset or step draws from the global np.random",
    ),
    # What it refuses.
    "steps without a reset": (
        without_reset(lambda s, actions: (s.reset(), Base.step(s, actions))[1]),
        "step() before reset() must raise ResetNeeded, raised nothing",
    ),
    "steps past the end": (
        without_reset(last_result),
        "step() of an episode that has ended must raise ResetNeeded, raised nothing",
    ),
    "too few actions": (
        acts(lambda s, a: np.concatenate([a, a[: s.num_envs - len(a)]])),
        "step() with actions for too few environments must raise ValueError, raised nothing",
    ),
    "NaN actions": (
        acts(lambda s, actions: np.nan_to_num(actions)),
        "step() with a NaN action must raise ValueError, raised nothing",
    ),
    "steps before it refuses": (
        acts(steps_before_it_refuses),
        "after refused actions Broken " + NEXT + "environment 0, step 0, observation[0, 0]: ",
    ),
    "any number of seeds": (
        seeds(lambda seed: seed[:4] if isinstance(seed, list) else seed),
        "reset() with too many seeds must raise ValueError, raised nothing",
    ),
    "an empty mask": (
        masks(lambda s, mask: mask if np.any(mask) else ~mask),
        "reset() with an empty reset_mask must raise ValueError, raised nothing",
    ),
    "a long mask": (
        masks(lambda s, mask: mask[: s.num_envs]),
        "reset() with a reset_mask of another shape must raise ValueError, raised nothing",
    ),
    "a list as mask": (
        masks(lambda s, mask: np.array(mask)),
        "reset() with a reset_mask that is not a bool array must raise TypeError, raised nothing",
    ),
    "works after close": (
        after_close(lambda: None),
        "reset() after close() must raise ClosedEnvironmentError, raised nothing",
    ),
    # What it does with attributes.
    "a list of results": (
        returns(call=lambda s, *results: list(results)),
        "call('has_wrapper_attr') must return (True, True, True, True), got [True, True, True, ",
    ),
    "sets the first value": (
        sets(lambda values: [values[0]] * 4 if isinstance(values, list) else values),
        "get_attr after set_attr must be (0.0, 1.0, 2.0, 3.0), got (0.0, 0.0, 0.0, 0.0)",
    ),
}
