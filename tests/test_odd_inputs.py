"""Odd calls over the whole public API: each names what was expected and what came.

Those of executors and of their adapters are in ``tests/vector/test_odd_inputs.py``,
those of Meta-World in ``tests/metaworld/test_odd_inputs.py``.
"""

import contextlib

import pytest

from tests.odd_inputs import NAMES, check, lines

WRAPPERS = """
MultiEnvWrapper([CountingEnv, CountingEnv()]) -> TypeError: the constructor of task 1 in ...got <
differing().set_task_state(1) -> ValueError: task 1 has ...; wrap the environment, as in the guide
arms().set_task_state(1) -> ValueError: task 1 has an observation space that is not within ...padded
arms().set_task_state(2) -> ValueError: task 2 has action space ...at most 3 entries
multi().set_task_state(np.zeros((9, 9))) -> ValueError: ...in [0, 1], got array([[0., 0., ......
multi(task_names=["a"]) -> ValueError: task_names must hold one name for each of 2 tasks, got ['a']
multi(task_names=["a", "a"]) -> ValueError: task_names must differ, got ['a'] more than once
goals([1, 2], task_names=["a", "a"]) -> ValueError: task_names must differ, got ['a'] more than once
multi(task_names=[1, 2]) -> TypeError: task_names must be strings, got [1, 2]
multi(unify="crop") -> ValueError: unify must be 'pad', a dict of ...or None, got 'crop'
multi(unify={"image_size": 64}) -> TypeError: ...unexpected keyword argument 'image_size'
multi(max_episode_steps=[1]) -> ValueError: max_episode_steps must hold one ...2 tasks, got [1]
multi(max_episode_steps=[1, "x"]) -> ValueError: max_episode_steps of task 1 must be a ...got 'x'
multi(task_embedding=[1, 2]) -> ValueError: task_embedding must be an array (2, E) ...shape (2,)
multi(task_embedding=[[1], [2, 3]]) -> ValueError: ...task_embedding must be an array
multi(task_embedding=[[1], [NAN]]) -> ValueError: task_embedding must be finite, got
PadSpaces(3) -> TypeError: env must be a gymnasium.Env, got 3
PadSpaces(CountingEnv(), 1) -> ValueError: the environment has ..., expected at most 1 entries
PadSpaces(TaskOnehotWrapper(CountingEnv(), 0, 2), 5) -> ValueError: the environment would be padded
PadSpaces(RL2Observation(CountingEnv()), 9) -> ValueError: ...such as RL2Observation(PadSpaces(env,
TaskOnehotWrapper(make("MultiEnv"), 1, 2) -> ValueError: the observations of ...which FlattenMTEnv a
TaskOnehotWrapper(TaskOnehotWrapper(CountingEnv(), 0, 2), 0, 2) -> ValueError: the observations of
TaskOnehotWrapper(make("MultiEnv", task_encoding="none"), 1, 2) -> ValueError: TaskOnehotWrapper is 
TaskOnehotWrapper.wrap_env_list([CountingEnv()] * 2) -> ValueError: environment 1 of envs is environ
MultiEnvWrapper([lambda env=CountingEnv(): env] * 2).set_task_state(1) -> ValueError: the constructo
PadSpaces(CountingEnv(), action_size=3) -> TypeError: the action space ...got Discrete(2); wrap an
PadSpaces(gymnasium.make("FrozenLake-v1")) -> TypeError: ...must be a 1-D Box ...FlattenObservation
multi(select="x") -> ValueError: select must be one of ['least_success', 'round_robin', 'uniform', '
multi(select=["uniform"]) -> ValueError: select must be one of ... or a callable, got ['uniform']
do(drawing(2), "reset(seed=0)") -> ValueError: ...must be an integer in [0, 1], got 2
do(drawing(None), "reset(seed=0)") -> ValueError: ...be an integer in [0, 1], got None
multi().step(0) -> ResetNeeded: task 0 has no episode ...: call reset() before step()
multi().reset(options={"Task_state": 1}) -> ValueError: MultiEnvWrapper takes ...['Task_state']
multi().reset(options={"resampel_task": 1}) -> ValueError: MultiEnvWrapper ...['resampel_task']
multi().reset(options={"resample_task": "no"}) -> TypeError: options['resample_task'] must ...'no'
multi(task_names={"a", "b"}) -> TypeError: task_names must be a list of at least one name, got {
multi().set_state(None) -> TypeError: a state must be a dict, got None
EnvToMTEnv(CountingEnv(), [1]) -> TypeError: <CountingEnv instance> has no set_task(task); pass a
goals([{"goal": (1, 0)}], task_obs=3) -> ValueError: task_obs and ...got only one
goals([{"goal": (1, 0)}], task_obs=int, task_observation_space=3) -> TypeError: task_observation_
goals([{"goal": (1, 0)}], initial_task_state=1) -> ValueError: initial_task_state must be ...got 1
goals(BOX, task_names=["a"]) -> ValueError: task_names and select are for a list of tasks, got a
goals(BOX, select="round_robin") -> ValueError: task_names and select are for a list of tasks, got a
do(goals(BOX, print), "set_task_state(np.ones(1) * 2)") -> ValueError: ...an element of Box...got a
TaskOnehotWrapper(CountingEnv(), 3, 3) -> ValueError: task_index must be an integer in [0, 2], got 3
TaskOnehotWrapper(gymnasium.make("FrozenLake-v1"), 0, 3) -> TypeError: ...got Discrete(16); ...Fla
do(TaskOnehotWrapper(Odd(obs=3.0), 0, 2), "reset()") -> ValueError: expected ...(2,)...got 3.0
do(TaskOnehotWrapper(Odd(obs=[1, None]), 0, 2), "reset()") -> ValueError: expected ...[1, None]
do(TaskOnehotWrapper(Odd(obs=[[1, 2], 3]), 0, 2), "reset()") -> ValueError: ...got [[1, 2], 3]
do(RL2Observation(Odd(obs=[1, 2, 3])), "reset()") -> ValueError: expected ...(2,)...got [1, 2, 3]
do(MultiEnvWrapper([lambda: Odd(obs=3.0)], unify="pad"), "reset()") -> ValueError: ...got 3.0
do(TerminateOnSuccess(CountingEnv()), "reset()", "step(0)") -> ValueError: expected 'success' in the
do(TerminateOnSuccess(Odd(info={"success": NAN})), "reset()", "step(0)") -> ValueError: ...got nan
do(TerminateOnSuccess(Odd(info={"success": "no"})), "reset()", "step(0)") -> ValueError: ...got 'no'
TaskNameWrapper(CountingEnv(), task_id="x") -> TypeError: task_id must be an int, got 'x'
TaskNameWrapper(CountingEnv()) -> ValueError: give task_name, task_id, or both; got neither
FlattenMTEnv(CountingEnv()) -> TypeError: expected an MTEnv with observations {env_obs, task_obs}
FlattenMTEnv(MultiEnvWrapper([images])) -> TypeError: the space of env_obs must be ...images, use th
FlattenMTEnv(MultiEnvWrapper([multi])) -> TypeError: the space of env_obs must be a 1-D Box, got Di
FlattenMTEnv(bytes_and(Dict(a=BOX))) -> TypeError: the space of task_obs must be Discrete or ...Dict
FlattenMTEnv(bytes_and(Box(0, 1, (2, 2)))) -> TypeError: the space of task_obs must be ...1-D Box,
FlattenMTEnv(bytes_and(BOX)) -> TypeError: task_obs of dtype float32 ...dtype uint8 without loss
do(NormalizeRewardPerTask(of_task(-1)), *BEGUN) -> ValueError: ...in [0, 0]...with task_id -1; pass
do(NormalizeRewardPerTask(CountingEnv(), 2), *BEGUN) -> ValueError: ...with task_id None; ...TaskNa
do(VectorNormalizeRewardPerTask(three(), 2), "reset()") -> ValueError: ...got 2 from environment 2;
do(VectorNormalizeObservationPerTask(three(), 2), "reset()") -> ValueError: ...got 2 from environme
NormalizeRewardPerTask(CountingEnv()).set_state(None) -> TypeError: a state must be a dict, got None
NormalizeObservationPerTask(CountingEnv(), num_leading=9) -> ValueError: num_leading must ...got 9
NormalizeObservationPerTask(gymnasium.make("FrozenLake-v1")) -> TypeError: an observation space to b
NormalizeObservationPerTask(CountingEnv(dtype=np.int64)) -> TypeError: observations of dtype int64
RL2Observation(dict_actions()) -> TypeError: expected a Box, Discrete, MultiDiscrete or ...got Dict(
RL2Observation(SyncVectorEnv(counting(2))) -> TypeError: RL2...one env...: use VectorRL2Observation
NormalizeRewardPerTask(SyncVectorEnv(counting(2))) -> TypeError: ...VectorNormalizeRewardPerTask
VectorRL2Observation(CountingEnv()) -> TypeError: ...for vector environments, got ...<CountingEnv
VectorNormalizeRewardPerTask(SyncVectorEnv(counting(2))) -> TypeError: ...got SyncVectorEnv, which h
MetaVectorWrapper(ClipReward(three(), 0, 1)) -> TypeError: ...no step_async...Gymnasium's own ...go
"""

