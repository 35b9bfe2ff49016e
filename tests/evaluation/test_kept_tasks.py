"""Tasks that environments keep during an evaluation, as `set_task` has set them."""

import contextlib
import json
from functools import partial

import gymnasium
import numpy as np
import pytest

import mtwrappers
from mtwrappers import EvaluationResult, compare, evaluate, few_shot_evaluate, verify
from mtwrappers.evaluation import Design, IncomparableError, Observer, VerificationError
from mtwrappers.state.env_state import get_state, set_state

GOALS = ({"goal": (1.0, 0.0)}, {"goal": (0.0, 1.0)})
OTHER_GOALS = ({"goal": (1.0, 0.0)}, {"goal": (0.6, 0.8)})


class Success(gymnasium.Wrapper):
    """Reports a success near the goal."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "success": info["distance"] < 0.5}


class LastSeed(Success):
    """Has another task after each reset."""

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        return self.env.reset(seed=seed, options=options)

    def get_task(self):
        return self.seed


class DrawsGoals(Success):
    """Draws a task in each reset."""

    def reset(self, *, seed=None, options=None):
        self.env.reset(seed=seed)
        self.env.unwrapped.set_task(self.env.unwrapped.sample_tasks(1)[0])
        return self.env.reset(options=options)


class Text(Success):
    """Has a task that is no number."""

    def get_task(self):
        return "north"


class Sure(gymnasium.Wrapper):
    """Always succeeds."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "success": True}


def make(wrapper=Success):
    return wrapper(gymnasium.make("mtwrappers/PointGoal-v0", max_episode_steps=10))


def move_right(observations):
    return np.tile([0.1, 0.0], (len(observations), 1))


class Fixed:
    """A policy that does not adapt."""

    def begin_trial(self):
        pass

    def __call__(self, observations):
        return move_right(observations)


class Still(Fixed):
    """A policy that does not move."""

    def __call__(self, observations):
        return np.zeros((len(observations), 2))


def evaluate_on(goals, **options):
    envs = mtwrappers.as_vector([make] * len(goals))
    envs.set_tasks(goals)
    return evaluate(move_right, envs, 2, **options)


def try_on(goals):
    envs = mtwrappers.as_vector([make] * len(goals))
    return few_shot_evaluate(Fixed(), envs, [list(goals)] * 3, 1, 1)


def test_a_result_has_the_tasks_that_its_environments_keep(tmp_path):
    result = evaluate_on(GOALS)
    expected = {"task 0": {"goal": (1.0, 0.0)}, "task 1": {"goal": (0.0, 1.0)}}
    assert result.design.kept_tasks == expected
    result.save(tmp_path / "r.json")
    assert EvaluationResult.load(tmp_path / "r.json") == result
    assert evaluate_on(GOALS, tasks=["task 1"]).design.kept_tasks == {"task 1": expected["task 1"]}


def test_the_task_states_that_environments_keep_are_recorded_too():
    space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def make_mtenv():
        env = mtwrappers.EnvToMTEnv(
            make(), space, lambda env, goal: env.unwrapped.set_task({"goal": tuple(goal)})
        )
        return mtwrappers.FlattenMTEnv(env, "none")

    envs = mtwrappers.as_vector([make_mtenv] * 2)
    envs.set_tasks([np.array([0.5, 0.0], np.float32), np.array([0.0, 0.25], np.float32)])
    result = evaluate(move_right, envs, 1)
    assert result.design.kept_tasks == {"task 0": (0.5, 0.0), "task 1": (0.0, 0.25)}


@pytest.mark.parametrize("wrapper", [LastSeed, Text])
def test_tasks_that_resets_draw_or_that_are_no_numbers_are_not_recorded(wrapper):
    envs = mtwrappers.as_vector(lambda: make(wrapper))
    result = evaluate(move_right, envs, 1)
    assert result.design.kept_tasks is None
    assert "kept_tasks" not in result.to_dict()["design"]


def test_a_task_that_a_reset_draws_again_is_not_kept():
    """With this seed, both resets before the first episode draw the same of two directions."""
    envs = gymnasium.make_vec("mtwrappers/HalfCheetahDir-v0", num_envs=1, episode_steps=1)
    result = evaluate(lambda obs: np.zeros((1, 6)), envs, 1, seed=3)
    assert result.design.kept_tasks is None


