"""Environments and vector environments with one fault each and the rows that find it; some right.

`ENVS` and `VECTORS` are tables: what is wrong, how it is made, which rows of the report fail, and
what the first of them says, unless it says the same of another fault.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing import parent_process

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.utils import RunningMeanStd
from gymnasium.wrappers.vector import DictInfoToList

NEXT, SAME, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)

RNG = np.random.default_rng(0)
NUMBERS = itertools.count()


class WalkEnv(gymnasium.Env):
    """A walk from a random start to a goal, both drawn by ``np_random``; no fault."""

    space = Box(-100, 100, (2,), np.float64)
    actions = Discrete(2)

    def __init__(self):
        self.observation_space, self.action_space = self.space, self.actions
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.goal = self.draw_goal()
        self.place = float(self.np_random.uniform(-1, 1))
        return self.see(), {}

    def step(self, action):
        self.t += 1
        self.place += 0.5 if action else -0.5
        done = abs(self.place) > 2
        return self.see(), -abs(self.place - self.goal), done, False, {"goal": self.goal}

    def draw_goal(self):
        return float(self.np_random.uniform(-1, 1))

    def see(self):
        return np.array([self.place, self.goal])


def subclass(base=WalkEnv, **methods):
    """A subclass with other methods or attributes."""
    return type("Broken", (base,), methods)


def change_steps(change, base=WalkEnv):
    """A subclass whose steps return ``change(env, obs, reward, terminated, truncated, info)``."""
    return subclass(base, step=lambda s, action: change(s, *base.step(s, action)))


def change_resets(change, base=WalkEnv):
    """A subclass whose resets return ``change(env, obs, info)``."""
    return subclass(base, reset=lambda s, **kwargs: change(s, *base.reset(s, **kwargs)))


def change_seeds(change, base=WalkEnv):
    """A subclass that is seeded with ``change(env, seed)``."""
    return subclass(
        base, reset=lambda s, *, seed=None, options=None: base.reset(s, seed=change(s, seed))
    )


def run_before_reset(function, base=WalkEnv):
    """A subclass that calls ``function(env, options)`` before a reset."""

    def reset(self, *, seed=None, options=None):
        function(self, options)
        return base.reset(self, seed=seed)

    return subclass(base, reset=reset)


def count_calls(env):
    """How often it was called for this environment."""
    env.counted = getattr(env, "counted", 0) + 1
    return env.counted


def run_after_init(function, base=WalkEnv):
    """A subclass that calls ``function(env)`` when it is made."""

    def init(self, *args):
        base.__init__(self, *args)
        function(self)

    return subclass(base, __init__=init)


def change_rewards(change):
    """A subclass whose steps return ``change(env, reward)`` as the reward."""

    def change_reward(env, obs, reward, terminated, truncated, info):
        return obs, change(env, reward), terminated, truncated, info

    return change_steps(change_reward)


NumpyFlagEnv = change_steps(
    lambda s, o, r, terminated, cut, i: (o, r, np.bool_(terminated), cut, i)
)


class ReusedBufferEnv(WalkEnv):
    """Returns the same array every time: Gymnasium #1132."""

    buffers = 1

    def see(self):
        if "arrays" not in vars(self):
            self.arrays = [np.zeros(2) for _ in range(self.buffers)]
        array = self.arrays.pop(0)
        array[:] = self.place, self.goal
        self.arrays.append(array)
        return array


class BlindingEnv(WalkEnv):
    """Starts where no seed says, and returns it in the same arrays every time: Gymnasium #1681.

    A checker that keeps the first observation and not a copy compares these arrays with themselves.
    """

    space = Dict({"near": WalkEnv.space, "far": Discrete(3)})
    obs = None

    def see(self):
        self.obs = self.obs or {"near": np.zeros(2), "far": 0}
        self.place += 1e-3 * RNG.uniform(-1, 1) * (self.t == 0)
        self.obs["near"][:] = self.place, self.goal
        return self.obs


def same_info(self, *returned):
    """Returns the same info dict every time: Gymnasium #1132, of infos."""
    self.info = getattr(self, "info", {})
    self.info["place"] = self.place
    return *returned[:-1], self.info


def last_seed(self, seed):
    """Begins again with the last seed where none is given."""
    self.seed = getattr(self, "seed", 0) if seed is None else seed
    return self.seed


def reset_at_end(self, obs, reward, terminated, truncated, info):
    return self.reset()[0] if terminated else obs, reward, terminated, truncated, info


def begin_anew(self, obs, reward, terminated, truncated, info):
    """Begins anew where an episode ends, without a call of its ``reset``."""
    if terminated:
        self.goal, self.place = self.draw_goal(), float(self.np_random.uniform(-1, 1))
        obs = self.see()
    return obs, reward, terminated, truncated, info


class CountedEnv(WalkEnv):
    """Sees how many of it there are in the process, ``late`` steps into an episode."""

    alive, late = 0, 0

    def __init__(self):
        super().__init__()
        CountedEnv.alive += 1

    def close(self):
        CountedEnv.alive = max(CountedEnv.alive - 1, 0)

    def see(self):
        return np.array([self.place, float(CountedEnv.alive > 1 and self.t >= self.late)])


class SharedPlaceEnv(WalkEnv):
    """All environments of the class are at one place."""

    @property
    def place(self):
        return SharedPlaceEnv.kept

    @place.setter
    def place(self, value):
        SharedPlaceEnv.kept = value


class LongEnv(WalkEnv):
    """Has episodes of 60 steps; no fault."""

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.t == 60, False, info


def change_late_steps(change):
    """A subclass whose steps from the 15th of an episode on are changed."""
    return change_steps(
        lambda s, *returned: change(s, *returned) if s.t >= 15 else returned, LongEnv
    )


def change_in_workers(self, obs, reward, terminated, truncated, info):
    return obs + (parent_process() is not None), reward, terminated, truncated, info


class HiddenStateEnv(WalkEnv):
    """Its episodes become harder, by a number that is kept nowhere else."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes = 0 if seed is not None else self.episodes + 1
        return super().reset(seed=seed)

    def see(self):
        return np.array([self.place, self.goal + self.episodes])


class OwnConstantEnv(WalkEnv):
    """Draws from a generator of its own, a new one with the same seed for each episode."""

    def reset(self, *, seed=None, options=None):
        self.t, self.rng = 0, self.generator()
        self.goal = self.place = float(self.rng.uniform(-1, 1))
        return self.see(), {}

    def generator(self):
        return np.random.default_rng(7)


class UnseenConstantEnv(OwnConstantEnv):
    """Draws from a generator that it keeps in a list, with seed 7 where any is given."""

    rngs = ()

    def reset(self, *, seed=None, options=None):
        if seed is not None or not self.rngs:
            self.rngs = [np.random.default_rng(None if seed is None else 7)]
        return super().reset()

    def generator(self):
        return self.rngs[0]


class RandomStateEnv(WalkEnv):
    """Has a generator of NumPy's older kind."""

    def reset(self, *, seed=None, options=None):
        if seed is not None or not isinstance(self._np_random, np.random.RandomState):
            self.np_random = np.random.RandomState(seed)
        return super().reset()


