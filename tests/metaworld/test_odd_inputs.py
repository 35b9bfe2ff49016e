"""Odd calls around Meta-World: each names what was expected and what came."""

import contextlib

import pytest

from mtwrappers.metaworld import MetaWorldMTEnv, make_benchmark
from tests.metaworld.fakes import PAIR
from tests.odd_inputs import NAMES, check, lines

# Which classes and goals.
BENCHMARKS = """
make("MT1", env_name="reach-v9") -> ValueError: unknown class 'reach-v9' in env_name; did you mean
make("MT10", env_name="reach-v3") -> ValueError: MT10 takes no env_name, got 'reach-v3'
make("MT10", num_goals=0) -> ValueError: num_goals must be a positive integer, got 0
make("MT10", seed=-1) -> ValueError: a seed must be zero or greater, got -1
make("MT10", seed=2**40) -> ValueError: a benchmark's seed must be below 2**32 ...got 1099511627776
make("MT10", kind="test") -> ValueError: MT10 has no test tasks
make_vec("MT10", kind="validation") -> ValueError: kind must be 'train' ...got 'validation'
make("CustomMT", train_classes="reach-v3") -> TypeError: train_classes must be a list ...'reach-v3'
make("CustomMT", train_classes=["x"]) -> ValueError: unknown class 'x' in train_classes; expect
make_benchmark("mt10") -> ValueError: unknown benchmark 'mt10'; did you mean 'MT10'?
make_benchmark("MT1", num_goals=2.5) -> ValueError: num_goals must be a positive integer, got 2.5
make_benchmark("MT1", seed=2**32 - 1) -> ValueError: ...seed must be below 2**32 ...got 4294967295
make_benchmark("ML1", train_classes=PAIR) -> ValueError: ML1 takes no train_classes, got ['reach-v3'
make_benchmark("CustomMT", train_classes=PAIR, test_classes=["x"]) -> ValueError: ...no test_cla
make_benchmark("CustomMT") -> ValueError: CustomMT needs train_classes, a list of class names
make_benchmark("CustomMT", train_classes=[]) -> ValueError: train_classes must hold at least
make_benchmark("CustomMT", train_classes=PAIR * 2) -> ValueError: ...different ... got ['reach-v3
make_benchmark("CustomML", train_classes=PAIR) -> ValueError: CustomML needs test_classes, a list of
make_benchmark("CustomML", train_classes=PAIR, test_classes=PAIR) -> ValueError: test ...in both
"""

# How they are observed and stepped.
SETTINGS = """
make("MT1", num_goals=2, task_encoding="one_hot") -> ValueError: task_encoding 
make("MT1", num_goals=2, select="best") -> ValueError: select ...got 'best'
make("MT1", fast="yes") -> ValueError: fast must be 'auto', True or False, got 'yes'
make_vec("MT1", fast=None) -> ValueError: ...fast must be 'auto', True or False, got None
make("MT1", reward_function_version="v3") -> ValueError: ...version must be 'v1' or 'v2', got 'v3'
make_vec("MT1", reward_function_version="v3") -> ValueError: ...must be 'v1' or 'v2', got 'v3'
make_vec("MT1", render_mode="ansi") -> ValueError: ...'rgbd_tuple' or None, got 'ansi'
make("MT1", camera_name="front") -> ValueError: camera_name must be 'topview', ... None, got 'front'
make("MT1", camera_id=7) -> ValueError: camera_id (-1 for the free camera) ...in [0, 6], got 7
make_vec("MT1", camera_id=True) -> ValueError: ...camera_id ...in [0, 6], got True
make("MT1", camera_name="a", camera_id=1) -> ValueError: ... or camera_id, not both; got 'a' and 1
make("MT1", width=0) -> ValueError: width must be a positive integer, got 0
make("MT1", height=2.5) -> ValueError: height must be a positive integer, got 2.5
make("MT1", upright="no") -> ValueError: upright must be True or False, got 'no'
make("MT1", num_goals=2, fast=1) -> ValueError: fast must be 'auto', True or False, got 1
make("MT1", num_goals=2, terminate_on_success="no") -> TypeError: terminate_on_success ...got 'no'
make("MT1", num_goals=2, recurrent_info_in_obs="no") -> TypeError: recurrent_info_in_obs ...'no'
make("MT1", num_goals=2, normalize_observations="no") -> TypeError: normalize_observations ...'no'
make("MT1", normalize_reward_in_recurrent_info=0) -> TypeError: normalize_reward_in_recurr...got 0
make("MT1", reward_alpha=NAN) -> ValueError: reward_alpha must be in [0, 1], got nan
mt.reset(options={"Task_state": 1}) -> ValueError: MetaWorldMTEnv takes ...got ['Task_state']
mt.reset(options={"resample_task": "no"}) -> TypeError: options['resample_task'] must be ...got 'no'
mt.reset(options={"task": 3}) -> ValueError: MetaWorldMTEnv takes ...got ['task']
mt.reset(options="x") -> TypeError: options of MetaWorldMTEnv must be a dict, got 'x'
mt.reset(seed=1.0) -> TypeError: a seed must be an integer, got 1.0
do(mt, "reset()", "step(np.zeros(3))") -> ValueError: reach-v3: ...shape (4,), got (3,)
do(mt, "reset()", "step(np.zeros((1, 4)))") -> ValueError: reach-v3: ...shape (4,), got (1, 4)
do(mt, "reset()", "step(np.float64(0))") -> ValueError: reach-v3: ...shape (4,), got ()
do(mt, "reset()", "step(np.full(4, INF))") -> ValueError: ...finite action, got [inf inf inf inf]
do(mt, "reset()", "step(np.array([NAN, 0, 0, 0]))") -> ValueError: ...got [nan  0.  0.  0.]
do(mt, "reset()", "step(np.array([0, 0, 0, NAN]))") -> ValueError: reach-v3: expected a finite
do(mt, "reset()", "step(np.array([INF, -INF, 0, 0]))") -> ValueError: ...finite action
"""

