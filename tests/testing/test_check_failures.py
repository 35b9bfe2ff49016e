"""`check_vector_env` and environments that raise: nothing stays open."""

import functools

import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers.testing.check.executor_checks import alone
from mtwrappers.testing.check.subject import subject_of
from tests.testing.faults import WalkEnv


class FailingEnv(WalkEnv):
    """Fails to be made, reset or stepped as the third of all."""

    made: list["FailingEnv"]

    def __init__(self, fails, made):
        super().__init__()
        self.fails, self.made, self.closed = fails, made, False
        self._fail("make")
        made.append(self)

    def _fail(self, where):
        if self.fails == where and len(self.made) >= 2:
            raise RuntimeError(f"cannot {where}")

    def reset(self, *, seed=None, options=None):
        self._fail("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._fail("step")
        return super().step(action)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("fails", ["make", "reset", "step"])
def test_environments_that_play_by_themselves_are_closed_if_one_of_them_raises(fails):
    subject = subject_of(WalkEnv, {}, None, None)
    subject.make = functools.partial(FailingEnv, fails, made := [])
    with pytest.raises(RuntimeError, match=f"cannot {fails}"):
        alone(subject, [[0] * 3], AutoresetMode.SAME_STEP)
    assert [env.closed for env in made] == [True] * (2 if fails == "make" else 3)