class PickledEnv(WalkEnv):
    """Loses its goal's scale when it is pickled."""

    scale = 1.0

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.scale = 0.5

    def draw_goal(self):
        return self.scale * super().draw_goal()


class LostInCopiesEnv(WalkEnv):
    """Has a scale of its goal that its copies lack."""

    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "scale"}

    def draw_goal(self):
        return self.scale * super().draw_goal()


class FixedEnv(WalkEnv):
    """Always begins at the same place; no fault."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.t, self.place, self.goal = 0, 0.0, 1.0
        return self.see(), {}


class UnseededFixedEnv(FixedEnv):
    """Always begins at the same place, and has no generator; no fault."""

    def reset(self, *, seed=None, options=None):
        return super().reset()


class HomeEnv(FixedEnv):
    """Always begins at the same place, and ends where it comes back to it; no fault."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, self.place == 0, truncated, info


class SlipperyEnv(FixedEnv):
    """Always begins at the same place, and slips once in fifty steps; no fault."""

    def step(self, action):
        return super().step(action if self.np_random.random() < 0.98 else 1 - action)


class WindyEnv(WalkEnv):
    """Is blown to the side in each step; no fault."""

    def step(self, action):
        self.place += float(self.np_random.uniform(-0.1, 0.1))
        return super().step(action)


class CoinEnv(WalkEnv):
    """Has two episodes, of which ``np_random`` seldom draws the second; no fault."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.t, self.place, self.goal = 0, float(self.np_random.random() < 0.2), 0.0
        return self.see(), {}


class KeptStartEnv(WalkEnv):
    """Draws a start with a seed, and begins there until the next seed; no fault."""

    start = None

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        if seed is not None or self.start is None:
            self.start = float(self.np_random.uniform(-1, 1))
        self.t, self.place, self.goal = 0, self.start, 0.0
        return self.see(), {}


class PushEnv(WalkEnv):
    """Is pushed by an action of numbers; no fault."""

    actions = Box(-1, 1, (1,), np.float64)

    def step(self, action):
        self.place += float(action[0]) / 2
        return super().step(self.place > 0)


class LateEnv(PushEnv):
    """Takes each action a step late, from an array that it has copied; no fault."""

    def reset(self, *, seed=None, options=None):
        self.last = np.zeros(1)
        return super().reset(seed=seed)

    def step(self, action):
        last, self.last = self.last, self.keep(action)
        return super().step(last)

    def keep(self, action):
        return action.copy()


class DrawnEnv(WalkEnv):
    """Can be drawn in one mode; no fault."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return None if self.render_mode is None else self.draw()

    def draw(self):
        return np.full((2, 2, 3), round(abs(self.place)), np.uint8)


class ClockInfoEnv(WalkEnv):
    """Has an info that does not repeat."""

    calls = 0

    def step(self, action):
        *returned, info = super().step(action)
        ClockInfoEnv.calls += 1
        return *returned, {**info, "action": {"clock": self.calls}}


class TaskIdEnv(WalkEnv):
    """Draws one of three tasks at each reset, and observes it as a one-hot; no fault."""

    space = Box(np.array([-9.0, -9, 0, 0, 0]), np.array([9.0, 9, 1, 1, 1]), dtype=np.float64)
    task, last = 0, 0

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.last, self.task = self.task, int(self.np_random.integers(3))
        return super().reset()[0], {"task_id": self.task}

    def step(self, action):
        *returned, _ = super().step(action)
        return *returned, {"task_id": self.task}

    def see(self):
        return np.append(super().see(), np.eye(3)[self.observed()])

    def observed(self):
        return self.task


class LastTaskEnv(TaskIdEnv):
    """Observes the task of the episode before."""

    def observed(self):
        return self.last


class TwoNamesEnv(TaskIdEnv):
    """Says the same number of all of its tasks, and the name of each."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"task_id": 1, "task_name": str(self.task)}

    def step(self, action):
        return *super().step(action)[:-1], {"task_id": 1, "task_name": str(self.task)}

    def observed(self):
        return 1


class DiscreteTaskEnv(TaskIdEnv):
    """Observes its task as a number; no fault."""

    space = Dict({"env_obs": Box(-9, 9, (2,), np.float64), "task_obs": Discrete(3)})

    def see(self):
        return {"env_obs": WalkEnv.see(self), "task_obs": self.observed()}


class WrongStatistics(gymnasium.Wrapper):
    """Says of each episode that it is a step longer."""

    def step(self, action):
        *returned, info = self.env.step(action)
        if "episode" in info:
            info["episode"]["l"] += 1
        return *returned, info


# Faults that show late, rarely, or only in the hands of another caller.


class LaggingEnv(PushEnv):
    """Takes each action a step late, the first of an episode from the episode before."""

    last = 0.0

    def step(self, action):
        last, self.last = self.last, float(action[0])
        return super().step(np.array([last]))


class RewardLagEnv(WalkEnv):
    """Adds to a reward whether the action before it was 1, which only a seed forgets."""

    last = 0

    def reset(self, *, seed=None, options=None):
        self.last = 0 if seed is not None else self.last
        return super().reset(seed=seed)

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        last, self.last = self.last, int(action)
        return obs, reward + last, terminated, truncated, info


class SkippingResetEnv(WalkEnv):
    """Leaves out a reset that comes right after another."""

    fresh = False

    def reset(self, *, seed=None, options=None):
        if not self.fresh:
            self.fresh, self.first = True, super().reset(seed=seed)
        return self.first[0].copy(), {}

    def step(self, action):
        self.fresh = False
        return super().step(action)


class DictEnv(WalkEnv):
    """Observes its place and goal by name; ``keys()`` is the order of the names."""

    space = Dict({"goal": Box(-9, 9, (), np.float64), "place": Box(-9, 9, (), np.float64)})

    def see(self):
        values = {"goal": np.array(self.goal), "place": np.array(self.place)}
        return {key: values[key] for key in self.keys()}

    def keys(self):
        return ["goal", "place"]


class KeysOfANewEnv(DictEnv):
    """Observes its names in the other order than the environment that was made before it."""

    number = 0

    def __init__(self):
        super().__init__()
        KeysOfANewEnv.number = self.order = 1 - KeysOfANewEnv.number

    def keys(self):
        return super().keys()[:: 2 * self.order - 1]


class HashedEnv(WalkEnv):
    """Has a goal that depends on the order of a set of strings."""

    names = ("push", "reach", "pick", "door", "drawer", "button", "window", "peg")

    def draw_goal(self):
        order = [self.names.index(name) for name in {*self.names}]
        return sum(number / 8**i for i, number in enumerate(order))


class SpaceNoiseEnv(WalkEnv):
    """Draws its goal from its action space, which it seeds."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.action_space.seed(seed)
        return super().reset(seed=seed)

    def draw_goal(self):
        return float(self.action_space.sample())


