"""What environments return: always new for the caller, and refused where it does not fit."""

import copy
import random
import threading
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaParallelEnvExecutor
from mtwrappers.testing.checks import shares_memory
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import BagEnv, NestedEnv, WordEnv, all_modes, both_executors, exact

FIRST = np.array([True, False])
KINDS = {
    "box": partial(CountingEnv, 3),
    "nested": partial(NestedEnv, 3),
    "text": partial(WordEnv, 3),
    "sequence": partial(BagEnv, 3),
}


def parts(value):
    """Every array in a result, however deep."""
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype == object:
            for item in value:
                yield from parts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from parts(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from parts(item)


@both_executors
@all_modes
@pytest.mark.parametrize("kind", KINDS)
def test_no_array_is_handed_out_twice(executor, mode, kind):
    envs = executor(KINDS[kind], 2, autoreset_mode=mode)
    envs.action_space.seed(0)
    seen = [envs.reset(seed=0)]
    for _ in range(8):
        seen.append(envs.step(envs.action_space.sample()))
        over = seen[-1][2] | seen[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            seen.append(envs.reset(options={"reset_mask": over}))
        seen.append(envs.reset(options={"reset_mask": FIRST}))
    envs.close()
    for i, result in enumerate(seen):
        for other in seen[:i]:
            assert not shares_memory(result, other)
            for array in parts(result):
                assert not any(np.shares_memory(array, one) for one in parts(other))


@both_executors
@all_modes
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_caller_does_to_results_changes_nothing(executor, mode, kind):
    envs = executor(KINDS[kind], 2, autoreset_mode=mode)
    oracle = SyncVectorEnv([KINDS[kind]] * 2, autoreset_mode=mode)
    envs.action_space.seed(0)

    def check_and_scribble(method, **kwargs):
        result, expected = (getattr(one, method)(**copy.deepcopy(kwargs)) for one in (envs, oracle))
        assert equal(result, expected)
        for array in list(parts(result)):
            array[...] = None if array.dtype == object else 1
        return expected

    check_and_scribble("reset", seed=0)
    for _ in range(5):
        # The other environment's observation is the one that was handed out before.
        check_and_scribble("reset", options={"reset_mask": FIRST})
        expected = check_and_scribble("step", actions=envs.action_space.sample())
        over = expected[2] | expected[3]
        if mode is AutoresetMode.DISABLED and over.any():
            check_and_scribble("reset", options={"reset_mask": over})
    envs.close()
    oracle.close()


class ReusingEnv(CountingEnv):
    """Writes every observation and info into the same arrays."""

    def __init__(self, length):
        super().__init__(length)
        self.obs, self.info = np.zeros(2), {"array": np.zeros(1), "parts": [np.zeros(1)]}

    def _obs(self):
        self.obs[:] = self.steps
        return self.obs

    def _info(self):
        self.info["array"][:] = self.info["parts"][0][:] = self.steps
        return self.info


@both_executors
def test_the_last_observation_of_an_environment_that_reuses_its_arrays_is_kept(executor):
    with closing(executor([partial(ReusingEnv, 2), partial(ReusingEnv, 3)], 2)) as envs:
        envs.reset(seed=0)
        first = envs.step([0, 0])
        infos = envs.step([0, 0])[4]
        assert infos["final_obs"][0].tolist() == [2, 2]
        assert infos["final_info"]["array"][0].tolist() == [2]
        assert infos["final_info"]["parts"][0][0].tolist() == [2]
        assert first[0].tolist() == [[1, 1]] * 2


class OddEnv(CountingEnv):
    """Environment ``1`` of three, whose result of a step or reset is changed."""

    def __init__(self, step=None, reset=None, dtype=np.float64):
        super().__init__(9, dtype=dtype)
        self.change_step, self.change_reset = step, reset
        self.name = "odd"

    def step(self, action):
        result = super().step(action)
        return self.change_step(*result) if self.change_step else result

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        return self.change_reset(*result) if self.change_reset else result

    def _info(self):
        return {"task_name": self.name}


def obs(value):
    return {"step": lambda o, *rest: (value, *rest)}


def flags(terminated, truncated):
    return {"step": lambda o, r, *rest: (o, r, terminated, truncated, rest[-1])}


FLOATS = "expected an observation of shape (2,) and dtype float64, got "
STEP = "expected (observation, reward, terminated, truncated, info) from step(), got "
RESET = "expected (observation, info dict) from reset(), got "


@both_executors
@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        (obs(3.0), ValueError, FLOATS + "3.0 of shape () and dtype float64"),
        (obs(np.zeros(1)), ValueError, FLOATS + "array([0.]) of shape (1,) and dtype float64"),
        (obs(np.zeros((7, 2))), ValueError, FLOATS + "of shape (7, 2) and dtype float64"),
        (obs(None), ValueError, FLOATS + "None (NoneType)"),
        (obs("abc"), ValueError, FLOATS + "'abc' (str)"),
        (
            {"dtype": np.int64, **obs(np.array([1.7, 2.0]))},
            ValueError,
            "expected an observation of shape (2,) and dtype int64, got array([1.7, 2. ]) of shape",
        ),
        ({"step": lambda o, r, t, c, i: (o, r, t, i)}, TypeError, STEP + "a tuple of 4"),
        ({"step": lambda *result: None}, TypeError, STEP + "None"),
        ({"step": lambda o, r, *rest: (o, None, *rest)}, TypeError, "a number, got None"),
        ({"step": lambda o, r, *rest: (o, "much", *rest)}, ValueError, "a number, got 'much'"),
        (flags(None, False), TypeError, "expected terminated to be a bool, got None"),
        (flags(False, "no"), TypeError, "expected truncated to be a bool, got 'no'"),
        ({"step": lambda *r: (*r[:4], None)}, TypeError, "expected an info that is a dict, got N"),
        (
            {"step": lambda o, r, t, c, i: (o, r, True, c, [1])},
            TypeError,
            "expected an info that is a dict, got [1]",
        ),
        ({"reset": lambda o, i: o}, TypeError, RESET + "array([0., 0.])"),
        ({"reset": lambda o, i: (o, None)}, TypeError, RESET + "(array([0., 0.]), None)"),
        ({"reset": lambda o, i: (5, i)}, ValueError, FLOATS + "5 of shape () and dtype int64"),
    ],
)
def test_a_result_that_does_not_fit_names_its_environment(executor, how, error, message):
    dtype = how.get("dtype", np.float64)
    makers = [partial(OddEnv, dtype=dtype), partial(OddEnv, **how), partial(OddEnv, dtype=dtype)]
    with closing(executor(makers, 3)) as envs:
        if "reset" in how:
            with pytest.raises(error, match="^environment 1(, task 'odd')?: .*" + exact(message)):
                envs.reset(seed=0)
            return
        envs.reset(seed=0)
        envs.set_attr("change_step", [None] * 3)
        envs.step([0, 0, 0])
        envs.set_attr("change_step", [None, how["step"], None])
        with pytest.raises(error, match="^environment 1, task 'odd': .*" + exact(message)):
            envs.step([0, 0, 0])
        with pytest.raises(ResetNeeded, match="call reset"):
            envs.step([0, 0, 0])
        envs.set_attr("change_step", [None] * 3)
        envs.reset(seed=0)
        assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]


