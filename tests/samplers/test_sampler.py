"""What `Sampler` and `MetaSampler` share: what a path holds, seeds, figures, refusals."""

import gc
import logging
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorWrapper

import mtwrappers as mt
from mtwrappers import MetaSampler, PointGoalEnv, Sampler
from mtwrappers.samplers import rollout
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.samplers.recorder import Recorder
from tests.fakes import CountingEnv, equal
from tests.samplers.fakes import lazy


class OfOneTask(MetaSampler):
    """A `MetaSampler` of one task and environment, with the arguments of `Sampler`."""

    def __init__(self, env, policy, batch_size, max_path_length, **kwargs):
        super().__init__(env, policy, batch_size, 1, max_path_length, 1, **kwargs)

    def obtain_samples(self, log=False, log_prefix=""):
        return super().obtain_samples(log, log_prefix)[0]


both = pytest.mark.parametrize("sampler_type", [Sampler, OfOneTask])


class Alternating:
    """Answers 0, 1, 0, 1, ... from each episode's start."""

    def __init__(self):
        self.masks = []

    def reset(self, mask):
        self.masks.append(mask.tolist())
        self.next = 0

    def get_actions(self, observations):
        assert observations.shape == (1, 1, 2)
        action, self.next = self.next, 1 - self.next
        return [[action]], [[{"odd": action == 1}]]


class HalfEnv(CountingEnv):
    """Reports a plain 0 at the first step and halves after it, another number but at the last."""

    def _info(self):
        early = {"early": 1} if self.steps < self.length else {}
        return early | ({"part": 0 if self.steps == 1 else self.steps / 2} if self.steps else {})


@both
def test_a_path_holds_what_happened_step_by_step(sampler_type):
    policy = Alternating()
    first, second = sampler_type(CountingEnv(3, first=10), policy, 2, 5, seed=0).obtain_samples()
    for path in (first, second):
        draw = path["env_infos"].pop("draw").tolist()
        assert draw == [draw[0]] * 3
        assert equal(
            {**path, "actions": path["actions"].tolist()},
            {
                "observations": np.array([[10.0, 10], [11, 11], [12, 12]]),
                "actions": [0, 1, 0],
                "rewards": np.array([1.0, 2, 3]),
                "terminated": np.array([False, False, True]),
                "truncated": np.array([False, False, False]),
                "env_infos": {"steps": np.array([1, 2, 3])},
                "agent_infos": {"odd": np.array([False, True, False])},
                "next_observation": np.array([13.0, 13]),
            },
        )
    assert policy.masks == [[True], [True]]


@both
@pytest.mark.parametrize(
    ("env", "longest", "terminated", "truncated"),
    [
        (CountingEnv(9), 2, [False, False], [False, True]),
        (CountingEnv(2), 2, [False, True], [False, True]),
        (CountingEnv(2, truncate=True), 9, [False, False], [False, True]),
        (CountingEnv(1), 9, [True], [False]),
    ],
)
def test_a_path_says_how_it_ended(sampler_type, env, longest, terminated, truncated):
    sampler = sampler_type(env, lazy, 4, longest)
    for paths in (sampler.obtain_samples(), sampler.obtain_samples()):
        assert [path["terminated"].tolist() for path in paths] == [terminated] * 4
        assert [path["truncated"].tolist() for path in paths] == [truncated] * 4
        assert [path["next_observation"].tolist() for path in paths] == [[len(truncated)] * 2] * 4


@both
def test_infos_of_every_step_are_kept_even_those_that_no_reset_reports(sampler_type):
    [path] = sampler_type(HalfEnv(3), lazy, 1, 9).obtain_samples()
    assert equal(path["env_infos"], {"part": np.array([0, 1, 1.5])})


@both
def test_a_policy_may_use_its_arrays_again(sampler_type):
    """Actions keep their dimensions and fractions, and observations follow from them."""

    class Reusing:
        actions = np.zeros((1, 1, 2))

        def get_actions(self, observations):
            self.actions += [0.05, 0.025]
            return self.actions, {"twice": {"again": self.actions}}

    [path] = sampler_type(PointGoalEnv(), Reusing(), 1, 2).obtain_samples()
    assert path["actions"].tolist() == [[0.05, 0.025], [0.1, 0.05]]
    assert path["agent_infos"]["twice"]["again"].tolist() == path["actions"].tolist()
    assert path["observations"].tolist() == [[0, 0], [0.05, 0.025]]
    assert path["next_observation"].tolist() == pytest.approx([0.15, 0.075])


@both
def test_the_seed_decides_the_first_reset_and_what_follows_from_it(sampler_type):
    def draws(seed):
        sampler = sampler_type(CountingEnv(2), lazy, 2, 5, seed=seed)
        paths = sampler.obtain_samples() + sampler.obtain_samples()
        return [int(path["env_infos"]["draw"][0]) for path in paths]

    assert draws(3) == draws(3) != draws(4)
    assert len(set(draws(3))) == 4


