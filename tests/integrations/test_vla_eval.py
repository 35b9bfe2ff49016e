"""Episodes of protocols in vla-evaluation-harness, by its own runs, servers and recordings."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mtwrappers import protocols
from mtwrappers.evaluation.protocol import succeeded
from mtwrappers.metaworld.experts import expert_actions
from mtwrappers.metaworld.opengl import choose_gl
from tests.fakes import ROOT

pytest.importorskip("vla_eval")

import vla_eval
from vla_eval.cli.config_loader import load_config
from vla_eval.model_servers.predict import PredictModelServer

from mtwrappers.adapters.vla_eval import MetaWorldBenchmark

# Its libraries have some.
pytestmark = pytest.mark.filterwarnings("default")
NAME = "mtwrappers.adapters.vla_eval:MetaWorldBenchmark"
CONFIGS = ROOT / "docs/vla_eval"


def expert(name, state):
    return expert_actions([name], state[None])[0]


def random(name, state):
    """Random actions that the state determines, so that it can be asked anywhere."""
    rng = np.random.default_rng(np.frombuffer(state.tobytes(), np.uint32))
    return rng.uniform(-1, 1, 4).astype(np.float32)


class Server(PredictModelServer):
    """Asks a function of a class and its 39 numbers, in float32."""

    def __init__(self, act, **kwargs):
        super().__init__(**kwargs)
        self.act, self.task, self.observations, self.sizes = act, {}, [], []

    async def on_episode_start(self, config, ctx):
        self.task[ctx.session_id] = config["task"]["name"]
        await super().on_episode_start(config, ctx)

    def predict_batch(self, obs_batch, ctx_batch):
        self.sizes.append(len(obs_batch))
        self.observations += obs_batch
        pairs = zip(obs_batch, ctx_batch, strict=True)
        return [
            {"actions": self.act(self.task[ctx.session_id], obs["environment_state"])}
            for obs, ctx in pairs
        ]

    def get_action_spec(self):
        return {}

    get_observation_spec = get_action_spec


def config_of(params, episodes=2, **entry):
    params = {"seed": 0, "send_environment_state": True, **params}
    entry = {"benchmark": NAME, "episodes_per_task": episodes, "params": params, **entry}
    return {"benchmarks": [entry]}


def evaluate(act, params, episodes=2, **entry):
    """What `vla_eval.evaluate` has found of each episode."""
    config = config_of(params, episodes, **entry)
    [result] = vla_eval.evaluate(Server(act), config, no_save=True)
    return found_in(result)


def found_in(result):
    episodes = [episode for task in result["tasks"] for episode in task["episodes"]]
    assert not [one["failure_detail"] for one in episodes if one.get("failure_reason")]
    assert all(one["steps"] == one["metrics"]["length"] for one in episodes)
    return sorted(
        (one["metrics"] for one in episodes), key=lambda one: (one["task"], one["number"])
    )


def expected(act, protocol, tasks, seed=0, **changes):
    """The same of `Protocol.evaluate`, on states."""
    if changes:
        protocol = protocol.variant(**changes)
    protocol = protocol.with_states()
    envs = protocol.make_vec()
    _, infos = envs.reset(seed=0)
    names = infos["task_name"]

    def policy(observations):
        rows = np.float32(observations)[:, :39]
        return np.stack([act(*pair) for pair in zip(names, rows, strict=True)])

    result = protocol.evaluate(policy, envs, seed=seed, tasks=tasks)
    envs.close()
    episodes = [
        {"success": succeeded(one, protocol), **dataclasses.asdict(one)} for one in result.episodes
    ]
    return sorted(episodes, key=lambda one: (one["task"], one["number"]))


TWO = {"name": "two", "episodes_per_task": 2, "max_episode_steps": 80}
STATES = {"protocol": "metaworld-3.1", "tasks": ["drawer-close-v3", "reach-v3"], "changes": TWO}


@pytest.mark.parametrize("act", [expert, random])
def test_episodes_are_those_of_the_protocol(act):
    found = evaluate(act, {**STATES, "seed": 5})
    assert found == expected(act, protocols["metaworld-3.1"], STATES["tasks"], seed=5, **TWO)
    assert {one["success"] for one in found} == {act is expert}
    assert {one["length"] == 80 for one in found} == {act is random}


def test_repeated_actions_idle_steps_and_success_at_the_end_count_as_in_the_protocol():
    chosen = {"benchmark": "MT1", "env_name": "reach-v3"}
    found = evaluate(expert, {"protocol": "tdmpc2", **chosen, "changes": TWO})
    assert found == expected(expert, protocols["tdmpc2"].on("MT1", "reach-v3"), None, **TWO)
    assert [one["length"] for one in found] == [80, 80]
    assert [one["success"] for one in found] == [one["success_final"] for one in found]


def test_tasks_are_classes_and_groups_and_none_is_left_out_silently():
    tasks = MetaWorldBenchmark(tasks=["hard", "reach-v3"]).get_tasks()
    assert [(task["name"], task["suite"]) for task in tasks][-3:] == [
        ("push-v3", "hard"),
        ("push-back-v3", "hard"),
        ("reach-v3", "easy"),
    ]
    assert {task["protocol"] for task in tasks} == {protocols["lerobot-0.6"].digest}
    whole = MetaWorldBenchmark("metaworld-3.1", "MT50").get_tasks()
    assert [task["suite"] for task in whole] == ["MT50"] * 50
    with pytest.raises(ValueError, match=r"lerobot-0.6 has no tasks \['push-v2'\], only"):
        MetaWorldBenchmark(tasks=["hard", "push-v2"])
    with pytest.raises(KeyError, match="no protocol 'lerobot'; did you mean"):
        MetaWorldBenchmark("lerobot")
    with pytest.raises(ValueError, match="lets policies adapt, which vla-eval's cannot"):
        MetaWorldBenchmark("metaworld-3.1-ml")
    with pytest.raises(ValueError, match="give a variant another name"):
        MetaWorldBenchmark(changes={"height": 16})


SMALL = {"name": "small", "height": 16, "width": 24, "max_episode_steps": 5}


@pytest.fixture
def frames():
    if choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")


@pytest.mark.usefixtures("frames")
def test_observations_are_those_of_the_protocol(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    server = Server(random, chunk_size=1)
    one_class = {"benchmark": "MT1", "env_name": "push-back-v3", "changes": SMALL}
    [result] = vla_eval.evaluate(server, config_of(one_class, episodes=1), no_save=True)
    small = protocols["lerobot-0.6"].on("MT1", "push-back-v3").variant(**SMALL, episodes_per_task=1)
    assert found_in(result) == expected(random, small, None)
    env, [planned] = small.make(), small.plan()
    obs, _ = env.reset(seed=planned.seed, options={"task_state": planned.task_state})
    assert len(server.observations) == 5
    for seen in server.observations:
        assert set(seen) == {"images", "state", "environment_state", "task_description"}
        assert seen["task_description"] == env.get_wrapper_attr("task_description")
        [(camera, frame)] = seen["images"].items()
        assert camera == "corner4"
        np.testing.assert_array_equal(frame, obs["pixels"], strict=True)
        np.testing.assert_array_equal(seen["state"], np.float32(obs["agent_pos"]), strict=True)
        np.testing.assert_array_equal(seen["environment_state"][:4], seen["state"], strict=True)
        assert (seen["environment_state"].shape, seen["state"].dtype) == ((39,), np.float32)
        obs, *_ = env.step(random("push-back-v3", seen["environment_state"]))
    env.close()


@pytest.mark.parametrize("name", ["metaworld.yaml", "smoke_test.yaml"])
def test_the_configurations_of_the_documentation_name_what_there_is(name):
    config = load_config(str(CONFIGS / name))
    [entry] = config["benchmarks"]
    assert entry["benchmark"] == NAME
    benchmark = MetaWorldBenchmark(**entry["params"])
    assert entry["episodes_per_task"] <= benchmark.get_metadata()["max_episodes_per_task"]
    whole = name != "smoke_test.yaml"
    assert len(benchmark.get_tasks()) == (50 if whole else 2)
    assert (benchmark.protocol == protocols["lerobot-0.6"]) is whole


# Faults.


def failures(server, params=STATES, episodes=1, **entry):
    [result] = vla_eval.evaluate(server, config_of(params, episodes, **entry), no_save=True)
    episodes = [one for task in result["tasks"] for one in task["episodes"]]
    return result, [(one.get("failure_reason"), one.get("failure_detail", "")) for one in episodes]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.full(4, np.nan, np.float32), "expected a finite action, got [nan"),
        (np.zeros((5, 4), np.float32), "expected an action of shape (4,), got (5, 4)"),
    ],
)
def test_a_wrong_action_is_a_failure_of_its_episode_only(wrong, message):
    def act(task, state):
        return wrong if task == "drawer-close-v3" else expert(task, state)

    result, [right, (reason, detail)] = failures(Server(act))
    assert (reason, right[0]) == ("env_step", None)
    assert message in detail
    assert (result["num_errors"], result["mean_success"]) == (1, 0.5)
