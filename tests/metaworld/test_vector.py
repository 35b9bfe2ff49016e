"""Meta-World's ids through `gymnasium.make_vec`: tasks, checkpoints, and its evaluation."""

import json

import numpy as np
import pytest

from mtwrappers import load_checkpoint, save_checkpoint
from mtwrappers.metaworld import make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import ITERATIVE, PARALLEL, make, make_vec, run_episode, untimed
from tests.vector.faults import kill


def draw_actions(envs, n):
    envs.action_space.seed(0)
    return [envs.action_space.sample() for _ in range(n)]


def get_states(envs):
    return envs.call("get_task_state")


# Which environment has which tasks.


@pytest.mark.parametrize(
    ("kwargs", "group_states"),
    [
        ({"envs_per_task": 2}, [{0, 2, 4}, {1, 3}, {5, 6, 7, 8, 9}]),
        # Meta-World's name of fewer goals.
        ({"total_tasks_per_cls": 3}, [{0, 2}, {1}, {3, 4, 5}]),
    ],
)
def test_the_groups_of_a_class_share_its_goals_out_among_them(kwargs, group_states):
    with make_vec("CustomML-train", num_goals=5, meta_batch_size=3, **kwargs) as envs:
        envs.reset(seed=0)
        drawn = [get_states(envs)]
        for _ in range(4):
            envs.call("sample_tasks")
            drawn.append(get_states(envs))
        states_by_env = [set(env_states) for env_states in zip(*drawn, strict=True)]
        assert states_by_env == [
            states for states in group_states for _ in range(envs.envs_per_task)
        ]


@pytest.mark.parametrize(
    ("name", "kind", "kwargs"),
    [
        ("MT10", "train", {"seed": 7}),
        ("ML1", "train", {"env_name": "push-v3"}),
        ("ML1", "test", {"env_name": "push-v3"}),
    ],
)
def test_the_tasks_are_those_of_the_benchmark_in_its_order(name, kind, kwargs):
    benchmark = make_benchmark(name, num_goals=3, **kwargs)
    env_id = name if name == "MT10" else f"{name}-{kind}"
    expected = getattr(benchmark, f"{kind}_tasks")
    assert make(env_id, num_goals=3, **kwargs).get_wrapper_attr("tasks") == expected
    with make_vec(env_id, num_goals=3, **kwargs) as envs:
        tasks = {}
        for env_states, env_tasks in zip(
            envs.get_attr("task_states"), envs.get_attr("tasks"), strict=True
        ):
            tasks |= zip(env_states, env_tasks, strict=True)
        assert tasks == dict(enumerate(expected))


def test_multi_task_environments_draw_a_task_at_every_reset_until_told_not_to():
    with make_vec("CustomMT", num_goals=3, max_episode_steps=1) as envs:
        envs.reset(seed=0)
        for enabled, expected in ((True, [{0, 1, 2}, {3, 4, 5}]), (False, None)):
            envs.call("toggle_sample_tasks_on_reset", enabled)
            task_states = []
            for action in draw_actions(envs, 30):
                envs.step(action)
                task_states.append(get_states(envs))
            states_by_env = [set(env_states) for env_states in zip(*task_states, strict=True)]
            assert states_by_env == (expected or [{state} for state in task_states[0]])


def test_meta_learning_keeps_its_tasks_until_they_are_sampled():
    with make_vec("CustomML-train", num_goals=4, max_episode_steps=1) as envs:
        envs.reset(seed=0)
        # Each class's tasks come without replacement, and stay.
        sampled = [get_states(envs)]
        for draw in range(4):
            for action in draw_actions(envs, 2):
                envs.step(action)
                envs.reset()
                assert get_states(envs) == sampled[-1]
            if draw < 3:
                envs.call("sample_tasks")
                sampled.append(get_states(envs))
        assert [set(env_states) for env_states in zip(*sampled, strict=True)] == [
            {0, 1, 2, 3},
            {4, 5, 6, 7},
        ]


# What evaluation and training code calls.


# Checkpoints.


def run_envs(envs):
    """The results of environments from a reset on: resets, autoresets and sampled tasks."""
    results = [envs.reset()[0], get_states(envs)]
    for action in draw_actions(envs, 7):
        results += [envs.step(action)[:4], get_states(envs)]
    envs.call("sample_tasks")
    results += [envs.reset()[0], get_states(envs)]
    return [*results, np.array([rng.random() for rng in envs.np_random])]


