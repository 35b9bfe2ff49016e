"""Trains Tianshou's PPO on two classes of Meta-World, and evaluates it before and after. A minute.

    pip install '.[metaworld,tianshou]'
    python examples/tianshou_ppo.py

What to expect of 40,000 steps: drawer-close-v3 is solved, and the hand moves towards the goals of
reach-v3.
"""

import gymnasium
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal

import mtwrappers

CLASSES = ["drawer-close-v3", "reach-v3"]
ENVS_PER_TASK, EPISODE_STEPS, ROLLOUT_STEPS = 4, 150, 300


def distribution(mean_and_std: tuple[torch.Tensor, torch.Tensor]) -> Independent:
    """A Gaussian of independent actions."""
    return Independent(Normal(*mean_and_std), 1)


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
    env = mtwrappers.as_tianshou_env(mtwrappers.VectorNormalizeRewardPerTask(envs))
    env.seed(0)
    obs_shape, action_space = envs.single_observation_space.shape, envs.single_action_space
    networks = [
        Net(state_shape=obs_shape, hidden_sizes=[64, 64], activation=torch.nn.Tanh)
        for _ in range(2)
    ]
    actor = ContinuousActorProbabilistic(
        preprocess_net=networks[0], action_shape=action_space.shape, unbounded=True
    )
    algorithm = PPO(
        policy=ProbabilisticActorPolicy(
            actor=actor, dist_fn=distribution, action_space=action_space, deterministic_eval=True
        ),
        critic=ContinuousCritic(preprocess_net=networks[1]),
        optim=AdamOptimizerFactory(lr=1e-3),
        advantage_normalization=True,
    )

    def policy(observations):
        with torch.no_grad():
            return actor(observations)[0][0].clamp(-1, 1).numpy()

    # The evaluation uses the environments' own rewards.
    untrained = mtwrappers.evaluate(policy, envs, episodes_per_task)
    per_update = ROLLOUT_STEPS * envs.num_envs
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=Collector(
                algorithm, env, VectorReplayBuffer(per_update, envs.num_envs)
            ),
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=per_update,
            update_step_num_repetitions=8,
            batch_size=per_update // 8,
            test_step_num_episodes=0,
            show_progress=False,
            verbose=False,
        )
    )
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
