"""How policies are asked, and the forms in which they may answer."""

import functools

import numpy as np
import pytest

from mtwrappers.samplers.policies import PolicyCaller
from tests.fakes import equal

# Two tasks with three environments each, and observations of two numbers.
OBSERVATIONS = np.arange(12.0).reshape(6, 2)


class Scripted:
    def __init__(self, actions, infos=None):
        self.answer = actions, infos
        self.asked = None

    def get_actions(self, observations):
        self.asked = observations
        return self.answer

    def __call__(self, observations):
        raise AssertionError("it was called, though it has get_actions")


def ask(actions, infos=None):
    return PolicyCaller(Scripted(actions, infos), 2, 3)(OBSERVATIONS)


ACTIONS = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
FLAT = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]


def test_observations_come_task_by_task():
    policy = Scripted(ACTIONS)
    PolicyCaller(policy, 2, 3)(OBSERVATIONS)
    assert policy.asked.tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]


@pytest.mark.parametrize(
    "actions",
    [
        ACTIONS,
        np.array(ACTIONS),
        [np.array(own) for own in ACTIONS],
        tuple(tuple(np.array(one) for one in own) for own in ACTIONS),
    ],
    ids=["lists", "array", "arrays-in-a-list", "arrays-in-tuples"],
)
def test_actions_may_be_nested_lists_or_arrays(actions):
    flat, infos = ask(actions)
    assert isinstance(flat, np.ndarray)
    assert flat.tolist() == FLAT
    assert infos == {}


MEANS = np.arange(12.0).reshape(2, 3, 2)
STDS = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "infos",
    [
        [[{"mean": MEANS[m, k], "std": STDS[m, k]} for k in range(3)] for m in range(2)],
        [[{"mean": MEANS[m, k].tolist(), "std": STDS[m, k]} for k in range(3)] for m in range(2)],
        [{"mean": MEANS[m], "std": STDS[m]} for m in range(2)],
        [{"mean": MEANS[m].tolist(), "std": STDS[m].tolist()} for m in range(2)],
        {"mean": MEANS, "std": STDS},
        {"mean": MEANS.tolist(), "std": STDS.tolist()},
    ],
    ids=["dicts", "dicts-of-lists", "a-dict-a-task", "lists-a-task", "one-dict", "one-of-lists"],
)
def test_agent_infos_come_in_three_forms_nested_or_not(infos):
    def nested(form):
        return [nested(own) for own in form] if isinstance(form, list) else {"in": form}

    _, flat = ask(ACTIONS, infos)
    assert equal(flat, {"mean": MEANS.reshape(6, 2), "std": np.array([0.0, 1, 2, 3, 4, 5])})
    assert equal(ask(ACTIONS, nested(infos))[1], {"in": flat})


@pytest.mark.parametrize("infos", [None, {}, [], [{}, {}], [[{}] * 3, [{}] * 3]])
def test_agent_infos_may_be_absent(infos):
    assert ask(ACTIONS, infos)[1] == {}


def test_a_plain_callable_sees_all_environments_at_once():
    seen = []

    def policy(observations):
        seen.append(observations)
        return (observations[:, 0] * 2).tolist()

    actions, infos = PolicyCaller(policy, 2, 3)(OBSERVATIONS)
    assert equal(seen[0], OBSERVATIONS)
    assert actions.tolist() == [0, 4, 8, 12, 16, 20]
    assert infos == {}


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        (lambda mask: mask.tolist(), [[True] * 6, [True] + [False] * 5]),
        (lambda dones=None: dones.tolist(), [[True] * 6, [True] + [False] * 5]),
        (lambda: "all", ["all"]),
    ],
    ids=["mask", "dones", "nothing"],
)
def test_reset_takes_a_mask_or_nothing(reset, told):
    """One that takes nothing is called where all environments begin."""
    log, policy = [], Scripted(ACTIONS)
    policy.reset = functools.wraps(reset)(lambda *args: log.append(reset(*args)))
    caller = PolicyCaller(policy, 2, 3)
    caller.reset(np.ones(6, dtype=np.bool_))
    caller.reset(np.arange(6) < 1)
    assert log == told


@pytest.mark.parametrize("policy", ["random", Scripted])
def test_what_is_no_policy_is_refused(policy):
    with pytest.raises(
        TypeError, match=r"a policy must have get_actions\(observations\) or be callable, got"
    ):
        PolicyCaller(policy, 2, 3)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (ACTIONS[:1], r"of shape \(2, 3\) and more from the policy, got \(1, 3, 2\)"),
        (np.zeros((2, 2, 2)), r"of shape \(2, 3\) and more .*, got \(2, 2, 2\)"),
        ([ACTIONS[0], ACTIONS[1][:2]], "actions must be an array with rows of one shape, got list"),
        ([], r"got \(0,\)"),
        (None, r"got \(\)"),
    ],
)
def test_another_number_of_actions_is_refused(actions, message):
    with pytest.raises(ValueError, match=message):
        ask(actions)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (0.0, "expected 6 actions from the policy, got 0.0"),
        (np.zeros((5, 2)), "expected 6 actions from the policy, got 5"),
        ([[0], [1, 2]] * 3, "an array with rows of one shape, got list"),
    ],
)
def test_other_answers_of_a_callable_are_refused(actions, message):
    with pytest.raises(ValueError, match=message):
        PolicyCaller(lambda _: actions, 2, 3)(OBSERVATIONS)


@pytest.mark.parametrize(
    ("error", "message", "infos"),
    [
        (ValueError, r"\['mean'\] of shape \(2, 3\) .* got \(1, 3, 2\)", [{"mean": MEANS[0]}]),
        (
            ValueError,
            r"agent_infos\['std'\] of task 1 must have shape \(3,\) as of task 0, got \(2,\)",
            [[{"std": 0.0}] * 3, [{"std": 0.0}] * 2],
        ),
        (
            ValueError,
            r"agent_infos\['std'\] must be an array with rows of one shape",
            {"std": [[0.0] * 3, [0.0] * 2]},
        ),
        (
            ValueError,
            r"agent_infos\['a'\]\['std'\] of shape \(2, 3\) and more .*, got \(2, 2\)",
            {"a": {"std": np.zeros((2, 2))}},
        ),
        (
            ValueError,
            r"agent_infos of task 1 must have the keys \['a'\] as of task 0, got \['b'\]",
            [{"a": np.zeros(3)}, {"b": np.zeros(3)}],
        ),
        (TypeError, "agent_infos must be dicts, in lists or not, got float 3.0", 3.0),
    ],
)
def test_agent_infos_of_another_form_are_refused(error, message, infos):
    with pytest.raises(error, match=message):
        ask(ACTIONS, infos)


@pytest.mark.parametrize("answer", [None, ACTIONS[0], "ab" * 50])
def test_get_actions_must_return_a_pair(answer):
    policy = Scripted(ACTIONS)
    policy.answer = answer
    with pytest.raises(TypeError, match=r"must return a pair \(actions, agent_infos\), got"):
        PolicyCaller(policy, 2, 3)(OBSERVATIONS)
