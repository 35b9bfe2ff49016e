"""Odd calls around Meta-World: each names what was expected and what came."""

import contextlib
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers.metaworld import MetaWorldMTEnv, fast_class, make_benchmark
from mtwrappers.metaworld.agent_view import AgentObservation
from mtwrappers.metaworld.experts import expert_actions
from tests.metaworld.fakes import PAIR
from tests.odd_inputs import NAMES, check, lines

# Which classes and goals.
BENCHMARKS = """
make("MT1", env_name="reach-v9") -> ValueError: unknown class 'reach-v9' in env_name; did you mean
make("MT10", env_name="reach-v3") -> ValueError: MT10 takes no env_name, got 'reach-v3'; it ...
make("MT10", image_size=84) -> TypeError: ...argument 'image_size': frames have a width
make("MT10", kind="test") -> ValueError: MT10 has no test tasks
make_benchmark("mt10") -> ValueError: unknown benchmark 'mt10'; did you mean 'MT10'?
make_benchmark("MT1", seed=2**32 - 1) -> ValueError: ...seed must be below 2**32 ...got 4294967295
make_benchmark("ML1", train_classes=PAIR) -> ValueError: ML1 takes no train_classes, got ['reach-v3'
make_benchmark("CustomMT", train_classes=PAIR, test_classes=["x"]) -> ValueError: ...no test_cla
make_benchmark("CustomMT") -> ValueError: CustomMT needs train_classes, a list of class names
make_benchmark("CustomMT", train_classes=["x"]) -> ValueError: unknown class 'x' in train_classes; e
make_benchmark("CustomMT", train_classes=PAIR * 2) -> ValueError: ...different ... got ['reach-v3
make_benchmark("CustomML", train_classes=PAIR) -> ValueError: CustomML needs test_classes, a list of
make_benchmark("CustomML", train_classes=PAIR, test_classes=PAIR) -> ValueError: test ...in both
fast_class(3) -> TypeError: expected a Sawyer class of Meta-World or the name of one, got 3
fast_class("reach-v9") -> ValueError: unknown class 'reach-v9' in cls; did you mean 'reach-v3'
make("MT10", goals="continuous", num_goals=3) -> ValueError: num_goals is for goals='list', got 3
make_vec("MT10", goals="continuous", total_tasks_per_cls=3) -> ValueError: num_goals is for goals='l
make_vec("CustomML-train", goals="continuous", meta_batch_size=1) -> ValueError: ...must be from 2
MetaWorldSetTaskEnv(goals="continuous") -> ValueError: ...needs a benchmark, got None
"""

# How they are observed and stepped.
SETTINGS = """
make("MT1", camera_name="front") -> ValueError: camera_name must be 'free', ...got 'front'
make("MT1", camera_id=7) -> ValueError: camera_id must be -1, 0, ...got 7
make("MT1", camera_name=["corner", 3]) -> TypeError: ..., a list of names or None, got ['corner', 3]
make("MT1", camera_name=["corner"] * 2) -> ValueError: ...none twice, got ['corner', 'corner']
make("MT1", reward_normalization_method="max") -> ValueError: reward_normalization_method must be 'g
make("MT1", task_encoding="hot") -> ValueError: task_encoding must be 'onehot', 'none' or 'dict', go
make("MT1", observation="pixels", camera_name=["corner", "front"]) -> ValueError: each of camera_na
make("MT1", depth=True) -> ValueError: ...needs frames, got observation='state'
make("MT1", observation="pixels", task_encoding="dict") -> ValueError: ...be combined with task_enc
make_vec("MT1", observation="pixels", render_mode="depth_array") -> ValueError: ...'rgb_array', got 
make("MT1", observation="pixels", recurrent_info_in_obs=True) -> ValueError: ...with recurrent_info_
AgentObservation(pendulum(), "pixels") -> TypeError: ...on Meta-World, ...AddRenderObservation
make("MT1", instruction=True, task_encoding="dict") -> ValueError: ...be combined with task_encoding
make("MT1", instruction=True, recurrent_info_in_obs=True) -> ValueError: ...be combined with recur
make_vec("ML10-train", instruction=True) -> ValueError: ...needs descriptions on ML10: its classes
make("MT1", select="x") -> ValueError: select must be one of ['least_success', ...got 'x'
do(mt, "reset()", "step(np.zeros((1, 4)))") -> ValueError: reach-v3: ...shape (4,), got (1, 4)
do(mt, "reset()", "step(np.full(4, INF))") -> ValueError: ...finite action, got [inf inf inf inf]
expert_actions(["xyz"], ONES) -> ValueError: no expert for 'xyz'; expected one of ['assembly
expert_actions(["reach-v3"] * 2, ONES) -> ValueError: observations of 2 tasks must ...got (1, 39)
expert_actions(["reach-v3"], ONES, ONES[0, :3]) -> ValueError: goals of 1 tasks must be (1, 3), got
"""

