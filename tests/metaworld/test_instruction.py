"""The sentence of the task as an observation: in one environment, in vectors, for policies."""

import functools
import os
import signal
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Text
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import (
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MetaSampler,
    evaluate,
    load_checkpoint,
    save_checkpoint,
)
from mtwrappers.adapters import check_vec_env
from mtwrappers.continual.continual_world import CW10
from mtwrappers.testing import check_vector_env
from tests.fakes import check_env_warnings, equal
from tests.metaworld.fakes import PAIR, make, make_vec

TABLE = {"reach-v3": "Move to the bäll", "push-v3": "Push it"}
READS = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE, "instruction": True}
SEES = {"observation": "pixels", "width": 16, "height": 16, "shadows": False}
EVERY = [*TABLE.values()]


def test_a_state_becomes_a_dict_with_the_sentence():
    env, plain = make("CustomMT", **READS), make("CustomMT", train_classes=PAIR, num_goals=2)
    space = env.observation_space
    assert set(space) == {"environment_state", "task_onehot", "instruction"}
    text = space["instruction"]
    assert isinstance(text, Text)
    assert (text.min_length, text.max_length) == (1, 16)
    assert all(one in text for one in EVERY)
    assert "Move, to" not in text
    for part, n in (("environment_state", 39), ("task_onehot", 2)):
        assert (space[part].shape, space[part].dtype) == ((n,), np.float64)
    for seed in (0, 3):
        action = np.ones(4, np.float32)
        began = env.reset(seed=seed)[0], plain.reset(seed=seed)[0]
        for obs, flat in (began, (env.step(action)[0], plain.step(action)[0])):
            assert obs in space
            assert [*obs["environment_state"], *obs["task_onehot"]] == flat.tolist()
            assert obs["instruction"] == env.get_wrapper_attr("task_description")
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == space
    assert set(make("MT1", instruction=True).observation_space) == {
        "environment_state",
        "instruction",
    }


@pytest.mark.parametrize("kwargs", [{}, {**SEES, "observation": "pixels_agent_pos"}])
def test_it_passes_gymnasiums_check(kwargs):
    with closing(make("CustomMT", **READS, **kwargs)) as env:
        assert check_env_warnings(env, skip_render_check=True) == []


@pytest.mark.parametrize(
    ("observation", "keys"),
    [
        ("pixels", {"pixels", "task_onehot"}),
        ("pixels_agent_pos", {"pixels", "agent_pos", "task_onehot"}),
        ("pixels_state", {"pixels", "environment_state", "task_onehot"}),
    ],
)
def test_frames_get_the_sentence_beside_them(observation, keys):
    with closing(make("CustomMT", **READS, **{**SEES, "observation": observation})) as env:
        space = env.observation_space
        assert set(space) == {*keys, "instruction"}
        assert space["pixels"].shape == (16, 16, 3)
        obs, _ = env.reset(seed=0)
        assert obs in space
        assert obs["pixels"].any()


def test_a_frame_alone_becomes_pixels():
    with closing(make("MT1", instruction=True, **SEES)) as env:
        assert set(env.observation_space) == {"pixels", "instruction"}
        obs, _ = env.reset(seed=0)
        assert obs in env.observation_space


def test_frames_of_several_cameras_are_pixels_too():
    kwargs = {**SEES, "camera_name": ("corner4", "gripperPOV"), "instruction": True}
    with closing(make("MT1", **kwargs)) as env:
        assert set(env.observation_space["pixels"]) == {"corner4", "gripperPOV"}
        obs, _ = env.reset(seed=0)
        assert obs in env.observation_space


