import pickle

import pytest

from mtwrappers import TerminateOnSuccess
from mtwrappers.wrappers.vector import MetaVectorWrapper
from tests.fakes import CountingEnv, equal, play
from tests.vector.fakes import all_modes, both_executors


class SuccessEnv(CountingEnv):
    """Succeeds at its second step; an episode has five."""

    def __init__(self, length=5, key="success", **kwargs):
        super().__init__(length, **kwargs)
        self.key = key

    def _info(self):
        return {**super()._info(), self.key: float(self.steps == 2)}


def test_the_first_success_terminates_and_all_else_stays():
    results = play(TerminateOnSuccess(SuccessEnv()), [0] * 3, seed=0)
    plain = play(SuccessEnv(), [0] * 3, seed=0)
    assert [r[2] for r in results[1:]] == [False, True, False]
    assert [type(r[2]) for r in results[1:]] == [bool] * 3
    for ours, theirs in zip(results[1:], plain[1:], strict=True):
        assert equal((*ours[:2], *ours[3:]), (*theirs[:2], *theirs[3:]))
    assert equal(results[0], plain[0])


@pytest.mark.parametrize(("truncate", "flags"), [(False, (True, False)), (True, (False, True))])
def test_the_environments_own_end_stays(truncate, flags):
    env = TerminateOnSuccess(SuccessEnv(1, truncate=truncate))
    assert play(env, [0])[1][2:4] == flags


def test_another_key_may_say_it():
    env = TerminateOnSuccess(SuccessEnv(key="is_success"), key="is_success")
    assert [r[2] for r in play(env, [0] * 2)[1:]] == [False, True]


def test_an_info_without_the_key_is_refused():
    env = TerminateOnSuccess(CountingEnv())
    env.reset()
    with pytest.raises(ValueError, match=r"expected 'success' in the info .*\['draw', 'steps'\]"):
        env.step(0)


@both_executors
@all_modes
def test_wrapped_constructors_end_episodes_in_vector_environments(executor, mode):
    makers = TerminateOnSuccess.wrap_env_cons_list([SuccessEnv, CountingSuccess])
    makers = pickle.loads(pickle.dumps(makers))
    envs = MetaVectorWrapper(executor(makers, 2, autoreset_mode=mode))
    envs.reset(seed=0)
    ended = [envs.step([0, 0])[2].tolist() for _ in range(2)]
    assert ended == [[False, False], [True, False]]
    envs.close()


class CountingSuccess(SuccessEnv):
    """Never succeeds."""

    def _info(self):
        return {**super()._info(), "success": 0.0}
