"""How policies are asked, and the forms in which they may answer."""

import functools
from contextlib import closing, nullcontext
from functools import partial

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import ActionChunks, MetaSampler, as_vector
from mtwrappers.samplers.policies import PolicyCaller
from tests.fakes import CountingEnv, equal
from tests.refusals import assert_refused, refusal, refusals

# Two tasks with three environments each, and observations of two numbers.
OBSERVATIONS = np.arange(12.0).reshape(6, 2)


class Scripted:
    def __init__(self, *answer):
        self.answer = answer

    def get_actions(self, observations):
        self.asked = observations
        return self.answer

    def __call__(self, observations):
        raise AssertionError("it was called, though it has get_actions")


def ask(actions, infos=None):
    return PolicyCaller(Scripted(actions, infos), 2, 3)(OBSERVATIONS)


ACTIONS = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]


@pytest.mark.parametrize(
    "actions",
    [ACTIONS, np.array(ACTIONS), [np.array(task_actions) for task_actions in ACTIONS]],
    ids=["lists", "array", "arrays-in-a-list"],
)
def test_observations_come_task_by_task_and_actions_as_nested_lists_or_arrays(actions):
    policy = Scripted(actions, None)
    flat, infos = PolicyCaller(policy, 2, 3)(OBSERVATIONS)
    assert policy.asked.tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    assert flat.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]
    assert infos == {}


class Tensor:
    """Becomes an array as a tensor of PyTorch does, whose ``__array__`` takes no ``copy``."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None):
        return self.values if dtype is None else self.values.astype(dtype)


def test_tensors_are_copied_to_arrays_without_a_warning():
    actions, means = Tensor(ACTIONS), Tensor(ACTIONS)
    flat, infos = ask(actions, {"mean": means})
    flat[:], infos["mean"][:] = 0, 0
    assert actions.values.tolist() == means.values.tolist() == ACTIONS
    with closing(as_vector("CartPole-v1", 2)) as envs:
        envs.reset(seed=0)
        envs.step(Tensor([0, 1]))


MEANS = np.arange(12.0).reshape(2, 3, 2)
ACTED = np.zeros((6, 2))
STDS = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "infos",
    [
        [[{"mean": MEANS[m, k].tolist(), "std": STDS[m, k]} for k in range(3)] for m in range(2)],
        [{"mean": MEANS[m], "std": STDS[m].tolist()} for m in range(2)],
        {"mean": MEANS, "std": STDS.tolist()},
    ],
    ids=["dicts", "a-dict-a-task", "one-dict"],
)
def test_agent_infos_come_in_three_forms_nested_or_not(infos):
    def nested(form):
        return [nested(item) for item in form] if isinstance(form, list) else {"in": form}

    _, flat = ask(ACTIONS, infos)
    assert equal(flat, {"mean": MEANS.reshape(6, 2), "std": np.array([0.0, 1, 2, 3, 4, 5])})
    assert equal(ask(ACTIONS, nested(infos))[1], {"in": flat})


@pytest.mark.parametrize("infos", [None, {}, [], [{}, {}], [[{}] * 3, [{}] * 3]])
def test_agent_infos_may_be_absent(infos):
    assert ask(ACTIONS, infos)[1] == {}


@pytest.mark.parametrize("rows", [slice(0, 6), slice(3, 6), slice(2, 4)])
def test_a_plain_callable_sees_its_environments_at_once(rows):
    seen, mask = [], np.arange(6)[rows] == 3

    def policy(observations, rng):
        seen.append((observations, len(rng)))
        return (observations[:, 0] * 2).tolist()

    policy.reset = lambda mask: seen.append(mask.tolist())
    caller = PolicyCaller(policy, 2, 3, rows)
    caller.reset(mask)
    assert caller(OBSERVATIONS[rows])[0].tolist() == [0, 4, 8, 12, 16, 20][rows]
    assert equal(seen, [mask.tolist(), (OBSERVATIONS[rows], rows.stop - rows.start)])


class AllTasks(Scripted):
    """Is the same for all tasks."""

    def for_tasks(self, indices):
        return self


class PerTask:
    """Answers with the task of each environment, and its generator's first draw."""

    def __init__(self, tasks=(0, 1)):
        self.tasks = np.array(tasks)

    def for_tasks(self, indices):
        return PerTask(self.tasks[indices])

    def get_actions(self, observations, rng):
        assert observations.shape[:2] == rng.shape
        draws = np.array([[generator.random() for generator in row] for row in rng])
        return observations + self.tasks[:, None, None], {"draw": draws}


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        (slice(0, 6), [[0, 2, 4], [6, 8, 10]]),
        (slice(3, 6), [[6, 8, 10]]),
        (slice(2, 4), [[4], [6]]),  # parts of tasks
        (slice(4, 6), [[8], [10]]),
    ],
)
def test_get_actions_sees_its_environments_task_by_task(rows, seen):
    policy = AllTasks(np.array(seen), None)
    PolicyCaller(policy, 2, 3, rows)(OBSERVATIONS[rows])
    assert policy.asked[..., 0].tolist() == seen
    actions, infos = PolicyCaller(PerTask(), 2, 3)(OBSERVATIONS)
    actual = PolicyCaller(PerTask(), 2, 3, rows)(OBSERVATIONS[rows])
    assert equal(actual, (actions[rows], {"draw": infos["draw"][rows]}))


