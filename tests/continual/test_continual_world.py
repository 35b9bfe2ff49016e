"""The streams of Continual World on Meta-World's classes."""

import numpy as np
import pytest

from mtwrappers import load_checkpoint, save_checkpoint
from mtwrappers.metaworld.frames import choose_gl
from tests.fakes import equal
from tests.metaworld.fakes import make, make_vec
from tests.vector.faults import kill


@pytest.mark.parametrize(("name", "visits"), [("CW10", 1), ("CW20", 2)])
def test_tasks_budgets_and_horizon_are_those_of_continual_world(name, visits):
    env = make(name)
    stream = env.unwrapped
    assert stream.phase_names == visits * (
        *("hammer-v3", "push-wall-v3", "faucet-close-v3", "push-back-v3", "stick-pull-v3"),
        *("handle-press-side-v3", "push-v3", "shelf-place-v3", "window-close-v3"),
        "peg-unplug-side-v3",
    )
    assert {phase.steps for phase in stream.phases} == {1_000_000}
    assert env.spec.max_episode_steps == 200
    assert env.observation_space.shape == (39 + 10 * visits,)


def test_budget_and_horizon_are_arguments():
    env = make("CW10", steps_per_task=3, max_episode_steps=2)
    seen = []
    obs, info = env.reset(seed=0)
    for _ in range(6):
        obs, *_, truncated, info = env.step(np.zeros(4))
        seen.append((int(obs[39:].argmax()), info["phase"], info["task_name"], truncated))
        if truncated:
            env.reset()
    assert seen == [
        (0, 0, "hammer-v3", False),
        (0, 0, "hammer-v3", True),  # the horizon
        (0, 0, "hammer-v3", True),  # the budget
        (1, 1, "push-wall-v3", False),
        (1, 1, "push-wall-v3", True),
        (1, 1, "push-wall-v3", True),
    ]


@pytest.mark.slow
def test_after_the_end_the_last_class_goes_on_or_a_step_is_an_error():
    env = make("CW10", steps_per_task=1, max_episode_steps=2)
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.zeros(4))
        _, info = env.reset()
    for truncated in (False, True):
        assert (info["phase"], info["task_name"]) == (9, "peg-unplug-side-v3")
        assert (info["stream_finished"], env.unwrapped.stream_steps) == (True, 10)
        assert env.step(np.zeros(4))[3] is truncated
    with make_vec("CW10", 2, steps_per_task=2, at_end="raise") as envs:
        envs.reset(seed=0)
        for _ in range(10):
            envs.step(np.zeros((2, 4)))
        with pytest.raises(RuntimeError, match="its 10 phases have 20 steps"):
            envs.step(np.zeros((2, 4)))


def test_an_embedding_of_each_phase_comes_before_the_onehot():
    words = np.random.default_rng(0).random((10, 5))
    with make_vec("CW10", 2, steps_per_task=2, task_embedding=words.tolist()) as envs:
        obs, _ = envs.reset(seed=0)
        assert obs.shape == (2, 39 + 5 + 10)
        for phase in range(3):
            assert equal(obs[:, 39:], np.hstack([words[[phase]], np.eye(10)[[phase]]]).repeat(2, 0))
            obs, *_ = envs.step(np.zeros((2, 4)))
    env = make("CW10", task_encoding="dict", task_embedding=words)
    assert equal(env.reset(seed=0)[0]["task_embedding"], words[0])


@pytest.mark.parametrize(
    ("task_encoding", "onehot"), [("onehot", {"task_onehot"}), ("none", set())]
)
@pytest.mark.slow_but("onehot-onehot0")
def test_an_embedding_has_a_key_of_its_own_beside_pixels(task_encoding, onehot, monkeypatch):
    name = choose_gl()
    if name is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    monkeypatch.setenv("MUJOCO_GL", name)
    words = np.random.default_rng(0).random((10, 5))
    size = {"width": 16, "height": 16}
    given = {"task_embedding": words, "task_encoding": task_encoding}
    env = make("CW10", observation="pixels_agent_pos", **size, **given)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    assert set(obs) == {"pixels", "agent_pos", "task_embedding"} | onehot
    assert equal(obs["task_embedding"], words[0])
    if onehot:
        assert obs["task_onehot"].tolist() == [1] + [0] * 9
    env.close()


