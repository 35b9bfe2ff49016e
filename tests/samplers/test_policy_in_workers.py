"""A policy that is asked where the environments are gives the same paths."""

import random
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest

from mtwrappers import ActionChunks, MetaSampler
from mtwrappers.samplers.policies import pickle_policy
from tests.fakes import CountingSetTaskEnv, equal
from tests.vector.processes import nothing_left_behind

POINT = partial(gymnasium.make, "mtwrappers/PointGoal-v0")
CART = partial(gymnasium.make, "CartPole-v1")
RECOVER = {"on_worker_failure": "recover"}
APART = {"execution": "parallel", "workers": 2, "policy_in": "workers"}
WAYS = [
    {"policy_in": "workers"},
    {"workers": 2},
    {**APART, "workers": 4},
    {**APART, **RECOVER},
]


def waves(observations):
    """Each row from its own numbers alone; a matrix product may depend on who shares the batch."""
    return np.sqrt(np.abs(observations + 0.3)) - observations**2


class MetaWaves:
    def get_actions(self, observations):
        actions = waves(observations)
        return actions, {"mean": actions / 2, "nested": {"seen": observations}}

    def for_tasks(self, indices):
        return self


class PerTask:
    """Goes another way in each task."""

    def __init__(self, ways):
        self.ways = ways

    def get_actions(self, observations):
        assert len(observations) == len(self.ways)
        return np.broadcast_to(self.ways[:, None], observations.shape), {}

    def for_tasks(self, indices):
        return PerTask(self.ways[indices])


class Notes:
    """Acts by how often each environment began an episode."""

    begun = 0

    def reset(self, mask):
        self.begun = self.begun + mask

    def __call__(self, observations):
        return np.stack([self.begun, -self.begun], axis=1) / 10


def noise(observations, rng):
    return np.stack([generator.uniform(-1, 1, 2) for generator in rng])


class Coins:
    def get_actions(self, observations, rng):
        return np.array(
            [[generator.random() < 0.5 for generator in task] for task in rng], np.int64
        ), {}

    def for_tasks(self, indices):
        return self


class Chunks:
    """Plans three random actions for each environment, and says from where."""

    def get_actions(self, observations, rng):
        chunks = np.array(
            [[generator.uniform(-1, 1, (3, 2)) for generator in task] for task in rng]
        )
        return chunks, {"planned_at": observations}

    def for_tasks(self, indices):
        return self


POLICIES = {
    "a callable": (POINT, lambda: waves),
    "get_actions": (POINT, MetaWaves),
    "one part per task": (POINT, lambda: PerTask(np.linspace(-1, 1, 6).reshape(3, 2))),
    "one that notes resets": (POINT, Notes),
    "a random callable": (POINT, lambda: noise),
    "random get_actions, and episodes of all lengths": (CART, Coins),
    "chunks of actions": (POINT, lambda: ActionChunks(Chunks(), 2)),
}


def sampled(env, policy, rounds=3, longest=25, **kwargs):
    """The paths of some rounds of 3 tasks times 2 environments."""
    with closing(MetaSampler(env, policy, 5, 3, longest, 2, seed=3, **kwargs)) as sampler:
        batches = []
        for _ in range(rounds):
            if env is POINT:
                sampler.update_tasks()
            batches.append(sampler.obtain_samples())
        return batches


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.slow_but("random get_actions, and episodes of all lengths")
def test_paths_are_the_same_wherever_the_policy_is_asked(name):
    env, policy = POLICIES[name]
    rounds = 1 if policy is Notes else 3  # what it remembers stays in the workers
    expected = sampled(env, policy(), rounds)
    assert [len(task_paths) for task_paths in expected[0].values()] == [5, 5, 5]
    with nothing_left_behind():
        for way in WAYS:
            assert equal(sampled(env, policy(), rounds, **way), expected), way


@pytest.mark.parametrize("way", [{}, {"workers": 2, "policy_in": "workers"}])
def test_noise_is_drawn_anew_in_each_round(way):
    first, second = sampled(POINT, noise, 2, **way)
    for task in first:
        for first_path, second_path in zip(first[task], second[task], strict=True):
            assert (first_path["actions"] != second_path["actions"]).any(axis=1).all()


# Random generators that a policy holds.


class Holder:
    """Draws from a generator of its own."""

    def __init__(self, generator, draw):
        self.parts = {"noise": [generator]}
        self.draw = draw

    def __call__(self, observations):
        [generator] = self.parts["noise"]
        return np.array([[self.draw(generator)] * 2 for _ in observations])


class Trained(Holder):
    """Draws its noise from ``rng``, and holds another generator for its training."""

    def __call__(self, observations, rng):
        return noise(observations, rng)