# Before the library is imported: each knows only some autoreset modes.
ADAPTERS = """
as_skrl_env([]) -> TypeError: expected a MetaVectorEnv, ...got list
as_skrl_env(closed()) -> ClosedEnvironmentError: expected an open vector environment, ...was closed
as_skrl_env(three()) -> ValueError: skrl needs autoreset_mode='Disabled', got 'SameStep'
as_skrl_env(three(autoreset_mode="NextStep")) -> ValueError: skrl needs ...got 'NextStep'
as_tianshou_env(three()) -> ValueError: Tianshou needs autoreset_mode='Disabled', got 'SameStep'
as_pufferlib_env(three(autoreset_mode="Disabled")) -> ValueError: PufferLib needs ...got 'Disabled'
as_torchrl_env(three(autoreset_mode="NextStep")) -> ValueError: TorchRL needs ...got 'NextStep'
"""

ENVIRONMENTS = """
PointGoalEnv(radius=NAN) -> ValueError: radius must be in (0, 4], got nan
PointGoalEnv(render_mode="human") -> ValueError: ...render_mode must be None, got 'human'
PointGoalEnv().set_task({"goal": (1, NAN)}) -> ValueError: a task must be {'goal': (x, y)}, got {'g
PointGoalEnv().reset(options={"tasks": 1}) -> ValueError: PointGoalEnv takes no ...got ['tasks']
PointGoalEnv().reset(options={"goal": (1, 0)}) -> ValueError: ...got ['goal']; set_task sets a goal
PointGoalEnv().step([0, 0]) -> ResetNeeded: call reset() before step()
do(PointGoalEnv(), "reset()", "step([0, INF])") -> ValueError: expected a finite ...got [0, inf]
make("MultiEnv", env_ids=[CountingEnv]) -> TypeError: entry 0 of env_ids must be a ...; register the
make("MultiEnv", env_ids=["CartPole-v1"] * 2) -> ValueError: env_ids has ['CartPole-v1'] more than
make_vec("MultiEnv", env_ids=["CartPole-v1"] * 2) -> ValueError: env_ids has ...pass a name for each
make("MultiEnv", env_ids=["tests/Nope-v9"]) -> NameNotFound: the constructor of task 0 ('tests/Nope-
make("MultiEnv", env_kwargs=[3, {}]) -> TypeError: env_kwargs of task 0 must be a dict, got 3
make_vec("MultiEnv", env_ids=UNEQUAL) -> DifferentSpacesError: environment 1 has another observation
make_vec("MultiEnv", num_envs=5) -> ValueError: MultiEnv has 2 tasks: num_envs must be a multiple of
"""

