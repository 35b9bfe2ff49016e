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
    results = play(TerminateOnSuccess(SuccessEnv(key=key), key=key), [0] * 3, seed=0)
    plain = play(SuccessEnv(key=key), [0] * 3, seed=0)
    assert [r[2] for r in results[1:]] == [False, True, False]
    assert {type(r[2]) for r in results[1:]} == {bool}
    assert equal([(*r[:2], *r[3:]) for r in results[1:]], [(*r[:2], *r[3:]) for r in plain[1:]])
    assert equal(results[0], plain[0])


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


def never():
    return SuccessEnv(at=-1)


@both_executors
def test_wrapped_constructors_end_episodes_in_vector_environments(executor):
    makers = pickle.loads(pickle.dumps(TerminateOnSuccess.wrap_env_cons_list([SuccessEnv, never])))
    with closing(MetaVectorWrapper(executor(makers, 2))) as envs:
        envs.reset(seed=0)
        ends = [envs.step([0, 0])[2].tolist() for _ in range(2)]
    assert ends == [[False, False], [True, False]]
