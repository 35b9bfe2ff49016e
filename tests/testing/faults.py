"""Environments and vector environments with one fault each, and some without."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
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
        over = abs(self.place) > 2
        return self.see(), -abs(self.place - self.goal), over, False, {"goal": self.goal}

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
    """Shows numbers that are not in its space."""

    def __init__(self):
        super().__init__()
        self.observation_space = Box(-2, 2, (2,), np.float64)


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
    """Shows the same array every time: Gymnasium #1132."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(2)

    def see(self):
        self.buffer[:] = self.place, self.goal
        return self.buffer


class BlindingEnv(WalkEnv):
    """Starts where no seed says, and shows it in the same arrays every time: Gymnasium #1681.

    A checker that keeps the first observation and not a copy compares these arrays with themselves.
    """

    rng = np.random.default_rng(0)

    def __init__(self):
        super().__init__()
        self.observation_space = Dict({"near": self.observation_space, "far": Discrete(3)})
        self.shown = {"near": np.zeros(2), "far": 0}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.rng.uniform(-1, 1))
        return self.see(), {}

    def see(self):
        self.shown["near"][:] = self.place, self.goal
        return self.shown


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


class WrongStatistics(gymnasium.Wrapper):
    """Says of each episode that it is a step longer."""

    def step(self, action):
        *returned, info = self.env.step(action)
        if "episode" in info:
            info["episode"]["l"] += 1
        return *returned, info


# Vector environments.


def make_sync(num_envs=3, autoreset_mode=AutoresetMode.SAME_STEP):
    """No fault."""
    return SyncVectorEnv([WalkEnv] * num_envs, autoreset_mode=autoreset_mode)


class LostFinalVectorEnv(VectorWrapper):
    """Shows the next episode's first observation as the last one: Gymnasium #1132."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        for i in np.flatnonzero(terminated | truncated):
            infos["final_obs"][i] = obs[i].copy()
        return obs, rewards, terminated, truncated, infos


class SkippingStatistics(VectorWrapper):
    """Takes the step after an end for a reset, in every mode: Gymnasium #1624."""

    def reset(self, **kwargs):
        self.sums, self.lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        self.over = np.zeros(self.num_envs, bool)
        return self.env.reset(**kwargs)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.sums[self.over], self.lengths[self.over] = 0, 0
        self.sums[~self.over] += rewards[~self.over]
        self.lengths[~self.over] += 1
        self.over = terminated | truncated
        if self.over.any():
            infos["episode"] = {"r": self.sums.copy(), "l": self.lengths.copy()}
            infos["_episode"] = self.over.copy()
        return obs, rewards, terminated, truncated, infos


class SkippingNormalizeReward(VectorWrapper):
    """Leaves the step after an end out of its statistics, in every mode: Gymnasium #1668."""

    def __init__(self, env):
        super().__init__(env)
        self.return_rms = RunningMeanStd(shape=())
        self.sums, self.over = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.sums = self.sums * 0.99 * ~self.over + rewards
        self.return_rms.update(self.sums[~self.over])
        self.over = terminated | truncated
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
        self.over = np.zeros(self.num_envs, bool)
        return self.see(), {}

    def step(self, actions):
        n = self.num_envs
        self.place[:, 0] += np.where(self.over, 0.0, np.where(actions, 0.5, -0.5))
        if self.over.any():
            self.place[self.over] = self.np_random.uniform(-1, 1, (int(self.over.sum()), 2))
        rewards = np.where(self.over, 0.0, -np.abs(self.place[:, 0]))
        self.over = ~self.over & (np.abs(self.place[:, 0]) > 2)
        return self.see(), rewards, self.over.copy(), np.zeros(n, bool), {}

    def see(self):
        return self.place if self.buffer else self.place.copy()