class HiddenGeneratorEnv(WalkEnv):
    """Seeds ``np_random``, and draws from a generator in a list that knows ten seeds."""

    rngs = ()

    def reset(self, *, seed=None, options=None):
        if seed is not None or not self.rngs:
            self.rngs = [np.random.default_rng(None if seed is None else seed % 10)]
        gymnasium.Env.reset(self, seed=seed)
        self.t, self.goal = 0, self.draw_goal()
        self.place = float(self.rngs[0].uniform(-1, 1))
        return self.see(), {}

    def draw_goal(self):
        return float(self.rngs[0].uniform(-1, 1))


class SharedGeneratorEnv(WalkEnv):
    """All environments of the class draw from one generator, which a seed replaces."""

    rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            SharedGeneratorEnv.rng = np.random.default_rng(seed)
        self.t, self.goal = 0, self.draw_goal()
        self.place = float(self.rng.uniform(-1, 1))
        return self.see(), {}

    def draw_goal(self):
        return float(self.rng.uniform(-1, 1))


class ClosedTogetherEnv(WalkEnv):
    """Has another goal if any other of its class was closed since it was made."""

    closed = 0

    def __init__(self):
        super().__init__()
        self.before = ClosedTogetherEnv.closed

    def close(self):
        ClosedTogetherEnv.closed += 1

    def draw_goal(self):
        return float(ClosedTogetherEnv.closed > self.before)

    def __reduce__(self):
        raise TypeError("it cannot be copied")


