import pickle
from contextlib import closing

import pytest

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
