"""The additions of `TaskOnehotWrapper` and `TaskNameWrapper`; see also ``test_single.py``."""

import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box

from mtwrappers import FlattenMTEnv, TaskNameWrapper, TaskOnehotWrapper
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList
from tests.fakes import CountingEnv, counting_makers, equal, play


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_onehot_follows_the_observation_in_its_dtype_and_all_else_stays(dtype):
    plain = CountingEnv(low=2, high=9, first=5, dtype=dtype)
    env = TaskOnehotWrapper(CountingEnv(low=2, high=9, first=5, dtype=dtype), 1, 3)
    low, high = np.array([2, 2, 0, 0, 0], dtype), np.array([9, 9, 1, 1, 1], dtype)
    assert env.observation_space == Box(low, high, dtype=low.dtype.type)
    assert env.action_space == plain.action_space
    results, plain_results = play(env, [0, 1, 0], seed=0), play(plain, [0, 1, 0], seed=0)
    for count, (result, (_, *flags, info)) in enumerate(zip(results, plain_results, strict=True)):
        assert equal(result[0], np.array([5 + count, 5 + count, 0, 1, 0], dtype))
        assert equal(result[1:], (*flags, {**info, "task_id": 1}))


@pytest.mark.parametrize(
    "task_infos", [{"task_name": "reach"}, {"task_id": 0}, {"task_id": 3, "task_name": ""}]
)
def test_what_is_given_is_in_the_info_of_every_call_and_all_else_stays(task_infos):
    plain = CountingEnv(2)
    env = TaskNameWrapper(CountingEnv(2), **task_infos)
    assert env.observation_space == plain.observation_space
    results, plain_results = play(env, [0, 1], seed=0), play(plain, [0, 1], seed=0)
    for result, (*plain_values, info) in zip(results, plain_results, strict=True):
        assert equal(result, (*plain_values, {**info, **task_infos}))


def test_an_environment_of_many_tasks_of_which_one_can_be_set_gets_a_onehot():
    class OneOfThreeEnv(TaskSetMTEnv):
        def __init__(self, task_states):
            inner = CountingEnv()
            tasks = TaskList([0, 1, 2], task_states=task_states)
            super().__init__(inner.action_space, inner.observation_space, None, tasks)
            self._env = inner

        def _activate(self, task_state):
            pass

    env = OneOfThreeEnv((1,))
    assert (env.task_ids, env.settable_task_ids) == ((0, 1, 2), (1,))
    obs, _ = TaskOnehotWrapper(FlattenMTEnv(env, "none"), 0, 2).reset(seed=0)
    assert obs[-2:].tolist() == [1, 0]
    with pytest.raises(ValueError, match="can switch between 2"):
        TaskOnehotWrapper(FlattenMTEnv(OneOfThreeEnv((0, 2)), "none"), 0, 2)


def test_a_name_may_be_passed_by_position():
    env = TaskNameWrapper(CountingEnv(), "near")
    assert env.reset()[1]["task_name"] == "near"


def test_the_info_of_the_environment_is_not_changed():
    env, shared = CountingEnv(), {}
    env._info = lambda: shared
    for wrapped in (TaskOnehotWrapper(env, 0, 2), TaskNameWrapper(env, task_id=0)):
        assert [result[-1] for result in play(wrapped, [0])] == [{"task_id": 0}] * 2
    assert shared == {}


class LoudOnehotWrapper(TaskOnehotWrapper):
    pass


def fail():
    raise OSError("it was called")


def test_lists_get_the_onehot_of_their_places_by_the_class_that_was_asked():
    envs = [make() for make in counting_makers(3)]
    wrapped = LoudOnehotWrapper.wrap_env_list(envs)
    makers = LoudOnehotWrapper.wrap_env_cons_list([*counting_makers(2), fail])
    assert [env.env for env in wrapped] == envs
    *unpickled_makers, failing_maker = pickle.loads(pickle.dumps(makers, 2))
    for i, env in enumerate([*wrapped[:2], *(make() for make in unpickled_makers)]):
        assert type(env) is LoudOnehotWrapper
        assert env.reset()[0].tolist() == [[0, 0, 1, 0, 0], [100, 100, 0, 1, 0]][i % 2]
    with pytest.raises(OSError, match="it was called"):  # only now
        failing_maker()