# How many side by side, and where they run.
VECTORS = """
make_vec("MT1", max_episode_steps=0) -> ValueError: ...max_episode_steps must be a positive ...got 0
make_vec("MT1", max_episode_steps=2.5) -> ValueError: ...max_episode_steps must be a ...got 2.5
make_vec("PointGoal", max_episode_steps=-1) -> ValueError: max_episode_steps must be a ...got -1
make_vec("CustomMT", execution="iterative", workers=2) -> ValueError: ...no workers; got {'workers'
make_vec("MT1", terminate_on_success="no") -> TypeError: ...terminate_on_success ...got 'no'
make_vec("MT1", sample_tasks_on_reset="no") -> TypeError: ...sample_tasks_on_reset ...got 'no'
make_vec("MT1", record_episode_statistics=0) -> TypeError: ...record_episode_statistics ...got 0
vector.call("toggle_sample_tasks_on_reset", "no") -> TypeError: ...on must be ..., got 'no'
vector.call("toggle_terminate_on_success", "no") -> TypeError: ...on must be ..., got 'no'
make_vec("MT10", num_envs=7) -> ValueError: ...must be a multiple of 10 (10, 20, 30, 
make_vec("MT10", num_envs=15, envs_per_task=2) -> ValueError: ...num_envs must be 20 ...got 15
make_vec("MT10", envs_per_task=0) -> ValueError: envs_per_task must be a positive integer, got 0
make_vec("MT10", meta_batch_size=10) -> ValueError: ...meta-learning ...MT10: pass envs_per_task
make_vec("MT10", num_goals=5, total_tasks_per_cls=6) -> ValueError: ...at most num_goals=5, got 6
make_vec("ML10-test", total_tasks_per_cls="5") -> ValueError: ...must be a positive integer, got '5'
make_vec("ML10-test", meta_batch_size=[5]) -> ValueError: ...must be a positive integer, got [5]
make_vec("ML10-test", meta_batch_size=4) -> ValueError: ...must be in [5, 250]...meta_batch_size=4
make_vec("ML10-test", num_envs=0) -> ValueError: num_envs must be a positive integer, got 0
make_vec("ML10-test", meta_batch_size=16, num_goals=3) -> ValueError: ...[5, 15]...=16
make_vec("ML10-test", num_envs=11, meta_batch_size=5, envs_per_task=2) -> ValueError: ...of 2 ...=11
make_vec("CustomML-train", num_envs=7, envs_per_task=4) -> ValueError: ...a multiple of 4 from 8
make_vec("MT10", envs_per_task=2, vectorization_mode="sync") -> TypeError: ...is for make_vec
make_vec("MT10", workers=2, vectorization_mode="sync") -> TypeError: ...no 'workers': it is for
"""