GENERATORS = {
    "numpy.random.Generator": lambda: Holder(
        np.random.default_rng(0), lambda generator: generator.uniform(-1, 1)
    ),
    "numpy.random.RandomState": lambda: Holder(
        np.random.RandomState(0), lambda generator: generator.uniform(-1, 1)
    ),
    "random.Random": lambda: Holder(random.Random(0), lambda generator: generator.uniform(-1, 1)),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_that_the_policy_holds_repeats_its_noise_and_there_is_one_warning(name):
    with closing(MetaSampler(POINT, GENERATORS[name](), 1, 2, 5, seed=3, **APART)) as sampler:
        sampler.update_tasks()
        message = rf"\({name}\), of which .* take the argument rng"
        with pytest.warns(UserWarning, match=message) as caught:
            rounds = [sampler.obtain_samples() for _ in range(2)]
    actions = [paths[task][0]["actions"].tolist() for paths in rounds for task in paths]
    assert actions == [actions[0]] * 4
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_generator_of_torch_is_seen_too_and_one_in_a_closure():
    torch = pytest.importorskip("torch")
    generator = torch.Generator()

    def policy(observations):
        return torch.rand(len(observations), 2, generator=generator).numpy()

    assert pickle_policy(policy)[1] == ["torch.Generator"]


def test_generators_of_spaces_and_environments_that_the_policy_holds_do_not_count():
    space = gymnasium.spaces.Box(-1, 1, (2,))
    space.seed(0)
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    assert pickle_policy(lambda observations: (space.low, env))[1] == []
    generator = np.random.default_rng(0)
    policy = lambda observations: (space.low, env, generator)  # noqa: E731
    assert pickle_policy(policy)[1] == ["numpy.random.Generator"]
    # A policy that is itself an environment may draw from its generator.
    assert pickle_policy(env.unwrapped)[1] == ["numpy.random.Generator"]


def test_the_generators_of_a_trained_model_of_stable_baselines3_do_not_count():
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", "Pendulum-v1", n_steps=8, batch_size=8, device="cpu", seed=0)
    model.learn(16)
    assert pickle_policy(lambda observations: model.predict(observations)[0])[1] == []


def test_no_warning_for_a_generator_if_the_policy_takes_rng_or_is_not_sent():
    policy = Trained(np.random.default_rng(0), None)
    assert len(sampled(POINT, policy, 1, **APART)) == 1
    holder = GENERATORS["random.Random"]()
    first, second = sampled(POINT, holder, 2)
    assert not equal(first[0][0]["actions"], second[0][0]["actions"])


def test_the_search_for_generators_leaves_the_pickle_as_it_is():
    for policy in (*(make() for make in GENERATORS.values()), waves, Chunks(), lambda obs: noise):
        assert pickle_policy(policy)[0] == cloudpickle.dumps(policy)


# Faults.


class SlowEnv(CountingSetTaskEnv):
    """Takes its time, and forever at the step ``stuck``."""

    pause, stuck = 0.006, None

    def step(self, action):
        time.sleep(self.pause if self.steps != self.stuck else 60)
        return super().step(action)


def zeros(observations):
    return np.zeros(len(observations), np.int64)


def slow(policy=zeros, **kwargs):
    return MetaSampler(
        [partial(SlowEnv, 100)] * 2, policy, 2, 2, 100, seed=0, **{**APART, **kwargs}
    )


def fails(observations):
    raise ZeroDivisionError("of the policy")


def test_parameters_per_task_are_not_those_of_the_tasks_of_another_worker():
    class Ways:
        ways = (-0.1, 0.0, 0.1)

        def get_actions(self, observations):
            return [np.full(task.shape, self.ways[i]) for i, task in enumerate(observations)], {}

    with pytest.raises(TypeError, match=r"tasks, here \[0, 0.*for_tasks.* policy_in='parent'"):
        sampled(POINT, Ways(), 1, **APART)


def test_what_a_policy_raises_in_a_worker_is_raised_here():
    with closing(slow(fails)) as sampler:
        with pytest.raises(ZeroDivisionError, match="of the policy"):
            sampler.obtain_samples()
        with pytest.raises(gymnasium.error.ResetNeeded):
            sampler.envs.step(np.zeros(4, np.int64))


def test_a_policy_that_does_not_pickle_is_named():
    message = r"a policy must be picklable to run in workers, function <"
    lock = threading.Lock()
    with (
        closing(slow(lambda observations: lock)) as sampler,
        pytest.raises(TypeError, match=message),
    ):
        sampler.obtain_samples()


@pytest.mark.slow
def test_torch_has_one_thread_in_a_worker():
    torch = pytest.importorskip("torch")

    class Threads:
        def get_actions(self, observations):
            linear = torch.nn.functional.linear
            seen = torch.as_tensor(observations, dtype=torch.float32)
            actions = linear(seen, torch.ones(2, seen.shape[-1])).detach().numpy()
            count = np.full(observations.shape[:2], torch.get_num_threads())
            return actions, {"threads": count}

        def for_tasks(self, indices):
            return self

    [paths] = sampled(POINT, Threads(), 1, workers=2, policy_in="workers")
    threads = [
        path["agent_infos"]["threads"].max() for task_paths in paths.values() for path in task_paths
    ]
    assert {*threads} == {1}
