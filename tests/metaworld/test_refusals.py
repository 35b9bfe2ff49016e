"""Odd uses of Meta-World's ids and classes: each error names what was expected and what came."""

from functools import partial

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from mtwrappers import MetaWorldSetTaskEnv, MetaWorldTaskSampler
from mtwrappers.metaworld import MetaWorldMTEnv, fast_class, make_benchmark
from mtwrappers.metaworld.experts import expert_actions
from mtwrappers.metaworld.observations import AgentObservation
from tests.metaworld.fakes import PAIR
from tests.refusals import INF, assert_refused, begin_episode, make, make_vec, refusal, refusals

OBSERVATIONS = np.ones((1, 39))
pendulum = partial(gymnasium.make, "Pendulum-v1", render_mode="rgb_array")


def describe(descriptions):
    """Two classes with these sentences."""
    return make("CustomMT", train_classes=PAIR, descriptions=descriptions)


@refusals(
    refusal(
        lambda: make("MT1", env_name="reach-v9"),
        ValueError,
        "unknown class 'reach-v9' in env_name; did you mean",
    ),
    refusal(
        lambda: make("MT10", env_name="reach-v3"),
        ValueError,
        "MT10 takes no env_name, got 'reach-v3'; it ...",
    ),
    refusal(
        lambda: make("MT10", image_size=84),
        TypeError,
        "...argument 'image_size': frames have a width",
    ),
    refusal(
        lambda: gymnasium.make_vec("mtwrappers/MT10-v0", env_names=["reach-v3"]),
        TypeError,
        "...argument 'env_names': for some classes, make mtwrappers/CustomMT-v0",
    ),
    refusal(lambda: make("MT10", kind="test"), ValueError, "MT10 has no test tasks"),
    refusal(
        lambda: make_benchmark("mt10"), ValueError, "unknown benchmark 'mt10'; did you mean 'MT10'?"
    ),
    refusal(
        lambda: make_benchmark("MT1", seed=2**32 - 1),
        ValueError,
        "...seed must be below 2**32 ...got 4294967295",
    ),
    refusal(
        lambda: make_benchmark("ML1", train_classes=PAIR),
        ValueError,
        "ML1 takes no train_classes, got ['reach-v3'",
    ),
    refusal(
        lambda: make_benchmark("CustomMT", train_classes=PAIR, test_classes=["x"]),
        ValueError,
        "...no test_classes",
    ),
    refusal(
        lambda: make_benchmark("CustomMT"),
        ValueError,
        "CustomMT needs train_classes, a list of class names",
    ),
    refusal(
        lambda: make_benchmark("CustomMT", train_classes=["x"]),
        ValueError,
        "unknown class 'x' in train_classes; expected",
    ),
    refusal(
        lambda: make_benchmark("CustomMT", train_classes=PAIR * 2),
        ValueError,
        "...different ... got ['reach-v3'",
    ),
    refusal(
        lambda: make_benchmark("CustomML", train_classes=PAIR),
        ValueError,
        "CustomML needs test_classes, a list of",
    ),
    refusal(
        lambda: make_benchmark("CustomML", train_classes=PAIR, test_classes=PAIR),
        ValueError,
        "test ...in both",
    ),
    refusal(
        lambda: fast_class(3),
        TypeError,
        "expected a Sawyer class of Meta-World or the name of one, got 3",
    ),
    refusal(
        lambda: fast_class("reach-v9"),
        ValueError,
        "unknown class 'reach-v9' in cls; did you mean 'reach-v3'",
    ),
    refusal(
        lambda: make("MT10", goals="continuous", num_goals=3),
        ValueError,
        "num_goals is for goals='list', got 3",
    ),
    refusal(
        lambda: make_vec("MT10", goals="continuous", total_tasks_per_cls=3),
        ValueError,
        "num_goals is for goals='list'",
    ),
    refusal(
        lambda: make_vec("CustomML-train", goals="continuous", meta_batch_size=1),
        ValueError,
        "...must be from 2",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv(goals="continuous"),
        ValueError,
        "...needs a benchmark, got None",
    ),
)
def test_odd_classes_and_goals_are_named(call, error, message):
    assert_refused(call, error, message)