class OptionsFirstEnv(WalkEnv):
    """Reads the seed only where no options are given."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed if options is None else None)


class GlobalTasksEnv(WalkEnv):
    """Has tasks as of the older families: drawn from ``np.random``, and not to be read."""

    scale = 1.0

    def sample_tasks(self, n):
        return [{"scale": float(scale)} for scale in np.random.uniform(1, 2, n)]

    def set_task(self, task):
        self.scale = task["scale"]

    def draw_goal(self):
        return self.scale * super().draw_goal()


class ScaledEnv(GlobalTasksEnv):
    """The same, drawn from ``np_random``; no fault."""

    def sample_tasks(self, n):
        return [{"scale": float(scale)} for scale in self.np_random.uniform(1, 2, n)]


class GoalArrayEnv(WalkEnv):
    """Has tasks that are arrays, which ``get_task`` returns as it was first given; no fault."""

    goal_of_task = np.zeros(1)

    def sample_tasks(self, n):
        return [{"goal": self.np_random.uniform(-1, 1, 1)} for _ in range(n)]

    def set_task(self, task):
        self.goal_of_task, self.returned_goal = task["goal"].copy(), float(task["goal"][0])

    def get_task(self):
        return {"goal": np.array([getattr(self, "returned_goal", 0.0)])}

    def draw_goal(self):
        return float(self.goal_of_task[0])


class SingleTaskEnv(GoalArrayEnv):
    """Has a single task, as it says; no fault."""

    num_tasks = 1

    def sample_tasks(self, n):
        return [{"goal": np.array([0.5])} for _ in range(n)]


class CopiedOnFirstTaskEnv(GoalArrayEnv):
    """Its copies say that they are on its task, and run on the first."""

    def __deepcopy__(self, memo):
        env = type(self)()
        env.returned_goal = getattr(self, "returned_goal", 0.0)
        return env

    def __reduce__(self):
        return rebuild_on_first_task, (type(self), getattr(self, "returned_goal", 0.0))


def rebuild_on_first_task(cls, returned_goal):
    env = cls()
    env.returned_goal = returned_goal
    return env


class KeptTasksEnv(ScaledEnv):
    """Hands out its own tasks."""

    def sample_tasks(self, n):
        self.tasks = getattr(self, "tasks", None) or [{"scale": 1.0 + i} for i in range(3)]
        return [self.tasks[i] for i in self.np_random.integers(3, size=n)]


class NoLoadingWrapper(gymnasium.Wrapper):
    """Reads what it has not from an environment that it has not either, while it is loaded."""

    def __getattr__(self, name):
        return getattr(self.env, name)


def with_lock(lock):
    return WalkEnv()


def raise_error(error):
    raise error


def start_thread(self):
    threading.Thread(target=time.sleep, args=(30,), name="left", daemon=True).start()


def leave_the_end(self, obs, reward, terminated, truncated, info):
    self.ended = terminated
    return obs, reward, terminated, truncated, info


def begin_beside(self, obs, info):
    """Begins a step to the right after an episode that was run to its end."""
    self.place += 0.01 * self.__dict__.pop("ended", False)
    return self.see(), info


def minus_zero(self, obs, info):
    """Observes -0.0 where a new environment observes 0.0."""
    used, self.used = getattr(self, "used", 0.0), -0.0
    return np.array([used, obs[1]]), info


def take_away(self, obs, reward, terminated, truncated, info):
    return obs, reward, terminated, truncated, {} if terminated else {"success": False}


ENVS = {
    "outside": (subclass(space=Box(-2, 2, (2,), np.float64)), "spaces", "number in [-2.0, 2.0]"),
    "tuple": (
        subclass(space=Tuple((Discrete(2), WalkEnv.space)), see=lambda s: (0, np.zeros(2, "f4"))),
        "spaces",
        "observation[1]: expected a member of float64[2], got float32[2]",
    ),
    "space replaced": (
        run_before_reset(
            lambda s, _: setattr(s, "observation_space", Box(-99, 99, (2,), np.float64))
        ),
        "spaces",
        "a reset or step replaces a space",
    ),
    "actions replaced": (
        run_before_reset(
            lambda s, _: setattr(s, "action_space", Discrete(2, start=0 if s.t else 1))
        ),
        "spaces",
        "action_space: expected Discrete(2), got Discrete(2, start=1)",
    ),
    "many rewards": (change_rewards(lambda s, r: np.array([r, 1.0])), "types"),
    "NaN reward": (change_rewards(lambda s, r: float("nan")), "types"),
    "NumPy's flags": (NumpyFlagEnv, "types", "terminated: expected a bool of Python"),
    "RandomState": (RandomStateEnv, "types", "Gymnasium promises a numpy.random.Generator"),
    "final_obs": (
        change_steps(lambda s, *r: (*r[:4], {"final_obs": 1})),
        "infos",
        "a batch of infos has",
    ),
    "number as key": (change_steps(lambda s, *r: (*r[:4], {3: 1})), "infos", "must be strings"),
    "no last success": (
        change_steps(take_away),
        "infos",
        "info['success']: expected a value, got no",
    ),
    "key in turn": (change_steps(lambda s, *r: (*r[:4], {"odd": 1} if s.t % 2 else {})), "infos"),
    "one buffer": (ReusedBufferEnv, "new arrays, autoreset", "is reused"),
    "two buffers": (subclass(ReusedBufferEnv, buffers=2), "new arrays", "is reused"),
    "one info": (
        change_resets(same_info, change_steps(same_info)),
        "new arrays",
        "info['place']: expected",
    ),
    "wrong statistics": (lambda: WrongStatistics(RecordEpisodeStatistics(WalkEnv())), "statistics"),
    "unseeded": (subclass(draw_goal=lambda s: float(RNG.uniform(-1, 1))), "seed repeats"),
    "#1681": (BlindingEnv, "new arrays, seed repeats", "is reused"),
    "left over": (
        change_resets(lambda s, o, i: (o + 0.01 * count_calls(s), i)),
        "seed repeats",
        "after other epi",
    ),
    "left at the end": (change_resets(begin_beside, change_steps(leave_the_end)), "seed repeats"),
    "minus zero": (
        change_resets(minus_zero),
        "seed repeats",
        "observation[0]: expected 0.0, got -0.0",
    ),
    "repeated seed": (
        change_seeds(last_seed),
        "other seeds",
        "19 resets without a seed lead to the same",
    ),
    "default seed": (
        change_seeds(lambda s, seed: 7 if seed is None else seed),
        "other seeds",
        "19 re",
    ),
    "constant": (change_seeds(lambda s, seed: 7), "other seeds", "same 20 episodes, although"),
    "constant if any": (change_seeds(lambda s, seed: None if seed is None else 7), "other seeds"),
    "constant in steps": (change_seeds(lambda s, seed: 7, SlipperyEnv), "other seeds"),
    "seed // 10": (
        change_seeds(lambda s, seed: None if seed is None else seed // 10),
        "other seeds",
    ),
    "seed % 2": (change_seeds(lambda s, seed: None if seed is None else seed % 2), "other seeds"),
    "seed % 100": (
        change_seeds(lambda s, seed: None if seed is None else seed % 100),
        "other seeds",
    ),
    "own constant": (OwnConstantEnv, "other seeds", "makes the same of both"),
    "own random": (subclass(OwnConstantEnv, generator=lambda s: random.Random(7)), "other seeds"),
    "unseen constant": (UnseenConstantEnv, "other seeds", "makes the same of both"),
    "np.random": (
        subclass(draw_goal=lambda s: float(np.random.uniform(-1, 1))),
        "seed repeats, global random",
        "two runs",
    ),
    "reads np.random": (
        subclass(draw_goal=lambda s: float(np.random.get_state()[1][0] % 7)),
        "global random",
        "depends on the global",
    ),
    "random": (
        change_steps(lambda s, *r: (random.random(), r)[1]),
        "global random",
        "draws from the",
    ),
    "np.seterr": (run_before_reset(lambda s, _: np.seterr(divide="ignore")), "global settings"),
    "np.seterr at first": (
        run_after_init(lambda s: np.seterr(all="raise")),
        "global settings",
        "'raise'",
    ),
    "os.chdir": (run_after_init(lambda s: os.chdir("/")), "global settings", "os.chdir()"),
    "clips actions": (
        subclass(PushEnv, step=lambda s, a: PushEnv.step(s, np.clip(a, -0.1, 0.1, out=a))),
        "actions",
        "changes the action",
    ),
    "pops actions": (
        subclass(
            PushEnv,
            actions=Dict({"a": PushEnv.actions}),
            step=lambda s, a: PushEnv.step(s, a.pop("a")),
        ),
        "actions",
        "action['a']",
    ),
    "keeps actions": (subclass(LateEnv, keep=lambda s, a: a), "actions", "keeps the array"),
    "sets an option": (
        run_before_reset(lambda s, o: o is not None and o.setdefault("level", 1)),
        "options",
    ),
    "pops an option": (run_before_reset(lambda s, o: o and o.pop("level", None)), "options"),
    "render moves": (
        subclass(DrawnEnv, draw=lambda s: s.step(0)),
        "render",
        "render() changes the",
    ),
    "render draws": (
        subclass(DrawnEnv, draw=lambda s: s.np_random.integers(256, size=(2, 2, 3))),
        "render",
        "render() draws random numbers",
    ),
    "resets itself": (change_steps(reset_at_end), "resets itself", "calls reset() itself"),
    "resets itself unseen": (
        change_steps(begin_anew),
        "resets itself",
        "first observation of the next",
    ),
    "counted": (CountedEnv, "autoreset", "in a vector environment, in mode NextStep"),
    "one place": (SharedPlaceEnv, "pickling, autoreset", "pickle shares state"),
    "late in workers": (
        change_late_steps(change_in_workers),
        "workers",
        "2 workers and SyncVectorEnv differ",
    ),
    "no pickle": (partial(with_lock, threading.Lock()), "pickling", "does not pickle"),
    "pickled": (PickledEnv, "pickling", "a copy made by pickle runs differently"),
    "lost in copies": (
        LostInCopiesEnv,
        "pickling",
        "a copy made by pickle does not run: AttributeError: ",
    ),
    "deepcopy is itself": (subclass(__deepcopy__=lambda s, memo: s), "pickling", "a copy made by"),
    "hidden state": (HiddenStateEnv, "killed worker", "a lost worker cannot be replaced"),
    "thread": (
        run_after_init(start_thread),
        "close",
        "threads are still running after close(): left",
    ),
    "process": (
        run_after_init(lambda s: setattr(s, "child", subprocess.Popen(["sleep", "30"]))),
        "close",
        "processes are still running after close",
    ),
    "closes once": (
        subclass(close=lambda s: vars(s).pop("t")),
        "close",
        "second close() raises Ke",
    ),
    "__del__": (
        subclass(__del__=lambda s: raise_error(OSError("gone"))),
        "close",
        "is deleted raises",
    ),
    "rolled one-hot": (
        subclass(TaskIdEnv, observed=lambda s: (s.task + 1) % 3),
        "task observation",
    ),
    "last one-hot": (
        subclass(TaskIdEnv, observed=lambda s: s.task if s.t else s.last),
        "seed repeats",
        "observation[2]",
    ),
    "last one-hot, seeded": (
        change_seeds(
            lambda s, seed: seed if seed is None else vars(s).update(task=0) or seed, LastTaskEnv
        ),
        "task observation",
        "observation: expected the one-hot of",
    ),
    "wrong task_obs": (
        subclass(DiscreteTaskEnv, observed=lambda s: 2 - s.task),
        "task observation",
        "observation['task_obs']: expected",
    ),
    # Late, rare, or only for another caller.
    "lagging": (LaggingEnv, "seed repeats", "after other episodes"),
    "lagging choice": (
        subclass(
            step=lambda s, a: WalkEnv.step(s, (vars(s).get("last", 1), vars(s).update(last=a))[0])
        ),
        "seed repeats",
        "reset(seed=0) leads to other results: some state is left",
    ),
    "lagging reward": (RewardLagEnv, "new episodes", "of the last episode, such as its last act"),
    "skips a reset": (SkippingResetEnv, "seed repeats", "after another reset, reset(seed=0)"),
    "seed 0 is none": (change_seeds(lambda s, seed: seed or None), "seed repeats"),
    "seed % 2**31": (
        change_seeds(lambda s, seed: seed and seed % 2**31),
        "other seeds",
        "seed=2147483648",
    ),
    "seed % (2**31 - 1)": (
        change_seeds(lambda s, seed: seed and seed % (2**31 - 1)),
        "other seeds",
    ),
    "seed % 2**32": (
        change_seeds(lambda s, seed: seed and seed % 2**32),
        "other seeds",
        "seed=4294967296",
    ),
    "float32 seed": (
        change_seeds(lambda s, seed: seed if seed is None else int(np.float32(seed))),
        "other seeds",
        "reset(seed=33554432) and reset(seed=33554433) lead to the same",
    ),
    "float64 seed": (
        change_seeds(lambda s, seed: seed if seed is None else int(float(seed))),
        "other seeds",
        "makes the same of both",
    ),
    "hidden generator": (
        HiddenGeneratorEnv,
        "other seeds",
        "reset(seed=0) and reset(seed=10) lead",
    ),
    "options, no seed": (OptionsFirstEnv, "options", "reset(seed=0, options={}) leads to other"),
    "draws from its space": (
        SpaceNoiseEnv,
        "sampling",
        "takes its own random numbers from a space",
    ),
    "seeds its space": (
        run_before_reset(lambda s, _: s.action_space.seed(0)),
        "sampling",
        "random actions that the caller samples from it are the same in every episode",
    ),
    "ints only": (
        subclass(step=lambda s, a: WalkEnv.step(s, a if isinstance(a, int) else 0)),
        "actions",
        "actions of type int, as of Python, have another effect than NumPy's int64",
    ),
    "keys in turn": (
        subclass(DictEnv, keys=lambda s: ["goal", "place"][:: 1 - 2 * (s.t % 2)]),
        "spaces",
        "the keys of observation: expected ['goal', 'place'], got ['place', 'goal']",
    ),
    "keys of a new one": (KeysOfANewEnv, "seed repeats", "the keys of observation: expected ["),
    "float32 rewards": (
        change_rewards(lambda s, r: np.float32(r) if s.t % 2 else np.float64(r)),
        "types",
        "step 1, reward: expected dtype float32, got dtype float64",
    ),
    "a rounded reward": (
        change_rewards(lambda s, r: np.float32(r) if s.t % 2 else 0.1),
        "types",
        "reward: expected dtype float32, got ",
    ),
    "float32 at odd steps": (
        change_rewards(lambda s, r: np.float32(s.t) if s.t % 2 else float(s.t)),
        "types",
        "step 1, reward: expected dtype float32, got a float of Python",
    ),
    "info of two types": (
        change_steps(lambda s, *r: (*r[:4], {"far": 0 if s.t == 1 else 0.5})),
        "infos",
        "in a batch beside an info of type int64, as another step has it, its value is lost: step",
    ),
    "sys.setrecursionlimit": (
        run_after_init(lambda s: sys.setrecursionlimit(4000)),
        "global settings",
    ),
    "gc": (
        run_after_init(lambda s: gc.disable()),
        "global settings",
        "gc: expected 'enabled', got",
    ),
    "signal": (
        run_after_init(lambda s: signal.signal(signal.SIGTERM, signal.SIG_IGN)),
        "global settings",
        "signal.signal(SIGTERM)",
    ),
    "one generator": (SharedGeneratorEnv, "pickling, autoreset", "shares state with the environm"),
    "closed together": (ClosedTogetherEnv, "close", "close() of an environment changes another"),
    "open file": (
        run_after_init(lambda s: os.open(__file__, os.O_RDONLY)),
        "close",
        "files are still open after close(): /",
    ),
    # Tasks.
    "global tasks": (GlobalTasksEnv, "tasks", "sample_tasks() draws from the global np.random"),
    "tasks without a seed": (
        subclass(ScaledEnv, sample_tasks=lambda s, n: [{"scale": RNG.uniform()} for _ in range(n)]),
        "tasks",
        "reset(seed=0) must determine the tasks that it draws next",
    ),
    "tasks near its own": (
        subclass(
            ScaledEnv,
            sample_tasks=lambda s, n: [
                {"scale": s.scale + float(x)} for x in s.np_random.uniform(0, 1, n)
            ],
        ),
        "tasks",
        "whatever its task is",
    ),
    "one task for several": (
        subclass(
            ScaledEnv, sample_tasks=lambda s, n: [{"scale": float(s.np_random.uniform(1, 2))}]
        ),
        "tasks",
        "sample_tasks(20) must return a list of 20 tasks, got [{'scale': ",
    ),
    "a task for a list": (
        subclass(ScaledEnv, sample_tasks=lambda s, n: {"scale": float(s.np_random.uniform(1, 2))}),
        "tasks",
        "sample_tasks(20) must return a list of 20 tasks, got {'scale': ",
    ),
    "one task repeated": (
        subclass(
            ScaledEnv, sample_tasks=lambda s, n: [{"scale": float(s.np_random.uniform(1, 2))}] * n
        ),
        "tasks",
        "sample_tasks(20) returns the same task 20 times, {'scale': ",
    ),
    "constant tasks": (
        subclass(ScaledEnv, sample_tasks=lambda s, n: [{"scale": 1.5} for _ in range(n)]),
        "tasks",
        "{'scale': 1.5}: draw each from self.np_random, or set num_tasks = 1",
    ),
    "own tasks": (KeptTasksEnv, "tasks", "whatever the caller has done to tasks that were drawn"),
    "tasks of an instance": (
        subclass(
            run_after_init(lambda s: setattr(s, "number", next(NUMBERS)), ScaledEnv),
            sample_tasks=lambda s, n: [{"scale": s.number + i / 10} for i in range(n)],
        ),
        "tasks",
        "must determine the tasks that a new environment draws next",
    ),
    "task by reference": (
        subclass(
            GoalArrayEnv,
            set_task=lambda s, t: vars(s).update(
                goal_of_task=t["goal"], returned_goal=float(t["goal"][0])
            ),
        ),
        "tasks",
        "if the caller changes the task after set_task(), the environment's changes",
    ),
    "task by reference, read later": (
        subclass(
            ScaledEnv,
            set_task=lambda s, t: setattr(s, "kept_task", t),
            draw_goal=lambda s: (
                setattr(s, "scale", vars(s).get("kept_task", {"scale": 1.0})["scale"]),
                ScaledEnv.draw_goal(s),
            )[1],
        ),
        "tasks",
        "such as dict(task): if the caller changes the task after set_task(), the environment's "
        "changes: the next episode raises KeyError: 'scale' (",
    ),
    "task an episode late": (
        subclass(
            ScaledEnv,
            set_task=lambda s, t: setattr(s, "next", t["scale"]),
            draw_goal=lambda s: (
                ScaledEnv.draw_goal(s),
                vars(s).update(scale=vars(s).get("next", 1.0)),
            )[0],
        ),
        "tasks",
        "on the same task",
    ),
    "copies on the first task": (
        CopiedOnFirstTaskEnv,
        "tasks",
        "on another task, a copy made by pickle runs differently",
    ),
    "two names": (
        TwoNamesEnv,
        "task observation",
        "two tasks have the same info['task_id'], 1: the reset after step 8, info['task_name']: ",
    ),
}

# What differs from process to process; workers that are not forked differ too.
HASHED = {
    "hash order": HashedEnv,
    "hash()": subclass(draw_goal=lambda s: hash("push") / 2**63),
}


# Vector environments.


def make_sync(num_envs=3, autoreset_mode=SAME, env=WalkEnv):
    """No fault."""
    return SyncVectorEnv([env] * num_envs, autoreset_mode=autoreset_mode)


def make_three(num_envs=3):
    """Makes three environments, however many are asked for."""
    return make_sync()


def make_same_step(autoreset_mode=SAME):
    """Makes environments in one mode, whichever is asked for."""
    return make_sync()


class ElapsedEnv(WalkEnv):
    """Has episodes of five steps, and says in its infos how many it has taken; no fault."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"elapsed": 0}

    def step(self, action):
        obs, reward, *_ = super().step(action)
        return obs, reward, False, self.t == 5, {"elapsed": self.t}


