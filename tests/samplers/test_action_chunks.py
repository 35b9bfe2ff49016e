"""Chunks of actions: the first are executed, then the policy is asked again, row by row."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import mtwrappers as mt
from mtwrappers.samplers.policies import PolicyCaller
from tests.evaluation.fakes import ScriptedEnv, scripted
from tests.refusals import assert_refused, refusal, refusals


def planned(observations, horizon=3):
    """Chunks of the step at which they were planned, and of the place in the chunk."""
    steps = observations[..., 0]
    chunk = np.broadcast_to(np.arange(horizon) / 100, (*steps.shape, horizon))
    return np.stack([np.repeat(steps[..., None], horizon, axis=-1) / 10, chunk], axis=-1)


class Planner:
    """`get_actions` with chunks, and when each was planned."""

    def get_actions(self, observations):
        steps = observations[..., 0]
        return planned(observations), {"planned_at": steps, "nested": {"twice": 2 * steps}}


def test_the_first_actions_of_each_chunk_are_executed_and_agent_infos_are_those_of_the_chunk():
    [path] = mt.Sampler(ScriptedEnv([5]), mt.ActionChunks(Planner(), 2), 1, 9).obtain_samples()
    assert path["actions"][:, 0].tolist() == [0.0, 0.0, 0.2, 0.2, 0.4]
    assert path["actions"][:, 1].tolist() == [0.0, 0.01, 0.0, 0.01, 0.0]
    assert path["agent_infos"]["planned_at"].tolist() == [0, 0, 2, 2, 4]
    assert path["agent_infos"]["nested"]["twice"].tolist() == [0, 0, 4, 4, 8]
    assert path["observations"][:, 0].tolist() == [0, 1, 2, 3, 4]


# When each of two environments is asked, whose episodes have 3 and 5 steps, two of each.
DUE = [
    [True, True],  # step 0
    [True, True],  # 2: the second half of the chunk is left out
    [True, False],  # 3: the second episode of the first begins, after one action of a chunk
    [False, True],  # 4
    [True, True],  # 5: and that of the second; the first one has gone on with its last chunk
    [False, True],  # 7: the first has ended its episodes
    [False, True],  # 9
]


def test_a_callable_is_asked_for_the_rows_that_are_due_alone():
    asked = []

    def policy(observations, due, rng, task_names):
        assert len(observations) == len(rng) == len(task_names) == due.sum()
        asked.append((due.tolist(), observations[:, 0].tolist(), task_names.tolist()))
        return planned(observations)

    with closing(scripted([{"lengths": [3]}, {"lengths": [5]}])) as envs:
        mt.evaluate(mt.ActionChunks(policy, 2), envs, 2)
    assert [due for due, _, _ in asked] == DUE
    assert [steps for _, steps, _ in asked] == [[0, 0], [2, 2], [0], [4], [2, 0], [2], [4]]
    assert [names for _, _, names in asked][2:5] == [["task 0"], ["task 1"], ["task 0", "task 1"]]


def test_get_actions_is_given_all_rows_and_which_are_due():
    asked = []

    class Policy(Planner):
        def get_actions(self, observations, due):
            asked.append((due.tolist(), observations.shape))
            return super().get_actions(observations)

    with closing(scripted([{"lengths": [3]}, {"lengths": [5]}])) as envs:
        mt.evaluate(mt.ActionChunks(Policy(), 2), envs, 2)
    assert asked == [([[env_due] for env_due in due], (2, 1, 3)) for due in DUE]


def test_it_is_a_policy_with_get_actions_that_keeps_the_chunk_of_each_row():
    steps = lambda *at: np.array(at, dtype=float).reshape(2, 1, 1)  # noqa: E731
    policy = mt.ActionChunks(Planner(), 2)
    assert policy.argument_names == {"due"}
    policy.reset(np.array([True, True]))
    both, second = np.array([[True], [True]]), np.array([[False], [True]])
    actions, infos = policy.get_actions(steps(0, 5), both)
    assert actions[:, 0].tolist() == [[0.0, 0.0], [0.5, 0.0]]
    assert infos["planned_at"].tolist() == [[0.0], [5.0]]
    policy.reset(np.array([True, False]))
    actions, infos = policy.get_actions(steps(0, 6), both)
    assert actions[:, 0].tolist() == [[0.0, 0.0], [0.5, 0.01]]
    actions, infos = policy.get_actions(steps(1, 7), second)
    assert actions[1, 0].tolist() == pytest.approx([0.7, 0.0])
    assert infos["nested"]["twice"].tolist() == [[0.0], [14.0]]


def test_one_of_a_policy_that_takes_texts_and_rng_takes_them_too():
    def policy(observations, rng, task_names):
        return np.zeros((len(observations), 2, 2))

    assert mt.ActionChunks(policy, 2).argument_names == {"due", "rng", "task_names"}
    assert PolicyCaller(mt.ActionChunks(policy, 2), 2, 1).texts == ("task_names",)


@pytest.mark.parametrize("lengths", [[3], [3, 5]])
def test_one_object_may_be_evaluated_again_with_other_environments_and_with_another_form(lengths):
    """No chunk of an evaluation is used in the next, and agent infos may change in between."""

    class Policy(Planner):
        forms = 0

        def get_actions(self, observations):
            actions, infos = super().get_actions(observations)
            return np.float32(actions), infos if self.forms else {"other": infos["planned_at"]}

    policy = mt.ActionChunks(Policy(), 3)
    sampler = mt.Sampler(ScriptedEnv(lengths), policy, 1, 9, seed=0)
    [first], policy.policy.forms = sampler.obtain_samples(), 1
    [second] = mt.Sampler(ScriptedEnv(lengths), policy, 1, 9, seed=0).obtain_samples()
    assert np.array_equal(first["actions"], second["actions"])
    assert [sorted(path["agent_infos"]) for path in (first, second)] == [
        ["other"],
        ["nested", "planned_at"],
    ]
    with closing(scripted([{"lengths": lengths}] * 3)) as envs:
        expected = mt.evaluate(mt.ActionChunks(Policy(), 3), envs, 2)
        assert mt.evaluate(policy, envs, 2) == expected


def test_a_reset_of_the_policy_without_a_mask_is_called_if_all_begin_together():
    log, policy = [], Planner()
    policy.reset = lambda: log.append("reset")
    caller = PolicyCaller(mt.ActionChunks(policy, 2), 2, 1)
    caller.reset(np.array([True, True]))
    with pytest.warns(UserWarning, match=r"reset\(\) of the policy takes no mask .* but 1 of 2 do"):
        caller.reset(np.array([True, False]))
    assert log == ["reset"]


class Adapting:
    """Goes on with chunks over its adaptation."""

    moved, asked = 0.0, 0

    def begin_trial(self):
        self.moved = 0.0

    def adapt(self, paths):
        assert [len(task_paths) for task_paths in paths] == [2]
        assert paths[0][0]["actions"][:, 0].tolist() == [self.moved] * 3
        self.moved += 0.5

    def __call__(self, observations):
        self.asked += 1
        return np.full((len(observations), 8, 2), self.moved)


def test_few_shot_evaluation_asks_anew_in_each_episode():
    """Chunks of 8 in episodes of 3 steps: none goes on in the next episode, nor after adapting."""
    policy = Adapting()
    with closing(scripted([{"lengths": [3]}])) as envs:
        envs.set_tasks = lambda tasks: None
        result = mt.few_shot_evaluate(mt.ActionChunks(policy, 8), envs, [[0]], 2, 1)
    assert [episode.episode_return for episode in result.adaptation.episodes] == [0.0, 0.0]
    assert [episode.episode_return for episode in result.scored] == [1.5]
    assert policy.asked == 3
    assert result.description.action_chunk == 8


# Faults.


# Answers that are no chunks.


def ask(answer, k=3, get_actions=False):
    policy = lambda observations: answer  # noqa: E731
    if get_actions:
        policy = type("Policy", (), {"get_actions": lambda self, observations: (answer, None)})()
    policy = policy if k is None else mt.ActionChunks(policy, k)
    return PolicyCaller(policy, 2, 3, action_space=Box(-1, 1, (2,)))(np.zeros((6, 4)))


ZEROS = np.zeros


@refusals(
    refusal(
        lambda: ask(ZEROS((6, 2, 2))),
        ValueError,
        "ActionChunks executes 3 actions of each chunk, but the policy returned "
        "chunks of 2, shape (6, 2, 2): pass k=2 or less",
    ),
    refusal(
        lambda: ask(ZEROS((6, 2))),
        ValueError,
        "ActionChunks expects chunks of shape (n, H, A) with H >= 3 from the "
        "policy, got (6, 2): a policy that returns one action for each row needs no"
        " ActionChunks",
    ),
    refusal(
        lambda: ask(ZEROS((1, 4, 2))),
        ValueError,
        "expected chunks of actions of shape (6, ...) from the policy, got (1, 4, 2)",
    ),
    refusal(
        lambda: ask(ZEROS((2, 3, 2)), get_actions=True),
        ValueError,
        "...with H >= 3 from the policy, got (6, 2): a policy that",
    ),
    refusal(
        lambda: ask(ZEROS((2, 3, 1, 2)), get_actions=True),
        ValueError,
        "...chunks of 1, shape (6, 1, 2): pass k=1 or less",
    ),
    refusal(
        lambda: ask(ZEROS((6, 8, 2)), None),
        ValueError,
        "expected actions of shape (6, 2) from the policy, got (6, 8, 2): if these "
        "are chunks of 8 actions, pass mtwrappers.ActionChunks(policy, k), with k "
        "from 1 to 8",
    ),
    refusal(
        lambda: ask(ZEROS((2, 3, 8, 2)), None, get_actions=True),
        ValueError,
        "expected actions of shape (2, 3, 2) from the policy, got (2, 3, 8, 2): if "
        "these are chunks",
    ),
    refusal(lambda: ask(ZEROS((6, 3, 2)), 0), ValueError, "k must be"),
    refusal(lambda: ask(ZEROS((6, 3, 2)), 2.5), ValueError, "k must be"),
    refusal(
        lambda: mt.ActionChunks(3, 1),
        TypeError,
        "a policy must have get_actions(observations) or be callable, such ...got 3",
    ),
)
def test_answers_that_are_no_chunks_are_refused(call, error, message):
    assert_refused(call, error, message)


def test_agent_infos_that_change_between_chunks_are_refused():
    class Changes:
        asked = 0

        def get_actions(self, observations):
            self.asked += 1
            return np.zeros((2, 1, 2, 2)), {f"key {self.asked}": np.zeros((2, 1))}

    caller = PolicyCaller(mt.ActionChunks(Changes(), 1), 2, 1)
    caller(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"same keys in every call, \['key 1'\], got \['key 2'\]"):
        caller(np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("infos", "message"),
    [
        ([np.zeros((2, 1)), {"b": np.zeros((2, 1))}], "infos a must be an array in every call"),
        ([{"b": np.zeros((2, 1))}, np.zeros((2, 1))], "infos a must be a dict in every call"),
    ],
)
def test_agent_infos_that_become_nested_or_flat_are_refused(infos, message):
    class Changes:
        def __init__(self):
            self.answers = iter(infos)

        def get_actions(self, observations):
            return np.zeros((2, 1, 2, 2)), {"a": next(self.answers)}

    caller = PolicyCaller(mt.ActionChunks(Changes(), 1), 2, 1)
    caller(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=message):
        caller(np.zeros((2, 4)))


# Meta-World.


def test_an_open_loop_expert_of_meta_world_is_verified_and_keeps_its_chunks(tmp_path):
    """It plans towards the goal from where the hand was; more often is better."""

    def towards(observations):
        moves = np.clip(10 * (observations[:, 36:39] - observations[:, :3]), -1, 1)
        moves = np.concatenate([moves, np.zeros((len(moves), 1))], axis=1).astype(np.float32)
        return np.repeat(moves[:, None], 50, axis=1)

    make = partial(gymnasium.make_vec, "mtwrappers/MT1-v0", env_name="reach-v3", num_goals=4)
    policy, path = mt.ActionChunks(towards, 40), tmp_path / "r.npz"
    with closing(make(max_episode_steps=60)) as envs:
        often = mt.evaluate(mt.ActionChunks(towards, 1), envs, 4)
        assert all(episode.success_final for episode in often.episodes)
    with closing(make(max_episode_steps=60)) as envs:
        result = mt.evaluate(policy, envs, 4, evidence=path)
    assert not all(episode.success_final for episode in result.episodes)
    result.save(tmp_path / "r.json")
    verified = mt.verify(tmp_path / "r.json")
    assert verified.ok
    assert verified.result.description.action_chunk == 40
    assert "said by the file  action_chunk=40, " in str(verified)
    loaded = type(result).load(tmp_path / "r.json")
    assert loaded == result
    assert "\n40 of each chunk's actions executed\n" in f"{loaded}\n"