@refusals(
    refusal(
        lambda: make("MT1", camera_name="front"),
        ValueError,
        "camera_name must be 'free', ...got 'front'",
    ),
    refusal(lambda: make("MT1", camera_id=7), ValueError, "camera_id must be -1, 0, ...got 7"),
    refusal(
        lambda: make("MT1", camera_name=["corner", 3]),
        TypeError,
        "..., a list of names or None, got ['corner', 3]",
    ),
    refusal(
        lambda: make("MT1", camera_name=["corner"] * 2),
        ValueError,
        "...none twice, got ['corner', 'corner']",
    ),
    refusal(
        lambda: make("MT1", reward_normalization_method="max"),
        ValueError,
        "reward_normalization_method must be 'gymnasium'",
    ),
    refusal(
        lambda: make("MT1", task_encoding="hot"),
        ValueError,
        "task_encoding must be 'onehot', 'none' or 'dict', got",
    ),
    refusal(
        lambda: make("MT1", observation="pixels", camera_name=["corner", "front"]),
        ValueError,
        "each of camera_name",
    ),
    refusal(
        lambda: make("MT1", depth=True), ValueError, "...needs frames, got observation='state'"
    ),
    refusal(
        lambda: make("MT1", observation="pixels", task_encoding="dict"),
        ValueError,
        "...be combined with task_encoding='dict'",
    ),
    refusal(
        lambda: make_vec("MT1", observation="pixels", render_mode="depth_array"),
        ValueError,
        "...'rgb_array', got ",
    ),
    refusal(
        lambda: make("MT1", observation="pixels", recurrent_info_in_obs=True),
        ValueError,
        "...with recurrent_info_in_obs=True",
    ),
    refusal(
        lambda: AgentObservation(pendulum(), "pixels"),
        TypeError,
        "...on Meta-World, ...AddRenderObservation",
    ),
    refusal(
        lambda: make("MT1", instruction=True, task_encoding="dict"),
        ValueError,
        "...be combined with task_encoding='dict'",
    ),
    refusal(
        lambda: make("MT1", instruction=True, recurrent_info_in_obs=True),
        ValueError,
        "...be combined with recurrent_info_in_obs=True",
    ),
    refusal(
        lambda: make_vec("ML10-train", instruction=True),
        ValueError,
        "...needs descriptions on ML10: its classes",
    ),
    refusal(
        lambda: make("MT1", select="x"),
        ValueError,
        "select must be one of ['least_success', ...got 'x'",
    ),
    refusal(
        lambda: begin_episode(make("MT1", env_name="reach-v3", num_goals=2)).step(np.zeros((1, 4))),
        ValueError,
        "reach-v3: ...shape (4,), got (1, 4)",
    ),
    refusal(
        lambda: begin_episode(make("MT1", env_name="reach-v3", num_goals=2)).step(np.full(4, INF)),
        ValueError,
        "...finite action, got [inf inf inf inf]",
    ),
    refusal(
        lambda: expert_actions(["xyz"], OBSERVATIONS),
        ValueError,
        "no expert for 'xyz'; expected one of ['assembly-v3'",
    ),
    refusal(
        lambda: expert_actions(["reach-v3"] * 2, OBSERVATIONS),
        ValueError,
        "observations of 2 tasks must ...got (1, 39)",
    ),
    refusal(
        lambda: expert_actions(["reach-v3"], OBSERVATIONS, OBSERVATIONS[0, :3]),
        ValueError,
        "goals of 1 tasks must be (1, 3), got",
    ),
)
def test_odd_observations_and_actions_are_named(call, error, message):
    assert_refused(call, error, message)