class Changed(VectorWrapper):
    """Calls ``change(envs, returned, done)`` on what each step returns."""

    def __init__(self, env, change):
        super().__init__(env)
        self.change = change

    def step(self, actions):
        returned = list(self.env.step(actions))
        self.change(self, returned, returned[2] | returned[3])
        return tuple(returned)


def first_as_last(envs, returned, done):
    """Returns the next episode's first observation as the last one: Gymnasium #1132."""
    for i in np.flatnonzero(done):
        returned[4]["final_obs"][i] = returned[0][i].copy()


LostFinalVectorEnv = partial(Changed, change=first_as_last)


def last_again_next_step(envs, returned, done):
    """Returns the last observation of an episode where its reset is a step."""
    last, ended = getattr(envs, "last", (returned[0], done & False))
    returned[0][ended] = last[ended]
    envs.last = returned[0].copy(), done


def swapped_finals(envs, returned, done):
    """Turns the order of last observations round where several episodes end in one step."""
    if (at := np.flatnonzero(done)).any():
        returned[4]["final_obs"][at] = returned[4]["final_obs"][at[::-1]]


def all_final(envs, returned, done):
    """The mask of ``final_obs`` has environments whose episode goes on."""
    if done.any():
        returned[4]["_final_obs"] = np.ones_like(done)


