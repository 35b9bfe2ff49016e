"""`MetaWorldMTEnv`: a benchmark as one environment that moves between its tasks."""

import copy
import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from mtwrappers.testing import check_mtenv

PAIR = ["reach-v3", "push-v3"]
PAIR_ENV = {"benchmark": "CustomMT", "train_classes": PAIR, "num_goals": 3}
REACH_GOAL = {"benchmark": "MT1", "num_goals": 3}


def same(a, b):
    return data_equivalence(a, b, exact=True)


def actions(n, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 4)).astype(np.float32)


def play(env, n=5, **reset):
    """What the environment returns for a reset and a few actions."""
    return [env.reset(**reset), *(env.step(action) for action in actions(n))]


def tasks_drawn(env, n, **reset):
    env.reset(**reset)
    states = [env.get_task_state()]
    for _ in range(n - 1):
        env.reset()
        states.append(env.get_task_state())
    return states


@pytest.mark.parametrize(
    "kwargs",
    [
        {"benchmark": "MT10", "num_goals": 2},
        {"benchmark": "ML10", "kind": "train", "num_goals": 2},
        {"benchmark": "ML10", "kind": "test", "num_goals": 2},
        {"benchmark": "ML1", "kind": "test", "num_goals": 3},
        PAIR_ENV,
    ],
    ids=["MT10", "ML10-train", "ML10-test", "ML1-test", "CustomMT"],
)
def test_it_keeps_the_contract_of_an_mtenv(kwargs):
    check_mtenv(MetaWorldMTEnv(**kwargs))


@pytest.mark.parametrize("benchmark", ["MT10", "ML10"])
def test_moving_between_tasks_plays_each_as_a_bare_sawyer_environment_does(benchmark):
    env = MetaWorldMTEnv(benchmark, num_goals=2)
    bare_envs = {name: cls() for name, cls in make_benchmark(benchmark).train_classes.items()}
    # Both goals of every class, and some of them once more.
    for state in [*range(20), 0, 7, 18]:
        task = env.tasks[state]
        bare = bare_envs[task.env_name]
        bare.set_task(task)
        ours = play(env, options={"task_state": state})
        theirs = play(bare)
        assert [r[0]["env_obs"].tolist() for r in ours] == [r[0].tolist() for r in theirs]
        assert [r[1] for r in ours[1:]] == [r[1] for r in theirs[1:]]


def test_only_the_classes_that_are_played_are_built():
    env = MetaWorldMTEnv("MT10", num_goals=2)
    assert env.envs_built == 0
    env.reset(seed=0, options={"task_state": 4})
    assert env.envs_built == 1
    env.reset(options={"task_state": 5})
    assert env.envs_built == 1
    env.reset(options={"task_state": 6})
    assert env.envs_built == 2


def test_tasks_are_those_of_the_benchmark_in_its_order():
    made = make_benchmark("ML1", env_name="push-v3", seed=4, num_goals=3)
    for kind, tasks in (("train", made.train_tasks), ("test", made.test_tasks)):
        env = MetaWorldMTEnv("ML1", kind, env_name="push-v3", seed=4, num_goals=3)
        assert env.tasks == tasks
        assert env.task_names == ("push-v3",)
        assert env.num_tasks == 3


def test_infos_and_task_obs_name_the_class_of_the_task():
    env = MetaWorldMTEnv(**PAIR_ENV)
    assert env.task_names == ("reach-v3", "push-v3")
    assert env.task_ids == (0, 0, 0, 1, 1, 1)
    assert env.task_observation_space.n == 2
    for state, index, name in ((0, 0, "reach-v3"), (2, 0, "reach-v3"), (3, 1, "push-v3")):
        for obs, *_, info in play(env, 2, options={"task_state": state}):
            assert obs["task_obs"] == index
            assert obs["task_obs"].dtype == np.int64
            assert info["task_id"] == index
            assert type(info["task_id"]) is int
            assert info["task_name"] == name
        assert env.get_task_state() == state
        assert env.get_task_obs() == index


def test_a_task_that_was_set_is_kept_by_the_next_reset_and_by_no_later_one():
    env = MetaWorldMTEnv("MT1", num_goals=50)
    env.reset(seed=0)
    env.set_task_state(17)
    env.reset()
    assert env.get_task_state() == 17
    assert tasks_drawn(env, 3) != [17, 17, 17]


def test_a_task_that_was_set_is_kept_by_a_seeded_reset():
    env = MetaWorldMTEnv("MT1", num_goals=50)
    for state in (8, 9):
        env.set_task_state(state)
        env.reset(seed=0)
        assert env.get_task_state() == state


def test_a_seed_determines_the_tasks_whatever_was_played_before():
    used, fresh = (MetaWorldMTEnv("MT1", num_goals=50) for _ in range(2))
    tasks_drawn(used, 7, seed=1)
    assert tasks_drawn(used, 5, seed=2) == tasks_drawn(fresh, 5, seed=2)
    assert tasks_drawn(used, 5, seed=3) != tasks_drawn(fresh, 5, seed=2)