def test_a_stream_of_tasks_has_it_too():
    table = {name: f"do {name}" for name in CW10}
    env = make("CW10", descriptions=table, instruction=True, task_embedding=np.eye(10))
    space = env.observation_space
    assert {key: space[key].shape for key in space if key != "instruction"} == {
        "environment_state": (39,),
        "task_embedding": (10,),
        "task_onehot": (10,),
    }
    obs, _ = env.reset(seed=4)
    assert obs["instruction"] == "do hammer-v3"
    assert obs in space


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"task_encoding": "dict"}, "cannot be combined with task_encoding='dict'"),
        ({"recurrent_info_in_obs": True}, "cannot be combined with recurrent_info_in_obs=T"),
        ({"instruction": 1}, "instruction must be True or False, got 1"),
    ],
)
def test_what_it_does_not_go_with_is_refused(kwargs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make("CustomMT", **{**READS, **kwargs})


def test_hidden_classes_are_not_revealed():
    for function in (make, make_vec):
        with pytest.raises(ValueError, match="needs descriptions on ML10: its classes are hidden"):
            function("ML10-train", instruction=True)
    env = make("ML1-train", instruction=True, descriptions="metaworld")
    assert env.reset(seed=0)[0]["instruction"] == "Reach a goal position"


# In vectors.

VEC = {**READS, "max_episode_steps": 3}
MAKERS = [functools.partial(make, "CustomMT", **VEC)] * 2
STILL = np.zeros((2, 4), np.float32)


def run(envs, steps):
    """All observations of a run, the last ones of episodes among them."""
    with closing(envs):
        found = [envs.reset(seed=5)[0]]
        for _ in range(steps):
            obs, *_, infos = envs.step(STILL)
            assert obs in envs.observation_space
            found += [obs, *(last for last in infos.get("final_obs", ()))]
    return found


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.slow_but("AutoresetMode.SAME_STEP")
def test_every_executor_returns_what_gymnasiums_does(mode):
    steps = 3 if mode is AutoresetMode.DISABLED else 10
    expected = run(SyncVectorEnv(MAKERS, autoreset_mode=mode), steps)
    for executor, kwargs in ((MetaIterativeEnvExecutor, {}), (MetaParallelEnvExecutor, RUNS)):
        found = run(executor(MAKERS, 2, autoreset_mode=mode, **kwargs), steps)
        assert equal(found, expected)
    sentences = {one["instruction"] for one in expected if one}
    assert all(type(one) is tuple or one in EVERY for one in sentences)
    assert len(sentences) > 2 or mode is AutoresetMode.DISABLED


RUNS = {"workers": 2}


def test_gymnasiums_own_vectors_have_it_and_its_shared_memory_refuses_it():
    vector = functools.partial(gymnasium.make_vec, "mtwrappers/CustomMT-v0", 2, **VEC)
    found = [
        run(vector(vectorization_mode="sync"), 5),
        run(vector(vectorization_mode="async", vector_kwargs={"shared_memory": False}), 5),
    ]
    assert equal(*found)
    assert found[0][0]["instruction"] != found[0][-1]["instruction"]
    with pytest.raises(ValueError, match="disable this feature with `shared_memory=False`"):
        vector(vectorization_mode="async")


@pytest.mark.slow
def test_the_checker_finds_nothing():
    report = check_vector_env("mtwrappers/CustomMT-v0", kwargs=VEC)
    assert report.ok, str(report)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.slow_but("False")
def test_a_killed_worker_and_a_checkpoint_in_mid_episode_change_nothing(killed, tmp_path):
    kwargs = {**VEC, "journal": True}
    recover = {"workers": 2, "on_worker_failure": "recover"} if killed else {}
    with make_vec("CustomMT", **kwargs) as envs:
        expected = [envs.reset(seed=5), *(envs.step(STILL) for _ in range(15))]
    with make_vec("CustomMT", **kwargs, **recover) as envs:
        found = [envs.reset(seed=5), *(envs.step(STILL) for _ in range(5))]
        if killed:
            os.kill(envs.worker_pids[0], signal.SIGKILL)
            with pytest.warns(UserWarning, match="SIGKILL"):
                found.append(envs.step(STILL))
        sentences = envs.get_attr("task_description")
        save_checkpoint(tmp_path / "c", envs=envs)
    with make_vec("CustomMT", **kwargs) as envs:
        load_checkpoint(tmp_path / "c", envs=envs)
        assert envs.get_attr("task_description") == sentences
        found += [envs.step(STILL) for _ in range(16 - len(found))]
    assert equal([without_times(one) for one in found], [without_times(one) for one in expected])


def without_times(result):
    """The results without seconds, which differ."""
    *others, infos = result
    last = infos.get("final_info", {})
    if "episode" in last:
        last = {**last, "episode": {k: v for k, v in last["episode"].items() if "t" not in k}}
    return [*others, {**infos, "final_info": last}]


@pytest.mark.parametrize(
    "library", ["Stable-Baselines3", "TorchRL", "Tianshou", "skrl", "PufferLib"]
)
def test_libraries_of_tensors_refuse_it_by_name(library):
    with (
        make_vec("CustomMT", **VEC) as envs,
        pytest.raises(
            ValueError, match=rf"^{library} takes no .* Text space, got .*: make .* without instr"
        ),
    ):
        check_vec_env(envs, library, AutoresetMode.SAME_STEP)


# For policies.


class Reads:
    """Moves by the length of the sentence that it reads, and keeps what it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, observations):
        sentences = observations["instruction"]
        assert (sentences.dtype, sentences.shape) == (object, observations["task_onehot"].shape[:1])
        self.seen.append(sentences.tolist())
        actions = np.zeros((len(sentences), 4), np.float32)
        actions[:, 0] = [len(one) / 20 for one in sentences]
        return actions


def test_an_evaluation_gives_policies_arrays_of_sentences_and_names_them():
    results = []
    for kwargs, policy_in in (({}, "parent"), (RUNS, "parent"), (RUNS, "workers")):
        with make_vec("CustomMT", 4, **VEC, **kwargs) as envs:
            policy = Reads()
            results.append(evaluate(policy, envs, 6, policy_in=policy_in))
            if policy_in == "parent":
                said = {one for row in policy.seen for one in row}
                assert said == set(EVERY)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("policy_in", ["parent", "workers"])
def test_samplers_give_trajectories_with_the_sentence_of_each_step(policy_in):
    class Policy(Reads):
        def get_actions(self, observations):
            assert observations["instruction"].shape == (observations["task_onehot"].shape[:2])
            m, k = observations["instruction"].shape
            return np.zeros((m, k, 4)), [{} for _ in range(m)]

    make_env = functools.partial(make, "CustomMT", **VEC)
    with closing(MetaSampler(make_env, Policy(), 2, 2, 3, seed=1, policy_in=policy_in)) as sampler:
        paths = [path for own in sampler.obtain_samples().values() for path in own]
    for path in paths:
        sentences = path["observations"]["instruction"]
        assert (sentences.shape, sentences.dtype) == ((3,), object)
        assert set(sentences) == {path["next_observation"]["instruction"]} <= set(EVERY)
        assert sentences[0] == TABLE[path["env_infos"]["task_name"][0]]