def swapped_flags(envs, returned, done):
    returned[2], returned[3] = returned[3], returned[2]


def whole_flags(envs, returned, done):
    returned[3] = returned[3].astype(np.int8)


def change_vector_actions(change, **kwargs):
    """A vector environment that steps with ``change(actions)``."""
    wrapper = subclass(VectorWrapper, step=lambda s, actions: s.env.step(change(actions)))
    return wrap_sync(wrapper, **kwargs)


class Resets(VectorWrapper):
    """Does ``reset(envs, seed, options)`` instead of a reset."""

    def __init__(self, env, change):
        super().__init__(env)
        self.change, self.last, self.ended = change, None, False

    def reset(self, *, seed=None, options=None):
        return self.change(self, seed, options)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.last, self.ended = obs.copy(), bool(np.any(terminated | truncated))
        return obs, rewards, terminated, truncated, infos


def moving_reset(envs, seed, options):
    """Draws from the generators of all environments where a reset has a mask."""
    if options and "reset_mask" in options:
        for rng in envs.env.np_random:
            rng.random()
    return envs.env.reset(seed=seed, options=dict(options or {}))


def taken_mask(envs, seed, options):
    """Takes the mask out of the caller's options, as in Gymnasium #1696."""
    options_before = dict(options or {})
    if options and "reset_mask" in options:
        options.pop("reset_mask")
    return envs.env.reset(seed=seed, options=options_before)


def repeated_seed(envs, seed, options):
    envs.seeded = seed if seed is not None else getattr(envs, "seeded", 0)
    return envs.env.reset(seed=envs.seeded, options=options)


def set_option(envs, seed, options):
    if options is not None:
        options.setdefault("level", 1)
    return envs.env.reset(seed=seed)


def packed_seeds(envs, seed, options):
    """Gives the first seeds of a list to the environments that a mask resets."""
    if isinstance(seed, list) and options and "reset_mask" in options:
        at, packed = np.flatnonzero(options["reset_mask"]), [None] * len(seed)
        for i, single in zip(at, seed, strict=False):
            packed[i] = single
        seed = packed
    return envs.env.reset(seed=seed, options=dict(options or {}))


def unseeded_mask(envs, seed, options):
    """Leaves out the seed of a reset with a mask."""
    masked = options and "reset_mask" in options
    return envs.env.reset(seed=None if masked else seed, options=dict(options or {}))


def cleared_mask(envs, seed, options):
    returned = envs.env.reset(seed=seed, options=dict(options or {}))
    if options and "reset_mask" in options:
        options["reset_mask"][:] = False
    return returned


