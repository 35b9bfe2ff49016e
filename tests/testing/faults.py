"""Environments and vector environments with one fault each, and some without."""

from __future__ import annotations

import random

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.wrappers.utils import RunningMeanStd


class WalkEnv(gymnasium.Env):
    """A walk from a random start to a goal, both drawn by ``np_random``; no fault."""

    def __init__(self):
        self.observation_space = Box(-100, 100, (2,), np.float64)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = self.draw_goal()
        self.place = float(self.np_random.uniform(-1, 1))
        return self.see(), {}

    def step(self, action):
        self.place += 0.5 if action else -0.5
        done = abs(self.place) > 2
        return self.see(), -abs(self.place - self.goal), done, False, {"goal": self.goal}

    def draw_goal(self):
        return float(self.np_random.uniform(-1, 1))

    def see(self):
        return np.array([self.place, self.goal])


class Word(gymnasium.Space):
    """A space that Gymnasium does not know; no fault."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "left"

    def contains(self, x):
        return x in ("left", "right")

    def __eq__(self, other):
        return isinstance(other, Word)


class WordEnv(WalkEnv):
    """Also says in a word where its goal is; no fault."""

    def __init__(self):
        super().__init__()
        self.observation_space = Dict({"at": self.observation_space, "goal": Word()})

    def see(self):
        return {"at": super().see(), "goal": "left" if self.goal < self.place else "right"}


class OutsideEnv(WalkEnv):
    """Returns numbers that are not in its space."""

    def __init__(self):
        super().__init__()
        self.observation_space = Box(-2, 2, (2,), np.float64)


class TupleEnv(WalkEnv):
    """Returns in a tuple a number of another type than its space says."""

    def __init__(self):
        super().__init__()
        self.observation_space = Tuple((Discrete(2), self.observation_space))

    def see(self):
        return 0, super().see().astype(np.float32)


class ManyRewardsEnv(WalkEnv):
    """Has several objectives, and a reward for each."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, np.array([reward, -1.0]), *rest


class NumpyFlagEnv(WalkEnv):
    """Its flags are NumPy's."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, np.bool_(terminated), truncated, info


class UnseededEnv(WalkEnv):
    """Draws its goal from a generator that no seed reaches."""

    rng = np.random.default_rng(0)

    def draw_goal(self):
        return float(self.rng.uniform(-1, 1))


class GlobalGoalEnv(WalkEnv):
    """Draws its goal from the global random state."""

    def draw_goal(self):
        return float(np.random.uniform(-1, 1))


class GlobalReadEnv(WalkEnv):
    """Reads the global random state and does not change it."""

    def draw_goal(self):
        return float(np.random.get_state()[1][0] % 7)


class LeftoverEnv(WalkEnv):
    """Begins where its last episode ended."""

    place = 0.0

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.goal = self.draw_goal()
        self.place = 0.01 * self.place + float(self.np_random.uniform(-1, 1))
        return self.see(), {}


class ReusedBufferEnv(WalkEnv):
    """Returns the same array every time: Gymnasium #1132."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(2)

    def see(self):
        self.buffer[:] = self.place, self.goal
        return self.buffer


class BlindingEnv(WalkEnv):
    """Starts where no seed says, and returns it in the same arrays every time: Gymnasium #1681.

    A checker that keeps the first observation and not a copy compares these arrays with themselves.
    """

    rng = np.random.default_rng(0)

    def __init__(self):
        super().__init__()
        self.observation_space = Dict({"near": self.observation_space, "far": Discrete(3)})
        self.obs = {"near": np.zeros(2), "far": 0}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.rng.uniform(-1, 1))
        return self.see(), {}

    def see(self):
        self.obs["near"][:] = self.place, self.goal
        return self.obs


class BlindingStepEnv(ReusedBufferEnv):
    """Starts where the seed says, moves by what no seed reaches, as #1681 says of a step."""

    rng = np.random.default_rng(0)

    def step(self, action):
        self.place += float(self.rng.normal(scale=0.01))
        return super().step(action)


class ReusedInfoEnv(WalkEnv):
    """Returns the same info dict every time: Gymnasium #1132, of infos."""

    def __init__(self):
        super().__init__()
        self.info = {}

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        self.info["place"] = self.place
        return obs, self.info

    def step(self, action):
        *returned, _ = super().step(action)
        self.info["place"] = self.place
        return *returned, self.info


