"""Meta-World's ids through `gymnasium.make_vec`: tasks, checkpoints, and its evaluation."""

import json

import numpy as np
import pytest

from mtwrappers import load_checkpoint, save_checkpoint
from mtwrappers.metaworld import make_benchmark
from tests.fakes import equal
from tests.metaworld.fakes import ITERATIVE, PARALLEL, episode, make, make_vec, untimed
from tests.vector.faults import kill


def actions(envs, n):
    envs.action_space.seed(0)
    return [envs.action_space.sample() for _ in range(n)]


def states(envs):
    return envs.call("get_task_state")


# Which environment has which tasks.


@pytest.mark.parametrize(
    ("kwargs", "of_group"),
    [
        ({"envs_per_task": 2}, [{0, 2, 4}, {1, 3}, {5, 6, 7, 8, 9}]),
        # Meta-World's name of fewer goals.
        ({"total_tasks_per_cls": 3}, [{0, 2}, {1}, {3, 4, 5}]),
    ],
)
def test_the_groups_of_a_class_share_its_goals_out_among_them(kwargs, of_group):
    with make_vec("CustomML-train", num_goals=5, meta_batch_size=3, **kwargs) as envs:
        envs.reset(seed=0)
        drawn = [states(envs)]
        for _ in range(4):
            envs.call("sample_tasks")
            drawn.append(states(envs))
        found = [set(own) for own in zip(*drawn, strict=True)]
        assert found == [own for own in of_group for _ in range(envs.envs_per_task)]


@pytest.mark.parametrize(
    ("name", "kind", "kwargs"),
    [
        ("MT10", "train", {"seed": 7}),
        ("ML1", "train", {"env_name": "push-v3"}),
        ("ML1", "test", {"env_name": "push-v3"}),
    ],
)
def test_the_tasks_are_those_of_the_benchmark_in_its_order(name, kind, kwargs):
    made = make_benchmark(name, num_goals=3, **kwargs)
    env_id = name if name == "MT10" else f"{name}-{kind}"
    expected = getattr(made, f"{kind}_tasks")
    assert make(env_id, num_goals=3, **kwargs).get_wrapper_attr("tasks") == expected
    with make_vec(env_id, num_goals=3, **kwargs) as envs:
        own = zip(envs.get_attr("task_states"), envs.get_attr("tasks"), strict=True)
        held = {state: task for of_one in own for state, task in zip(*of_one, strict=True)}
        assert held == dict(enumerate(expected))


def test_multi_task_environments_draw_a_task_at_every_reset_until_told_not_to():
    with make_vec("CustomMT", num_goals=3, max_episode_steps=1) as envs:
        envs.reset(seed=0)
        for on, each in ((True, [{0, 1, 2}, {3, 4, 5}]), (False, None)):
            envs.call("toggle_sample_tasks_on_reset", on)
            seen = []
            for action in actions(envs, 30):
                envs.step(action)
                seen.append(states(envs))
            found = [set(own) for own in zip(*seen, strict=True)]
            assert found == (each or [{state} for state in seen[0]])


def test_meta_learning_keeps_its_tasks_until_they_are_sampled():
    with make_vec("CustomML-train", num_goals=4, max_episode_steps=1) as envs:
        envs.reset(seed=0)
        # Each class's tasks come without replacement, and stay.
        sampled = [states(envs)]
        for draw in range(4):
            for action in actions(envs, 2):
                envs.step(action)
                envs.reset()
                assert states(envs) == sampled[-1]
            if draw < 3:
                envs.call("sample_tasks")
                sampled.append(states(envs))
        assert [set(own) for own in zip(*sampled, strict=True)] == [{0, 1, 2, 3}, {4, 5, 6, 7}]


# What evaluation and training code calls.


# Checkpoints.


def run(envs):
    """The results of environments from a reset on: resets, autoresets and sampled tasks."""
    seen = [envs.reset()[0], states(envs)]
    for action in actions(envs, 7):
        seen += [envs.step(action)[:4], states(envs)]
    envs.call("sample_tasks")
    seen += [envs.reset()[0], states(envs)]
    return [*seen, np.array([rng.random() for rng in envs.np_random])]


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
    with make_vec(name, **kwargs) as original, make_vec(name, **kwargs, **execution) as other:
        toggles = ("terminate_on_success", "sample_tasks_on_reset")
        for toggle, on in zip(toggles, (True, name != "CustomMT"), strict=True):
            original.call(f"toggle_{toggle}", on)
        episode(original, 4, seed=6)
        original.call("sample_tasks")
        original.step(actions(original, 1)[0])
        saved = json.dumps(original.call("get_checkpoint"))
        expected = run(original)
        assert len({repr(s) for s in expected[1::2]}) > 1
        # One that was never stepped, one that was, and the original itself go back to it.
        for envs in (other, other, original):
            envs.call("load_checkpoint", json.loads(saved))
            assert equal(run(envs), expected)
            for attribute in (*toggles, "task_name"):
                assert envs.get_attr(attribute) == original.get_attr(attribute)


def test_a_checkpoint_that_is_missing_or_of_other_goals_is_refused():
    missing = r"environment 1.*: no checkpoint of 'CustomMT-train/push-v3/1' among \['.*reach-v3/0'"
    message = r"another MetaWorldMTEnv: expected benchmark.num_goals 4, got 3; expected task_states"
    with make_vec("CustomMT", num_goals=3) as envs, make_vec("CustomMT", num_goals=4) as others:
        saved = envs.call("get_checkpoint")
        with pytest.raises(ValueError, match=missing):
            envs.call("load_checkpoint", saved[:1])
        with pytest.raises(ValueError, match=message):
            others.call("load_checkpoint", saved)


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
        steps = actions(envs, 12)
        expected = [envs.reset(seed=7), *map(envs.step, steps)]
        last = states(envs)
    with make_vec("CustomMT", 4, **kwargs, workers=2, on_worker_failure="recover") as envs:
        found = [envs.reset(seed=7), *map(envs.step, steps[:3])]
        kill(envs, 1)
        found += map(envs.step, steps[3:6])
        assert envs.recoveries == 1
        save_checkpoint(tmp_path / "run", envs=envs)
    with make_vec("CustomMT", 4, **kwargs) as envs:
        load_checkpoint(tmp_path / "run", envs=envs)
        found += map(envs.step, steps[6:])
        assert states(envs) == last
    assert equal(untimed(found), untimed(expected))


# The seed of an id.


def test_a_seed_makes_runs_repeat_though_no_reset_is_given_one():
    def states_after_resets(envs):
        return [(envs.reset(), states(envs))[1] for _ in range(3)]

    kwargs, runs, singles = {"num_goals": 50}, [], []
    for seed in (0, 0, 2, None):
        with make_vec("CustomMT", 4, seed=seed, **kwargs) as envs:
            runs.append((states_after_resets(envs), envs.action_space.sample().tolist()))
        env = make("MT1", seed=seed)
        drawn = [(env.reset(), env.get_wrapper_attr("get_task_state")())[1] for _ in range(6)]
        singles.append((drawn, env.action_space.sample().tolist()))
    for own in (runs, singles):
        assert own[0] == own[1]
        assert len({str(run) for run in own}) == 3
    # Each environment draws on its own: equal streams would give equal columns.
    assert len(set(zip(*runs[0][0], strict=True))) == 4
    with make_vec("CustomMT", 4, seed=0, **kwargs) as envs:
        envs.reset(seed=0)  # as the first reset is without
        assert states(envs) == runs[0][0][0]