@refusals(
    refusal(
        lambda: describe("lerobot"),
        ValueError,
        "descriptions must be 'metaworld', 'lerobot-0.6.1', ...got 'lerobot'",
    ),
    refusal(
        lambda: describe({}), ValueError, "...or a table with a sentence for each class, got {}"
    ),
    refusal(
        lambda: describe({"reach-v9": "x"}),
        ValueError,
        "...got one of 'reach-v9' (did you mean 'reach-v3'",
    ),
    refusal(
        lambda: describe({"reach-v3": "x"}),
        ValueError,
        "...must have each of the 2 classes, but lack ['push-v3']",
    ),
    refusal(
        lambda: describe({"reach-v3": "x", "push-v3": ["a"]}),
        ValueError,
        "...must be a sentence ...got ['a']",
    ),
    refusal(
        lambda: describe({"reach-v3": "x", "push-v3": "  "}),
        ValueError,
        "...printable characters, got '  ' (2 characters)",
    ),
    refusal(
        lambda: describe({"reach-v3": "x", "push-v3": "x" * 501}), ValueError, "...(501 characters)"
    ),
)
def test_odd_sentences_are_named(call, error, message):
    assert_refused(call, error, message)


@refusals(
    refusal(
        lambda: make_vec("PointGoal", max_episode_steps=-2),
        ValueError,
        "max_episode_steps, if it is not -1 ...got",
    ),
    refusal(
        lambda: make_vec("MT10", task_embedding=[[1]]),
        TypeError,
        "...'task_embedding': pass it to mtwrappers/MultiEnv-v0",
    ),
    refusal(
        lambda: make("MT10", task_embedding=[[1]]),
        TypeError,
        "...'task_embedding': pass it to mtwrappers/MultiEnv-v0",
    ),
    refusal(
        lambda: make_vec("CustomMT", execution="iterative", workers=2),
        ValueError,
        "iterative execution takes no workers, got 2: leave it out",
    ),
    refusal(
        lambda: make_vec("MT10", num_envs=7),
        ValueError,
        "...must be a multiple of 10 (10, 20, 30, ",
    ),
    refusal(
        lambda: make_vec("MT10", num_envs=15, envs_per_task=2),
        ValueError,
        "...num_envs must be 20 ...got 15",
    ),
    refusal(
        lambda: make_vec("MT10", timeout=0),
        ValueError,
        "timeout, if it is not None, must be above zero and finite",
    ),
    refusal(
        lambda: make_vec("MT10", meta_batch_size=10),
        ValueError,
        "...meta-learning ...MT10: pass envs_per_task",
    ),
    refusal(
        lambda: make_vec("MT10", num_goals=5, total_tasks_per_cls=6),
        ValueError,
        "...at most num_goals=5, got 6",
    ),
    refusal(
        lambda: make_vec("ML10-test", meta_batch_size=4),
        ValueError,
        "...from 5 to 250, ...meta_batch_size=4",
    ),
    refusal(
        lambda: make_vec("ML10-test", meta_batch_size=16, num_goals=3),
        ValueError,
        "...from 5 to 15, ...=16",
    ),
    refusal(
        lambda: make_vec("ML10-test", num_envs=11, meta_batch_size=5, envs_per_task=2),
        ValueError,
        "...of 2 ...=11",
    ),
    refusal(
        lambda: make_vec("CustomML-train", num_envs=7, envs_per_task=4),
        ValueError,
        "...a multiple of 4 from 8",
    ),
    refusal(
        lambda: make_vec("MT10", envs_per_task=2, vectorization_mode="sync"),
        TypeError,
        "...is for make_vec",
    ),
    refusal(
        lambda: make_vec("MT10", workers=2, vectorization_mode="sync"),
        TypeError,
        "...'workers': it is for",
    ),
    refusal(
        lambda: make("MT10", use_one_hot=True, task_encoding="none"),
        TypeError,
        "...for task_encoding, got both",
    ),
    refusal(
        lambda: make("MT10", num_goal=3),
        TypeError,
        "...argument 'num_goal': did you mean 'num_goals'",
    ),
    refusal(lambda: make("MT10", xyz=3), TypeError, "...argument 'xyz': it takes ...'num_goals'"),
    refusal(
        lambda: make_vec("MT10").reset(options={"task_state": 3}),
        ValueError,
        "environment 1: ...'env_options'",
    ),
)
def test_odd_numbers_of_environments_are_named(call, error, message):
    assert_refused(call, error, message)