class SelfResettingEnv(WalkEnv):
    """Calls its ``reset`` where an episode ends."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated:
            obs, _ = self.reset()
        return obs, reward, terminated, truncated, info


class QuietlyResettingEnv(WalkEnv):
    """Begins anew where an episode ends, without a call of its ``reset``."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated:
            self.goal, self.place = self.draw_goal(), float(self.np_random.uniform(-1, 1))
            obs = self.see()
        return obs, reward, terminated, truncated, info


class ReservedKeyEnv(WalkEnv):
    """Uses a key of infos that a batch uses itself."""

    def step(self, action):
        *returned, info = super().step(action)
        return *returned, {**info, "final_obs": 1}


class CountedEnv(WalkEnv):
    """Begins elsewhere if there are more of it in the process."""

    alive = 0

    def __init__(self):
        super().__init__()
        type(self).alive += 1

    def close(self):
        type(self).alive -= 1

    def see(self):
        return np.array([self.place, max(type(self).alive, 1.0)])


class PickledElsewhereEnv(WalkEnv):
    """Loses its goal's scale when it is pickled."""

    scale = 1.0

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.scale = 0.5

    def draw_goal(self):
        return self.scale * super().draw_goal()


class HiddenStateEnv(WalkEnv):
    """Its episodes become harder, by a number that is kept nowhere else."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes = 0 if seed is not None else self.episodes + 1
        return super().reset(seed=seed)

    def see(self):
        return np.array([self.place, self.goal + self.episodes])


class LeftAtTheEndEnv(WalkEnv):
    """Begins a step to the right after an episode that was run to its end."""

    ended = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place += 0.01 * self.ended
        self.ended = False
        return self.see(), {}

    def step(self, action):
        *returned, terminated, truncated, info = super().step(action)
        self.ended = terminated
        return *returned, terminated, truncated, info


class RepeatedSeedEnv(WalkEnv):
    """Takes the last seed again where none is given."""

    def reset(self, *, seed=None, options=None):
        self.seeded = seed if seed is not None else getattr(self, "seeded", 0)
        return super().reset(seed=self.seeded)


class DefaultSeedEnv(WalkEnv):
    """Takes seed 7 where none is given."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7 if seed is None else seed)


class ConstantSeedEnv(WalkEnv):
    """Takes seed 7 whatever is given."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7)


class SeededByAConstantEnv(WalkEnv):
    """Takes seed 7 where any is given, and goes on where none is."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else 7)


class OwnConstantEnv(WalkEnv):
    """Draws from a generator of its own, a new one with the same seed for each episode."""

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(7)
        self.goal = self.place = float(self.rng.uniform(-1, 1))
        return self.see(), {}


class UnseenConstantEnv(WalkEnv):
    """Draws from a generator that it keeps in a list, with seed 7 where any is given."""

    rngs = ()

    def reset(self, *, seed=None, options=None):
        if seed is not None or not self.rngs:
            self.rngs = [np.random.default_rng(None if seed is None else 7)]
        self.goal = self.place = float(self.rngs[0].uniform(-1, 1))
        return self.see(), {}


class OwnPythonConstantEnv(OwnConstantEnv):
    """The same with a generator of Python's `random`."""

    def reset(self, *, seed=None, options=None):
        self.rng = random.Random(7)
        self.goal = self.place = self.rng.uniform(-1, 1)
        return self.see(), {}


class ShortEnv(WalkEnv):
    """Has episodes of five steps; no fault."""

    def reset(self, *, seed=None, options=None):
        self.left = 5
        return super().reset(seed=seed)

    def step(self, action):
        self.left -= 1
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, self.left == 0, info


class FixedEnv(WalkEnv):
    """Always begins at the same place; no fault."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.place, self.goal = 0.0, 1.0
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


class NoisyEnv(FixedEnv):
    """Always begins at the same place, and is blown about; no fault."""

    def step(self, action):
        self.place += self.np_random.uniform(-0.1, 0.1)
        return super().step(action)


class SlipperyEnv(FixedEnv):
    """Always begins at the same place, and slips once in fifty steps; no fault."""

    def step(self, action):
        return super().step(action if self.np_random.random() < 0.98 else 1 - action)


class ConstantSlipEnv(SlipperyEnv):
    """Takes seed 7 whatever is given, and draws in steps only."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=7)


