"""Odd uses of the example and of the id over any environments: what was expected and what came."""

from gymnasium.error import NameNotFound, ResetNeeded, VersionNotFound

from mtwrappers import PointGoalEnv
from mtwrappers.vector.settings import DifferentSpacesError
from tests.fakes import CountingEnv
from tests.refusals import (
    INF,
    NAN,
    assert_refused,
    begin_episode,
    make,
    make_vec,
    refusal,
    refusals,
)


@refusals(
    refusal(
        lambda: make("HalfCheetahDir", n_tasks=5),
        TypeError,
        "...'n_tasks': tasks is 'train' or 'test', a published list; env.unwrapped.sample_tasks(n)",
    ),
    refusal(
        lambda: make_vec("HalfCheetahDir", num_tasks=5),
        TypeError,
        "...'num_tasks': tasks is 'train' or 'test', a published list; meta_batch_size is the num",
    ),
    refusal(
        lambda: make("PointRobot", max_path_length=10),
        TypeError,
        "...'max_path_length': episode_steps is the number of steps until truncation",
    ),
    refusal(
        lambda: make_vec("PointRobot", max_path_length=10),
        TypeError,
        "...'max_path_length': max_episode_steps is the number of steps until truncation",
    ),
    refusal(lambda: PointGoalEnv(radius=NAN), ValueError, "radius must be in (0, 4], got nan"),
    refusal(
        lambda: PointGoalEnv(render_mode="human"),
        ValueError,
        "...render_mode must be None, got 'human'",
    ),
    refusal(
        lambda: PointGoalEnv().set_task({"goal": (1, NAN)}),
        ValueError,
        "a task must be {'goal': (x, y)}, got {'goal'",
    ),
    refusal(
        lambda: PointGoalEnv().set_task({"goal": "10"}),
        ValueError,
        "a task must be {'goal': (x, y)}, got {'goal': '10'}",
    ),
    refusal(
        lambda: PointGoalEnv().set_task({"goal": (True, False)}),
        ValueError,
        "a task must be {'goal': (x, y)}, got {'goal': (True, False)}",
    ),
    refusal(
        lambda: PointGoalEnv().set_task(3), ValueError, "a task must be {'goal': (x, y)}, got 3"
    ),
    refusal(
        lambda: PointGoalEnv().reset(options={"tasks": 1}),
        ValueError,
        "PointGoalEnv takes no ...got ['tasks']",
    ),
    refusal(
        lambda: PointGoalEnv().reset(options={"goal": (1, 0)}),
        ValueError,
        "...got ['goal']; set_task sets a goal",
    ),
    refusal(lambda: PointGoalEnv().step([0, 0]), ResetNeeded, "call reset() before step()"),
    refusal(
        lambda: begin_episode(PointGoalEnv()).step([0, INF]),
        ValueError,
        "expected a finite ...got [0, inf]",
    ),
    refusal(
        lambda: begin_episode(PointGoalEnv()).step(["1", "2"]),
        ValueError,
        "expected a finite ...got ['1', '2']",
    ),
    refusal(
        lambda: make("MultiEnv", env_id=["CartPole-v1"]),
        TypeError,
        "make of MultiEnv got an unexpected keyword argument 'env_id': did you mean 'env_ids'",
    ),
    refusal(
        lambda: make_vec("MultiEnv", env_id=["CartPole-v1"]),
        TypeError,
        "make_vec of MultiEnv got an unexpected keyword argument 'env_id': did you mean 'env_ids'",
    ),
    refusal(
        lambda: make_vec("MultiEnv", max_episode_steps=[5, 0]),
        ValueError,
        "max_episode_steps of task 1, if it is not -1 (no limit), must be a positive integer, got",
    ),
    refusal(
        lambda: make_vec("MultiEnv", max_episode_steps=-1.0),
        ValueError,
        "max_episode_steps, if it is not -1 (no limit), must be a positive integer, got -1.0",
    ),
    refusal(
        lambda: make_vec("MultiEnv", max_episode_steps=5, env_kwargs={"max_episode_steps": 6}),
        ValueError,
        "pass max_episode_steps of 'Acrobot-v1' as an argument or in env_kwargs, got 5 and 6",
    ),
    refusal(
        lambda: make_vec("MultiEnv", select="uniform"),
        TypeError,
        "make_vec of MultiEnv got ...'select': it is for gymnasium.make: here each environment",
    ),
    refusal(
        lambda: make("MultiEnv", workers=2),
        TypeError,
        "make of MultiEnv got ...'workers': it is for make_vec, without",
    ),
    refusal(
        lambda: make("PointRobot", workers=2),
        TypeError,
        "make of PointRobot got ...'workers': it is for make_vec, without",
    ),
    refusal(
        lambda: make("PointRobot", task_encodng="dict"),
        TypeError,
        "make of PointRobot got ...did you mean 'task_encoding'?",
    ),
    refusal(
        lambda: make_vec("PointRobot", max_episode_step=5),
        TypeError,
        "make_vec of PointRobot got ...did you mean 'max_episode_steps'",
    ),
    refusal(
        lambda: make("MultiEnv", env_ids=[CountingEnv]),
        TypeError,
        "entry 0 of env_ids must be a ...; register the",
    ),
    refusal(
        lambda: make("MultiEnv", env_ids=["CartPole-v1"] * 2),
        ValueError,
        "env_ids has ['CartPole-v1'] more than",
    ),
    refusal(
        lambda: make_vec("MultiEnv", env_ids=["CartPole-v1"] * 2),
        ValueError,
        "env_ids has ...pass a name for each",
    ),
    refusal(
        lambda: make("MultiEnv", env_ids=["tests/Nope-v9"]),
        NameNotFound,
        "entry 0 of env_ids: Environment `Nope` doesn't exist in namespace tests.",
    ),
    # Its environment would be built only when a reset draws it.
    refusal(
        lambda: make("MultiEnv", env_ids=["tests/Short-v0", "tests/Logn-v0"]),
        NameNotFound,
        "entry 1 of env_ids: ...Did you mean: `Long`?",
    ),
    refusal(
        lambda: make_vec("MultiEnv", env_ids=["tests/Short-v0", "tests/Long-v9"]),
        VersionNotFound,
        "entry 1 of env_ids: ...It provides versioned environments: [ `v0` ]",
    ),
    refusal(
        lambda: make("MultiEnv", env_kwargs=[3, {}]),
        TypeError,
        "env_kwargs of task 0 must be a dict, got 3",
    ),
    refusal(
        lambda: make_vec("MultiEnv", env_ids=["tests/Short-v0", "tests/Long-v0"]),
        DifferentSpacesError,
        "environment 1 has another observation",
    ),
    refusal(
        lambda: make_vec("MultiEnv", num_envs=5),
        ValueError,
        "MultiEnv has 2 tasks: num_envs must be a multiple of",
    ),
)
def test_odd_uses_say_what_was_expected_and_what_came(call, error, message):
    assert_refused(call, error, message)