# Meta-World's own names for them, and names that there are not.
KEYWORDS = """
make("MT10", vector_strategy="threads") -> ValueError: ...'sync' or 'async', got 'threads'
make_vec("MT10", use_one_hot="yes") -> ValueError: ...True or False, got 'yes'
make("MT10", use_one_hot=True, task_encoding="none") -> TypeError: ...for task_encoding, got both
make_vec("MT10", reward_normalization_method="running") -> ValueError: ...None, got 'running'
make("MT10", recurrent_info_in_obs=True, task_encoding="dict") -> ValueError: ...flat obs...'dict'
make("MT10", num_goal=3) -> TypeError: ...no 'num_goal': did you mean 'num_goals
make_vec("MT10", num_goal=3) -> TypeError: ...no 'num_goal': did you mean 'num_goals
make("MT10", xyz=3) -> TypeError: make... of MT10 takes no 'xyz': it takes ...'num_goals'
"""

SET_TASK = """
MetaWorldTaskSampler("MT10", "validation") -> ValueError: kind must be 'train' ...got 'validation'
MetaWorldTaskSampler("MT11", "train") -> ValueError: unknown benchmark 'MT11'; did you mean 'MT1'
MetaWorldTaskSampler(None, "train") -> TypeError: benchmark must be a ...got None
MetaWorldTaskSampler("ML10", "train", add_env_onehot=True) -> ValueError: add_env_onehot is for the
MetaWorldMTEnv("MT10", "test") -> ValueError: MT10 has no test tasks
MetaWorldMTEnv("MT10", task_states=[]) -> ValueError: task_states must hold at least one ...got none
MetaWorldMTEnv("MT10", task_states="all") -> TypeError: task_states must be a list ...got 'all'
MetaWorldMTEnv("MT10", num_goals=2, task_states=[0, 20]) -> ValueError: ... in [0, 19], got 20
MetaWorldSetTaskEnv("MT10", "both") -> ValueError: kind must be 'train', 'test' or None, got 'both'
MetaWorldSetTaskEnv(3) -> ValueError: benchmark must be a metaworld.Benchmark or the name ...got 3
MetaWorldSetTaskEnv().sample_tasks(1) -> ValueError: sample_tasks needs a benchmark
MetaWorldSetTaskEnv("MT1").sample_tasks(-1) -> ValueError: n_tasks must be zero or ...got -1
MetaWorldSetTaskEnv("MT1", add_env_onehot="no") -> TypeError: add_env_onehot must be ...got 'no'
MetaWorldSetTaskEnv("MT1", wrapper="no") -> TypeError: wrapper must be callable, got 'no'
MetaWorldSetTaskEnv("MT1").sample_tasks(1, "no") -> TypeError: with_replacement must be ...got 'no'
MetaWorldSetTaskEnv("MT1").reset(options={"Task": 1}) -> ValueError: ...got ['Task']
MetaWorldTaskSampler("MT1", "train").sample(1, "no") -> TypeError: with_replacement must be ...'no'
MetaWorldSetTaskEnv().reset() -> ResetNeeded: no task was set: call set_task(task) before reset()
MetaWorldSetTaskEnv("MT10", "test") -> ValueError: MT10 has no test tasks
MetaWorldSetTaskEnv("ML10", add_env_onehot=True) -> ValueError: ...got ML10 with kind=None
MetaWorldSetTaskEnv(add_env_onehot=True) -> ValueError: add_env_onehot is for ...got None with kind
"""


@pytest.fixture(scope="module")
def mt():
    with contextlib.closing(NAMES["make"]("MT1", env_name="reach-v3", num_goals=2)) as env:
        yield env


@pytest.fixture(scope="module")
def vector():
    with contextlib.closing(NAMES["make_vec"]("MT1", num_goals=2)) as envs:
        yield envs


@lines(BENCHMARKS + SETTINGS + VECTORS + KEYWORDS + SET_TASK)
def test_odd_calls_of_meta_world_say_what_was_expected_and_what_came(line, mt, vector):
    names = {"make_benchmark": make_benchmark, "MetaWorldMTEnv": MetaWorldMTEnv, "PAIR": PAIR}
    check(line, mt=mt, vector=vector, **names)