class CoinEnv(WalkEnv):
    """Has two episodes, of which ``np_random`` seldom draws the second; no fault."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.place, self.goal = float(self.np_random.random() < 0.2), 0.0
        return self.see(), {}


class RandomStateEnv(WalkEnv):
    """Has a generator of NumPy's older kind."""

    def reset(self, *, seed=None, options=None):
        if seed is not None or not isinstance(self._np_random, np.random.RandomState):
            self.np_random = np.random.RandomState(seed)
        return super().reset()


class PushEnv(WalkEnv):
    """Is pushed by an action of numbers; no fault."""

    def __init__(self):
        super().__init__()
        self.action_space = Box(-1, 1, (1,), np.float64)

    def step(self, action):
        self.place += float(action[0]) / 2
        return super().step(self.place > 0)


class ClippingEnv(PushEnv):
    """Clips the caller's action in place."""

    def step(self, action):
        return super().step(np.clip(action, -0.1, 0.1, out=action))


class LateEnv(PushEnv):
    """Takes each action a step late, from an array that it has copied; no fault."""

    last = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.last = np.zeros(1)
        return super().reset(seed=seed)

    def step(self, action):
        last, self.last = self.last, self.keep(action)
        return super().step(last)

    def keep(self, action):
        return action.copy()


class KeepingEnv(LateEnv):
    """Takes each action a step late, from the caller's array."""

    def keep(self, action):
        return action


class DictPushEnv(PushEnv):
    """Is pushed by an action in a dict, out of which it takes it."""

    def __init__(self):
        super().__init__()
        self.action_space = Dict({"push": self.action_space})

    def step(self, action):
        return super().step(action.pop("push"))


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


class MovedByRenderEnv(DrawnEnv):
    """Moves where it is drawn."""

    def draw(self):
        self.place += 0.01
        return super().draw()


class DrawingFromGeneratorEnv(DrawnEnv):
    """Draws stars at places that its generator draws."""

    def draw(self):
        return self.np_random.integers(256, size=(2, 2, 3), dtype=np.uint8)


class ClockInfoEnv(WalkEnv):
    """Has an info that does not repeat."""

    calls = 0

    def step(self, action):
        *returned, info = super().step(action)
        type(self).calls += 1
        return *returned, {**info, "action": {"clock": self.calls}}


class WrongStatistics(gymnasium.Wrapper):
    """Says of each episode that it is a step longer."""

    def step(self, action):
        *returned, info = self.env.step(action)
        if "episode" in info:
            info["episode"]["l"] += 1
        return *returned, info


# Vector environments.


def make_sync(num_envs=3, autoreset_mode=AutoresetMode.SAME_STEP, env=WalkEnv):
    """No fault."""
    return SyncVectorEnv([env] * num_envs, autoreset_mode=autoreset_mode)


def make_same(env=WalkEnv, wrapper=lambda envs: envs):
    """A vector environment whose constructor has no arguments to try; no fault."""
    return wrapper(SyncVectorEnv([env] * 3, autoreset_mode=AutoresetMode.SAME_STEP))


class LastAgain(VectorWrapper):
    """Returns the last observation of an episode where the first of the next should be."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        for i in np.flatnonzero(terminated | truncated):
            obs[i] = infos["final_obs"][i]
        return obs, rewards, terminated, truncated, infos


class LastAgainNextStep(VectorWrapper):
    """Returns the last observation of an episode where its reset is a step."""

    last, done = None, np.zeros(3, bool)

    def reset(self, **kwargs):
        self.done = np.zeros(self.num_envs, bool)
        return self.env.reset(**kwargs)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        obs[self.done] = self.last[self.done] if self.done.any() else obs[self.done]
        self.last, self.done = obs.copy(), terminated | truncated
        return obs, rewards, terminated, truncated, infos


class FinalOfNeighbour(VectorWrapper):
    """Has in ``final_obs`` what the next environment returns."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        for i in np.flatnonzero(terminated | truncated):
            infos["final_obs"][i] = obs[(i + 1) % self.num_envs].copy()
        return obs, rewards, terminated, truncated, infos


