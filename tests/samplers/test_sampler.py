"""`Sampler`: whole paths from one environment."""

import gc
import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from mtwrappers import PointGoalEnv, Sampler
from tests.fakes import CountingEnv, equal


class Alternating:
    """A policy that answers 0, 1, 0, 1, ... from each episode's start."""

    def __init__(self):
        self.masks = []

    def reset(self, mask):
        self.masks.append(mask.tolist())
        self.next = 0

    def get_actions(self, observations):
        assert observations.shape == (1, 1, 2)
        action, self.next = self.next, 1 - self.next
        return [[action]], [[{"odd": action == 1}]]


class QuietResetEnv(CountingEnv):
    """Reports an info at every step and, as Gymnasium's own environments do, none on reset."""

    def _info(self):
        return {"count": 10 * self.steps} if self.steps else {}


class HalfEnv(CountingEnv):
    """Reports a plain 0 at the first step, and halves after it."""

    def _info(self):
        return {"part": 0 if self.steps <= 1 else self.steps / 2}


def lazy(observations):
    return np.zeros(len(observations), dtype=np.int64)


def test_a_path_holds_what_happened_step_by_step():
    sampler = Sampler(CountingEnv(3, first=10), Alternating(), 2, 5, seed=0)
    first, second = sampler.obtain_samples()
    assert set(first) == {
        "observations",
        "actions",
        "rewards",
        "terminated",
        "truncated",
        "env_infos",
        "agent_infos",
        "next_observation",
    }
    for path in (first, second):
        assert equal(path["observations"], np.array([[10.0, 10], [11, 11], [12, 12]]))
        assert path["actions"].tolist() == [0, 1, 0]
        assert equal(path["rewards"], np.array([1.0, 2, 3]))
        assert equal(path["terminated"], np.array([False, False, True]))
        assert equal(path["truncated"], np.array([False, False, False]))
        assert path["agent_infos"]["odd"].tolist() == [False, True, False]
        assert path["env_infos"]["steps"].tolist() == [1, 2, 3]
        assert equal(path["next_observation"], np.array([13.0, 13]))
    draws = [path["env_infos"]["draw"].tolist() for path in (first, second)]
    assert draws == [[draws[0][0]] * 3, [draws[1][0]] * 3]
    assert draws[0] != draws[1]


def test_a_path_is_truncated_at_the_longest_length():
    [path] = Sampler(CountingEnv(9), lazy, 1, 2).obtain_samples()
    assert path["rewards"].tolist() == [1, 2]
    assert path["terminated"].tolist() == [False, False]
    assert path["truncated"].tolist() == [False, True]
    assert path["next_observation"].tolist() == [2, 2]


def test_a_path_that_ends_at_the_longest_length_is_both():
    [path] = Sampler(CountingEnv(2), lazy, 1, 2).obtain_samples()
    assert path["terminated"].tolist() == [False, True]
    assert path["truncated"].tolist() == [False, True]


def test_an_environment_that_truncates_itself_is_recorded():
    [path] = Sampler(CountingEnv(2, truncate=True), lazy, 1, 9).obtain_samples()
    assert path["terminated"].tolist() == [False, False]
    assert path["truncated"].tolist() == [False, True]


def test_a_path_of_one_step():
    paths = Sampler(CountingEnv(1, first=4), lazy, 3, 9).obtain_samples()
    assert [path["observations"].tolist() for path in paths] == [[[4, 4]]] * 3
    assert [path["next_observation"].tolist() for path in paths] == [[5, 5]] * 3


def test_exactly_the_batch_is_returned_every_time():
    sampler = Sampler(CountingEnv(3), lazy, 4, 9)
    assert [len(sampler.obtain_samples()) for _ in range(2)] == [4, 4]


def test_infos_that_a_reset_does_not_report_are_kept():
    [path] = Sampler(QuietResetEnv(3), lazy, 1, 9).obtain_samples()
    assert path["env_infos"]["count"].tolist() == [10, 20, 30]


def test_infos_that_turn_from_whole_numbers_to_fractions_are_kept():
    [path] = Sampler(HalfEnv(3), lazy, 1, 9).obtain_samples()
    assert path["env_infos"]["part"].tolist() == [0, 1, 1.5]


def test_actions_that_turn_from_whole_numbers_to_fractions_are_kept():
    answers = iter([[[0, 0]], [[0.05, 0.025]]])
    [path] = Sampler(PointGoalEnv(), lambda _: next(answers), 1, 2).obtain_samples()
    assert path["actions"].tolist() == [[0, 0], [0.05, 0.025]]


def test_the_policy_is_told_where_episodes_begin():
    policy = Alternating()
    Sampler(CountingEnv(3), policy, 2, 5).obtain_samples()
    assert policy.masks == [[True], [True]]


def test_observations_before_the_first_action_are_the_resets():
    seen = []

    def policy(observations):
        seen.append(observations.tolist())
        return [0]

    Sampler(CountingEnv(2), policy, 2, 5).obtain_samples()
    assert seen == [[[0, 0]], [[1, 1]], [[0, 0]], [[1, 1]]]


def test_paths_are_not_changed_by_what_is_sampled_later():
    sampler = Sampler(PointGoalEnv(), lambda o: o + 0.05, 1, 3)
    [path] = sampler.obtain_samples()
    kept = {key: np.copy(path[key]) for key in ("observations", "actions", "rewards")}
    sampler.obtain_samples()
    assert all(np.array_equal(path[key], value) for key, value in kept.items())


