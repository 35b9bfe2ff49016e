"""Odd calls over the whole public API: each names what was expected and what came.

A line is ``call -> Error: message``. The message begins so; ``...`` stands for any text.
"""

import contextlib
import io
import re
import threading
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import ClipReward

import mtwrappers.testing
from mtwrappers.cli.main import main
from mtwrappers.evaluation import Episode, EvaluationResult
from mtwrappers.processors.returns import discounted_sums
from tests.fakes import CountingEnv, counting_makers
from tests.vector.fakes import EXECUTORS

NAN, INF = float("nan"), float("inf")
PATH = {"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1)), "rewards": np.ones(3)}
PATH["terminated"] = PATH["truncated"] = np.zeros(3, bool)


class Exit(Exception):  # noqa: N818 (it is no error of ours)
    """What the command line said when it ended."""


class Odd(CountingEnv):
    """A `CountingEnv` whose steps are changed: ``Odd(reward="a")`` rewards with "a"."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes

    def _obs(self):
        return self.changes.get("obs", super()._obs())

    def _info(self):
        return self.changes.get("info", super()._info())

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, self.changes.get("reward", reward), *rest


def do(thing, *calls):
    """Makes calls of a thing, one after another."""
    for call in calls:
        eval(f"thing.{call}", {**globals(), **NAMES, "thing": thing})


def cli(*args):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main(list(args))
        except SystemExit:
            [line] = said.getvalue().splitlines()
            raise Exit(line.removeprefix("mtwrappers: error: ")) from None


def processed(*changes):
    paths = [{**PATH, **change} for change in changes]
    return mtwrappers.SampleProcessor(mtwrappers.ZeroBaseline()).process_samples(paths)


def sampler(env=mtwrappers.PointGoalEnv, policy=np.negative, **given):
    sizes = {"rollouts_per_meta_task": 2, "meta_batch_size": 2, "max_path_length": 5}
    return mtwrappers.MetaSampler(env, policy, **{**sizes, **given})


def judged(env):
    """Evaluates on one environment of counting kind."""
    envs = mtwrappers.MetaIterativeEnvExecutor(env, 1)
    return mtwrappers.evaluate(lambda obs: np.zeros(1, int), envs, 1)


RESULT = EvaluationResult([Episode("a", 0, 1.0, 3)])
NAMES = {
    **{name: getattr(mtwrappers, name) for name in mtwrappers.__all__},
    **vars(mtwrappers.testing),
    **{c.__name__: c for c in (ClipReward, Discrete, SyncVectorEnv, discounted_sums, threading)},
    **{"THIS": __file__, "adapts": SimpleNamespace(adapt=print, get_actions=print)},
    "counting": counting_makers,
    "goals": partial(mtwrappers.EnvToMTEnv, mtwrappers.PointGoalEnv()),
    "multi": partial(mtwrappers.MultiEnvWrapper, counting_makers(2)),
    "three": partial(mtwrappers.MetaIterativeEnvExecutor, counting_makers(3), 3),
    "closed": lambda: (envs := NAMES["three"](), envs.close())[0],
    "pool": lambda: mtwrappers.EnvPoolSampler([CountingEnv()]),
    "make": lambda name, **given: gymnasium.make(f"mtwrappers/{name}-v0", **given),
    "make_vec": lambda name, **given: gymnasium.make_vec(f"mtwrappers/{name}-v0", **given),
}

WRAPPERS = """
MultiEnvWrapper([]) -> ValueError: funcs_to_make_envs must hold at least one constructor, got none
MultiEnvWrapper(CountingEnv) -> TypeError: funcs_to_make_envs must be a list ..., got <class
MultiEnvWrapper("ab") -> TypeError: funcs_to_make_envs must be a list ..., got 'ab'
MultiEnvWrapper([CountingEnv, CountingEnv()]) -> TypeError: the constructor of task 1 must ...got <
multi("0") -> ValueError: initial_task_state must be an integer in [0, 1], got '0'
multi(task_names=["a"]) -> ValueError: task_names must hold one name for each of 2 tasks, got ['a']
multi(task_names="ab") -> TypeError: task_names must be a list of at least one name, got 'ab'
multi(task_names=[1, 2]) -> TypeError: task_names must be strings, got [1, 2]
multi(unify="crop") -> ValueError: unify must be 'pad' or None, got 'crop'
multi(env_observation_space=3) -> TypeError: Dict space element is not ... key='env_obs', space=3
multi(sample_tasks_on_reset="no") -> TypeError: sample_tasks_on_reset must be True or ...got 'no'
multi().step(0) -> ResetNeeded: task 0 was set but not reset: call reset() before step()
multi().reset(options="task_state") -> TypeError: options of reset must be a dict, got 'task_state'
multi().set_state(None) -> TypeError: a state must be a dict, got None
EnvToMTEnv(None, [1]) -> TypeError: env must be a gymnasium.Env, got None
EnvToMTEnv(CountingEnv(), [1]) -> TypeError: <CountingEnv instance> has no set_task(task); pass set_
goals(3) -> TypeError: tasks must be a list of at least one task, got 3
goals([{"goal": (1, 0)}], 3) -> TypeError: set_task must be callable, got 3
goals([{"goal": (1, 0)}], task_obs=3) -> ValueError: task_obs and ...got only one
TaskOnehotWrapper(CountingEnv(), 3, 3) -> ValueError: task_index must be an integer in [0, 2], got 3
TaskOnehotWrapper(CountingEnv(), "a", 3) -> ValueError: task_index must be an integer in ...got 'a'
TaskOnehotWrapper(CountingEnv(), 0, 0) -> ValueError: n_total_tasks must be a positive ...got 0
TaskOnehotWrapper(gymnasium.make("FrozenLake-v1"), 0, 3) -> TypeError: the ...got Discrete(16)
TaskOnehotWrapper.wrap_env_cons_list([3]) -> TypeError: the constructor of task 0 must be ...got 3
TaskNameWrapper(CountingEnv()) -> ValueError: give task_name, task_id, or both; got neither
TaskNameWrapper(CountingEnv(), task_name=3) -> TypeError: task_name must be a string, got 3
TaskNameWrapper(CountingEnv(), task_id="a") -> TypeError: task_id must be an int, got 'a'
FlattenMTEnv(multi(), "flat") -> ValueError: task_encoding must be 'onehot' or 'none', got 'flat'
NormalizeRewardPerTask(CountingEnv(), 0) -> ValueError: num_tasks must be a positive integer, got 0
NormalizeRewardPerTask(CountingEnv(), gamma=2) -> ValueError: gamma must be in [0, 1], got 2
NormalizeRewardPerTask(CountingEnv(), epsilon=NAN) -> ValueError: epsilon must be above ...got nan
NormalizeRewardPerTask(CountingEnv()).set_state(None) -> TypeError: a state must be a dict, got None
NormalizeObservationPerTask(CountingEnv(), num_leading=9) -> ValueError: num_leading must ...got 9
NormalizeObservationPerTask(CountingEnv(), num_leading=True) -> ValueError: num_leading ...got True
NormalizeObservationPerTask(gymnasium.make("FrozenLake-v1")) -> TypeError: an observation space to b
NormalizeObservationPerTask(CountingEnv(dtype=np.int64)) -> TypeError: observations of dtype int64
RL2Observation(CountingEnv(), reward_divisor=0) -> ValueError: reward_divisor must be above ...got 0
RL2Observation(CountingEnv(), across_episodes="no") -> TypeError: across_episodes must ...got 'no'
RL2Observation(CountingEnv(dtype=np.int64)) -> TypeError: observations of dtype int64 cannot
RL2Observation(gymnasium.make("FrozenLake-v1")) -> TypeError: an observation ...got Discrete(16)
VectorNormalizeRewardPerTask(CountingEnv()) -> TypeError: expected a MetaVectorEnv...got CountingEnv
VectorNormalizeRewardPerTask(three(), 0) -> ValueError: num_tasks must be a positive integer, got 0
VectorNormalizeObservationPerTask(three(), num_leading=0) -> ValueError: num_leading must ...got 0
VectorRL2Observation(three(), reward_divisor=INF) -> ValueError: reward_divisor must be ...got inf
"""

ENVIRONMENTS = """
PointGoalEnv(radius="a") -> ValueError: radius must be in (0, 4], got 'a'
PointGoalEnv(radius=NAN) -> ValueError: radius must be in (0, 4], got nan
PointGoalEnv(render_mode="human") -> ValueError: ...render_mode must be None, got 'human'
PointGoalEnv().sample_tasks(-1) -> ValueError: n_tasks must be zero or a positive integer, got -1
PointGoalEnv().reset(options={"tasks": 1}) -> ValueError: PointGoalEnv has none as ...got ['tasks']
PointGoalEnv().step([0, 0]) -> ResetNeeded: call reset() before step()
do(PointGoalEnv(), "reset()", "step([0, INF])") -> ValueError: expected a finite ...got [0, inf]
make("PointGoal", max_episode_steps=0) -> ValueError: Expect the `max_episode_steps` to be positive,
make_vec("PointGoal", num_envs="3") -> ValueError: num_envs must be a positive integer, got '3'
make_vec("PointGoal", num_envs=4, meta_batch_size="2") -> ValueError: meta_batch_size ...got '2'
make_vec("PointGoal", max_episode_steps="a") -> ValueError: max_episode_steps must be a ...got 'a'
make_vec("PointGoal", execution="threads") -> ValueError: execution must be ...got 'threads'
make_vec("PointGoal", workers=True) -> ValueError: workers must be a positive integer, got True
make("MultiEnv", env_ids=[]) -> ValueError: env_ids must hold at least one registered id, got none
make("MultiEnv", env_ids=["tests/Nope-v9"]) -> NameNotFound: the constructor of task 0 ('tests/Nope-
make("MultiEnv", unify="crop") -> ValueError: unify must be 'pad' or None, got 'crop'
make("MultiEnv", task_encoding="flat") -> ValueError: task_encoding must be one of ...got 'flat'
make_vec("MultiEnv", record_episode_statistics="x") -> TypeError: record_...False, got 'x'
make_vec("MultiEnv", num_envs=5) -> ValueError: MultiEnv has 2 tasks: num_envs must be a multiple of
make_vec("MultiEnv", num_envs=2, envs_per_task=2) -> ValueError: ...num_envs must be 4 ..., got 2
"""

TASKS = """
ConstructEnvsSampler([]) -> ValueError: env_constructors must hold at least one ...got none
ConstructEnvsSampler(3) -> TypeError: env_constructors must be a list of at least one ...got 3
ConstructEnvsSampler([CountingEnv, 3]) -> TypeError: env_constructor must be callable, got 3
ConstructEnvsSampler([CountingEnv]).sample(0) -> ValueError: n_tasks must be a positive ...got 0
EnvPoolSampler([]) -> ValueError: envs must hold at least one environment, got none
EnvPoolSampler([3]) -> TypeError: environment 0 must be a gymnasium.Env, got 3
pool().sample(2) -> ValueError: the pool holds 1 environments, got n_tasks=2; grow_pool(2)
pool().sample(1, True) -> ValueError: a pool of environments cannot be sampled with replacement
pool().grow_pool("a") -> ValueError: new_size must be a positive integer, got 'a'
pool().grow_pool(-1) -> ValueError: new_size must be a positive integer, got -1
SetTaskSampler(CountingEnv) -> TypeError: <CountingEnv instance> has no sample_tasks(n)
SetTaskSampler(PointGoalEnv, env=3) -> TypeError: env must be a gymnasium.Env, got 3
SetTaskSampler(PointGoalEnv, wrapper=3) -> TypeError: wrapper must be callable, got 3
SetTaskSampler(PointGoalEnv).sample(-2) -> ValueError: n_tasks must be a positive integer, got -2
NewEnvUpdate(lambda: None)() -> TypeError: what env_constructor makes must be a ...got None
SetTaskUpdate(3, 1) -> TypeError: env_type must be callable, got 3
SetTaskUpdate(CountingEnv, 1)() -> TypeError: <CountingEnv instance> has no set_task(task)
SetTaskUpdate(PointGoalEnv, 1, 3) -> TypeError: wrapper_constructor must be callable, got 3
ExistingEnvUpdate(None) -> TypeError: env must be a gymnasium.Env, got None
"""

SAMPLERS = """
sampler(env=None) -> TypeError: expected a constructor, a list of constructors or a ...got None
sampler(env="CartPole-v1") -> TypeError: expected a constructor, ...gymnasium.Env, got 'CartPole-v1'
sampler(rollouts_per_meta_task=0) -> ValueError: rollouts_per_meta_task must be a positive ...got 0
sampler(max_path_length=None) -> ValueError: max_path_length must be a positive integer, got None
sampler(envs_per_task=3) -> ValueError: envs_per_task=3 is more than rollouts_per_meta_task=2
sampler(seed="a") -> TypeError: a seed must be an integer, got 'a'
sampler(parallel="no") -> TypeError: parallel must be True or False, got 'no'
sampler(progress=3) -> TypeError: progress must be True or False, got 3
sampler(log_sink="stdout") -> TypeError: a log sink must be a callable (key, value) ...got 'stdout'
sampler(nope=1) -> TypeError: ...got an unexpected keyword argument 'nope'
sampler(autoreset_mode="NextStep") -> ValueError: MetaSampler needs ...got 'NextStep'
sampler(env=CountingEnv).update_tasks() -> TypeError: <CountingEnv instance> has no sample_tasks(n);
sampler(policy=lambda o: 3).obtain_samples() -> ValueError: expected 4 actions from the ...got 3
sampler(policy=lambda o: o[:1]).obtain_samples() -> ValueError: expected 4 actions from the ...got 1
sampler(policy=lambda o: o * NAN).obtain_samples() -> ValueError: actions of environments [0, 1, 2,
sampler(policy=lambda o: (o, {})).obtain_samples() -> ValueError: what a policy without ...got tuple
do(sampler(), "close()", "obtain_samples()") -> ClosedEnvironmentError: MetaIterativeEnvExecutor was
Sampler(None, np.negative, 2, 5) -> TypeError: env must be a gymnasium.Env, got None
Sampler(PointGoalEnv(), np.negative, 0, 5) -> ValueError: batch_size must be a positive ...got 0
Sampler(PointGoalEnv(), np.negative, 1, 1.5) -> ValueError: max_path_length must be a ...got 1.5
"""

PROCESSORS = """
SampleProcessor(None) -> TypeError: a baseline must have fit and predict, got None
SampleProcessor(LinearFeatureBaseline) -> TypeError: a baseline must have fit and ...got <class
DiceSampleProcessor(ZeroBaseline(), "a") -> ValueError: max_path_length must be a ...got 'a'
DiceSampleProcessor(ZeroBaseline(), 2, return_baseline=4) -> TypeError: a baseline must ...got 4
DiceSampleProcessor(ZeroBaseline(), 2, bootstrap_truncated=True) -> ValueError: ...a return_baseline
SampleProcessor(ZeroBaseline(), discount="0.5") -> ValueError: discount must be in [0, 1], got '0.5'
SampleProcessor(ZeroBaseline(), gae_lambda=-0.1) -> ValueError: gae_lambda must be in ...got -0.1
SampleProcessor(ZeroBaseline(), normalize_adv="no") -> TypeError: normalize_adv must be ...got 'no'
SampleProcessor(ZeroBaseline(), positive_adv=0) -> TypeError: positive_adv must be True or ...got 0
SampleProcessor(ZeroBaseline(), log_sink="stdout") -> TypeError: a log sink must be ...got 'stdout'
SampleProcessor(ZeroBaseline()).process_samples([PATH], log="al") -> ValueError: log ...got 'al'
processed({"observations": np.full(3, None)}) -> ValueError: each observation of ...got dtype object
MetaSampleProcessor(ZeroBaseline()).process_samples([PATH]) -> ValueError: expected a ...got list
MetaSampleProcessor(ZeroBaseline()).process_samples({}) -> ValueError: expected a dict ...got none
MetaSampleProcessor(ZeroBaseline()).process_samples({0: []}) -> ValueError: paths of ...got none
DiceMetaSampleProcessor(ZeroBaseline(), 5).process_samples(None) -> ValueError: expected a dict of t
LinearFeatureBaseline(-1) -> ValueError: reg_coeff must be zero or greater, got -1
LinearFeatureBaseline("a") -> ValueError: reg_coeff must be zero or greater, got 'a'
LinearTimeBaseline().predict({}) -> ValueError: path 0 of those to predict lacks ['observations']; i
ZeroBaseline().predict(None) -> ValueError: path 0 of those to predict must be a dict, got None
discounted_sums([1, 2, 3], 0.9, [2]) -> ValueError: lengths must add up to 3 steps, got [2]
"""

EVALUATION = """
evaluate(None, point) -> TypeError: a policy must have get_actions(observations) or be ...got None
evaluate(np.negative, None) -> TypeError: envs must be a vector environment of this ...got None
evaluate(np.negative, PointGoalEnv()) -> TypeError: envs must be a vector environment of ...got <
evaluate(np.negative, SyncVectorEnv(counting(2))) -> TypeError: envs must be a vector ...got Sync
evaluate(np.negative, point, 0) -> ValueError: episodes_per_task must be a positive integer, got 0
evaluate(np.negative, point, 1, seed=None) -> TypeError: a seed must be an integer, got None
evaluate(np.negative, point, 1, max_episode_steps=0) -> ValueError: max_episode_steps must ...got 0
evaluate(np.negative, point, 1, confidence=95) -> ValueError: confidence must be a number ...got 95
evaluate(np.negative, point, 1, resamples=0) -> ValueError: resamples must be a positive ...got 0
evaluate(np.negative, point, 1, tasks="task 0") -> TypeError: tasks must be a list ...got 'task 0'
evaluate(np.negative, point, 1, tasks=["x"]) -> ValueError: tasks must be among ['task ...got ['x']
evaluate(np.negative, point, 1, observers=3) -> TypeError: observers must be a list of ...got 3
evaluate(np.negative, point, 1, observers=[print]) -> TypeError: observers must be ...got [<
evaluate(lambda o: o[:1], point, 1) -> ValueError: expected 2 actions from the policy, got 1
evaluate(lambda o: (o, {}), point, 1) -> ValueError: what a policy without get_actions ...got tuple
evaluate(lambda o: o * NAN, point, 1) -> ValueError: actions of environments [0, 1] are NaN
judged(lambda: Odd(reward=NAN)) -> ValueError: rewards must be finite, got a return of nan from envi
judged(lambda: Odd(info={"success": NAN})) -> ValueError: info['success'] must be a bool, 0 or 1, go
few_shot_evaluate(np.negative, point) -> TypeError: a policy that adapts must have adapt(paths) or b
few_shot_evaluate(adapts, None) -> TypeError: envs must be a vector environment of ...got None
few_shot_evaluate(adapts, point, adaptation_episodes=-1) -> ValueError: ...got -1
few_shot_evaluate(adapts, point, trials=1, tasks=[1]) -> TypeError: tasks must be a ...got [1]
EvaluationResult([]) -> ValueError: an evaluation needs at least one episode, got none
EvaluationResult([3]) -> TypeError: episodes must be of the type Episode, got 3
RESULT.of_task("b") -> ValueError: task must be one of ['a'], got 'b'
EvaluationResult.load(THIS) -> ValueError: expected an evaluation in JSON, ...test_odd_inputs.py
EvaluationResult.from_dict({"format": RESULT.FORMAT}) -> ValueError: expected an ...got ['format']
"""

CHECKERS_AND_CLI = """
check_mtenv(multi(), steps=0) -> ValueError: steps must be a positive integer, got 0
check_meta_vector_env(None, counting(2)) -> TypeError: make_vector must be callable, got None
check_meta_vector_env(lambda m, **_: 3, counting(2)) -> AssertionError: make_vector must ...got 3
mtwrappers.NotThere -> AttributeError: module 'mtwrappers' has no attribute 'NotThere'
cli("nope") -> Exit: argument {list,rollout,verify-fast}: invalid choice: 'nope'
cli("rollout") -> Exit: the following arguments are required: benchmark
cli("rollout", "MT11") -> Exit: ...choose from MT1, MT10, MT25, MT50, ML1-train
cli("rollout", "MT10", "--task", "nope-v3") -> Exit: ...nope-v3...reach-v3
cli("rollout", "MT10", "--episodes", "0") -> Exit: argument --episodes: must be 1 or more, got 0
cli("rollout", "MT10", "--seed", "-1") -> Exit: argument --seed: must be in [0, 2**32 - 2], got -1
cli("rollout", "MT10", "--workers", "two") -> Exit: argument --workers: must be 1 or more, got two
cli("rollout", "MT10", "--policy", "best") -> Exit: argument --policy: invalid choice: 'best'
cli("rollout", "MT10", "--out", "/proc/x") -> Exit: cannot write to /proc/x
cli("verify-fast", "--workers", "-2") -> Exit: argument --workers: must be 1 or more, got -2
cli("list", "extra") -> Exit: unrecognized arguments: extra
"""

METAWORLD = """
make("MT1", env_name="reach-v9") -> ValueError: unknown class 'reach-v9' (did you mean 'reach-v3'?);
make("MT10", env_name="reach-v3") -> ValueError: MT10 takes no env_name, got 'reach-v3'
make("MT10", num_goals=0) -> ValueError: num_goals must be a positive integer, got 0
make("MT10", seed=-1) -> ValueError: a seed must be zero or greater, got -1
make("MT10", seed=2**40) -> ValueError: a benchmark's seed must be below 2**32 ...got 1099511627776
make("CustomMT", train_classes="reach-v3") -> ValueError: expected a ...got the string 'reach-v3'
make("CustomMT", train_classes=["x"]) -> ValueError: unknown class 'x'; expected one of
make("MT1", env_name="reach-v3", num_goals=2, task_encoding="one_hot") -> ValueError: task_encoding 
make("MT1", env_name="reach-v3", num_goals=2, select="best") -> ValueError: select ...got 'best'
make("MT1", env_name="reach-v3", num_goals=2, fast="yes") -> ValueError: fast must be ...got 'yes'
make_vec("MT10", num_envs=7) -> ValueError: MT10 has 10 tasks: num_envs must be a multiple of 10 (10
mt.reset(options={"task": 3}) -> ValueError: a Meta-World environment knows ...got ['task']
mt.reset(options="x") -> TypeError: options of a Meta-World environment must be a dict, got 'x'
mt.reset(seed=1.0) -> TypeError: a seed must be an integer, got 1.0
do(mt, "reset()", "step(np.zeros(3))") -> ValueError: ...expected an action of shape (4,), got (3,)
do(mt, "reset()", "step(np.full(4, INF))") -> ValueError: ...expected a ...got [inf inf inf inf]
MetaWorldTaskSampler("MT10", "validation") -> ValueError: kind must be 'train' ...got 'validation'
MetaWorldTaskSampler("MT11", "train") -> ValueError: unknown benchmark 'MT11'; expected one of
MetaWorldTaskSampler(None, "train") -> TypeError: benchmark must be a ...got None
MetaWorldTaskSampler("ML10", "train", add_env_onehot=True) -> ValueError: add_env_onehot is for the
MetaWorldSetTaskEnv("MT10", "both") -> ValueError: kind must be 'train', 'test' or None, got 'both'
MetaWorldSetTaskEnv(3) -> ValueError: benchmark must be a metaworld.Benchmark or the name ...got 3
MetaWorldSetTaskEnv().sample_tasks(1) -> ValueError: sample_tasks needs a benchmark
MetaWorldSetTaskEnv().reset() -> ResetNeeded: no task was set: call set_task(task) before reset()
"""

# Of both executors.
CONSTRUCTED = """
executor(None, 2) -> TypeError: expected a constructor, a list of constructors or a ...got None
executor("CartPole-v1", 2) -> TypeError: expected a constructor, ... or a ...got 'CartPole-v1'
executor(counting(3), 2) -> ValueError: expected 2 constructors (one per task) or 2 (one ...got 3
executor(gymnasium.Env, 2) -> TypeError: environment 0 must have an observation_space, <
executor([CountingEnv, 7], 2) -> TypeError: the constructor of environment 1 must be callable, got 7
executor([CountingEnv, lambda: 3], 2) -> TypeError: the constructor of environment 1 must ...got 3
executor(Odd(info={"lock": threading.Lock()}), 2) -> TypeError: an environment must pickle to be giv
executor([CountingEnv, partial(CountingEnv, obs_size=3)], 2) -> ValueError: environment 1 has observ
executor([CountingEnv, partial(CountingEnv, num_actions=5)], 2) -> ValueError: environment 1 has act
executor(CountingEnv, 0) -> ValueError: meta_batch_size must be a positive integer, got 0
executor(CountingEnv, 2, "2") -> ValueError: envs_per_task must be a positive integer, got '2'
executor(CountingEnv, 2, 1, 0) -> ValueError: max_path_length must be a positive integer, got 0
executor(CountingEnv, 2, autoreset_mode="same_step") -> ValueError: ...got 'same_step'
executor(CountingEnv, 2).step([0, 0]) -> ResetNeeded: call reset() before step()
do(executor(CountingEnv, 2), "close()", "reset()") -> ClosedEnvironmentError: Meta...EnvExecutor was
executor(partial(Odd, obs=np.zeros(3)), 1).reset() -> ValueError: ...got array([0., 0., 0.])
executor(partial(Odd, info=None), 1).reset() -> TypeError: environment 0: expected ...got (
"""

WORKERS = """
MetaParallelEnvExecutor(CountingEnv, 2, workers=0) -> ValueError: workers must be a ...got 0
MetaParallelEnvExecutor(CountingEnv, 2, on_worker_failure="ignore") -> ValueError: ...must be 'raise
MetaParallelEnvExecutor(CountingEnv, 2, timeout=0) -> ValueError: timeout must be positive ...got 0
MetaParallelEnvExecutor(CountingEnv, 2, timeout=NAN) -> ValueError: timeout must be ...got nan
MetaParallelEnvExecutor(CountingEnv, 2, timeout="a") -> ValueError: timeout must be a ...got 'a'
MetaParallelEnvExecutor(CountingEnv, 2, context="thread") -> ValueError: ...'thread'
"""

# Of one executor of each kind, which can be used as before after each.
USES = """
envs.step([0]) -> ValueError: expected actions of shape (2,), a row of () for each of ...got (1,)
envs.step(None) -> ValueError: expected actions of shape (2,), ...; got NoneType
envs.step(np.array([None, None])) -> ValueError: actions must be numbers of at most 8 ...got object
envs.step_wait() -> RuntimeError: step_wait() needs a step_async() before it
envs.reset(seed="a") -> TypeError: a seed must be an integer, got 'a'
envs.reset(seed=[1]) -> ValueError: expected 2 seeds, one per environment, got 1
envs.reset(options="x") -> TypeError: options must be a dict or None, got 'x'
envs.reset(options={"reset_mask": np.zeros(2, bool)}) -> ValueError: reset_mask must name at least o
envs.set_tasks([1, 2, 3]) -> ValueError: expected 2 tasks, one for each group of 1 environments, got
envs.set_attr("first", [1, 2, 3]) -> ValueError: expected 2 values, one per environment, got 3
envs.get_attr("nope") -> AttributeError: environment 0: 'CountingEnv' object has no attribute 'nope'
envs.get_attr(3) -> TypeError: environment 0: a name that is no string must be callable, got 3
envs.call("nope") -> AttributeError: environment 0: 'CountingEnv' object has no attribute 'nope'
envs.call("reset", nope=1) -> TypeError: environment 0: ...got an unexpected keyword argument 'nope'
"""

# Of every adapter, and of what Stable-Baselines3 is given, which can be used as before after each.
ADAPTED = """
adapt(None) -> TypeError: expected a MetaVectorEnv, such as gymnasium.make_vec ...got NoneType
adapt(SyncVectorEnv(counting(2))) -> TypeError: expected a MetaVectorEnv, ...got SyncVectorEnv
adapt(ClipReward(three(), 0, 1)) -> TypeError: expected a MetaVectorEnv, ...got ClipReward
adapt(closed()) -> ClosedEnvironmentError: ...an open vector env...was closed
adapt(three(autoreset_mode="NextStep")) -> ValueError: ...autoreset_mode='SameStep', got 'NextStep'
adapt(MetaVectorWrapper(three(autoreset_mode="NextStep"))) -> ValueError: ...got 'NextStep'
"""
SB3 = """
as_sb3_vec_env(three(autoreset_mode="Disabled")) -> ValueError: Stable-Base...got 'Disabled'
venv.get_attr("first", 3) -> IndexError: ...in [-3, 2], got 3
venv.get_attr("first", [0, -4]) -> IndexError: ...in [-3, 2], got -4
venv.get_attr("first", 1.0) -> TypeError: ...must be integers, got 1.0
venv.env_method("render", indices=[True]) -> TypeError: ...integers, got True
venv.set_attr("first", 1, np.ones(3, bool)) -> TypeError: ...got ...True
venv.env_is_wrapped(gymnasium.Wrapper, "a") -> TypeError: ...integers, got 'a'
venv.get_attr("nothing") -> AttributeError: ...nothing
venv.seed("x") -> TypeError: ...got 'x'
venv.set_options([{"a": 1}, {"a": 2}, {"a": 1}]) -> ValueError: ...3 equal ones, got [{'a': 1}, {'a
venv.set_options([{}]) -> ValueError: expected a dict of options or 3 equal ones, got [{}]
venv.set_options("x") -> TypeError: ...environment 0 must be a dict, got 'x'
venv.set_options({"reset_mask": np.ones(3, bool)}) -> ValueError: ...resets all environments at once
venv.step(np.zeros(2, np.int64)) -> ValueError: ...none for environments [2]
venv.step(np.zeros((3, 1))) -> ValueError: expected actions of shape
venv.step_wait() -> RuntimeError: ...needs a step_async
as_sb3_vec_env(three()).step(np.zeros(3, np.int64)) -> ResetNeeded: ...call reset
do(as_sb3_vec_env(three()), "close()", "reset()") -> ClosedEnvironmentError: ...was closed
"""


def lines(table):
    return pytest.mark.parametrize("line", [line for line in table.splitlines() if line])


def check(line, **names):
    call, says = line.split(" -> ")
    raised = None
    try:
        eval(call, {**globals(), **NAMES, **names})
    except Exception as exc:
        raised = exc
    said = f"{type(raised).__name__}: {raised}"
    assert re.match(re.escape(says).replace(re.escape("..."), ".*"), said, re.DOTALL), said


@pytest.fixture(scope="module")
def point():
    with contextlib.closing(NAMES["make_vec"]("PointGoal", num_envs=2)) as envs:
        yield envs


@pytest.fixture(scope="module")
def mt():
    pytest.importorskip("metaworld")
    with contextlib.closing(NAMES["make"]("MT1", env_name="reach-v3", num_goals=2)) as env:
        yield env


@pytest.fixture(scope="module", params=EXECUTORS.values(), ids=EXECUTORS)
def executor(request):
    return request.param


@pytest.fixture(scope="module")
def envs(executor):
    with contextlib.closing(executor(counting_makers(2), 2)) as envs:
        yield envs


@lines(WRAPPERS + ENVIRONMENTS + TASKS + SAMPLERS + PROCESSORS + CHECKERS_AND_CLI + WORKERS)
def test_odd_calls_say_what_was_expected_and_what_came(line):
    check(line)


@lines(EVALUATION)
def test_odd_evaluations_do_too(line, point):
    check(line, point=point)


@lines(METAWORLD)
def test_odd_calls_of_meta_world_do_too(line, mt):
    check(line, mt=mt)


@lines(CONSTRUCTED)
def test_odd_executors_do_too(line, executor):
    check(line, executor=executor)


@lines(USES)
def test_odd_uses_of_an_executor_do_too_and_leave_it_usable(line, envs):
    envs.reset(seed=0)
    check(line, envs=envs)
    envs.reset(seed=0)
    assert envs.step([0, 0])[0].tolist() == [[1, 1], [101, 101]]


@pytest.mark.parametrize("adapt", [mtwrappers.as_sb3_vec_env, mtwrappers.as_torchrl_env])
@lines(ADAPTED)
def test_what_adapters_cannot_use_is_named(line, adapt):
    check(line, adapt=adapt)


@pytest.fixture(scope="module")
def venv():
    pytest.importorskip("stable_baselines3")
    with contextlib.closing(mtwrappers.as_sb3_vec_env(NAMES["three"]())) as venv:
        yield venv


@lines(SB3)
def test_odd_uses_of_a_vec_env_are_named_and_leave_it_usable(line, venv):
    venv.reset()
    check(line, venv=venv)
    venv.reset()
    assert venv.step(np.zeros(3, np.int64))[1].tolist() == [1, 1, 1]
    assert venv.get_attr("first") == [0, 100, 200]