def test_a_policy_around_another_names_the_arguments_of_the_other():
    class Around:
        argument_names = ("due", "task_names")

        def get_actions(self, observations, **arguments):
            assert {name: values.shape for name, values in arguments.items()} == {
                "due": (2, 3),
                "task_names": (2, 3),
            }
            return ACTIONS, None

    caller = PolicyCaller(Around(), 2, 3)
    assert caller.texts == ("task_names",)
    caller(OBSERVATIONS)
    Around.argument_names = ("due", "task_name")
    message = r"must be among \['descriptions', 'due', 'rng', 'task_names'\], got \['task_name'\]"
    with pytest.raises(ValueError, match=message):
        PolicyCaller(Around(), 2, 3)


def test_the_first_parameter_is_observations_whatever_its_name():
    caller = PolicyCaller(lambda rng, /, due: rng[:, :1] + due[:, None], 2, 3)
    assert caller.argument_names == ("due",)
    assert caller(OBSERVATIONS)[0].tolist() == [[1], [3], [5], [7], [9], [11]]


def test_errors_of_a_policy_in_a_worker_say_that_it_may_need_for_tasks():
    biases = np.ones((9, 2))
    caller = PolicyCaller(lambda observations: observations + biases, 3, 3, slice(3, 9))
    with pytest.raises(ValueError, match="broadcast") as caught:
        caller(OBSERVATIONS)
    assert caught.value.__notes__ == [
        "the policy, called with observations of shape (6, 2), an array of NumPy of float64",
        "the policy, called for tasks [1, 2] of 3 (give it for_tasks(indices) if it keeps "
        "something for each task, or use policy_in='parent')",
    ]


@pytest.mark.parametrize(
    ("reset", "received"),
    [
        (lambda mask: mask.tolist(), [[True] * 6, [True] + [False] * 5, [False] * 6]),
        (lambda dones=None: dones.tolist(), [[True] * 6, [True] + [False] * 5, [False] * 6]),
        (lambda **kwargs: "all", ["all"]),  # called where all environments begin
    ],
    ids=["mask", "dones", "nothing"],
)
def test_reset_takes_a_mask_or_nothing(reset, received):
    log, policy = [], Scripted()
    policy.reset = functools.wraps(reset)(lambda *args: log.append(reset(*args)))
    caller = PolicyCaller(policy, 2, 3)
    caller.reset(np.ones(6, dtype=np.bool_))
    # It is said once that a policy was not reset.
    message = (
        r"reset\(\) of the policy takes no mask .* but 1 of 6 do: give the policy reset\(mask\)"
    )
    told = pytest.warns(UserWarning, match=message) if received == ["all"] else nullcontext()
    with told:
        caller.reset(np.arange(6) < 1)
    caller.reset(np.zeros(6, dtype=np.bool_))
    assert log == received


def test_the_warning_of_a_reset_without_a_mask_names_the_line_of_the_program():
    class Policy:
        def reset(self):
            """Forgets the episode."""

        def __call__(self, observations):
            return np.zeros(len(observations), dtype=np.int64)

    makers = [partial(CountingEnv, length) for length in (1, 3)]
    sampler = MetaSampler(makers, Policy(), 2, 2, 9, 1)
    with closing(sampler), pytest.warns(UserWarning, match="takes no mask") as warned:
        sampler.obtain_samples()
    assert [warning.filename for warning in warned] == [__file__]


