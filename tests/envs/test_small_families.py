"""The families without a simulator: points, bandits and tabular processes."""

import json
import math
import os
import signal
from contextlib import closing, nullcontext

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers.evaluation import VerificationError

SMALL = ["PointRobot", "SparsePointRobot", "Bandit", "TabularMDP"]
POINTS = [
    (name, source) for name in ("PointRobot", "SparsePointRobot") for source in ("pearl", "varibad")
]


def make(name, **kwargs):
    return gymnasium.make(f"mtwrappers/{name}-v0", disable_env_checker=True, **kwargs)


# Points: reward and movement of oyster's rlkit/envs/point_robot.py at 44e20fd, and of VariBAD's
# environments/navigation/point_robot.py at 57e1795, by independent code.


@pytest.mark.parametrize(("name", "source"), POINTS)
def test_a_point_moves_and_is_rewarded_as_in_its_source(name, source):
    env = make(name, source=source)
    env.action_space.seed(0)
    position, info = env.reset(seed=0)
    steps = 0
    for _ in range(1_000):
        action = 1.5 * env.action_space.sample()  # beyond the bounds
        moved = (
            position + np.clip(action.astype(float) * (10 if source == "pearl" else 1), -1, 1) / 10
        )
        obs, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_allclose(obs, moved, rtol=0, atol=1e-8)
        goal = np.array(env.unwrapped.get_task()["goal"])
        dense = -np.sqrt(((obs - goal) ** 2).sum())
        sparse = dense + 1 if dense >= -0.2 else 0.0
        expected = sparse if (name, source) == ("SparsePointRobot", "varibad") else dense
        assert reward == pytest.approx(expected, abs=1e-12)
        if name == "SparsePointRobot":
            assert info["dense_reward"] == pytest.approx(dense, abs=1e-12)
            assert info["sparse_reward"] == pytest.approx(sparse, abs=1e-12)
        np.testing.assert_array_equal(info["task"]["goal"], goal)
        assert not terminated
        position, steps = obs, steps + 1
        if truncated:
            assert steps == (20 if source == "pearl" else 100)
            position, steps = env.reset()[0], 0


def test_the_sparse_reward_begins_within_a_fifth_of_the_goal():
    env = make("SparsePointRobot")
    env.unwrapped.set_task({"goal": (1.0, 0.0)})
    env.reset(seed=0)
    rewards = [env.step(np.array([0.1, 0.0]))[4]["sparse_reward"] for _ in range(10)]
    assert rewards[:7] == [0.0] * 7
    np.testing.assert_allclose(rewards[8:], [0.9, 1.0])


