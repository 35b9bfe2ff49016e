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


def act_as_expert(name, state):
    return expert_actions([name], state[None])[0]


def act_at_random(name, state):
    """Random actions that the state determines, so that it can be asked anywhere."""
    rng = np.random.default_rng(np.frombuffer(state.tobytes(), np.uint32))
    return rng.uniform(-1, 1, 4).astype(np.float32)


class Server(PredictModelServer):
    """Acts by a function of the name of a class and its 39 numbers, in float32."""

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


def make_config(params, episodes=2, **entry):
    params = {"seed": 0, "send_environment_state": True, **params}
    entry = {"benchmark": NAME, "episodes_per_task": episodes, "params": params, **entry}
    return {"benchmarks": [entry]}


def evaluate(act, params, episodes=2, **entry):
    """Runs `vla_eval.evaluate`, and returns the metrics of each episode."""
    config = make_config(params, episodes, **entry)
    [result] = vla_eval.evaluate(Server(act), config, no_save=True)
    return read_episodes(result)


def read_episodes(result):
    episodes = [episode for task in result["tasks"] for episode in task["episodes"]]
    assert not [episode["failure_detail"] for episode in episodes if episode.get("failure_reason")]
    assert all(episode["steps"] == episode["metrics"]["length"] for episode in episodes)
    return sort_episodes(episode["metrics"] for episode in episodes)


def sort_episodes(episodes):
    return sorted(episodes, key=lambda episode: (episode["task"], episode["number"]))


def evaluate_by_protocol(act, protocol, tasks, seed=0, **changes):
    """Runs `Protocol.evaluate` on states, and returns the same metrics of each episode."""
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
    return sort_episodes(
        {"success": succeeded(episode, protocol), **dataclasses.asdict(episode)}
        for episode in result.episodes
    )


TWO = {"name": "two", "episodes_per_task": 2, "max_episode_steps": 80}
STATES = {"protocol": "metaworld-3.1", "tasks": ["drawer-close-v3", "reach-v3"], "changes": TWO}


@pytest.mark.parametrize("act", [act_as_expert, act_at_random])
def test_episodes_are_those_of_the_protocol(act):
    episodes = evaluate(act, {**STATES, "seed": 5})
    protocol = protocols["metaworld-3.1"]
    assert episodes == evaluate_by_protocol(act, protocol, STATES["tasks"], seed=5, **TWO)
    assert {episode["success"] for episode in episodes} == {act is act_as_expert}
    assert {episode["length"] == 80 for episode in episodes} == {act is act_at_random}


def test_repeated_actions_idle_steps_and_success_at_the_end_count_as_in_the_protocol():
    task = {"benchmark": "MT1", "env_name": "reach-v3"}
    episodes = evaluate(act_as_expert, {"protocol": "tdmpc2", **task, "changes": TWO})
    protocol = protocols["tdmpc2"].on("MT1", "reach-v3")
    assert episodes == evaluate_by_protocol(act_as_expert, protocol, None, **TWO)
    assert [episode["length"] for episode in episodes] == [80, 80]
    assert all(episode["success"] == episode["success_final"] for episode in episodes)


def test_tasks_are_classes_and_groups_and_none_is_left_out_silently():
    tasks = MetaWorldBenchmark(tasks=["hard", "reach-v3"]).get_tasks()
    assert [(task["name"], task["suite"]) for task in tasks][-3:] == [
        ("push-v3", "hard"),
        ("push-back-v3", "hard"),
        ("reach-v3", "easy"),
    ]
    assert {task["protocol"] for task in tasks} == {protocols["lerobot-0.6"].digest}
    tasks = MetaWorldBenchmark("metaworld-3.1", "MT50").get_tasks()
    assert [task["suite"] for task in tasks] == ["MT50"] * 50
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
    server = Server(act_at_random, chunk_size=1)
    one_class = {"benchmark": "MT1", "env_name": "push-back-v3", "changes": SMALL}
    [result] = vla_eval.evaluate(server, make_config(one_class, episodes=1), no_save=True)
    small = protocols["lerobot-0.6"].on("MT1", "push-back-v3").variant(**SMALL, episodes_per_task=1)
    assert read_episodes(result) == evaluate_by_protocol(act_at_random, small, None)
    env, [planned] = small.make(), small.plan()
    obs, _ = env.reset(seed=planned.seed, options={"task_state": planned.task_state})
    assert len(server.observations) == 5
    for observation in server.observations:
        assert set(observation) == {"images", "state", "environment_state", "task_description"}
        assert observation["task_description"] == env.get_wrapper_attr("task_description")
        [(camera, frame)] = observation["images"].items()
        assert camera == "corner4"
        np.testing.assert_array_equal(frame, obs["pixels"], strict=True)
        state, environment_state = observation["state"], observation["environment_state"]
        np.testing.assert_array_equal(state, np.float32(obs["agent_pos"]), strict=True)
        np.testing.assert_array_equal(environment_state[:4], state, strict=True)
        assert (environment_state.shape, state.dtype) == ((39,), np.float32)
        obs, *_ = env.step(act_at_random("push-back-v3", environment_state))
    env.close()


@pytest.mark.parametrize("name", ["metaworld.yaml", "smoke_test.yaml"])
def test_the_configurations_of_the_documentation_name_what_there_is(name):
    config = load_config(str(CONFIGS / name))
    [entry] = config["benchmarks"]
    assert entry["benchmark"] == NAME
    benchmark = MetaWorldBenchmark(**entry["params"])
    assert entry["episodes_per_task"] <= benchmark.get_metadata()["max_episodes_per_task"]
    is_whole = name != "smoke_test.yaml"
    assert len(benchmark.get_tasks()) == (50 if is_whole else 2)
    assert (benchmark.protocol == protocols["lerobot-0.6"]) is is_whole


# Faults.


def evaluate_and_list_failures(server, params=STATES, episodes=1, **entry):
    [result] = vla_eval.evaluate(server, make_config(params, episodes, **entry), no_save=True)
    failures = [
        (episode.get("failure_reason"), episode.get("failure_detail", ""))
        for task in result["tasks"]
        for episode in task["episodes"]
    ]
    return result, failures


@pytest.mark.parametrize(
    ("wrong_action", "message"),
    [
        (np.full(4, np.nan, np.float32), "expected a finite action, got [nan"),
        (np.zeros((5, 4), np.float32), "expected an action of shape (4,), got (5, 4)"),
    ],
)
def test_a_wrong_action_is_a_failure_of_its_episode_only(wrong_action, message):
    def act(task, state):
        return wrong_action if task == "drawer-close-v3" else act_as_expert(task, state)

    result, [successful, (reason, detail)] = evaluate_and_list_failures(Server(act))
    assert (reason, successful[0]) == ("env_step", None)
    assert message in detail
    assert (result["num_errors"], result["mean_success"]) == (1, 0.5)