# In which words.
DESCRIPTIONS = """
told("lerobot") -> ValueError: descriptions must be 'metaworld', 'lerobot-0.6.1', ...got 'lerobot'
told({}) -> ValueError: ...or a table with a sentence for each class, got {}
told({"reach-v9": "x"}) -> ValueError: ...got one of 'reach-v9' (did you mean 'reach-v3'
told({"reach-v3": "x"}) -> ValueError: ...must have each of the 2 classes, but lack ['push-v3']
told({"reach-v3": "x", "push-v3": ["a"]}) -> ValueError: ...must be a sentence ...got ['a']
told({"reach-v3": "x", "push-v3": "  "}) -> ValueError: ...printable characters, got '  ' (2 charac
told({"reach-v3": "x", "push-v3": "x" * 501}) -> ValueError: ...(501 characters)
"""

# How many side by side, and where they run.
VECTORS = """
make_vec("PointGoal", max_episode_steps=-2) -> ValueError: max_episode_steps, if it is not -1 ...got
make_vec("MT10", task_embedding=[[1]]) -> TypeError: ...'task_embedding': pass it to mtwrappers/Mult
make("MT10", task_embedding=[[1]]) -> TypeError: ...'task_embedding': pass it to mtwrappers/MultiEnv
make_vec("CustomMT", execution="iterative", workers=2) -> ValueError: ...no workers, got workers=2
make_vec("MT10", num_envs=7) -> ValueError: ...must be a multiple of 10 (10, 20, 30, 
make_vec("MT10", num_envs=15, envs_per_task=2) -> ValueError: ...num_envs must be 20 ...got 15
make_vec("MT10", timeout=0) -> ValueError: timeout, if it is not None, must be above zero and fini
make_vec("MT10", meta_batch_size=10) -> ValueError: ...meta-learning ...MT10: pass envs_per_task
make_vec("MT10", num_goals=5, total_tasks_per_cls=6) -> ValueError: ...at most num_goals=5, got 6
make_vec("ML10-test", meta_batch_size=4) -> ValueError: ...from 5 to 250, ...meta_batch_size=4
make_vec("ML10-test", meta_batch_size=16, num_goals=3) -> ValueError: ...from 5 to 15, ...=16
make_vec("ML10-test", num_envs=11, meta_batch_size=5, envs_per_task=2) -> ValueError: ...of 2 ...=11
make_vec("CustomML-train", num_envs=7, envs_per_task=4) -> ValueError: ...a multiple of 4 from 8
make_vec("MT10", envs_per_task=2, vectorization_mode="sync") -> TypeError: ...is for make_vec
make_vec("MT10", workers=2, vectorization_mode="sync") -> TypeError: ...'workers': it is for
make("MT10", use_one_hot=True, task_encoding="none") -> TypeError: ...for task_encoding, got both
make("MT10", num_goal=3) -> TypeError: ...argument 'num_goal': did you mean 'num_goals
make("MT10", xyz=3) -> TypeError: ...argument 'xyz': it takes ...'num_goals'
make_vec("MT10").reset(options={"task_state": 3}) -> ValueError: environment 1: ...'env_options'
"""