class LockingEnv(CountingEnv):
    """With ``lock``, the last info of an episode does not pickle."""

    lock = False

    def _info(self):
        info = {"name": f"step {self.steps}"}
        return {**info, "lock": threading.Lock()} if self.lock and self.steps == 2 else info


def test_a_last_info_that_does_not_pickle_is_one_error_and_no_more():
    makers = [partial(LockingEnv, 2)] * 4
    with closing(MetaParallelEnvExecutor(makers, 4, workers=2)) as envs:
        envs.set_attr("lock", [False, False, False, True])
        envs.reset(seed=0)
        envs.step([0] * 4)
        with pytest.raises(TypeError, match=r"^the info of environment 3: cannot pickle"):
            envs.step([0] * 4)
        envs.set_attr("lock", False)
        envs.reset(seed=0)
        assert envs.step([0] * 4)[4]["name"].tolist() == ["step 1"] * 4
        infos = envs.step([0] * 4)[4]
        assert infos["name"].tolist() == ["step 0"] * 4
        assert infos["final_info"]["name"].tolist() == ["step 2"] * 4


class GlobalEnv(CountingEnv):
    """Draws from the global random states."""

    def _info(self):
        return {"numpy": np.random.random(), "python": random.random()}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_have_global_random_states_of_their_own(context):
    before = random.getstate(), np.random.get_state()[1].tolist()
    with closing(MetaParallelEnvExecutor(GlobalEnv, 4, 3, workers=3, context=context)) as envs:
        infos = envs.reset(seed=0)[1]
    assert len(set(infos["numpy"].tolist())) == len(set(infos["python"].tolist())) == 12
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
