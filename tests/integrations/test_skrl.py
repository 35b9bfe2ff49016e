"""skrl over our vector environments."""

from __future__ import annotations

import gymnasium
import pytest

from mtwrappers import as_skrl_env
from tests.integrations import ledgers
from tests.integrations.examples import check_learnt, load_example
from tests.integrations.ledgers import ENVS, STEPS

pytest.importorskip("skrl")

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer, StepTrainer


class Policy(GaussianMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space)
        GaussianMixin.__init__(self)
        self.layer = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs, role):
        mean = self.layer(inputs["observations"].float() / 256)
        return mean, {"log_std": torch.zeros(self.num_actions)}


class KnownValue(DeterministicMixin, Model):
    """The value that a test knows."""

    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space)
        DeterministicMixin.__init__(self)
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def compute(self, inputs, role):
        return ledgers.known_value(inputs["observations"])[:, None], {}


def train(env, make_agent, trainer=SequentialTrainer):
    """Trains an agent that learns nothing, and returns its memory."""
    memory = RandomMemory(memory_size=STEPS, num_envs=env.num_envs, device="cpu")
    agent = make_agent(env, memory)
    agent.update = lambda **_: None
    settings = {"timesteps": STEPS, "headless": True, "disable_progressbar": True}
    trainer_env = getattr(env, "for_trainer", lambda: env)()  # skrl's own wrapper has none
    settings["close_environment_at_exit"] = False
    loop = trainer(env=trainer_env, agents=agent, cfg=settings)
    if trainer is StepTrainer:
        loop.scopes = [(0, env.num_envs)]
        for timestep in range(STEPS):
            loop.train(timestep=timestep, timesteps=STEPS)
    else:
        loop.train()
    env.close()
    return {name: tensor.numpy() for name, tensor in memory.tensors.items()}


def make_ppo(env, memory):
    cfg = PPO_CFG(rollouts=STEPS, discount_factor=1.0, time_limit_bootstrap=True)
    return build_agent(PPO, cfg, env, memory, {"policy": Policy(env), "value": KnownValue(env)})


def make_sac(env, memory):
    roles = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models = {"policy": Policy(env), **{role: KnownValue(env) for role in roles}}
    return build_agent(SAC, SAC_CFG(learning_starts=STEPS), env, memory, models)


def build_agent(agent_class, cfg, env, memory, models):
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    return agent_class(models=models, memory=memory, cfg=cfg, device="cpu", **spaces)


def check_ppo(stored):
    """Checks all rows but the last, whose next observation is not stored."""
    names = ("observations", "actions", "rewards")
    columns = [stored[name][:-1] for name in names]
    columns[2] = columns[2][..., 0]
    dones = (stored["terminated"] | stored["truncated"])[:-1, :, 0]
    return ledgers.check_on_policy(*columns, stored["observations"][1:], dones)


def check_sac(stored):
    names = ("observations", "actions", "rewards", "next_observations", "terminated")
    return ledgers.check_transitions(*(stored[name] for name in names), stored.get("truncated"))


def test_ppo_bootstraps_from_the_true_last_observation():
    env = as_skrl_env(ledgers.make(autoreset_mode="Disabled", workers=2, context="forkserver"))
    ledgers.assert_complete(check_ppo(train(env, make_ppo)), least=9)


@pytest.mark.parametrize(
    ("observation", "trainer"),
    [("vector", StepTrainer), ("image", SequentialTrainer), ("dict", SequentialTrainer)],
)
def test_sac_stores_what_was_made(observation, trainer):
    env = as_skrl_env(ledgers.make(autoreset_mode="Disabled", observation=observation))
    assert (env.num_envs, env.for_trainer().num_envs) == (ENVS, 1)
    ledgers.assert_complete(check_sac(train(env, make_sac, trainer)), least=9)


def test_a_trainer_that_does_not_reset_is_told_what_it_needs():
    env = as_skrl_env(ledgers.make(autoreset_mode="Disabled"))
    env.for_trainer = lambda: env
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"not reset them: give it env=env.for_"):
        train(env, make_sac)


def test_a_single_environment_needs_no_adapter():
    env = wrap_env(gymnasium.make(ledgers.ID), verbose=False)
    ledgers.assert_complete(check_sac(train(env, make_sac)), least=3)


def test_the_example_prints_what_it_learnt(capsys):
    check_learnt(load_example("skrl_ppo.py"), capsys)