def test_meta_learning_draws_tasks_without_replacement():
    env = MetaWorldMTEnv("ML1", num_goals=6)
    drawn = tasks_drawn(env, 12, seed=0)
    assert sorted(drawn[:6]) == sorted(drawn[6:]) == list(range(6))


def test_only_the_chosen_tasks_are_drawn_and_can_be_set():
    env = MetaWorldMTEnv(**PAIR_ENV, task_states=[4, 1])
    assert env.get_task_state() == 4
    assert set(tasks_drawn(env, 20, seed=0)) == {1, 4}
    with pytest.raises(ValueError, match=r"one of this environment's own \[4, 1\], got 0"):
        env.reset(options={"task_state": 0})


def test_without_sampling_on_reset_only_the_first_and_seeded_resets_draw():
    env = MetaWorldMTEnv("MT1", num_goals=50, sample_tasks_on_reset=False)
    drawn = tasks_drawn(env, 4, seed=0)
    assert drawn == [drawn[0]] * 4
    assert tasks_drawn(env, 1, seed=1) != drawn[:1]
    env.sample_tasks_on_reset = True
    assert len(set(tasks_drawn(env, 8))) > 1


def test_multi_task_observations_show_the_goal_and_meta_learning_hides_it():
    for benchmark, shown in (("MT10", True), ("ML10", False)):
        env = MetaWorldMTEnv(benchmark, num_goals=2)
        for state in (0, 2):
            for obs, *_ in play(env, 3, options={"task_state": state}):
                assert np.any(env.goal != 0)
                assert obs["env_obs"][-3:].tolist() == (env.goal.tolist() if shown else [0, 0, 0])


def test_the_goal_is_that_of_the_task_and_needs_an_episode():
    env = MetaWorldMTEnv(**REACH_GOAL)
    with pytest.raises(ResetNeeded, match="task 0 was set but not reset"):
        _ = env.goal
    goals = []
    for state in range(3):
        env.reset(options={"task_state": state})
        goals.append(env.goal.tolist())
        # Reach draws a start of the object and then the goal.
        assert goals[-1] == pickle.loads(env.tasks[state].data)["rand_vec"][3:].tolist()
    assert goals[0] != goals[1] != goals[2]


@pytest.mark.parametrize("on", [True, False])
def test_a_success_ends_the_episode_only_when_asked_for(on):
    env = MetaWorldMTEnv(**REACH_GOAL, terminate_on_success=on)
    obs, _ = env.reset(options={"task_state": 0})
    ended, successes = [], []
    while len(ended) < 100 and True not in ended:
        action = ENV_POLICY_MAP["reach-v3"]().get_action(obs["env_obs"])
        obs, _, terminated, truncated, info = env.step(action)
        assert type(terminated) is bool
        assert truncated is False
        ended.append(terminated)
        successes.append(info["success"] == 1.0)
    assert any(successes)
    assert ended == (successes if on else [False] * 100)


def test_an_episode_is_truncated_at_its_last_step_and_needs_a_reset_then():
    env = MetaWorldMTEnv(**REACH_GOAL, max_episode_steps=3)
    for _ in range(2):
        assert [r[3] for r in play(env, 3, seed=0)[1:]] == [False, False, True]
        with pytest.raises(ResetNeeded, match=r"reach-v3: call reset\(\) before step\(\)"):
            env.step(actions(1)[0])


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
class TestACopy:
    def test_begins_with_a_reset_on_the_task_of_the_original(self, copy_of):
        env = MetaWorldMTEnv("MT10", num_goals=3)
        expected = play(env, seed=5, options={"task_state": 14})
        other = copy_of(env)
        assert other.get_task_state() == 14
        with pytest.raises(ResetNeeded, match="task 14 was set but not reset"):
            other.step(actions(1)[0])
        assert same(play(other), expected)
        assert other.action_space.shape == (4,)

    def test_draws_the_tasks_that_the_original_draws(self, copy_of):
        env = MetaWorldMTEnv("ML1", num_goals=8)
        tasks_drawn(env, 3, seed=5)
        other = copy_of(env)
        assert tasks_drawn(other, 6)[1:] == tasks_drawn(env, 5)

    def test_follows_a_seed_as_the_original_does(self, copy_of):
        env = MetaWorldMTEnv("MT1", num_goals=50)
        tasks_drawn(env, 3, seed=5)
        other = copy_of(env)
        assert tasks_drawn(other, 4, seed=6) == tasks_drawn(env, 4, seed=6)

    def test_leaves_the_original_in_its_episode(self, copy_of):
        env, undisturbed = (MetaWorldMTEnv(**PAIR_ENV) for _ in range(2))
        for one in (env, undisturbed):
            one.reset(seed=5)
        copy_of(env).reset(seed=6)
        for action in actions(3):
            assert same(env.step(action), undisturbed.step(action))

    def test_of_an_environment_that_was_never_reset_draws_as_it_would(self, copy_of):
        env = MetaWorldMTEnv("MT1", num_goals=50)
        other = copy_of(env)
        assert tasks_drawn(other, 4, seed=5) == tasks_drawn(env, 4, seed=5)

    def test_keeps_the_rendering_settings(self, copy_of):
        env = MetaWorldMTEnv(**REACH_GOAL, render_mode="rgb_array", camera_name="corner2", width=64)
        env.reset(seed=0)
        other = copy_of(env)
        other.reset()
        assert other.render_mode == "rgb_array"
        settings = other.env._envs.settings
        assert (settings.camera_name, settings.width) == ("corner2", 64)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kind": "validation"}, "kind must be 'train' or 'test', got 'validation'"),
        ({"kind": "test"}, "MT10 has no test tasks"),
        ({"benchmark": "MT11"}, "unknown benchmark 'MT11'; expected one of"),
        ({"select": "best"}, "select must be one of .*'round_robin', 'uniform', .* got 'best'"),
        ({"task_states": []}, "task_states must hold at least one task, got none"),
        (
            {"task_states": [0, 20]},
            r"each of task_states must be an integer in \[0, 19\], got 20",
        ),
        ({"reward_function_version": "v3"}, "reward_function_version must be 'v1' or 'v2'"),
        ({"render_mode": "ansi"}, "render_mode must be one of"),
    ],
)
def test_bad_arguments_are_refused_with_what_was_expected(kwargs, message):
    with pytest.raises(ValueError, match=message):
        MetaWorldMTEnv(**{"benchmark": "MT10", "num_goals": 2, **kwargs})