class SwappedFinals(VectorWrapper):
    """Turns the order of last observations round where several episodes end in one step."""

    def step(self, actions):
        *returned, terminated, truncated, infos = self.env.step(actions)
        done = np.flatnonzero(terminated | truncated)
        if done.any():
            infos["final_obs"][done] = infos["final_obs"][done[::-1]]
        return *returned, terminated, truncated, infos


class ChangedInfos(VectorWrapper):
    """Calls ``change(infos, done)`` on the infos of each step."""

    def __init__(self, env, change):
        super().__init__(env)
        self.change = change

    def step(self, actions):
        *returned, terminated, truncated, infos = self.env.step(actions)
        self.change(infos, terminated | truncated)
        return *returned, terminated, truncated, infos


def lose_final_info(infos, done):
    """``final_info`` is missing."""
    infos.pop("final_info", None)
    infos.pop("_final_info", None)


def next_final_info(infos, done):
    """``final_info`` has the infos of the next episode."""
    for key, value in infos.get("final_info", {}).items():
        if not key.startswith("_") and key in infos:
            value[done] = infos[key][done]


class NextFinalInfo(ChangedInfos):
    """``final_info`` has the infos of the next episode."""

    def __init__(self, env):
        super().__init__(env, next_final_info)


class NoFinalFlag(VectorWrapper):
    """Says in ``final_info`` the contrary of a flag."""

    def step(self, actions):
        *returned, infos = self.env.step(actions)
        if "final_info" in infos:
            infos["final_info"]["right"] = ~infos["final_info"]["right"]
        return *returned, infos


def empty_final_info(infos, done):
    """``final_info`` has the infos of the next episode's reset, of which there are none."""
    if done.any():
        infos["final_info"].clear()


def final_everywhere(infos, done):
    """The mask of ``final_obs`` has environments whose episode goes on."""
    if done.any():
        infos["_final_obs"] = np.ones_like(done)


def final_obs_everywhere(infos, done):
    """``final_obs`` has observations of environments whose episode goes on, and no mask."""
    if done.any():
        infos["final_obs"][:] = [np.zeros(2)] * len(done)


def lose_final_mask(infos, done):
    """An info in ``final_info`` has no mask."""
    infos.get("final_info", {}).pop("_goal", None)


def lose_mask(infos, done):
    """An info has no mask."""
    infos.pop("_goal", None)


class ElapsedEnv(WalkEnv):
    """Also says in its infos how many steps it has taken; no fault."""

    def reset(self, *, seed=None, options=None):
        self.elapsed = 0
        return super().reset(seed=seed)[0], {"elapsed": 0}

    def step(self, action):
        self.elapsed += 1
        *returned, _ = super().step(action)
        return *returned, {"elapsed": self.elapsed}


class GoalInfoEnv(WalkEnv):
    """Says in all infos where its goal is; no fault."""

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs, {"goal": self.goal}


class HoldingEnv(WalkEnv):
    """Says in its infos whether it goes right; an episode never ends with that. No fault."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"right": False}

    def step(self, action):
        *returned, terminated, truncated, _ = super().step(action)
        return *returned, terminated, truncated, {"right": bool(action) and not terminated}


class SwappedActions(VectorWrapper):
    """Gives the first two environments each other's actions."""

    def step(self, actions):
        return self.env.step(actions[[1, 0, *range(2, self.num_envs)]])


class OneAction(VectorWrapper):
    """Gives all environments the first one's action."""

    def step(self, actions):
        return self.env.step(np.repeat(actions[:1], self.num_envs, axis=0))


class ClippingVectorEnv(VectorWrapper):
    """Clips the caller's actions in place."""

    def step(self, actions):
        return self.env.step(np.clip(actions, -0.1, 0.1, out=actions))


class KeepingVectorEnv(VectorWrapper):
    """Takes all actions a step late, from the caller's array."""

    def reset(self, **kwargs):
        self.last = None
        return self.env.reset(**kwargs)

    def step(self, actions):
        last, self.last = self.last, actions
        return self.env.step(actions if last is None else last)


class MovingReset(VectorWrapper):
    """Draws from the generators of all environments where a reset has a mask."""

    def reset(self, *, seed=None, options=None):
        if options and "reset_mask" in options:
            for rng in self.env.np_random:
                rng.random()
        return self.env.reset(seed=seed, options=dict(options or {}))