SET_TASK = """
MetaWorldTaskSampler("MT11", "train") -> ValueError: unknown benchmark 'MT11'; did you mean 'MT1'
MetaWorldTaskSampler("ML10", "train", add_env_onehot=True) -> ValueError: add_env_onehot is for the
MetaWorldMTEnv(None) -> TypeError: benchmark must be a metaworld.Benchmark or its name, got None
MetaWorldMTEnv("MT1", "validation") -> ValueError: kind must be 'train', 'test' or None, got 'valid
MetaWorldMTEnv("MT10", num_goals=2, task_states=[0, 20]) -> ValueError: ... in [0, 19], got 20
MetaWorldSetTaskEnv(3) -> ValueError: benchmark must be a metaworld.Benchmark or the name of one, go
make("MT10").reset(options={"goal": [0, 0.8, 0.2]}) -> ValueError: MetaWorldMTEnv takes ...got ['goa
make("MT10").reset(options={"rand_vec": [0, 0.8, 0.2]}) -> ValueError: ...got ['rand_vec']; a task_s
make("MT10").reset(options={"env_name": "push-v3"}) -> ValueError: ...got ['env_name']; a task_state
make("MT10").reset(options={"seed": 3}) -> ValueError: ...got ['seed']; ...a seed is an argument of 
make("MT10").reset(options={"task_id": 3}) -> ValueError: ...got ['task_id']; a task_state is the in
make("MT10").reset(options={"task_name": "push-v3"}) -> ValueError: ...got ['task_name']; a task_sta
make_vec("MT1").reset(options={"goal": [0, 0.8, 0.2]}) -> ValueError: environment 0: ...got ['goal']
make("CW10").reset(options={"goal": [0, 0.8, 0.2]}) -> ValueError: MetaWorldMTEnv ...got ['goal']; a
MetaWorldSetTaskEnv("MT1").reset(options={"goal": 1}) -> ValueError: ...got ['goal']; task is a dict
MetaWorldSetTaskEnv("MT1").reset(options={"Task": 1}) -> ValueError: ...got ['Task']
MetaWorldSetTaskEnv().reset(options={"resample_task": True}) -> ValueError: sample_tasks needs a ben
MetaWorldSetTaskEnv("MT1").reset(options={"task": 1, "task_state": 2}) -> ValueError: options must h
setattr(MetaWorldMTEnv("MT1"), "terminate_on_success", "x") -> TypeError: terminate_on_success must 
setattr(MetaWorldMTEnv("MT1"), "sample_tasks_on_reset", 1) -> TypeError: sample_tasks_on_reset must 
MetaWorldSetTaskEnv().sample_tasks(1) -> ValueError: sample_tasks needs a benchmark
MetaWorldSetTaskEnv().reset() -> ResetNeeded: no task was set: call set_task(task) before reset()
MetaWorldSetTaskEnv("ML10", add_env_onehot=True) -> ValueError: ...got ML10 with kind=None
"""
CALLABLES = {
    "MetaWorldMTEnv": MetaWorldMTEnv,
    "PAIR": PAIR,
    "ONES": np.ones((1, 39)),
    "AgentObservation": AgentObservation,
    "expert_actions": expert_actions,
    "fast_class": fast_class,
    "make_benchmark": make_benchmark,
    "pendulum": partial(gymnasium.make, "Pendulum-v1", render_mode="rgb_array"),
    "told": lambda table: NAMES["make"]("CustomMT", train_classes=PAIR, descriptions=table),
}


@pytest.fixture(scope="module")
def mt():
    with contextlib.closing(NAMES["make"]("MT1", env_name="reach-v3", num_goals=2)) as env:
        yield env


@pytest.fixture(scope="module")
def vector():
    with contextlib.closing(NAMES["make_vec"]("MT1", num_goals=2)) as envs:
        yield envs


@lines(BENCHMARKS + SETTINGS + DESCRIPTIONS + VECTORS + SET_TASK)
def test_odd_calls_of_meta_world_say_what_was_expected_and_what_came(line, mt, vector):
    check(line, mt=mt, vector=vector, **CALLABLES)
