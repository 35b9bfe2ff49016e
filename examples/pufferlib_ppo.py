"""Trains PufferLib's PPO on two classes of Meta-World, and evaluates it before and after. A minute.

    pip install '.[metaworld,pufferlib]'
    python examples/pufferlib_ppo.py

What to expect of 40,000 steps: drawer-close-v3 is solved, and the hand moves towards the goals of
reach-v3.

The wheel of pufferlib-core trains only where it finds CUDA; PufferLib 3.0.0, built from its source,
trains on any machine. The extra replaces torch by 2.9.0 with CUDA: the guide to other libraries has
a way to keep yours. Importing its trainer makes Ctrl-C end the process at once.
"""

import tempfile

import gymnasium
import torch
from pufferlib.pufferl import PuffeRL
from torch import nn

import mtwrappers

CLASSES = ["drawer-close-v3", "reach-v3"]
ENVS_PER_TASK, EPISODE_STEPS, ROLLOUT_STEPS = 4, 150, 300
# PufferLib's defaults but for the optimizer, the learning rate, the passes over a batch and the
# sizes. The trainer asks for all of these.
CONFIG = {
    **{"env": "meta-world", "seed": 0, "device": "cpu", "precision": "float32"},
    **{"use_rnn": False, "cpu_offload": False, "torch_deterministic": True},
    **{"compile": False, "compile_mode": "default", "compile_fullgraph": False},
    **{"optimizer": "adam", "learning_rate": 1e-3, "anneal_lr": False},
    **{"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-8, "max_grad_norm": 1.5},
    **{"gamma": 0.99, "gae_lambda": 0.95, "update_epochs": 8},
    **{"clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 10.0, "ent_coef": 0.0},
    **{"vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0},
    **{"max_minibatch_size": 1_000_000, "total_timesteps": 40_000, "checkpoint_interval": 1_000},
}


class Policy(nn.Module):
    """A Gaussian of the actions, and a value, each a network of two hidden layers."""

    def __init__(self, obs_size: int, action_size: int) -> None:
        super().__init__()
        self.mean, self.value = (
            nn.Sequential(
                *(nn.Linear(obs_size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()),
                nn.Linear(64, size),
            )
            for size in (action_size, 1)
        )
        self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward_eval(self, obs: torch.Tensor, state: dict) -> tuple:
        """The distribution of actions, ``(B, A)``, and values, ``(B, 1)``."""
        obs = obs.float()
        return torch.distributions.Normal(self.mean(obs), self.log_std.exp()), self.value(obs)

    forward = forward_eval


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
    )
    # Rewards of the same scale in every task; the trainer clips them to -1 to 1.
    env = mtwrappers.as_pufferlib_env(mtwrappers.VectorNormalizeRewardPerTask(envs))
    policy = Policy(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    batch_size = ROLLOUT_STEPS * envs.num_envs

    def act(observations):
        with torch.no_grad():
            return policy.mean(torch.as_tensor(observations).float()).clamp(-1, 1).numpy()

    # The evaluation uses the environments' own rewards.
    untrained = mtwrappers.evaluate(act, envs, episodes_per_task)
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"batch_size": batch_size, "bptt_horizon": ROLLOUT_STEPS}
        sizes |= {"minibatch_size": ROLLOUT_STEPS, "total_timesteps": steps}
        trainer = PuffeRL(CONFIG | sizes | {"data_dir": folder}, env, policy)
        env.trainer = trainer  # to tell truncation from termination
        while trainer.global_step < steps:
            trainer.evaluate()
            trainer.train()
        trained = mtwrappers.evaluate(act, envs, episodes_per_task)
        trainer.close()

    for name in CLASSES:
        old, new = untrained.per_task[name], trained.per_task[name]
        print(
            f"{name}: return {old['return'].value:.0f} before, {new['return'].value:.0f} after, "
            f"success {new['success_once'].value:.0%}"
        )


if __name__ == "__main__":
    main()