@pytest.mark.parametrize(
    ("name", "kwargs", "execution"),
    [
        ("CustomMT", {"select": "round_robin"}, ITERATIVE),
        ("CustomML-train", {"meta_batch_size": 3}, PARALLEL),
    ],
)
@pytest.mark.slow_but("CustomMT")
def test_after_loading_a_checkpoint_a_reset_goes_on_as_the_original_would(name, kwargs, execution):
    kwargs = {"num_goals": 20, "max_episode_steps": 3, **kwargs}
    with make_vec(name, **kwargs) as original, make_vec(name, **kwargs, **execution) as copied_envs:
        toggles = ("terminate_on_success", "sample_tasks_on_reset")
        for toggle, enabled in zip(toggles, (True, name != "CustomMT"), strict=True):
            original.call(f"toggle_{toggle}", enabled)
        run_episode(original, 4, seed=6)
        original.call("sample_tasks")
        original.step(draw_actions(original, 1)[0])
        saved = json.dumps(original.call("get_checkpoint"))
        expected = run_envs(original)
        assert len({repr(s) for s in expected[1::2]}) > 1
        # One that was never stepped, one that was, and the original itself go back to it.
        for envs in (copied_envs, copied_envs, original):
            envs.call("load_checkpoint", json.loads(saved))
            assert equal(run_envs(envs), expected)
            for attribute in (*toggles, "task_name"):
                assert envs.get_attr(attribute) == original.get_attr(attribute)


def test_a_checkpoint_that_is_missing_or_of_other_goals_is_refused():
    missing = r"environment 1.*: no checkpoint of 'CustomMT-train/push-v3/1' among \['.*reach-v3/0'"
    message = r"another MetaWorldMTEnv: expected benchmark.num_goals 4, got 3; expected task_states"
    with make_vec("CustomMT", num_goals=3) as envs, make_vec("CustomMT", num_goals=4) as other_envs:
        saved = envs.call("get_checkpoint")
        with pytest.raises(ValueError, match=missing):
            envs.call("load_checkpoint", saved[:1])
        with pytest.raises(ValueError, match=message):
            other_envs.call("load_checkpoint", saved)


LOOK = {"width": 32, "height": 24, "shadows": False}
KINDS = {
    "continuous goals": {"goals": "continuous"},
    "frames and depth": {
        "observation": "pixels",
        "depth": True,
        "camera_name": ["corner", "gripperPOV"],
        **LOOK,
    },
}


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.usefixtures("opengl")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow_but("continuous goals")
def test_a_killed_worker_and_a_checkpoint_in_mid_episode_change_nothing(kind, tmp_path):
    kwargs = {"max_episode_steps": 4, "journal": True}
    kwargs |= KINDS[kind]
    with make_vec("CustomMT", 4, **kwargs) as envs:
        steps = draw_actions(envs, 12)
        expected = [envs.reset(seed=7), *map(envs.step, steps)]
        last = get_states(envs)
    with make_vec("CustomMT", 4, **kwargs, workers=2, on_worker_failure="recover") as envs:
        results = [envs.reset(seed=7), *map(envs.step, steps[:3])]
        kill(envs, 1)
        results += map(envs.step, steps[3:6])
        assert envs.recoveries == 1
        save_checkpoint(tmp_path / "run", envs=envs)
    with make_vec("CustomMT", 4, **kwargs) as envs:
        load_checkpoint(tmp_path / "run", envs=envs)
        results += map(envs.step, steps[6:])
        assert get_states(envs) == last
    assert equal(untimed(results), untimed(expected))


# The seed of an id.


def test_a_seed_makes_runs_repeat_though_no_reset_is_given_one():
    def draw_states(envs):
        states = []
        for _ in range(3):
            envs.reset()
            states.append(get_states(envs))
        return states

    kwargs, runs, singles = {"num_goals": 50}, [], []
    for seed in (0, 0, 2, None):
        with make_vec("CustomMT", 4, seed=seed, **kwargs) as envs:
            runs.append((draw_states(envs), envs.action_space.sample().tolist()))
        env = make("MT1", seed=seed)
        drawn = []
        for _ in range(6):
            env.reset()
            drawn.append(env.get_wrapper_attr("get_task_state")())
        singles.append((drawn, env.action_space.sample().tolist()))
    for results in (runs, singles):
        assert results[0] == results[1]
        assert len({str(run) for run in results}) == 3
    # Each environment draws on its own: equal streams would give equal columns.
    assert len(set(zip(*runs[0][0], strict=True))) == 4
    with make_vec("CustomMT", 4, seed=0, **kwargs) as envs:
        envs.reset(seed=0)  # as the first reset is without
        assert get_states(envs) == runs[0][0][0]
