import pickle
from contextlib import closing

import numpy as np
import pytest

from mtwrappers.core.history import TaskHistory
from mtwrappers.wrappers.terminate_on_success import TerminateOnSuccess
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import CountingEnv, equal, play
from tests.vector.fakes import both_executors


class SuccessEnv(CountingEnv):
    """Succeeds at its second step, or never; an episode has five."""

    def __init__(self, length=5, key="success", at=2, **kwargs):
        super().__init__(length, **kwargs)
        self.key, self.at = key, at

    def _info(self):
        return {**super()._info(), self.key: float(self.steps == self.at)}


@pytest.mark.parametrize("key", ["success", "is_success"])
def test_the_first_success_terminates_and_all_else_stays(key):
    reset, *steps = play(TerminateOnSuccess(SuccessEnv(key=key), key=key), [0] * 3, seed=0)
    plain_reset, *plain_steps = play(SuccessEnv(key=key), [0] * 3, seed=0)
    assert equal(reset, plain_reset)
    assert [step[2] for step in steps] == [False, True, False]
    assert {type(step[2]) for step in steps} == {bool}
    for step, plain_step in zip(steps, plain_steps, strict=True):
        assert equal((*step[:2], *step[3:]), (*plain_step[:2], *plain_step[3:]))


@pytest.mark.parametrize("success", ["no", float("nan"), 0.5, 2, None, [0.0]])
def test_a_success_is_a_bool_or_0_or_1_everywhere(success):
    class Reports(CountingEnv):
        def _info(self):
            return {**super()._info(), "success": success}

    message = r"^info\['success'\] must be a bool, 0 or 1, got "
    env = TerminateOnSuccess(Reports())
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(0)
    if success is not None:  # none was reported
        with pytest.raises(ValueError, match=message):
            TaskHistory(1).step(1.0, False, {"success": success})


@pytest.mark.parametrize("success", [True, 1, 1.0, np.True_, np.float32(1), np.int8(1)])
def test_any_number_of_1_is_a_success(success):
    history = TaskHistory(1)
    history.begin(0)
    history.step(1.0, True, {"success": success})
    assert history.successes(0) == (True,)


@pytest.mark.parametrize(("truncate", "flags"), [(False, (True, False)), (True, (False, True))])
def test_the_environments_own_end_stays(truncate, flags):
    assert play(TerminateOnSuccess(SuccessEnv(1, truncate=truncate)), [0])[1][2:4] == flags


def make_never_successful():
    return SuccessEnv(at=-1)


@both_executors
def test_wrapped_constructors_end_episodes_in_vector_environments(executor):
    makers = TerminateOnSuccess.wrap_env_cons_list([SuccessEnv, make_never_successful])
    makers = pickle.loads(pickle.dumps(makers))
    with closing(MetaVectorWrapper(executor(makers, 2))) as envs:
        envs.reset(seed=0)
        ends = [envs.step([0, 0])[2].tolist() for _ in range(2)]
    assert ends == [[False, False], [True, False]]