TASKS = """
pool().sample(2) -> ValueError: the pool holds 1 environments, got n_tasks=2; grow_pool(2)
pool().sample(1, True) -> ValueError: a pool of environments cannot be sampled with replacement
do(EnvPoolSampler([Uncopyable()]), "grow_pool(2)") -> TypeError: cannot copy ...Uncopyable...it hold
SetTaskSampler(CountingEnv) -> TypeError: <CountingEnv instance> has no sample_tasks(n)
NewEnvUpdate(lambda: None)() -> TypeError: what env_constructor makes must be a ...got None
SetTaskUpdate(CountingEnv, 1)() -> TypeError: <CountingEnv instance> has no set_task(task)
SetTaskUpdate(PointGoalEnv, {"goal": (0, 1)}, dict)() -> TypeError: in wrapper(env, task), which
"""

SAMPLERS = """
sampler(envs_per_task=3) -> ValueError: envs_per_task=3 is more than rollouts_per_meta_task=2
sampler(parallel=True, execution="ray") -> ValueError: parallel=True means ...got execution='ray'
sampler(log_sink="stdout") -> TypeError: a log sink must be a callable (key, value) ...got 'stdout'
sampler(nope=1) -> TypeError: MetaSampler got an unexpected keyword argument 'nope': it takes
sampler(autoreset_mode="NextStep") -> TypeError: MetaSampler got ...mode': it resets env
sampler(env=CountingEnv).update_tasks() -> TypeError: <CountingEnv instance> has no sample_tasks(n);
sampler(policy=lambda o: o * NAN).obtain_samples() -> ValueError: actions of environments [0, 1, 2,
do(sampler(), "close()", "obtain_samples()") -> ClosedEnvironmentError: MetaIterativeEnvExecutor was
"""