@pytest.mark.parametrize(
    ("name", "source", "starts_anywhere"),
    [("PointRobot", "pearl", True), ("SparsePointRobot", "pearl", False)]
    + [(name, "varibad", False) for name in ("PointRobot", "SparsePointRobot")],
)
def test_a_point_starts_where_its_source_says(name, source, starts_anywhere):
    env = make(name, source=source)
    env.reset(seed=0)
    starts = np.array([env.reset()[0] for _ in range(500)])
    if not starts_anywhere:
        assert not starts.any()
        return
    assert np.abs(starts).max() <= 1
    np.testing.assert_allclose(starts.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(starts.var(axis=0), 1 / 3, atol=0.05)


def test_goals_are_drawn_from_the_square_or_the_half_circle():
    env = make("PointRobot")
    env.reset(seed=0)
    goals = np.array([task["goal"] for task in env.unwrapped.sample_tasks(10_000)])
    assert np.abs(goals).max() <= 1
    np.testing.assert_allclose(goals.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(goals.T), np.eye(2) / 3, atol=0.02)
    for name, source in POINTS[1:]:
        env = make(name, source=source)
        env.reset(seed=0)
        goals = np.array([task["goal"] for task in env.unwrapped.sample_tasks(10_000)])
        np.testing.assert_allclose(np.hypot(*goals.T), 1, rtol=1e-12)
        angles = np.arctan2(goals[:, 1], goals[:, 0])
        assert 0 <= angles.min() <= angles.max() <= math.pi
        assert angles.mean() == pytest.approx(math.pi / 2, abs=0.04)
        assert angles.var() == pytest.approx(math.pi**2 / 12, abs=0.04)


def test_the_task_spaces_of_two_environments_have_streams_of_their_own():
    space, other_space = (make("PointRobot").unwrapped.task_space for _ in range(2))
    space.seed(0)
    first = space.sample()
    space.seed(0)
    other_space.sample()
    assert space.sample()["goal"].tolist() == first["goal"].tolist()


def test_pearls_lists_are_those_of_its_code():
    np.random.seed(1337)  # what its constructors call
    goals = [[np.random.uniform(-1.0, 1.0), np.random.uniform(-1.0, 1.0)] for _ in range(100)]
    train = make("PointRobot", tasks="train").unwrapped.tasks
    test = make("PointRobot", tasks="test").unwrapped.tasks
    np.testing.assert_array_equal([task["goal"] for task in train + test], goals)
    assert (len(train), len(test)) == (80, 20)
    np.random.seed(1337)
    angles = np.linspace(0, np.pi, num=100)
    goals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.random.shuffle(goals)
    train = make("SparsePointRobot", tasks="train").unwrapped.tasks
    test = make("SparsePointRobot", tasks="test").unwrapped.tasks
    np.testing.assert_array_equal([task["goal"] for task in train + test], goals)


# Bandits.


def test_an_arm_pays_as_often_as_its_mean_says():
    env = make("Bandit", episode_steps=-1)
    env.unwrapped.set_task({"means": (0.0, 0.2, 1.0, 0.5, 0.7)})
    assert env.reset(seed=0)[1]["regret"] == 0.0
    pulls = [[env.step(arm) for _ in range(2_000)] for arm in range(5)]
    rewards = np.array([[step[1] for step in arm] for arm in pulls])
    assert set(np.unique(rewards)) == {0.0, 1.0}
    np.testing.assert_allclose(rewards.mean(axis=1), [0, 0.2, 1, 0.5, 0.7], atol=0.04)
    assert rewards[0].sum() == 0
    assert rewards[2].sum() == 2_000
    assert [arm[0][4]["regret"] for arm in pulls] == [1.0, 0.8, 0.0, 0.5, pytest.approx(0.3)]
    assert not any(step[2] or step[3] or step[0].any() for arm in pulls for step in arm)


def test_means_are_uniform_and_a_trial_has_ten_pulls_unless_told():
    env = make("Bandit", arms=10, episode_steps=100)
    env.reset(seed=0)
    assert env.action_space.n == 10
    means = np.array([task["means"] for task in env.unwrapped.sample_tasks(10_000)])
    assert means.shape == (10_000, 10)
    assert 0 <= means.min() <= means.max() <= 1
    np.testing.assert_allclose(means.mean(axis=0), 1 / 2, atol=0.02)
    np.testing.assert_allclose(np.cov(means.T), np.eye(10) / 12, atol=0.01)
    for bandit, length in ((env, 100), (make("Bandit"), 10)):
        bandit.reset(seed=0)
        assert [bandit.step(0)[3] for _ in range(length)] == [False] * (length - 1) + [True]


# Tabular processes.


def test_transitions_and_rewards_follow_the_task():
    env = make("TabularMDP", states=3, actions=2, episode_steps=-1)
    transitions = [[[0.2, 0.3, 0.5], [0, 1, 0]], [[1, 0, 0], [0.5, 0, 0.5]], [[0, 0.9, 0.1]] * 2]
    means = [[1, 2], [-1, 0], [5, 3]]
    env.unwrapped.set_task({"transitions": transitions, "reward_means": means})
    state = int(env.reset(seed=0)[0].argmax())
    assert state == 0
    counts, noises = np.zeros((3, 2, 3)), []
    rng = np.random.default_rng(0)
    for _ in range(6_000):
        action = int(rng.integers(2))
        obs, reward, terminated, truncated, info = env.step(action)
        assert sorted(obs) == [0, 0, 1]
        assert info["reward_mean"] == means[state][action]
        assert reward == info["reward_mean"] + info["reward_noise"]
        assert not terminated
        assert not truncated
        counts[state, action, obs.argmax()] += 1
        noises.append(info["reward_noise"])
        state = int(obs.argmax())
    np.testing.assert_allclose(counts / counts.sum(-1, keepdims=True), transitions, atol=0.05)
    assert np.mean(noises) == pytest.approx(0, abs=0.05)
    assert np.std(noises) == pytest.approx(1, abs=0.04)


def test_processes_have_flat_dirichlet_transitions_and_normal_means():
    env = make("TabularMDP")
    env.reset(seed=0)
    tasks = env.unwrapped.sample_tasks(200)  # of 50 rows each
    rows = np.array([task["transitions"] for task in tasks])
    assert rows.shape == (200, 10, 5, 10)
    np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-12)
    rows = rows.reshape(-1, 10)
    # A flat Dirichlet of ten: mean 1/10, variance 9/1100, covariance -1/1100.
    np.testing.assert_allclose(rows.mean(axis=0), 0.1, atol=0.003)
    np.testing.assert_allclose(np.cov(rows.T), np.eye(10) / 110 - 1 / 1100, atol=5e-4)
    means = np.array([task["reward_means"] for task in tasks])
    assert means.mean() == pytest.approx(1, abs=0.03)
    assert means.std() == pytest.approx(1, abs=0.03)
    lengths = [env.step(0)[3] for _ in range(10)]
    assert lengths == [False] * 9 + [True]
    assert env.reset()[0].tolist() == [1.0] + [0.0] * 9