def test_observations_stay_inside_the_space_while_experts_and_chance_play():
    for benchmark in ("MT10", "ML10"):
        env = MetaWorldMTEnv(benchmark, num_goals=1)
        for state, name in enumerate(env.task_names):
            obs, _ = env.reset(options={"task_state": state})
            policy = ENV_POLICY_MAP[name]()
            for random_action in actions(20):
                assert obs in env.observation_space
                frame = np.array([*obs["env_obs"][:-3], *env.goal])
                obs, *_ = env.step(policy.get_action(frame))
                assert obs in env.observation_space
                obs, *_ = env.step(random_action)


# Curricula.


def test_a_curriculum_sees_classes_as_groups_of_goals():
    env = MetaWorldMTEnv(**PAIR_ENV, select="least_success", max_episode_steps=2)
    env.reset(seed=0, options={"task_state": 4})
    rewards = [env.step(action)[1] for action in actions(2)]
    history = env._selector.history
    assert [history.members(g).tolist() for g in range(2)] == [[0, 1, 2], [3, 4, 5]]
    assert history.returns(4) == (sum(rewards),)
    assert np.array_equal(history.group_success_rates, [np.nan, 0.0], equal_nan=True)


def test_a_curriculum_over_one_class_sees_each_goal_and_only_those_it_draws_from():
    env = MetaWorldMTEnv(**PAIR_ENV, select="least_success", task_states=[3, 5])
    for state in (5, 3):
        play(env, 2, options={"task_state": state})
    env.reset()
    history = env._selector.history
    assert history.num_groups == 2
    assert [len(history.returns(i)) for i in (0, 1)] == [1, 1]
    assert env.get_task_state() in (3, 5)


def test_a_checkpoint_holds_the_history_and_the_episode_that_a_time_limit_ended():
    env, other = (MetaWorldMTEnv(**PAIR_ENV, select="least_success") for _ in range(2))
    env.reset(seed=5)
    for _ in range(6):
        env.step(np.zeros(4, np.float32))
        env.reset()
    env.step(np.zeros(4, np.float32))
    other.set_state(json.loads(json.dumps(env.get_state())))
    histories = []
    for one in (env, other):
        drawn = tasks_drawn(one, 12)
        histories.append((drawn, one._selector.history.get_state()))
    assert histories[0] == histories[1]
    assert sum(len(env._selector.history.returns(i)) for i in range(6)) == 7


@pytest.mark.parametrize("make", ["make", "make_vec"])
def test_a_registered_benchmark_takes_a_curriculum_by_name(make):
    kwargs = {"train_classes": PAIR, "num_goals": 2, "max_episode_steps": 1}
    env = getattr(gymnasium, make)("mtwrappers/CustomMT-v0", select="least_success", **kwargs)
    env.reset(seed=0)
    for _ in range(6):
        env.step(env.action_space.sample())
        env.reset()
    if make == "make_vec":
        for one in env.envs:  # over its own two goals
            assert one.unwrapped._selector.history.num_groups == 2
    else:
        assert env.unwrapped._selector.history.members(1).tolist() == [2, 3]
    env.close()
