"""skrl 2.1.1: by default, PPO's advantages go on from a truncated episode into the next one.

Two steps of an episode that is truncated, then two of another one. All values are 0.

Cause: ``compute_gae`` (skrl/agents/torch/ppo/ppo.py, line 49) counts a truncation as an end only
with ``time_limit_bootstrap``. The functions of a2c, amp, rpo, trpo and the _rnn variants are alike.

Suggested change: ``not_done = (terminated | truncated).logical_not()`` in both cases. The option
then decides only whether the value of the last observation is added to the reward (line 277).
"""

from importlib.metadata import version

import torch
from skrl.agents.torch.ppo import PPO_CFG
from skrl.agents.torch.ppo.ppo import compute_gae


def returns(reward_of_the_next_episode):
    """The returns of the first episode's steps."""
    rewards = torch.tensor([1.0, 1.0, reward_of_the_next_episode, 0.0])[:, None, None]
    truncated = torch.tensor([False, True, False, False])[:, None, None]
    returns, _ = compute_gae(
        rewards=rewards,
        terminated=torch.zeros_like(truncated),
        truncated=truncated,
        values=torch.zeros_like(rewards),
        last_values=torch.zeros(1, 1),
        discount_factor=1.0,
        lambda_coefficient=1.0,
        time_limit_bootstrap=PPO_CFG().time_limit_bootstrap,
    )
    return returns[:2].flatten().tolist()


low, high = returns(0.0), returns(100.0)
print("skrl", version("skrl"))
print("returns of an episode with rewards 1, 1; the next episode's first reward is   0:", low)
print("returns of an episode with rewards 1, 1; the next episode's first reward is 100:", high)
print("fault:", "yes" if low != high else "no")