@refusals(
    refusal(
        lambda: MetaWorldTaskSampler("MT11", "train"),
        ValueError,
        "unknown benchmark 'MT11'; did you mean 'MT1'",
    ),
    refusal(
        lambda: MetaWorldTaskSampler("ML10", "train", add_env_onehot=True),
        ValueError,
        "add_env_onehot is for the",
    ),
    refusal(
        lambda: MetaWorldMTEnv(None),
        TypeError,
        "benchmark must be a metaworld.Benchmark or its name, got None",
    ),
    refusal(
        lambda: MetaWorldMTEnv("MT1", "validation"),
        ValueError,
        "kind must be 'train', 'test' or None, got 'validation'",
    ),
    refusal(
        lambda: MetaWorldMTEnv("MT10", num_goals=2, task_states=[0, 20]),
        ValueError,
        "... in [0, 19], got 20",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv(env_name="push-v3"),
        ValueError,
        "env_name is for the name of a benchmark, got env_name='push-v3' with benchmark=None: pass",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv(make_benchmark("ML1"), train_classes=PAIR),
        ValueError,
        "train_classes is for the name of a benchmark, got ... to make_benchmark instead",
    ),
    refusal(
        lambda: MetaWorldMTEnv(make_benchmark("MT1"), num_goals=1),
        ValueError,
        "num_goals is for the name of a benchmark, got num_goals=1 with benchmark=<",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv(3),
        ValueError,
        "benchmark must be a metaworld.Benchmark or the name of one, got",
    ),
    refusal(
        lambda: make("MT10").reset(options={"goal": [0, 0.8, 0.2]}),
        ValueError,
        "MetaWorldMTEnv takes ...got ['goal']",
    ),
    refusal(
        lambda: make("MT10").reset(options={"rand_vec": [0, 0.8, 0.2]}),
        ValueError,
        "...got ['rand_vec']; a task_state",
    ),
    refusal(
        lambda: make("MT10").reset(options={"env_name": "push-v3"}),
        ValueError,
        "...got ['env_name']; a task_state",
    ),
    refusal(
        lambda: make("MT10").reset(options={"seed": 3}),
        ValueError,
        "...got ['seed']; ...a seed is an argument of ",
    ),
    refusal(
        lambda: make("MT10").reset(options={"task_id": 3}),
        ValueError,
        "...got ['task_id']; a task_state is the index",
    ),
    refusal(
        lambda: make("MT10").reset(options={"task_name": "push-v3"}),
        ValueError,
        "...got ['task_name']; did you mean 'task_state'?; a task_state",
    ),
    refusal(
        lambda: make_vec("MT1").reset(options={"goal": [0, 0.8, 0.2]}),
        ValueError,
        "environment 0: ...got ['goal']",
    ),
    refusal(
        lambda: make("CW10").reset(options={"goal": [0, 0.8, 0.2]}),
        ValueError,
        "MetaWorldMTEnv ...got ['goal']; a",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv("MT1").reset(options={"goal": 1}),
        ValueError,
        "...got ['goal']; task is a dict",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv("MT1").reset(options={"Task": 1}), ValueError, "...got ['Task']"
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv().reset(options={"resample_task": True}),
        ValueError,
        "sample_tasks needs a benchmark",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv("MT1").reset(options={"task": 1, "task_state": 2}),
        ValueError,
        "options must hold",
    ),
    refusal(
        lambda: setattr(MetaWorldMTEnv("MT1"), "terminate_on_success", "x"),
        TypeError,
        "terminate_on_success must ",
    ),
    refusal(
        lambda: setattr(MetaWorldMTEnv("MT1"), "sample_tasks_on_reset", 1),
        TypeError,
        "sample_tasks_on_reset must ",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv().sample_tasks(1), ValueError, "sample_tasks needs a benchmark"
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv().reset(),
        ResetNeeded,
        "no task was set: call set_task(task) before reset()",
    ),
    refusal(
        lambda: MetaWorldSetTaskEnv("ML10", add_env_onehot=True),
        ValueError,
        "...got ML10 with kind=None",
    ),
)
def test_odd_tasks_are_named(call, error, message):
    assert_refused(call, error, message)