# All.


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.parametrize("name", SMALL)
def test_workers_give_what_this_process_gives_also_after_one_was_killed(name):
    def run(**options):
        envs = gymnasium.make_vec(
            f"mtwrappers/{name}-v0", num_envs=4, meta_batch_size=2, max_episode_steps=5, **options
        )
        steps = [envs.reset(seed=7)]
        envs.action_space.seed(0)
        for i in range(12):
            if options and i == 7:
                os.kill(envs.worker_pids[1], signal.SIGKILL)
            steps.append(envs.step(envs.action_space.sample()))
        envs.close()
        return steps

    expected, recovered_steps = run(), run(workers=2, on_worker_failure="recover")
    for step, recovered in zip(expected, recovered_steps, strict=True):
        for values, recovered_values in zip(step[:-1], recovered[:-1], strict=True):
            np.testing.assert_array_equal(values, recovered_values)
        infos, other_infos = step[-1], recovered[-1]
        assert set(infos) == set(other_infos)
        for key in infos["task"]:
            np.testing.assert_array_equal(infos["task"][key], other_infos["task"][key])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Bandit", {"arms": 0}, "arms must be a positive integer, got 0"),
        ("Bandit", {"source": "mtenv"}, "source must be"),
        ("Bandit", {"tasks": "train"}, "has published no list of tasks"),
        ("TabularMDP", {"states": 1.5}, "states must be a positive integer, got 1.5"),
        ("PointRobot", {"render_mode": "human"}, "PointRobot renders nothing"),
    ],
)
def test_wrong_arguments_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, **options)


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("PointRobot", {"goal": (2.0, 0.0)}, r"in \[-1, 1\]"),
        ("SparsePointRobot", {"goal": (0.0, -1.0)}, "on the circle of radius 1, at an angle in"),
        ("Bandit", {"means": (0.5,) * 4}, r"numbers of shape \(5,\)"),
        (
            "Bandit",
            {"mean": (0.5,) * 5},
            r"must be \{'means': numbers of shape \(5,\), in \[0, 1\]\}, got \{'mean'",
        ),
        (
            "TabularMDP",
            {"transitions": np.ones((10, 5, 10)), "reward_means": np.ones((10, 5))},
            "the sum 1",
        ),
    ],
)
def test_wrong_tasks_are_named(name, task, message):
    with pytest.raises(ValueError, match=message):
        make(name).unwrapped.set_task(task)


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("Bandit", 5, "one of 0 to 4, got 5"),
        ("TabularMDP", -1, "one of 0 to 4, got -1"),
        ("PointRobot", [np.nan, 0], "a finite action"),
    ],
)
def test_wrong_actions_are_named(name, action, message):
    env = make(name)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(action)


# Few-shot evaluation of families, by returns.


class Repeats:
    """Moves in one direction, and later in that of the best episode."""

    def begin_trial(self):
        self.direction = None

    def adapt(self, paths):
        best = [max(task, key=lambda path: path["rewards"].sum()) for task in paths]
        self.direction = np.array([path["actions"].mean(axis=0) for path in best])

    def __call__(self, observations, rng):
        if self.direction is None:
            return np.array([row.uniform(-0.1, 0.1, 2) for row in rng])
        return self.direction