def test_environments_of_one_name_must_be_on_one_task():
    def make_named():
        return mtwrappers.TaskNameWrapper(make(), task_name="north")

    envs = mtwrappers.as_vector([make_named] * 2)
    envs.set_tasks(GOALS)
    message = r"must be on one task, got \{'goal': \(1.0, 0.0\)\} and .* for 'north': name them by"
    with pytest.raises(ValueError, match=message):
        evaluate(move_right, envs, 2)
    envs.set_tasks(GOALS[:1] * 2)
    assert evaluate(move_right, envs, 2).design.kept_tasks == {"north": {"goal": (1.0, 0.0)}}


def test_results_on_different_tasks_are_not_comparable():
    result, other_result = evaluate_on(GOALS), evaluate_on(OTHER_GOALS)
    reason = r"task 1: \{'goal': \(0.0, 1.0\)\} in result 1 of 'a', and \{'goal': \(0.6, 0.8\)\}"
    with pytest.raises(IncomparableError, match=reason):
        compare({"a": [result], "b": [other_result]})
    [same] = compare({"a": [result], "b": [evaluate_on(GOALS)]})
    assert same.pairing == "each task stays on one task state, the same for both"


def test_trials_on_different_tasks_are_not_comparable():
    result, other_result = try_on(GOALS), try_on(OTHER_GOALS)
    with pytest.raises(IncomparableError, match=r"the tasks of the trials: .* in result 1 of 'b'"):
        compare({"a": [result], "b": [other_result]})
    assert compare({"a": [result], "b": [try_on(GOALS)]})


def test_a_comparison_says_what_results_do_not_say_of_their_environments():
    def last_note(result):
        [comparison] = compare({"a": [result], "b": [result]})
        return comparison.notes[-1]

    assert last_note(evaluate_on(GOALS)).startswith("the settings, such as limits of steps, of env")
    envs = mtwrappers.as_vector(lambda: Sure(gymnasium.make("CartPole-v1")))
    result = evaluate(lambda obs: np.zeros(len(obs), np.int64), envs, 3)
    assert last_note(result).startswith("the tasks and settings of environments were not compared")
    named = gymnasium.make_vec("mtwrappers/PointGoal-v0", max_episode_steps=5)
    assert "not compared" not in last_note(evaluate(move_right, named, 3))