def test_the_seed_reproduces_the_paths_and_seeds_the_first_reset_only():
    env = CountingEnv(2)
    one = Sampler(env, lazy, 2, 5, seed=3).obtain_samples()
    two = Sampler(CountingEnv(2), lazy, 2, 5, seed=3).obtain_samples()
    assert equal(one, two)
    assert env.seeds[0] == 3
    assert set(env.seeds[1:]) == {None}


def test_sampling_again_goes_on_with_the_random_stream():
    sampler = Sampler(CountingEnv(2), lazy, 1, 5, seed=3)
    [first], [second] = sampler.obtain_samples(), sampler.obtain_samples()
    assert first["env_infos"]["draw"][0] != second["env_infos"]["draw"][0]


def test_another_seed_gives_other_paths():
    samplers = [Sampler(CountingEnv(2), lazy, 1, 5, seed=seed) for seed in range(5)]
    paths = [path for sampler in samplers for path in sampler.obtain_samples()]
    assert len({int(path["env_infos"]["draw"][0]) for path in paths}) == 5


def test_the_environment_is_not_closed_with_the_sampler():
    env = CountingEnv(2)
    sampler = Sampler(env, lazy, 1, 5)
    sampler.obtain_samples()
    del sampler
    gc.collect()
    assert not env.closed


def test_two_samplers_of_one_environment_do_not_disturb_each_other():
    env = CountingEnv(5)
    short, long = Sampler(env, lazy, 1, 2), Sampler(env, lazy, 1, 9)
    for _ in range(2):
        assert len(short.obtain_samples()[0]["rewards"]) == 2
        assert len(long.obtain_samples()[0]["rewards"]) == 5


def test_actions_of_a_box_are_recorded_with_their_dimensions():
    [path] = Sampler(PointGoalEnv(), lambda _: [[0.1, -0.05]], 1, 2).obtain_samples()
    assert path["actions"].tolist() == [[0.1, -0.05]] * 2
    assert path["observations"].tolist() == [[0, 0], [0.1, -0.05]]
    assert path["next_observation"].tolist() == [0.2, -0.1]


def test_images_keep_their_shape_and_dtype():
    class ImageEnv(CountingEnv):
        def __init__(self):
            super().__init__(2)
            self.observation_space = Box(0, 255, (2, 3, 1), np.uint8)

    [path] = Sampler(ImageEnv(), lazy, 1, 5).obtain_samples()
    assert path["observations"].shape == (2, 2, 3, 1)
    assert path["observations"].dtype == np.uint8
    assert equal(path["next_observation"], np.full((2, 3, 1), 2, np.uint8))


# What is logged.


def test_a_callable_is_given_keys_with_the_prefix_and_values():
    logged = {}
    sampler = Sampler(CountingEnv(3), lazy, 2, 5, log_sink=logged.__setitem__)
    sampler.obtain_samples(log=True, log_prefix="train/")
    assert set(logged) == {"train/n_timesteps", "train/SamplingTime"}
    assert logged["train/n_timesteps"] == 6
    assert logged["train/SamplingTime"] > 0


def test_nothing_is_logged_unless_asked():
    logged = {}
    Sampler(CountingEnv(3), lazy, 2, 5, log_sink=logged.__setitem__).obtain_samples()
    assert logged == {}


def test_a_logger_may_be_given(caplog):
    logger = logging.getLogger("tests.sampler")
    with caplog.at_level(logging.INFO, "tests.sampler"):
        Sampler(CountingEnv(3), lazy, 2, 5, log_sink=logger).obtain_samples(True, "eval ")
    assert "eval n_timesteps: 6" in caplog.messages
    assert {record.name for record in caplog.records} == {"tests.sampler"}


def test_the_packages_logger_is_the_default(caplog):
    with caplog.at_level(logging.INFO, "mtwrappers"):
        Sampler(CountingEnv(3), lazy, 2, 5).obtain_samples(log=True)
    assert "n_timesteps: 6" in caplog.messages
    assert {record.name for record in caplog.records} == {"mtwrappers"}


# What is refused.


@pytest.mark.parametrize("size", [0, -1, 1.5, None, True])
def test_sizes_must_be_positive_integers(size):
    with pytest.raises(ValueError, match="batch_size must be a positive integer, got"):
        Sampler(CountingEnv(), lazy, size, 5)
    with pytest.raises(ValueError, match="max_path_length must be a positive integer, got"):
        Sampler(CountingEnv(), lazy, 5, size)


def test_an_environment_must_be_an_environment():
    with pytest.raises(TypeError, match=r"expected a gymnasium\.Env, got <class"):
        Sampler(CountingEnv, lazy, 1, 5)


def test_a_policy_must_be_callable():
    with pytest.raises(TypeError, match="a policy must have get_actions"):
        Sampler(CountingEnv(), "random", 1, 5)


def test_a_log_sink_must_be_callable():
    with pytest.raises(TypeError, match=r"a log sink must be a callable .* got 'stdout'"):
        Sampler(CountingEnv(), lazy, 1, 5, log_sink="stdout")


def test_a_seed_must_not_be_negative():
    with pytest.raises(ValueError, match="a seed must be zero or greater, got -2"):
        Sampler(CountingEnv(), lazy, 1, 5, seed=-2)


def test_a_policy_that_answers_too_often_is_refused():
    with pytest.raises(ValueError, match="expected 1 actions from the policy, got 2"):
        Sampler(CountingEnv(), lambda _: [0, 0], 1, 5).obtain_samples()


def test_gymnasiums_own_environments_can_be_sampled():
    with gymnasium.make("CartPole-v1") as env:
        paths = Sampler(env, lazy, 2, 6, seed=0).obtain_samples()
    for path in paths:
        assert path["observations"].shape == (6, 4)
        assert path["rewards"].tolist() == [1.0] * 6
        assert path["truncated"].tolist() == [False] * 5 + [True]
