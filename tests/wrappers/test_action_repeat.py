import pytest

from mtwrappers.wrappers.action_repeat import ActionRepeat
from tests.fakes import CountingEnv, play


@pytest.mark.parametrize("truncate", [False, True])
def test_each_action_is_played_n_times_or_to_the_end_and_rewards_are_summed(truncate):
    env = CountingEnv(5, truncate=truncate)
    [_, *steps] = play(ActionRepeat(env, 3), [1, 0], seed=0)
    assert [step[0].tolist() for step in steps] == [[3, 3], [5, 5]]
    assert [step[1] for step in steps] == [1.0 + 2.0 + 3.0, 4.0 + 5.0]
    assert [step[2:4] for step in steps] == [(False, False), (not truncate, truncate)]
    assert [step[4]["steps"] for step in steps] == [3, 5]
    assert {type(step[1]) for step in steps} == {float}
    assert env.actions == [1] * 3 + [0] * 2
    assert not ActionRepeat(env, 3).has_wrapper_attr("_max_episode_steps")