def test_the_tasks_of_given_environments_are_verified(tmp_path):
    evaluate_on(GOALS, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    envs = mtwrappers.as_vector([make] * 2)
    with pytest.raises(VerificationError, match=r"its tasks are not those .*set_tasks sets them"):
        verify(tmp_path / "r.json", envs=envs)
    drawing = mtwrappers.as_vector([partial(make, DrawsGoals)] * 2)
    with pytest.raises(VerificationError, match=r"got tasks that resets draw; set_tasks sets them"):
        verify(tmp_path / "r.json", envs=drawing)
    envs.set_tasks(GOALS)
    verification = verify(tmp_path / "r.json", envs=envs)
    assert verification.ok
    assert 'kept_tasks={"task 0"' in str(verification)


def test_the_tasks_of_registered_environments_are_set_for_the_replay(tmp_path):
    envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=10)
    envs.set_tasks(GOALS)
    evaluate(move_right, envs, 2, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
    assert verify(tmp_path / "r.json").ok
    data = json.loads((tmp_path / "r.json").read_text())
    data["design"]["kept_tasks"]["task 1"]["goal"] = [0.6, 0.8]
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert not verify(tmp_path / "r.json").ok


def test_tasks_that_a_replay_does_not_depend_on_are_said_by_the_file(tmp_path):
    """A goal that is never reached may be any other."""

    def forge(name, goal, path):
        data = json.loads(path.read_text())
        field = data["design"][name]
        first_task = field["task 0"] if name == "kept_tasks" else field[0][0]
        first_task["goal"] = goal
        path.write_text(json.dumps(data))
        replayed, _, claimed = str(verify(path)).partition("said by the file")
        assert name in claimed
        assert name not in replayed

    envs = gymnasium.make_vec("mtwrappers/SparsePointRobot-v0", num_envs=2)
    tasks = envs.call("sample_tasks", 2)[0]
    envs.set_tasks(tasks)
    still = Still()
    evaluate(still.__call__, envs, 1, evidence=tmp_path / "a.npz").save(tmp_path / "a.json")
    forge("kept_tasks", [0.0, 1.0], tmp_path / "a.json")
    few_shot_evaluate(still, envs, [tasks], 1, 1, evidence=tmp_path / "b.npz").save(
        tmp_path / "b.json"
    )
    forge("trial_tasks", [0.0, 1.0], tmp_path / "b.json")


def test_by_force_different_tasks_are_not_said_to_be_the_same():
    policies = {"a": [evaluate_on(GOALS)], "b": [evaluate_on(OTHER_GOALS)]}
    [comparison] = compare(policies, force=True)
    assert "task 1: " in comparison.mismatch
    assert "the same for both" not in comparison.pairing


def test_names_of_kept_tasks_are_printable():
    with pytest.raises(ValueError, match="the name of a task must be"):
        Design(kept_tasks={"\x1b[2J": 1})


GRAVITIES = gymnasium.spaces.Box(8.0, 10.0, (), np.float64)
FORMS = {
    "number": (GRAVITIES, float),
    "dict": (gymnasium.spaces.Dict(gravity=GRAVITIES), lambda gravity: {"gravity": gravity}),
}


def set_gravity(env, task):
    env.unwrapped.g = float(task["gravity"] if isinstance(task, dict) else task)


def read_gravity(env):
    return env.unwrapped.env.unwrapped.g  # that of Pendulum


def pendulums(tasks, num_envs=2, wrapper=lambda env: env, **options):
    """Pendulums, each with a gravity of its own as its task."""

    def make_pendulum():
        env = wrapper(gymnasium.make("Pendulum-v1", max_episode_steps=3))
        return mtwrappers.FlattenMTEnv(
            mtwrappers.EnvToMTEnv(env, tasks, set_gravity, **options), "none"
        )

    return mtwrappers.as_vector([make_pendulum] * num_envs)


def no_force(observations):
    return np.zeros((len(observations), 1))


def evaluate_pendulums(envs, **options):
    """The result of three episodes per task, and the gravities of each environment's episodes."""
    gravities = [[] for _ in range(envs.num_envs)]

    class Notes(Observer):
        def begin(self, i, episode):
            gravities[i].extend(envs.call_some([i], read_gravity))

    return evaluate(no_force, envs, 3, observers=[Notes()], **options), gravities


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_tasks_of_a_space_that_were_set_are_kept_whether_or_not_resets_draw(draws, form, tmp_path):
    space, make_task = FORMS[form]
    envs = pendulums(space, sample_tasks_on_reset=draws)
    held_out = [make_task(8.25), make_task(9.5)]
    envs.set_tasks(held_out)
    result, gravities = evaluate_pendulums(envs, evidence=tmp_path / "r.npz")
    assert gravities == [[8.25] * 3, [9.5] * 3]
    assert result.design.kept_tasks == {"task 0": held_out[0], "task 1": held_out[1]}
    result.save(tmp_path / "r.json")
    assert EvaluationResult.load(tmp_path / "r.json") == result
    assert verify(tmp_path / "r.json", envs=envs).ok
    # The tasks stay set, also in the episode that a reset begins; then resets draw as before.
    envs.reset()
    assert evaluate_pendulums(envs) == (result, gravities)
    assert evaluate_pendulums(envs) == (result, gravities)
    assert set(envs.get_attr("sample_tasks_on_reset")) == {draws}
    envs.reset()
    envs.reset()
    assert (envs.call(read_gravity) == (8.25, 9.5)) is not draws


class Unreadable(gymnasium.Wrapper):
    """Cannot return its state."""

    def get_state(self):
        raise TypeError("no state")

    def set_state(self, state):
        raise TypeError("no state")


@pytest.mark.parametrize("fails", [False, True])
def test_resets_draw_again_after_an_evaluation_that_cannot_restore_the_state(fails):
    def policy(observations):
        return no_force(observations) * (1 // (not fails))

    envs = pendulums(GRAVITIES, wrapper=Unreadable, sample_tasks_on_reset=True)
    envs.set_tasks([8.25, 9.5])
    end = pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext()
    with pytest.warns(UserWarning, match="theirs cannot be read: no state"), end:
        evaluate(policy, envs, 1)
    assert envs.get_attr("sample_tasks_on_reset") == (True, True)
    assert envs.call(read_gravity) == (8.25, 9.5)


def test_each_episode_draws_a_task_of_a_space_by_its_seed_if_none_was_set():
    envs = pendulums(GRAVITIES, sample_tasks_on_reset=True)
    result, gravities = evaluate_pendulums(envs)
    assert len({*gravities[0], *gravities[1]}) == 6
    assert result.design.kept_tasks is None
    envs.set_tasks([8.25, 9.5])
    envs.reset()
    envs.reset()
    assert evaluate_pendulums(envs) == (result, gravities)


def test_a_warning_says_that_some_environments_have_drawn_other_tasks_since_tasks_were_set():
    envs = pendulums(GRAVITIES, sample_tasks_on_reset=True)
    expected = evaluate_pendulums(envs)
    envs.set_tasks([8.25, 9.5])
    envs.reset()
    envs.reset(options={"reset_mask": np.array([True, False])})
    message = r"resets have drawn others in 1 of 2 env.*call set_tasks before the evaluation"
    with pytest.warns(UserWarning, match=message):
        assert evaluate_pendulums(envs) == expected


def test_a_warning_says_that_all_tasks_of_a_list_are_evaluated_although_some_were_set():
    envs = pendulums([7.0, 8.0, 9.0, 10.0], sample_tasks_on_reset=True)
    expected, _ = evaluate_pendulums(envs)
    envs.set_tasks([1, 2])
    message = (
        r"does not keep the tasks that were set: .* drawn from all of its 4 task states; to keep "
        r"the tasks, .* with sample_tasks_on_reset=False.*; to choose some by name, pass tasks="
    )
    with pytest.warns(UserWarning, match=message):
        assert evaluate_pendulums(envs)[0] == expected
    chosen, _ = evaluate_pendulums(envs, tasks=["task 1", "task 2"])  # without a warning
    assert chosen.tasks == ("task 1", "task 2")
    staying = pendulums([7.0, 8.0, 9.0, 10.0])
    staying.set_tasks([1, 2])
    with pytest.warns(UserWarning, match="evaluates 2 of 4 tasks"):
        assert evaluate_pendulums(staying)[0].tasks == ("task 1", "task 2")


@pytest.mark.parametrize("name", ["MT1", "ML1-train"])
@pytest.mark.parametrize("settings", [{}, {"sample_tasks_on_reset": False}])
def test_the_warning_about_task_states_of_meta_world_says_how_to_keep_them(name, settings):
    def evaluate_still(envs):
        return evaluate(lambda observations: np.zeros((len(observations), 4)), envs, 3)

    env_id = f"mtwrappers/{name}-v0"
    settings = {"env_name": "reach-v3", "max_episode_steps": 2, **settings}
    with contextlib.closing(gymnasium.make_vec(env_id, **settings)) as envs:
        envs.set_tasks([3] * envs.meta_batch_size)
        with pytest.warns(UserWarning, match=r"all of its \d+ task states.* make .* as (.*\]\));"):
            evaluate_still(envs)
    make_env = partial(gymnasium.make, env_id, task_states=[3], **settings)
    with contextlib.closing(mtwrappers.as_vector([make_env])) as envs:
        assert {episode.task_state for episode in evaluate_still(envs).episodes} == {3}
        envs.set_tasks([3])
        evaluate_still(envs)  # without a warning


def test_a_task_that_was_drawn_without_a_reset_is_not_one_that_was_set():
    envs = pendulums(GRAVITIES, sample_tasks_on_reset=True)
    expected = evaluate_pendulums(envs)
    envs.set_tasks([8.25, 9.5])
    envs.call("seed_task", 3)
    envs.call("reset_task_state")
    assert envs.get_attr("has_set_task") == (False, False)
    assert evaluate_pendulums(envs) == expected


def test_whether_a_task_was_set_is_part_of_the_state():
    envs = pendulums(GRAVITIES, 1, sample_tasks_on_reset=True)
    envs.set_tasks([8.25])
    envs.reset()
    restored_envs = pendulums(GRAVITIES, 1, sample_tasks_on_reset=True)
    set_state(restored_envs, get_state(envs, between_episodes=True))
    assert evaluate_pendulums(restored_envs)[1] == [[8.25] * 3]


def test_tasks_that_were_forgotten_are_a_warning():
    named = [lambda name=name: mtwrappers.TaskNameWrapper(make(), name) for name in ("near", "far")]
    with contextlib.closing(mtwrappers.as_vector(named)) as envs:
        with pytest.warns(UserWarning, match=r"the same for all 2 tasks, .*call envs\.set_tasks"):
            evaluate(move_right, envs, 1)
        envs.set_tasks(GOALS)
        evaluate(move_right, envs, 1)  # warnings are errors
    with contextlib.closing(mtwrappers.as_vector(make, 2)) as envs:  # two copies of one task
        evaluate(move_right, envs, 1)


def test_a_verification_says_how_long_a_value_is_that_it_cuts(tmp_path):
    tasks = [{"goal": (0.0, i / 16)} for i in range(10)]
    with contextlib.closing(mtwrappers.as_vector([make] * 10)) as envs:
        envs.set_tasks(tasks)
        evaluate(move_right, envs, 1, evidence=tmp_path / "r.npz").save(tmp_path / "r.json")
        text = " ".join(str(verify(tmp_path / "r.json", envs=envs)).split())
    length = len(json.dumps({f"task {i}": task for i, task in enumerate(tasks)}))
    assert f"... ({length} characters)" in text
