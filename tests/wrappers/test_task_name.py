import pytest

from mtwrappers import TaskNameWrapper
from tests.fakes import CountingEnv, play


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({"task_name": "reach"}, {"task_name": "reach"}),
        ({"task_id": 0}, {"task_id": 0}),
        ({"task_id": 3, "task_name": ""}, {"task_id": 3, "task_name": ""}),
    ],
)
def test_what_is_given_is_in_the_info_of_every_call(given, added):
    env = TaskNameWrapper(CountingEnv(2), **given)
    draw = env.reset(seed=0)[1]["draw"]
    infos = [returned[-1] for returned in play(env, [0, 1], seed=0)]
    assert infos == [{"steps": steps, "draw": draw, **added} for steps in (0, 1, 2)]


def test_everything_else_is_that_of_the_environment():
    env = TaskNameWrapper(CountingEnv(2), task_name="reach")
    assert env.observation_space == env.env.observation_space
    assert env.action_space == env.env.action_space
    (obs, _), first, second = play(env, [0, 1])
    assert [obs.tolist(), first[0].tolist(), second[0].tolist()] == [[0, 0], [1, 1], [2, 2]]
    assert first[1:4] == (1.0, False, False)
    assert second[1:4] == (2.0, True, False)
    assert env.unwrapped.actions == [0, 1]
