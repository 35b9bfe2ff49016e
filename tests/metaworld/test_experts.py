"""The scripted experts: labels for what a learner visits."""

import warnings

import gymnasium
import metaworld
import numpy as np
import pytest
from metaworld.policies import ENV_POLICY_MAP

import mtwrappers  # noqa: F401 (registers the ids)
from mtwrappers.metaworld.experts import expert, expert_actions

NAMES = sorted(metaworld.ALL_V3_ENVIRONMENTS)
ROWS = 20  # of each class


@pytest.fixture(scope="module")
def states():
    """States all over the space, where experts want to move in all ways, with a goal each."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (ROWS, 39))


def upstream_actions(name, states):
    """What Meta-World's own policies say, and how many of these warn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return np.stack([ENV_POLICY_MAP[name]().get_action(s.copy()) for s in states]), len(caught)


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_the_clipped_actions_of_meta_worlds_policies_without_their_warning(name, states):
    expected, warned = upstream_actions(name, states)
    assert warned > 0
    assert np.abs(expected).max() > 1
    states_before = states.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = expert_actions([name] * ROWS, states)
        raw = [expert(name)(state, state[36:]) for state in states]
    assert (labels.dtype, labels.shape) == (np.float32, (ROWS, 4))
    assert labels.tolist() == expected.clip(-1, 1).tolist()
    assert np.array(raw).tolist() == expected.tolist()
    assert states.tolist() == states_before.tolist()


def test_each_row_has_the_expert_of_its_class_whoever_shares_the_batch(states):
    names = NAMES[:ROWS]
    labels = expert_actions(names, states)
    single_labels = [
        expert_actions([n], state[None])[0] for n, state in zip(names, states, strict=True)
    ]
    assert labels.tolist() == np.array(single_labels).tolist()
    assert len({tuple(row) for row in labels.tolist()}) > ROWS // 2
    onehots = np.column_stack([states, np.eye(ROWS)]).astype(np.float32)
    assert expert_actions(np.array(names), onehots).tolist() == (
        expert_actions(names, states.astype(np.float32)).tolist()
    )


def test_goals_that_are_given_take_the_place_of_those_observed(states):
    goals = states[::-1, :3].copy()
    seen = np.column_stack([states[:, :36], goals])
    hidden = np.column_stack([states[:, :36], np.zeros((ROWS, 3))])
    names = ["reach-v3"] * ROWS
    expected = expert_actions(names, seen).tolist()
    assert expert_actions(names, hidden, goals).tolist() == expected
    assert expert_actions(names, states, tuple(goals)).tolist() == expected
    assert expert_actions(names, states).tolist() != expected


def test_the_experts_of_hidden_goals_succeed():
    kwargs = {"env_name": "reach-v3", "num_goals": 2, "meta_batch_size": 2}
    envs = gymnasium.make_vec("mtwrappers/ML1-train-v0", **kwargs, terminate_on_success=True)
    obs, infos = envs.reset(seed=0)
    names, goals, done = infos["task_name"], envs.get_attr("goal"), np.zeros(2, bool)
    for _ in range(60):
        obs, _, terminated, *_ = envs.step(expert_actions(names, obs, goals))
        done |= terminated
    assert done.all()
    with pytest.raises(ValueError, match=r"hidden in observation 0 \(reach-v3\): pass goals, such"):
        expert_actions(names, obs)
    envs.close()