def test_a_stream_says_in_words_what_is_to_be_done():
    env = make("CW10", descriptions="lerobot-0.6.1")
    env.reset(seed=0)
    assert env.get_wrapper_attr("task") == "hammer-v3"
    env.unwrapped.stream_steps = 3_000_000
    env.reset()
    assert env.get_wrapper_attr("task") == "push-back-v3"
    sentence = "Push the puck to a goal"
    assert env.get_wrapper_attr("task_description") == sentence
    with make_vec("CW10", 2) as envs:
        envs.reset(seed=0)
        assert envs.get_attr("task_description") == ("Hammer a screw on the wall",) * 2


@pytest.mark.parametrize(("task_obs", "size", "place"), [("phase", 20, 10), ("task", 10, 0)])
def test_a_second_visit_has_another_id_unless_it_is_of_the_task(task_obs, size, place):
    env = make("CW20", task_obs=task_obs)
    env.unwrapped.stream_steps = 10_000_000
    obs, info = env.reset()
    assert (info["phase"], info["task_name"]) == (10, "hammer-v3")
    assert obs[39:].tolist() == np.eye(size)[place].tolist()


def test_goals_are_new_in_every_episode_or_those_of_the_list():
    def goals(**kwargs):
        env = make("CW10", **kwargs)
        return [tuple(env.reset(seed=3 if i == 0 else None)[0][:39]) for i in range(12)]

    assert len(set(goals())) == 12
    assert goals() == goals()
    assert len(set(goals(goals="list", num_goals=2))) == 2


def test_a_seed_decides_which_goals_of_the_list_are_played_where_no_reset_is_seeded():
    drawn = []
    for seed in (5, 5, 6):
        env = make("CW10", seed=seed, goals="list", num_goals=20)
        drawn.append([env.reset() and env.unwrapped.get_task_state() for _ in range(5)])
        env.close()
    assert drawn[0] == drawn[1] != drawn[2]


def test_each_environment_of_a_vector_draws_what_one_with_its_seed_draws():
    with make_vec("CW10", 2, seed=5) as envs:
        envs.reset()
        drawn = envs.call("get_task_state")
    for seed, expected in zip((5, 6), drawn, strict=True):
        env = make("CW10", seed=seed)
        env.reset()
        assert env.unwrapped.get_task_state() == expected
        env.close()
    assert drawn[0] != drawn[1]


def test_arguments_of_the_other_form_and_none_are_refused():
    with pytest.raises(TypeError, match=r"make of CW10 takes no 'workers'.*it is for make_vec"):
        make("CW10", workers=2)
    with pytest.raises(
        TypeError, match=r"make_vec of CW20 takes no 'steps_per_tsk'.*steps_per_task"
    ):
        make_vec("CW20", steps_per_tsk=2)
    with pytest.raises(ValueError, match="at least 3 steps, one per environment, got 2"):
        make_vec("CW10", 3, steps_per_task=2)


def two_workers(**kwargs):
    return make_vec("CW10", 2, steps_per_task=10, max_episode_steps=4, seed=5, **kwargs)


def step_all(envs, actions):
    return [envs.step(action)[:4] for action in actions]


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.slow
def test_a_kill_at_a_boundary_and_a_checkpoint_in_mid_phase_change_nothing(tmp_path):
    with (
        two_workers(journal=True) as envs,
        two_workers(workers=2, on_worker_failure="recover") as others,
        two_workers(workers=2, on_worker_failure="recover") as restored,
    ):
        actions = [envs.action_space.sample() for _ in range(14)]
        assert equal(envs.reset()[0], others.reset()[0])
        expected = step_all(envs, actions[:7])
        assert [truncated.tolist() for *_, truncated in expected][3:5] == [[True, True]] * 2
        seen = []
        for step, action in enumerate(actions[:7]):
            if step == 4:  # whose step is the last of the first phase
                kill(others.unwrapped, 1)
            seen += step_all(others, [action])
        assert equal(seen, expected)
        assert others.unwrapped.recoveries == 1
        save_checkpoint(tmp_path / "cw", envs=envs)
        load_checkpoint(tmp_path / "cw", envs=restored)
        assert equal(step_all(restored, actions[7:]), step_all(envs, actions[7:]))
        assert restored.stream_steps == 28
