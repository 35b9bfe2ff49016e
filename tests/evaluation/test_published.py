"""Each protocol against its source's loop, on Meta-World's own classes, episode by episode.

The loops of LeRobot, RLinf and TD-MPC2 are written here after their files, see
`mtwrappers.evaluation.published`; that of Meta-World is called.
"""

import functools
import operator
import pickle
from contextlib import closing

import metaworld
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from metaworld.evaluation import evaluation

from mtwrappers import protocols
from mtwrappers.evaluation import Observer
from mtwrappers.evaluation.protocol import succeeded
from mtwrappers.metaworld import make_benchmark
from mtwrappers.metaworld.experts import expert

ZEROS = np.zeros(4, np.float32)


class Goals(Observer):
    """The goal of each episode; lets the policy begin anew."""

    def __init__(self, envs, act):
        self.envs, self.act, self.found = envs, act, []

    def begin(self, i, episode):
        self.act.steps = 0
        self.found.append(self.envs.call_some([i], "rand_vec")[0])


class Leaving:
    """An expert that moves the hand away after a number of actions."""

    def __init__(self, env_name, leaves):
        self.act, self.after, self.steps = expert(env_name), leaves, 0

    def __call__(self, obs):
        self.steps += 1
        away = np.array([-1, -1, 1, 0], np.float32)
        return self.act(obs, obs[36:39]) if self.steps <= self.after else away


def narrow_protocol(name, env_name, episodes):
    """The protocol on one class, with few episodes and, if they are listed, as many goals."""
    protocol = protocols[name].with_states().on("MT1", env_name)  # for experts
    kwargs = {"num_goals": episodes} if protocol.settings.goals == "list" else {}
    return protocol.variant("one class", episodes_per_task=episodes, **kwargs)


def measured(name, env_name, episodes, leaves=500):
    """Our episodes of an expert, whether each is a success, and their goals."""
    protocol, act = narrow_protocol(name, env_name, episodes), Leaving(env_name, leaves)
    with closing(protocol.make_vec()) as envs:
        goals = Goals(envs, act)
        result = protocol.evaluate(lambda obs: act(obs[0])[None], envs, observers=[goals])
    successes = [succeeded(episode, protocol) for episode in result.episodes]
    return result.episodes, successes, goals.found


def stock_class(env_name):
    """Meta-World's own class, with rewards as floats.

    Some are float32, and then Meta-World's records add up float32. Ours are always floats.
    """
    cls = metaworld.ALL_V3_ENVIRONMENTS[env_name]

    def step(env, action):
        obs, reward, *rest = cls.step(env, action)
        return obs, float(reward), *rest

    return type(cls.__name__, (cls,), {"step": step})


def stock(env_name, vector):
    """Meta-World's own class on a goal."""
    env = stock_class(env_name)()
    data = {"env_cls": type(env).__mro__[1], "rand_vec": vector, "partially_observable": False}
    env.set_task(metaworld.Task(env_name, pickle.dumps(data)))
    return env


def in_order(rewards):
    """Their sum; since Python 3.12, `sum` of floats ends in other last bits than before."""
    return functools.reduce(operator.add, rewards, 0)


def lerobot(env, act):
    """Until a success, or 500 steps: return, length, success."""
    obs, _ = env.reset()
    rewards, done = [], False
    while not done and len(rewards) < 500:
        obs, reward, _, _, info = env.step(act(obs))
        rewards.append(reward)
        done = bool(info["success"])
    return in_order(rewards), len(rewards), done


def rlinf(env, act):
    """15 steps of zeros; then 160 steps, of which one must be a success."""
    obs, _ = env.reset()
    for _ in range(15):
        obs, *_ = env.step(ZEROS)
    rewards, once = [], False
    for _ in range(160):
        obs, reward, _, _, info = env.step(act(obs))
        rewards.append(reward)
        once |= bool(info["success"])
    return in_order(rewards), 160, once


def tdmpc2(env, act):
    """One step of zeros; then 100 actions, each taken twice. Success is that of the last step."""
    env.reset()
    obs, *_ = env.step(ZEROS)
    rewards = []
    for _ in range(100):
        action, both = act(obs), 0.0
        for _ in range(2):
            obs, reward, _, _, info = env.step(action)
            both += reward
        rewards.append(both)
    return in_order(rewards), 100, bool(info["success"])


@pytest.mark.parametrize(
    ("name", "loop", "env_name", "leaves"),
    [
        ("lerobot-0.6", lerobot, "push-v3", 500),
        ("rlinf", rlinf, "reach-v3", 100),
        ("tdmpc2", tdmpc2, "reach-v3", 80),
    ],
)
def test_continuous_protocols_equal_their_sources_loops(name, loop, env_name, leaves):
    episodes, successes, goals = measured(name, env_name, 2, leaves)
    assert not np.array_equal(*goals)
    for episode, success, goal in zip(episodes, successes, goals, strict=True):
        expected = loop(stock(env_name, goal), Leaving(env_name, leaves))
        assert (episode.episode_return, episode.length, success) == expected
        assert episode.success_once
        assert episode.success_final == (leaves == 500)


class Agent:
    """An expert under Meta-World's names; notes the goals."""

    def __init__(self, envs, names):
        self.envs, self.acts = envs, [expert(name) for name in names]
        self.goals = [[] for _ in names]

    def reset(self, mask):
        for i in np.flatnonzero(mask):
            self.goals[i].append(self.envs.envs[i].unwrapped._last_rand_vec.tobytes())

    def eval_action(self, obs):
        return np.stack([act(row, row[36:39]) for act, row in zip(self.acts, obs, strict=True)])


def test_meta_worlds_protocol_equals_meta_worlds_evaluation():
    names, n = ("reach-v3", "drawer-close-v3"), 4
    makers = []
    for name in names:
        tasks = make_benchmark("MT1", env_name=name, seed=0).train_tasks[:n]
        kwargs = {"env_cls": stock_class(name), "tasks": tasks}
        makers.append(
            functools.partial(metaworld._init_each_env, task_select="pseudorandom", **kwargs)
        )
    with closing(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)) as envs:
        envs.call("toggle_sample_tasks_on_reset", True)
        agent = Agent(envs, names)
        _, _, rates, returns = evaluation(agent, envs, num_episodes=n)
    for name, goals in zip(names, agent.goals, strict=True):
        episodes, successes, ours = measured("metaworld-3.1", name, n)
        our_returns = {
            goal.tobytes(): e.episode_return for goal, e in zip(ours, episodes, strict=True)
        }
        assert our_returns == dict(zip(goals[:n], returns[name], strict=True))
        assert np.mean(successes) == rates[name]
        assert [e.success_once for e in episodes] == [e.success_final for e in episodes]