class HiddenReset(VectorWrapper):
    """Resets all environments where a reset has a mask, and returns of the others what was."""

    def step(self, actions):
        returned = self.env.step(actions)
        self.last = returned[0].copy()
        return returned

    def reset(self, *, seed=None, options=None):
        obs, infos = self.env.reset(seed=seed)
        if options and "reset_mask" in options:
            obs[~options["reset_mask"]] = self.last[~options["reset_mask"]]
        return obs, infos


class NoSeed(VectorWrapper):
    """Takes the same seed whatever is given."""

    def reset(self, *, seed=None, options=None):
        return self.env.reset(seed=7, options=options)


class RepeatedSeed(VectorWrapper):
    """Takes the last seed again where none is given."""

    def reset(self, *, seed=None, options=None):
        self.seeded = seed if seed is not None else getattr(self, "seeded", 0)
        return self.env.reset(seed=self.seeded, options=options)


class LeftAtTheEnd(VectorWrapper):
    """Shifts all observations after a reset that follows an end."""

    shift, ended = 0.0, False

    def reset(self, **kwargs):
        self.shift, self.ended = 0.01 * self.ended, False
        obs, infos = self.env.reset(**kwargs)
        return obs + self.shift, infos

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.ended = bool(np.any(terminated | truncated))
        return obs + self.shift, rewards, terminated, truncated, infos


class RenderedVectorEnv(VectorWrapper):
    """Draws a random number where it is rendered."""

    def render(self):
        self.env.np_random[0].random()


class LostFinalVectorEnv(VectorWrapper):
    """Returns the next episode's first observation as the last one: Gymnasium #1132."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        for i in np.flatnonzero(terminated | truncated):
            infos["final_obs"][i] = obs[i].copy()
        return obs, rewards, terminated, truncated, infos


class SkippingStatistics(VectorWrapper):
    """Takes the step after an end for a reset, in every mode: Gymnasium #1624."""

    def reset(self, **kwargs):
        self.sums, self.lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        self.done = np.zeros(self.num_envs, bool)
        return self.env.reset(**kwargs)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.sums[self.done], self.lengths[self.done] = 0, 0
        self.sums[~self.done] += rewards[~self.done]
        self.lengths[~self.done] += 1
        self.done = terminated | truncated
        if self.done.any():
            infos["episode"] = {"r": self.sums.copy(), "l": self.lengths.copy()}
            infos["_episode"] = self.done.copy()
        return obs, rewards, terminated, truncated, infos


class SkippingNormalizeReward(VectorWrapper):
    """Leaves the step after an end out of its statistics, in every mode: Gymnasium #1668."""

    def __init__(self, env):
        super().__init__(env)
        self.return_rms = RunningMeanStd(shape=())
        self.sums, self.done = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.sums = self.sums * 0.99 * ~self.done + rewards
        self.return_rms.update(self.sums[~self.done])
        self.done = terminated | truncated
        scaled = rewards / np.sqrt(self.return_rms.var + 1e-8)
        return obs, scaled, terminated, truncated, infos


class TakenMask(VectorWrapper):
    """Takes the mask out of the caller's options, as in Gymnasium #1696."""

    def reset(self, *, seed=None, options=None):
        kept = dict(options or {})
        if options:
            options.pop("reset_mask", None)
        return self.env.reset(seed=seed, options=kept)


class WholeRewards(VectorWrapper):
    """Its rewards are integers, which is no fault."""

    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        return obs, np.floor(rewards).astype(np.int32), *rest


class WholeFlags(VectorWrapper):
    """Its flags are integers."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = super().step(actions)
        return obs, rewards, terminated, truncated.astype(np.int8), infos


class BatchVectorEnv(VectorEnv):
    """Draws all starts at once, so that they depend on how many there are.

    ``shared`` gives all of them one start; ``buffer`` returns the same array every time.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs=3, shared=False, buffer=False):
        self.num_envs, self.shared, self.buffer = num_envs, shared, buffer
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
        rewards = np.where(self.done, 0.0, -np.abs(self.place[:, 0]))
        self.done = ~self.done & (np.abs(self.place[:, 0]) > 2)
        return self.see(), rewards, self.done.copy(), np.zeros(n, bool), {}

    def see(self):
        return self.place if self.buffer else self.place.copy()
