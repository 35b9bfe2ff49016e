"""Executors that break one rule of `MetaVectorEnv` each, and what the checker says of them."""

import random
from functools import partial

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor
from tests.testing import fakes
from tests.testing.fakes import count, raises

Iterative = MetaIterativeEnvExecutor


breaks = partial(fakes.breaks, Iterative)


def says(**attributes):
    """One that says of itself what is given, or what a function makes of it."""

    def init(self, *args, **kwargs):
        Iterative.__init__(self, *args, **kwargs)
        for name, value in attributes.items():
            setattr(self, name, value(self) if callable(value) else value)

    return breaks(__init__=init)


def steps(change):
    """One whose steps return ``change(envs, obs, rewards, terminated, truncated, infos)``."""

    def step_wait(self):
        count(self)
        return change(self, *Iterative.step_wait(self))

    return breaks(step_wait=step_wait)


def step_infos(change):
    """One whose steps change their infos in place."""
    return steps(lambda s, *returned: (change(returned[4]), returned)[1])


def resets(change):
    """One whose resets return ``change(obs, infos)``."""
    return breaks(reset=lambda s, **kwargs: change(*Iterative.reset(s, **kwargs)))


def asks(change):
    """One that resets with ``change(envs, seed, options)`` instead of what it is asked."""

    def reset(self, *, seed=None, options=None):
        seed, options = change(self, seed, options)
        return Iterative.reset(self, seed=seed, options=options)

    return breaks(reset=reset)


def acts(change):
    """One that steps with ``change(envs, actions)`` instead of what it is given."""
    return breaks(step=lambda s, actions: Iterative.step(s, change(s, actions)))


def keeps(place, put):
    """One that hands out the same array at every step, in ``place`` of what it returns."""

    def change(self, *returned):
        self.kept = getattr(self, "kept", returned[place])
        put(self.kept, returned)
        return *returned[:place], self.kept, *returned[place + 1 :]

    return steps(change)


def keep_an_info(self, *returned):
    self.kept = returned[4]["_steps"] = getattr(self, "kept", returned[4]["_steps"])
    return returned


def without_reset(instead):
    """One that does ``instead(envs, actions)`` where a reset is due."""

    def step(self, actions):
        try:
            self.last = Iterative.step(self, actions)
        except ResetNeeded:
            return instead(self, actions)
        return self.last

    return breaks(step=step)


def reset_and_step(self, actions):
    self.reset()
    return Iterative.step(self, actions)


def last_result(self, actions):
    if not hasattr(self, "last"):
        raise ResetNeeded("reset first")
    return self.last


def changes_options(self, *, seed=None, options=None):
    if options is not None:
        options["seen"] = True
    return Iterative.reset(self, seed=seed)


def takes_the_mask(self, *, seed=None, options=None):
    result = Iterative.reset(self, seed=seed, options=options)
    (options or {}).pop("reset_mask", None)
    return result


def takes_an_empty_mask(self, *, seed=None, options=None):
    if options and not np.any(options.get("reset_mask", True)):
        return None
    return Iterative.reset(self, seed=seed, options=options)


def mask(change):
    def changed(self, seed, options):
        if options and "reset_mask" in options:
            options = {"reset_mask": change(self, options["reset_mask"])}
        return seed, options

    return asks(changed)


def steps_before_it_refuses(self, actions):
    if np.isnan(actions).any():
        self.envs[0].step(actions[0])
    return actions


def after_close(instead):
    return breaks(reset=lambda s, **kwargs: instead() if s.closed else Iterative.reset(s, **kwargs))


def alters_a_reward(self, obs, rewards, *rest):
    rewards[1] += 1e-12 * (self.counted == 3)
    return obs, rewards, *rest


def alters_final_infos(infos):
    if "final_info" in infos:
        infos["final_info"]["steps"][:] += 1


