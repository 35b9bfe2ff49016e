"""Our vector environments as PufferLib's environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.adapters import check_vec_env, combine_classes
from mtwrappers.adapters.infos import split_infos
from mtwrappers.common.extras import import_extra


def as_pufferlib_env(vec_env: VectorEnv[Any, Any, Any]) -> Any:
    """Makes a PufferLib ``PufferEnv`` of one of our vector environments.

    The trainer ``PuffeRL`` takes it as its ``vecenv``; PufferLib's own vector environments are not
    needed. It knows no truncation: its rewards and values would go on from a truncated episode
    into the next one. So each end is reported as a termination. If the trainer is assigned to the
    environment, the discounted value of a truncated episode's true last observation is added to
    the reward of its last step::

        env = as_pufferlib_env(gymnasium.make_vec("mtwrappers/MT10-v0"))
        env.trainer = trainer = PuffeRL(config, env, policy)

    The trainer clips rewards to [-1, 1]: those of Meta-World, 0 to 10, need a smaller scale, such
    as that of `VectorNormalizeRewardPerTask`. It logs those infos of ended episodes that are
    numbers.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode="SameStep"`` and observations in one array.

    Raises:
        DependencyNotInstalled: If PufferLib is not installed.
        TypeError: If it is not such a vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another autoreset mode, or observations have a Text. When an episode
            is truncated, if the policy of ``env.trainer`` is recurrent: its state at the last
            observation is not known.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4)
    >>> env = mtwrappers.as_pufferlib_env(envs)
    >>> env.num_agents
    4
    """
    check_vec_env(vec_env, "PufferLib", AutoresetMode.SAME_STEP)
    base = import_extra("pufferlib", "pufferlib").PufferEnv
    return combine_classes(base, ExecutorPufferEnv)(vec_env)


class ExecutorPufferEnv:
    """The mixin that makes a PufferLib ``PufferEnv``; see `as_pufferlib_env`."""

    trainer: Any = None
    observations: Any
    rewards: Any
    terminals: Any
    truncations: Any

    def __init__(self, vec_env: Any) -> None:
        self.vec_env = vec_env
        self.num_agents = self.agents_per_batch = vec_env.num_envs
        self.single_observation_space = vec_env.single_observation_space
        self.single_action_space = vec_env.single_action_space
        super().__init__()

    def reset(self, seed: Any = None) -> Any:
        self._store(self.vec_env.reset(seed=seed)[0], 0, False, False)
        self._row, self._cut = 0, np.arange(0)
        return self.observations, []

    def step(self, actions: Any) -> Any:
        if len(self._cut) and self.trainer is not None:
            self._bootstrap()
        obs, rewards, terminated, truncated, infos = self.vec_env.step(actions)
        ends = terminated | truncated
        self._store(obs, rewards, ends, truncated)
        self._row += 1
        self._cut = np.flatnonzero(truncated & ~terminated)
        episode_infos: list[dict[str, Any]] = []
        if ends.any():
            self._last = [infos["final_obs"][i] for i in self._cut]
            finals = split_infos(infos["final_info"], self.num_agents)
            episode_infos = [info for info, end in zip(finals, ends, strict=True) if end]
        return self.observations, self.rewards, self.terminals, self.truncations, episode_infos

    def close(self) -> None:
        self.vec_env.close()

    def _store(self, obs: Any, rewards: Any, terminals: Any, truncations: Any) -> None:
        self.observations[:], self.rewards[:] = obs, rewards
        self.terminals[:], self.truncations[:] = terminals, truncations

    def _bootstrap(self) -> None:
        """Adds values to the rewards of the row that the trainer stored last."""
        torch, trainer = import_extra("torch", "pufferlib"), self.trainer
        if trainer.config["use_rnn"]:
            raise ValueError("expected a trainer with use_rnn=False, got one with use_rnn=True")
        with torch.no_grad():
            last = torch.as_tensor(np.stack(self._last)).to(trainer.config["device"])
            values = trainer.policy.forward_eval(last, {})[1].flatten()
        # An evaluation fills rows of `horizon` steps, those of all environments in turns.
        turn, step = divmod(self._row, trainer.config["bptt_horizon"])
        rows = self._cut + turn % (trainer.segments // self.num_agents) * self.num_agents
        trainer.rewards[rows, step] += trainer.config["gamma"] * values