class Grad:
    """As a tensor of PyTorch that requires a gradient."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("detach() it")


def call_policy(actions):
    return PolicyCaller(lambda _: actions, 2, 3)(OBSERVATIONS)


def in_discrete(actions):
    return PolicyCaller(lambda _: actions, 2, 3, action_space=Discrete(2))(OBSERVATIONS)


def call_with_nested_observations(policy):
    observations = {"a": OBSERVATIONS, "b": (OBSERVATIONS, OBSERVATIONS)}
    return PolicyCaller(policy, 2, 3)(observations)


def answered(answer):
    policy = Scripted()
    policy.answer = answer
    return PolicyCaller(policy, 2, 3)(OBSERVATIONS)


def in_box(answer):
    return PolicyCaller(lambda obs: answer, 2, 3, action_space=Box(0, 1, (2,)))(OBSERVATIONS)


def by_position(observations, rng, /):
    return ACTED


@refusals(
    refusal(
        lambda: PolicyCaller("random", 2, 3),
        TypeError,
        "a policy must have get_actions(...) or be callable, such",
    ),
    refusal(
        lambda: ask(np.zeros((2, 2, 2))),
        ValueError,
        "...of shape (2, 3, ...) from the policy, got (2, 2, 2)",
    ),
    refusal(
        lambda: ask([ACTIONS[0], ACTIONS[1][:2]]),
        ValueError,
        "actions must be ...rows of one shape, got list",
    ),
    refusal(
        lambda: call_policy(None),
        TypeError,
        "expected actions of ..., got None: is a return missing?",
    ),
    refusal(
        lambda: call_policy(Grad()),
        TypeError,
        "actions from the policy must become an array: detach() it",
    ),
    refusal(
        lambda: call_policy((ACTED, None)),
        TypeError,
        "...tuple (actions, state): ...predict(obs, deterministic=True)[0] (a recurrent model "
        "needs an object with reset(mask), ...), or ...get_actions(observations)",
    ),
    refusal(
        lambda: in_box(ACTED[0]),
        ValueError,
        "expected actions of shape (6, 2) from the policy, got (2,)",
    ),
    refusal(
        lambda: ask(ACTIONS, [{"mean": MEANS[0]}]),
        ValueError,
        "...['mean'] of shape (2, 3, ...)...got (1, 3, 2)",
    ),
    refusal(
        lambda: ask(ACTIONS, [[{"std": 0.0}] * 3, [{"std": 0.0}] * 2]),
        ValueError,
        "agent_infos['std'] of task 1 must",
    ),
    refusal(
        lambda: ask(ACTIONS, {"a": {"std": np.zeros((2, 2))}}),
        ValueError,
        "...infos['a']['std'] of ...got (2, 2)",
    ),
    refusal(
        lambda: ask(ACTIONS, [{"a": np.zeros(3)}, {"b": np.zeros(3)}]),
        ValueError,
        "...of task 1 ...got ['b']",
    ),
    refusal(
        lambda: ask(ACTIONS, 3.0),
        TypeError,
        "agent_infos must be ...got float 3.0",
    ),
    refusal(
        lambda: call_policy([None] * 6),
        TypeError,
        "actions from the policy must be numbers, ...as NoneType None: convert",
    ),
    refusal(
        lambda: in_discrete(STDS.ravel() > 2),
        TypeError,
        "...integers in Discrete(2), got bool: ...np.int64)",
    ),
    refusal(
        lambda: in_discrete(np.zeros(6)),
        TypeError,
        "actions from the policy must be integers in Discrete(2), got float64: convert them with",
    ),
    refusal(
        lambda: call_policy({"actions": ACTED}),
        ValueError,
        "expected actions of shape (6, ...) from the policy, got dict {'actions'",
    ),
    refusal(
        lambda: PolicyCaller(by_position, 2, 3),
        TypeError,
        'a policy must take rng by name, got function <function by_position ...remove the "/"',
    ),
    refusal(
        lambda: PolicyCaller(lambda _: ACTED, 2, 3, slice(3, 6))(OBSERVATIONS[3:]),
        ValueError,
        "the policy, called for tasks [1] of 2 (give it for_tasks(indices) ...): expected actions "
        "of shape (3, ...) from the policy, got (6, 2)",
    ),
    refusal(
        lambda: PolicyCaller(Scripted(ACTIONS, None), 2, 3, slice(3, 6)),
        TypeError,
        "a policy with get_actions that is called for only some tasks, here [1], must have "
        "for_tasks(indices), Scripted <... has none: return ...policy_in='parent'",
    ),
    refusal(
        lambda: PolicyCaller(ActionChunks(Scripted(ACTIONS, None), 1), 2, 3, slice(3, 6)),
        TypeError,
        "a policy with get_actions that is called for only some tasks, here [1], must have "
        "for_tasks(indices), Scripted <... has none: ",
    ),
    refusal(
        lambda: PolicyCaller(Scripted(ACTIONS, None), 1, 4, slice(0, 2)),  # a part of a task
        TypeError,
        "a policy with get_actions that is called for only some tasks, here [0, 0], must have",
    ),
    refusal(
        lambda: call_with_nested_observations(lambda obs: np.zeros(len(obs))),
        ValueError,
        "...got (2,): ...take len(observations['a'])",
    ),
    refusal(
        lambda: call_with_nested_observations(lambda obs: [0] * len(obs["b"])),
        ValueError,
        "...got (2,): ...take len(observations['a'])",
    ),
    refusal(lambda: answered(None), TypeError, "...must return a pair (actions, agent_infos), got"),
)
def test_what_is_no_policy_and_no_answer_of_one_is_refused(call, error, message):
    assert_refused(call, error, message)