MODE = "autoreset_mode must be AutoresetMode.NEXT_STEP, as an attribute and in metadata; got "
OBS, INFOS = (f"{name} of reset in mode NextStep must be" for name in ("observations", "infos"))
STEP = "{} of step {} in mode {} must be those of SyncVectorEnv"
REUSED = "step 1 returned arrays that an earlier step did"
BROKEN = {
    # What it says of itself.
    "another mode": (says(autoreset_mode=AutoresetMode.SAME_STEP), MODE),
    "no mode in metadata": (says(metadata={}), MODE + "AutoresetMode.NEXT_STEP and None"),
    "a mode by its value": (
        says(metadata=lambda s: {"autoreset_mode": s.autoreset_mode.value}),
        MODE + "AutoresetMode.NEXT_STEP and NextStep",
    ),
    "one mode": (
        breaks(
            __init__=lambda s, *a, autoreset_mode: Iterative.__init__(
                s, *a, autoreset_mode="NextStep"
            )
        ),
        "autoreset_mode must be AutoresetMode.SAME_STEP",
    ),
    "another space": (
        says(observation_space=lambda s: s.single_observation_space),
        "observation_space must be ",
    ),
    "another action space": (
        says(single_action_space=lambda s: s.action_space),
        "single_action_space must be ",
    ),
    "miscounts tasks": (says(meta_batch_size=3), "3 tasks times 2 environments must be 4"),
    "half of them": (
        breaks(__init__=lambda s, m, *_, **kw: Iterative.__init__(s, m[:2], 2, 1, **kw)),
        "num_envs must be 4, got 2",
    ),
    # What it returns.
    "other first observations": (resets(lambda obs, infos: (obs + 1, infos)), OBS),
    "single precision": (resets(lambda obs, infos: (obs.astype(np.float32), infos)), OBS),
    "swaps environments once": (
        steps(lambda s, o, *rest: (o[::-1].copy() if s.counted == 4 else o, *rest)),
        STEP.format("observations", 3, "NextStep"),
    ),
    "a reward": (steps(alters_a_reward), STEP.format("rewards", 2, "NextStep")),
    "rewards in a list": (
        steps(lambda s, obs, rewards, *rest: (obs, rewards.tolist(), *rest)),
        STEP.format("rewards", 0, "NextStep"),
    ),
    "flags swapped": (
        steps(lambda s, o, r, terminated, truncated, i: (o, r, truncated, terminated, i)),
        STEP.format("terminated", 1, "NextStep"),
    ),
    "truncated as ints": (
        steps(lambda s, o, r, terminated, truncated, i: (o, r, terminated, truncated * 1, i)),
        STEP.format("truncated", 0, "NextStep"),
    ),
    "drops a key on reset": (
        resets(lambda o, i: (o, {k: v for k, v in i.items() if k != "draw"})),
        INFOS,
    ),
    "drops a key on step": (
        step_infos(lambda infos: infos.pop("draw")),
        STEP.format("infos", 0, "NextStep"),
    ),
    "drops a mask": (
        step_infos(lambda infos: infos.pop("_draw")),
        STEP.format("infos", 0, "NextStep"),
    ),
    "infos in a list": (
        steps(lambda s, *returned: (*returned[:4], returned[4]["steps"].tolist())),
        STEP.format("infos", 0, "NextStep"),
    ),
    "no final observations": (
        step_infos(lambda infos: infos.pop("final_obs", None)),
        STEP.format("infos", 1, "SameStep"),
    ),
    "other final infos": (step_infos(alters_final_infos), STEP.format("infos", 1, "SameStep")),
    "the same rewards": (keeps(1, lambda kept, new: np.copyto(kept, new[1])), REUSED),
    "the same observations": (keeps(0, lambda kept, new: np.copyto(kept, new[0])), REUSED),
    "the same info": (steps(keep_an_info), REUSED),
    # What it does with seeds, options and actions.
    "ignores seeds": (asks(lambda s, seed, options: (None, options)), INFOS),
    "seeds all alike": (
        asks(lambda s, seed, options: ([seed] * 4 if isinstance(seed, int) else seed, options)),
        INFOS,
    ),
    "the first seed of a list": (
        asks(lambda s, seed, options: (seed[0] if isinstance(seed, list) else seed, options)),
        INFOS,
    ),
    "changes options": (
        breaks(reset=changes_options),
        "reset changed the caller's options to {'seen': True}",
    ),
    "takes the mask": (breaks(reset=takes_the_mask), "reset changed the caller's options to []"),
    "ignores the mask": (
        mask(lambda s, mask: mask | (s.autoreset_mode is AutoresetMode.DISABLED)),
        "reset with reset_mask after step 1 in mode Disabled must be those of SyncVectorEnv",
    ),
    "changes actions": (
        breaks(step_async=lambda s, a: (Iterative.step_async(s, a), np.copyto(a, 0))[0]),
        "step 0 changed the caller's actions",
    ),
    "global np.random": (
        steps(lambda s, *returned: (np.random.random(), returned)[1]),
        "the environment used the global state of np.random",
    ),
    "global random": (
        resets(lambda *returned: (random.random(), returned)[1]),
        "the environment used the global state of random",
    ),
    # What it refuses.
    "steps without a reset": (
        without_reset(reset_and_step),
        "step() before reset() must raise ResetNeeded, raised nothing",
    ),
    "another error without a reset": (
        without_reset(lambda s, actions: raises(RuntimeError("reset first"))),
        "step() before reset() must raise ResetNeeded, raised RuntimeError: reset first",
    ),
    "steps past the end": (
        without_reset(last_result),
        "step() of an episode that is over must raise ResetNeeded, raised nothing",
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
        "a step after refused actions in mode NextStep must be those of SyncVectorEnv",
    ),
    "any number of seeds": (
        asks(lambda s, seed, options: (seed[:4] if isinstance(seed, list) else seed, options)),
        "reset() with too few seeds must raise ValueError, raised nothing",
    ),
    "an empty mask": (
        breaks(reset=takes_an_empty_mask),
        "reset() with an empty reset_mask must raise ValueError, raised nothing",
    ),
    "a long mask": (
        mask(lambda s, mask: mask[: s.num_envs]),
        "reset() with a reset_mask of another shape must raise ValueError, raised nothing",
    ),
    "a list as mask": (
        mask(lambda s, mask: np.array(mask)),
        "reset() with a reset_mask that is no bool array must raise TypeError, raised nothing",
    ),
    "works after close": (
        after_close(lambda: None),
        "reset() after close() must raise ClosedEnvironmentError, raised nothing",
    ),
    "another error after close": (
        after_close(lambda: raises(ValueError("closed"))),
        "reset() after close() must raise ClosedEnvironmentError, raised ValueError: closed",
    ),
    # What it does with attributes.
    "a list of results": (
        breaks(call=lambda s, *args: list(Iterative.call(s, *args))),
        "call('has_wrapper_attr') must return (True, True, True, True), got [True, True, True, ",
    ),
    "calls something else": (
        breaks(
            call=lambda s, name, *args: (
                ("x",) * 4 if name == "get_wrapper_attr" else Iterative.call(s, name, *args)
            )
        ),
        "call('get_wrapper_attr') must return (None, None, None, None), got ('x', 'x', 'x', 'x')",
    ),
    "sets the first value": (
        breaks(
            set_attr=lambda s, name, values: Iterative.set_attr(
                s, name, [values[0]] * 4 if isinstance(values, list) else values
            )
        ),
        "get_attr after set_attr must be (0.0, 1.0, 2.0, 3.0), got (0.0, 0.0, 0.0, 0.0)",
    ),
    "too many values": (
        breaks(
            set_attr=lambda s, name, values: Iterative.set_attr(
                s, name, values[:4] if isinstance(values, list) else values
            )
        ),
        "set_attr with too many values must raise ValueError, raised nothing",
    ),
}