def test_a_given_environment_is_stepped_and_not_closed():
    env = CountingEnv(2)
    sampler = Sampler(env, lazy, 1, 5, seed=3)
    sampler.obtain_samples()
    del sampler
    gc.collect()
    assert env.actions == [0, 0]
    assert env.seeds == [3]
    assert not env.closed


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize(
    ("select", "expected"),
    [("round_robin", [0, 1, 0, 1, 0, 1]), ("without_replacement", [1, 0, 1, 0, 0, 1])],
)
def test_every_task_that_a_reset_draws_gets_a_trajectory(batch_size, select, expected):
    makers = [CountingEnv, CountingEnv]
    env = mt.FlattenMTEnv(mt.MultiEnvWrapper(makers, select=select, sample_tasks_on_reset=True))
    sampler = Sampler(env, lazy, batch_size, 5, seed=0)
    paths = [path for _ in range(6 // batch_size) for path in sampler.obtain_samples()]
    assert [path["env_infos"]["task_id"].tolist() for path in paths] == [[i] * 3 for i in expected]


class Noise:
    """Acts by chance, from the generator that it is given."""

    def get_actions(self, observations, rng):
        noise = rng[0, 0].integers(2**31)
        return np.zeros((1, 1), np.int64), {"noise": np.full((1, 1), noise)}


@both
def test_the_seed_decides_the_noise_of_a_policy_which_differs_between_batches(sampler_type):
    def draws(seed):
        sampler = sampler_type(CountingEnv(2), Noise(), 1, 5, seed=seed)
        batches = [sampler.obtain_samples() for _ in range(3)]
        return [noise for [path] in batches for noise in path["agent_infos"]["noise"].tolist()]

    assert draws(3) == draws(3)
    assert len({*draws(3), *draws(4)}) == 12


@both
def test_a_sampler_goes_on_from_a_checkpoint(sampler_type, tmp_path):
    def make(seed):
        return sampler_type(CountingEnv(3), Noise(), 2, 5, seed=seed)

    sampler, unused, later = make(7), make(7), make(8)
    mt.save_checkpoint(tmp_path / "unused", sampler=unused)
    sampler.obtain_samples()
    mt.save_checkpoint(tmp_path / "later", sampler=sampler)
    mt.load_checkpoint(tmp_path / "later", sampler=later)
    assert equal(later.obtain_samples(), sampler.obtain_samples())
    mt.load_checkpoint(tmp_path / "unused", sampler=later)
    assert equal(later.obtain_samples(), unused.obtain_samples())


@both
def test_states_of_another_form_are_refused(sampler_type):
    sampler = sampler_type(PointGoalEnv(), lazy, 2, 5)
    with pytest.raises(ValueError, match=r"expected \['env.*, 'seed'.*\] of .*, got \[\]"):
        sampler.set_state({})
    tasks = MetaSampler(PointGoalEnv(), lazy, 2, 3, 5, 1)
    state = {**sampler.get_state(), "envs": tasks.get_state()["envs"]}
    with pytest.raises(ValueError, match="expected meta_batch_size 1, got 3"):
        sampler.set_state(state)
    state = sampler.get_state()
    for change, error, message in (
        ({"seed": "0"}, TypeError, "a seed must be an integer, got '0'"),
        ({"policy_seed": -1}, ValueError, "a seed must be zero or greater, got -1"),
        ({"iteration": "1"}, ValueError, "iteration of the state must be zero or a positive int"),
    ):
        with pytest.raises(error, match=message):
            sampler.set_state({**state, **change})
        assert equal(sampler.get_state(), state)


@both
@pytest.mark.parametrize("name", ["mtwrappers", "tests.sampler"])
def test_figures_go_to_a_logger_by_default_that_of_the_package(sampler_type, name, caplog):
    sink = None if name == "mtwrappers" else logging.getLogger(name)
    with caplog.at_level(logging.INFO, name):
        sampler = sampler_type(CountingEnv(3), lazy, 2, 5, log_sink=sink)
        sampler.obtain_samples()
        assert caplog.messages == []
        sampler.obtain_samples(True, "eval ")
    assert "eval n_timesteps: 6" in caplog.messages
    assert {record.name for record in caplog.records} == {name}


@both
def test_trajectories_may_be_as_long_as_max_path_length(sampler_type, monkeypatch):
    monkeypatch.setattr(rollout, "ENDLESS", 20)
    sampler = sampler_type(CountingEnv(1000), lazy, 2, 30)
    assert [len(path["rewards"]) for path in sampler.obtain_samples()] == [30, 30]


def test_a_recorder_without_steps_has_no_paths():
    with pytest.raises(RuntimeError, match=r"paths\(\) was called before the first step"):
        Recorder().paths()


class ReusingWrapper(VectorWrapper):
    """Returns the same arrays from every step."""

    def step(self, actions):
        results = self.env.step(actions)
        rewards, infos = results[1], {"reward": results[1].copy()}
        if not hasattr(self, "_rewards"):
            self._rewards, self._reported = np.zeros_like(rewards), np.zeros_like(rewards)
        self._rewards[:], self._reported[:] = rewards, infos["reward"]
        infos = {"reward": self._reported, "_reward": np.ones(len(rewards), dtype=np.bool_)}
        return results[0], self._rewards, *results[2:4], infos


def test_rewards_and_infos_of_a_wrapper_that_reuses_its_arrays_are_recorded():
    mode = AutoresetMode.SAME_STEP
    make = partial(gymnasium.make, "Pendulum-v1", max_episode_steps=3)
    envs = ReusingWrapper(mt.as_vector(make, 1, autoreset_mode=mode))
    obs, _ = envs.reset(seed=0)
    recorder, rewards = Recorder(), []

    def observe(step):
        rewards.append(float(step.rewards[0]))
        recorder(step)

    policy = PolicyCaller(lambda observations: np.zeros((1, 1)), 1, 1)
    rollout.rollout(envs, policy, np.array([1]), obs, observe=[observe])
    [[path]] = recorder.paths()
    assert len(set(rewards)) == 3
    assert path["rewards"].tolist() == path["env_infos"]["reward"].tolist() == rewards
