"""The example of imitation, and the weights that come with it."""

import gymnasium
import numpy as np
import pytest

from mtwrappers.metaworld.experts import expert_actions
from tests.fakes import ROOT
from tests.integrations.examples import load_example

SHIPPED = sorted((ROOT / "benchmarks/reference/imitation").glob("weights-seed*.npz"))


@pytest.fixture(scope="module")
def script():
    return load_example("imitate_mt10.py")


def test_the_weights_that_come_with_it_act_and_rows_do_not_depend_on_the_batch(script, monkeypatch):
    monkeypatch.delenv("WEIGHTS", raising=False)
    ours = script.load().layers
    monkeypatch.setenv("WEIGHTS", str(SHIPPED[0]))
    assert [layer.tolist() for layer in script.load().layers] == [x.tolist() for x in ours]
    monkeypatch.setenv("WEIGHTS", str(SHIPPED[1]))
    policy = script.load()
    assert policy.layers[0].tolist() != ours[0].tolist()
    env = gymnasium.make("mtwrappers/MT10-v0", terminate_on_success=True, max_episode_steps=150)
    obs, _ = env.reset(seed=0, options={"task_state": 250})  # of drawer-close-v3
    seen, actions, terminated, truncated = [], [], False, False
    while not (terminated or truncated):
        seen.append(obs)
        actions.append(policy(obs[None])[0])
        obs, _, terminated, truncated, _ = env.step(actions[-1])
    env.close()
    assert terminated
    assert policy(np.array(seen)).tolist() == np.array(actions).tolist()


def test_labels_are_of_the_states_that_a_policy_visits(script):
    envs = gymnasium.make_vec("mtwrappers/MT1-v0", num_envs=1, max_episode_steps=3)
    seen = []

    def policy(observations):
        seen.append(observations.copy())
        return np.full((1, 4), 0.5, np.float32)

    observations, labels, successes = script.visit(policy, envs, 7, seed=0)
    envs.close()
    assert observations.tolist() == np.concatenate(seen).tolist()
    assert labels.tolist() == expert_actions(["reach-v3"] * 7, observations).tolist()
    assert successes == [False, False]


def test_the_arrays_are_the_network_that_was_trained(script):
    torch = pytest.importorskip("torch")
    observations = np.random.default_rng(0).uniform(-1, 1, (500, 49))
    labels = np.column_stack([np.sign(observations[:, :3]), np.ones(500)]).astype(np.float32)
    args = script.parser().parse_args(["--updates", "300", "--hidden", "32", "32"])
    learner = script.Learner(observations, args)
    learner.fit(observations, labels)
    inputs = (observations @ learner.features - learner.mean) / learner.std
    with torch.no_grad():
        scores = learner.network(torch.as_tensor(inputs, dtype=torch.float32))
    expected = script.LEVELS[scores.reshape(-1, 4, 21).argmax(-1).numpy()]
    actions = learner.policy()(observations)
    assert (actions == expected).mean() > 0.999  # but for rounding
    assert (actions == labels).mean() > 0.9
