"""Trains skrl's PPO on two classes of Meta-World, and evaluates it before and after. A minute.

    pip install '.[metaworld,skrl]'
    python examples/skrl_ppo.py

What to expect of 40,000 steps: drawer-close-v3 is solved, and the hand moves towards the goals of
reach-v3.
"""

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer
from torch import nn

import mtwrappers

CLASSES = ["drawer-close-v3", "reach-v3"]
ENVS_PER_TASK, EPISODE_STEPS, ROLLOUT_STEPS = 4, 150, 300


def network(size_in: int, size_out: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        *(nn.Linear(size_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, size_out)
    )


class Policy(GaussianMixin, Model):
    """A Gaussian of the actions."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.mean = network(self.num_observations, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        """The mean and the logarithm of the standard deviation, ``(B, A)`` and ``(A,)``."""
        return self.mean(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    """The value of observations."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.value = network(self.num_observations, 1)

    def compute(self, inputs, role):
        """Values, ``(B, 1)``."""
        return self.value(inputs["observations"]), {}


def main(steps: int = 40_000, episodes_per_task: int = 5) -> None:
    """Trains on two workers; evaluates on some goals of each task."""
    torch.set_num_threads(1)  # more gain nothing on small networks
    torch.manual_seed(0)
    envs = gymnasium.make_vec(
        "mtwrappers/CustomMT-v0",
        train_classes=CLASSES,
        envs_per_task=ENVS_PER_TASK,
        max_episode_steps=EPISODE_STEPS,
        workers=2,
        autoreset_mode="Disabled",
    )
    # Rewards of the same scale in every task: otherwise only large ones are learnt.
    env = mtwrappers.as_skrl_env(mtwrappers.VectorNormalizeRewardPerTask(envs))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    cfg = PPO_CFG(
        rollouts=ROLLOUT_STEPS,
        mini_batches=8,
        time_limit_bootstrap=True,  # as these episodes are cut, not over
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = PPO(
        models={"policy": Policy(**spaces), "value": Value(**spaces)},
        memory=RandomMemory(memory_size=ROLLOUT_STEPS, num_envs=env.num_envs),
        cfg=cfg,
        **spaces,
    )

    def policy(observations):
        with torch.no_grad():
            inputs = {"observations": torch.as_tensor(observations, dtype=torch.float32)}
            return agent.policy.compute(inputs, "policy")[0].clamp(-1, 1).numpy()

    # The evaluation uses the environments' own rewards.
    untrained = mtwrappers.evaluate(policy, envs, episodes_per_task)
    settings = {
        "timesteps": steps // envs.num_envs,
        "headless": True,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }
    SequentialTrainer(env=env.for_trainer(), agents=agent, cfg=settings).train()
    trained = mtwrappers.evaluate(policy, envs, episodes_per_task)
    env.close()

    for name in CLASSES:
        old, new = untrained.per_task[name], trained.per_task[name]
        print(
            f"{name}: return {old['return'].value:.0f} before, {new['return'].value:.0f} after, "
            f"success {new['success_once'].value:.0%}"
        )


if __name__ == "__main__":
    main()