PROCESSORS = """
SampleProcessor(None) -> TypeError: a baseline must be ...with fit and predict, such as ...got None
DiceSampleProcessor(ZeroBaseline(), 2, bootstrap_truncated=True) -> ValueError: ...a return_baseline
SampleProcessor(ZeroBaseline()).process_samples([PATH], log="al") -> ValueError: log ...got 'al'
processed({"observations": np.full(3, None)}) -> ValueError: each observation of ...got dtype object
LinearFeatureBaseline(-1) -> ValueError: reg_coeff must be zero or greater, got -1
LinearTimeBaseline().predict({}) -> ValueError: path 0 of those to predict lacks ['observations']; i
SampleProcessor(ZeroBaseline()).process_samples({0: [PATH]}) -> ValueError: ...; the paths of severa
ZeroBaseline().predict(None) -> ValueError: path 0 of those to predict must be a dict, got None
discounted_sums([1, 2, 3], 0.9, [2]) -> ValueError: lengths must add up to 3 steps, got [2]
"""

EVALUATION = """
evaluate(np.negative, SyncVectorEnv(counting(2))) -> TypeError: envs must be a vector ...got Sync
evaluate(np.negative, point, 1, evidence="r.json") -> ValueError: evidence must ...npz, got 'r.json'
evaluate(np.negative, point, 1, tasks=["x"]) -> ValueError: tasks must be among ['task ...got ['x']
judged(lambda: Odd(reward=NAN)) -> ValueError: rewards must be finite, got a return of nan from envi
judged(lambda: Odd(info={"success": NAN})) -> ValueError: info['success'] must be a bool, 0 or 1, go
few_shot_evaluate(np.negative, point) -> TypeError: a policy that adapts must have adapt(paths) or b
few_shot_evaluate(SimpleNamespace(adapt=print), point) -> TypeError: ...have get_actions...callable
few_shot_evaluate(begins, point, 2, adaptation_steps=0) -> ValueError: adaptation_steps must be a
few_shot_evaluate(begins, point, 2, adaptation_steps=2) -> ValueError: ...needs a policy with adapt
few_shot_evaluate(begins, point, [[0, 1], [0]]) -> ValueError: trials must be 
few_shot_evaluate(begins, three(), 2) -> ValueError: ...: pass tasks, 3 for each of 2 trials
few_shot_evaluate(begins, MetaIterativeEnvExecutor(drawing, 2)) -> ValueError: ..._on_reset=False
few_shot_evaluate(adapts, point, adaptation_episodes=-1) -> ValueError: ...got -1
EvaluationResult([3]) -> TypeError: episodes must be of the type Episode, got 3
evaluate(np.negative, point, 1, observers=[3]) -> TypeError: observers must be a list of Observer
EvaluationResult([]) -> ValueError: an evaluation needs at least one episode after adaptation
RESULT.of_task("b") -> ValueError: task must be one of ['a'], got 'b'
EvaluationResult.load(THIS) -> ValueError: expected an evaluation in JSON, ...odd_inputs.py
RESULT.save("actions.npz") -> ValueError: a result is saved as JSON, ...got actions.npz
EvaluationResult.from_dict({"format": RESULT.to_dict()["format"]}) -> ValueError: ...no 'episodes'
"""

CHECKERS = """
check_vector_env(CountingEnv, ignore="info.a") -> ValueError: ignore must be names of infos such as
check_vector_env(CountingEnv, ignore=["info."]) -> ValueError: ignore must be names of infos such as
check_meta_vector_env(lambda m, **_: 3, counting(2)) -> AssertionError: make_vector must ...got 3
mtwrappers.NotThere -> AttributeError: module 'mtwrappers' has no attribute 'NotThere'
"""


@pytest.fixture(scope="module")
def point():
    with contextlib.closing(NAMES["make_vec"]("PointGoal", num_envs=2)) as envs:
        yield envs


@lines(WRAPPERS + ADAPTERS + ENVIRONMENTS + TASKS + SAMPLERS + PROCESSORS + CHECKERS)
def test_odd_calls_say_what_was_expected_and_what_came(line):
    check(line)


@lines(EVALUATION)
def test_odd_evaluations_do_too(line, point):
    check(line, point=point)