def changed_seeds(envs, seed, options):
    returned = envs.env.reset(seed=seed, options=options)
    if isinstance(seed, list):
        seed[0] = None
    return returned


def changed_seeds_of_mask(envs, seed, options):
    """Changes the caller's list of seeds where a reset has a mask."""
    returned = envs.env.reset(seed=seed, options=dict(options or {}))
    if isinstance(seed, list) and options and "reset_mask" in options:
        seed[0] = None
    return returned


def draw_after_seeded_mask(envs, seed, options):
    """Draws from all generators after a reset with a mask and a seed, so that steps differ."""
    returned = envs.env.reset(seed=seed, options=dict(options or {}))
    if seed is not None and options and "reset_mask" in options:
        for rng in envs.env.np_random:
            rng.random()
    return returned


def late_after_mask(envs, seed, options):
    """Lets the step count of environments go on where a reset has a mask."""
    elapsed = [env.t for env in envs.env.envs]
    returned = envs.env.reset(seed=seed, options=dict(options or {}))
    if options and "reset_mask" in options and not envs.ended:
        for env, t in zip(envs.env.envs, elapsed, strict=True):
            env.t = t
    return returned


def lazy_mask(envs, seed, options):
    """Moves an environment that a mask leaves out in the step after next."""
    returned = envs.env.reset(seed=seed, options=dict(options or {}))
    masked = options and "reset_mask" in options
    envs.late = 2 if masked and not envs.ended else 0
    return returned


class PaysAfterList(VectorWrapper):
    """Adds 1 to every reward after a reset with a list of seeds."""

    paid = 0.0

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.paid = float(isinstance(seed, list))
        return self.env.reset(seed=seed, options=options)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        return obs, rewards + self.paid, terminated, truncated, infos


class LateMove(Resets):
    """Moves the last environment two steps after a reset with a mask."""

    late = 0

    def step(self, actions):
        self.late -= 1
        self.env.envs[-1].place += 0.1 * (self.late == 0)
        return super().step(actions)


class KeepingAsync(VectorWrapper):
    """Steps with the array that ``step_async`` was given, when it is waited for."""

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        return self.env.step(self.actions)

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()


class LaggingActions(VectorWrapper):
    """Takes the actions of each step in the next one, the first after a reset too."""

    last = None

    def step(self, actions):
        last, self.last = self.last, actions.copy()
        return self.env.step(np.zeros_like(actions) if last is None else last)


def every_second_in_float32(envs, returned, done):
    if count_calls(envs) % 2:
        returned[1] = returned[1].astype(np.float32)


class SkippingStatistics(VectorWrapper):
    """Takes the step after an end for a reset, in every mode: Gymnasium #1624 and #1668."""

    def __init__(self, env, running=False):
        super().__init__(env)
        if running:
            self.return_rms = RunningMeanStd(shape=())

    def reset(self, **kwargs):
        self.sums, self.lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        self.done = np.zeros(self.num_envs, bool)
        return self.env.reset(**kwargs)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.sums[self.done], self.lengths[self.done] = 0, 0
        self.sums[~self.done] += rewards[~self.done]
        self.lengths[~self.done] += 1
        if hasattr(self, "return_rms"):
            self.return_rms.update(self.sums[~self.done])
        self.done = terminated | truncated
        if self.done.any() and not hasattr(self, "return_rms"):
            infos["episode"] = {"r": self.sums.copy(), "l": self.lengths.copy()}
            infos["_episode"] = self.done.copy()
        return obs, rewards, terminated, truncated, infos