@pytest.mark.parametrize("task_is_set", [False, True])
def test_an_evaluation_draws_tasks_and_is_replayed_whether_or_not_one_was_set(
    task_is_set, tmp_path
):
    envs = gymnasium.make_vec("mtwrappers/PointRobot-v0", num_envs=4)
    if task_is_set:
        envs.set_tasks([{"goal": (1.0, 0.0)}] * 4)
    envs.reset(seed=0)
    warns = (
        pytest.warns(UserWarning, match="trials draw their own") if task_is_set else nullcontext()
    )
    with warns:
        result = mtwrappers.few_shot_evaluate(
            Repeats(), envs, 3, 2, 1, evidence=tmp_path / "results.npz"
        )
    result.save(tmp_path / "results.json")
    assert len(result.scored) == 12
    assert mtwrappers.verify(tmp_path / "results.json").ok
    # Afterwards resets draw if they did before.
    goals = [envs.reset()[1]["task"]["goal"].tolist() for _ in range(2)]
    assert (goals[0] == goals[1]) is task_is_set
    other_envs = gymnasium.make_vec("mtwrappers/PointRobot-v0", num_envs=4)
    other_result = mtwrappers.few_shot_evaluate(Repeats(), other_envs, 3, 2, 1)
    assert [episode.episode_return for episode in other_result.scored] == [
        episode.episode_return for episode in result.scored
    ]
    envs.close()
    other_envs.close()


@pytest.mark.parametrize("chosen", [[5, 3], [0, 1]])
def test_tasks_of_the_published_list_may_be_set_before_trials_draw_from_it(chosen):
    def make_env():
        return gymnasium.make("mtwrappers/PointRobot-v0", tasks="test", max_episode_steps=2)

    with closing(mtwrappers.as_vector([make_env] * 2)) as envs:
        listed = envs.get_attr("tasks")[0]
        envs.set_tasks([listed[i] for i in chosen])
        mtwrappers.few_shot_evaluate(Repeats(), envs, 1, 1, 1)  # warnings are errors
        envs.set_tasks([listed[0], {"goal": (0.25, 0.5)}])
        with pytest.warns(UserWarning, match=r"are not used\. .* pass trials=\[tasks\] \* 1"):
            mtwrappers.few_shot_evaluate(Repeats(), envs, 1, 1, 1)


def test_an_evaluation_of_a_published_list_has_each_of_its_tasks():
    envs = gymnasium.make_vec("mtwrappers/PointRobot-v0", tasks="test")
    goals = [task["goal"] for task in make("PointRobot", tasks="test").unwrapped.tasks]
    goals_seen = []

    class Notes(Repeats):
        def adapt(self, paths):
            goals_seen.extend(task["goal"] for task in envs.call("get_task"))
            super().adapt(paths)

    mtwrappers.few_shot_evaluate(Notes(), envs, 1, 1, 1)  # the tasks of make_vec give no warning
    assert sorted(goals_seen) == sorted(goals)
    envs.close()


@pytest.fixture(scope="module")
def listed_result(tmp_path_factory):
    """The file of a result on each task of a published list, with its evidence."""
    folder = tmp_path_factory.mktemp("listed")
    envs = gymnasium.make_vec("mtwrappers/PointRobot-v0", tasks="test", max_episode_steps=3)
    trials = [envs.get_attr("tasks")[0]] * 3
    result = mtwrappers.few_shot_evaluate(Repeats(), envs, trials, 1, 1, evidence=folder / "r.npz")
    envs.close()
    result.save(folder / "r.json")
    return folder / "r.json"


def test_the_text_of_a_verification_has_the_beginning_of_long_lists(listed_result):
    verification = mtwrappers.verify(listed_result)
    text = str(verification)
    assert 'design_trial_tasks=[[{"goal":' in " ".join(text.split())
    assert len(text.splitlines()) < 25
    assert len(verification.said_by_file[0]["design_trial_tasks"][2]) == 20


def test_a_result_that_names_another_family_than_its_id_is_refused(listed_result):
    data = json.loads(listed_result.read_text())
    data["environments"]["kwargs"]["family"] = "SparsePointRobot"
    forged = listed_result.with_name("forged.json")
    forged.write_text(json.dumps(data))
    envs = gymnasium.make_vec("mtwrappers/PointRobot-v0", tasks="test", max_episode_steps=3)
    for options in ({}, {"envs": envs}):
        assert mtwrappers.verify(listed_result, **options).ok
        with pytest.raises(
            VerificationError, match="has family 'PointRobot', got 'SparsePointRobot'"
        ):
            mtwrappers.verify(forged, listed_result.with_name("r.npz"), **options)
    envs.close()


def test_an_index_is_refused_as_a_task_with_the_way_to_it():
    tasks = make("PointRobot", tasks="test").unwrapped
    message = (
        r"must be \{'goal': numbers of shape \(2,\), in \[-1, 1\]\}, got .*3.*: "
        r".*\.get_attr\('tasks'\)\[0\]"
    )
    for index in (3, np.int64(3)):
        with pytest.raises(ValueError, match=message):
            tasks.set_task(index)