class BatchVectorEnv(VectorEnv):
    """Draws all starts at once, so that they depend on how many there are.

    ``shared`` gives all of them one start; ``buffer`` returns the same array every time; ``pays``
    rewards the step that is a reset; ``acts`` takes its action.
    """

    metadata = {"autoreset_mode": NEXT}  # noqa: RUF012

    def __init__(self, num_envs=3, shared=False, buffer=False, pays=0.0, acts=False):
        self.num_envs, self.shared, self.buffer, self.pays = num_envs, shared, buffer, pays
        self.acts = acts
        self.single_observation_space = Box(-100, 100, (2,), np.float64)
        self.single_action_space = Discrete(2)
        self.observation_space = Box(-100, 100, (num_envs, 2), np.float64)
        self.action_space = gymnasium.vector.utils.batch_space(Discrete(2), num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        size = 2 if self.shared else (2, self.num_envs)
        self.place = np.empty((self.num_envs, 2))
        self.place[:] = self.np_random.uniform(-1, 1, size).T
        self.done = np.zeros(self.num_envs, bool)
        return self.see(), {}

    def step(self, actions):
        n = self.num_envs
        self.place[:, 0] += np.where(self.done, 0.0, np.where(actions, 0.5, -0.5))
        if self.done.any():
            self.place[self.done] = self.np_random.uniform(-1, 1, (int(self.done.sum()), 2))
            self.place[:, 0] += np.where(self.done & self.acts, 0.1 * actions, 0.0)
        rewards = np.where(self.done, self.pays, -np.abs(self.place[:, 0]))
        self.done = ~self.done & (np.abs(self.place[:, 0]) > 2)
        return self.see(), rewards, self.done.copy(), np.zeros(n, bool), {}

    def see(self):
        return self.place if self.buffer else self.place.copy()


def wrap_sync(wrapper=None, *arguments, env=WalkEnv, mode=SAME):
    """A vector environment in one mode with a fault, and no other mode to try."""

    def make():
        envs = SyncVectorEnv([env] * 3, autoreset_mode=mode)
        return envs if wrapper is None else wrapper(envs, *arguments)

    return make


def change_vector_seeds(change):
    """A vector environment whose resets with a seed are given ``change(seed)``."""
    return wrap_sync(
        Resets,
        lambda s, seed, o: s.env.reset(seed=seed if seed is None else change(seed), options=o),
    )


def change_vector_steps(change, **kwargs):
    return wrap_sync(Changed, change, **kwargs)


VECTORS = {
    "#1132": (
        wrap_sync(LostFinalVectorEnv),
        "as sync",
        "differ in mode SameStep at an episode's end,",
    ),
    "last again, NextStep": (change_vector_steps(last_again_next_step, mode=NEXT), "seed repeats"),
    "swapped rewards": (
        change_vector_steps(lambda e, r, d: r.__setitem__(1, r[1][[1, 0, 2]])),
        "independence",
    ),
    "seeds reversed": (
        change_vector_seeds(lambda seed: seed if seed else [2, 1, 0]),
        "seeds of each",
        "with 0 + i",
    ),
    "thread": (
        wrap_sync(run_after_init(start_thread, VectorWrapper)),
        "close",
        "threads are still running after close",
    ),
    "sets an option": (
        wrap_sync(Resets, set_option),
        "options",
        "the caller's options ('level', 1)",
    ),
    "finals at once": (
        change_vector_steps(swapped_finals, env=ElapsedEnv),
        "as sync",
        "differ in mode",
    ),
    "no final_info": (
        change_vector_steps(lambda e, r, done: r[4].pop("final_info", None)),
        "as sync",
    ),
    "flags": (change_vector_steps(swapped_flags), "as sync", "terminated"),
    "all final": (change_vector_steps(all_final), "mode", "if and only if an episode ended"),
    "no mask": (
        change_vector_steps(lambda e, r, d: r[4].pop("_goal", None)),
        "masks",
        "'goal', but no mask",
    ),
    "whole flags": (change_vector_steps(whole_flags), "types", "has the wrong type"),
    "list of infos": (wrap_sync(DictInfoToList), "types", "info: expected a dict"),
    "swapped actions": (
        change_vector_actions(lambda a: a[[1, 0, 2]]),
        "independence",
        "reach the wrong env",
    ),
    "clipped actions": (
        change_vector_actions(lambda a: np.clip(a, -0.1, 0.1, out=a), env=PushEnv),
        "actions",
    ),
    "masked reset": (wrap_sync(Resets, moving_reset, mode=DISABLED), "as sync", "mode Disabled"),
    "#1696": (wrap_sync(Resets, taken_mask, mode=DISABLED), "partial reset", "out of the caller's"),
    "constant seed": (
        wrap_sync(Resets, lambda s, seed, o: s.env.reset(seed=7, options=o)),
        "other seeds",
    ),
    "repeated seed": (wrap_sync(Resets, repeated_seed), "other seeds", "19 resets without a seed"),
    "seed // 10": (wrap_sync(env=ENVS["seed // 10"][0]), "other seeds, seeds of each"),
    "equal seeds": (
        change_vector_seeds(lambda seed: [seed] * 3),
        "seeds of each",
        "environments 0 and 1 begi",
    ),
    "render": (
        wrap_sync(subclass(VectorWrapper, render=lambda s: s.env.np_random[0].random())),
        "render",
    ),
    "#1624": (wrap_sync(SkippingStatistics), "statistics", "not the sums of its steps"),
    "#1668": (wrap_sync(SkippingStatistics, True), "statistics", "do not count every step once"),
    "batch size": (BatchVectorEnv, "batch size", "something else if there are 6 and not 3"),
    "always three": (make_three, "batch size", "num_envs=6 makes 3 environments"),
    "no mode": (
        wrap_sync(subclass(VectorWrapper, metadata={})),
        "mode",
        "expected an AutoresetMode, got None",
    ),
    "always SameStep": (
        make_same_step,
        "mode",
        "makes environments in mode SameStep when another is asked for",
    ),
    "a flag as mode": (
        wrap_sync(subclass(VectorWrapper, metadata={"autoreset_mode": True})),
        "mode",
        "expected an AutoresetMode, got True",
    ),
    "one start": (partial(BatchVectorEnv, shared=True), "seeds of each, batch size"),
    "buffer": (partial(BatchVectorEnv, buffer=True), "new arrays, batch size", "is reused"),
    "pays resets": (partial(BatchVectorEnv, pays=1.0), "mode, batch size", "in mode NextStep the"),
    "acts at resets": (
        partial(BatchVectorEnv, acts=True),
        "mode, batch size",
        "whose action is not used; another action leads to other results",
    ),
    "last reward": (
        change_vector_steps(lambda envs, r, done: r[1].__setitem__(done, 0.0)),
        "as sync",
        "reward: expected",
    ),
    "last reward, NextStep": (
        change_vector_steps(lambda envs, r, done: r[1].__setitem__(done, 0.0), mode=NEXT),
        "as sync",
    ),
    "float32 rewards": (
        change_vector_steps(every_second_in_float32),
        "types, seed repeats",
        "step 1, reward: expected dtype float32, got dtype float64",
    ),
    "packed seeds": (
        wrap_sync(Resets, packed_seeds, mode=DISABLED),
        "partial reset",
        "gives environments other seeds than one of all: a reset of environments [1] with seed [",
    ),
    "counts on after a mask": (
        wrap_sync(Resets, late_after_mask, env=ElapsedEnv, mode=DISABLED),
        "as sync",
        "after a reset of some environments, environment 0, step 2, info['elapsed']: expected 1",
    ),
    "moves after a mask": (
        wrap_sync(LateMove, lazy_mask, mode=DISABLED),
        "as sync",
        "after a reset of some environments, environment 2, step 3, observation",
    ),
    "masked without a seed": (wrap_sync(Resets, unseeded_mask, mode=DISABLED), "partial reset"),
    "clears the mask": (
        wrap_sync(Resets, cleared_mask, mode=DISABLED),
        "partial reset",
        "reset changes the caller's mask[0]: expected True, got False",
    ),
    "changes the seeds": (
        wrap_sync(Resets, changed_seeds),
        "seeds of each",
        "changes the caller's seed",
    ),
    "changes the seeds of a mask": (
        wrap_sync(Resets, changed_seeds_of_mask, mode=DISABLED),
        "partial reset",
        "reset changes the caller's seeds[0]: expected int 1000, got NoneType None",
    ),
    "draws after a seeded mask": (
        wrap_sync(Resets, draw_after_seeded_mask, env=WindyEnv, mode=DISABLED),
        "partial reset",
        "environment 1, a step later, observation[0]: expected ",
    ),
    "pays after a list": (
        wrap_sync(PaysAfterList),
        "seeds of each",
        "after reset(seed=[0, 1, 2]), it returns something else than after the same seeds",
    ),
    "keeps actions": (
        wrap_sync(KeepingAsync),
        "actions",
        "step_async() keeps the array of actions",
    ),
    "lagging": (wrap_sync(LaggingActions), "seed repeats", "some state is left"),
    "seed % 2**31": (wrap_sync(env=ENVS["seed % 2**31"][0]), "other seeds", "seed=2147483648"),
    "two names": (wrap_sync(env=TwoNamesEnv), "task observation", "two tasks have the same"),
}

# What looks like a fault and is none.
RIGHT = [
    *(WalkEnv, LongEnv, FixedEnv, UnseededFixedEnv, HomeEnv, SlipperyEnv, WindyEnv, CoinEnv),
    *(PushEnv, LateEnv, DrawnEnv, ElapsedEnv, TaskIdEnv, DiscreteTaskEnv, DictEnv, ScaledEnv),
    *(GoalArrayEnv, SingleTaskEnv),
]
