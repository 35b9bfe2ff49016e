"""The sentence of the task as an observation: in one environment, in vectors, for policies."""

import functools
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Text
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, MetaSampler
from mtwrappers.adapters import check_vec_env
from mtwrappers.continual.continual_world import CW10
from tests.fakes import check_env_warnings, equal
from tests.metaworld.fakes import PAIR, make, make_vec

TABLE = {"reach-v3": "Move to the bäll", "push-v3": "Push it"}
READS = {"train_classes": PAIR, "num_goals": 2, "descriptions": TABLE, "instruction": True}
SEES = {"width": 16, "height": 16, "shadows": False}
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
    assert check_env_warnings(env, skip_render_check=True) == []
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


@pytest.mark.parametrize(
    ("name", "look", "keys"),
    [
        (
            "CustomMT",
            {**READS, "observation": "pixels_agent_pos"},
            {"pixels", "agent_pos", "task_onehot"},
        ),
        ("MT1", {"observation": "pixels"}, {"pixels"}),
        ("MT1", {"observation": "pixels", "camera_name": ("corner4", "gripperPOV")}, {"pixels"}),
    ],
)
@pytest.mark.usefixtures("opengl")
def test_frames_get_the_sentence_beside_them(name, look, keys):
    with closing(make(name, **{**SEES, **look, "instruction": True})) as env:
        obs, _ = env.reset(seed=0)
        assert set(obs) == {*keys, "instruction"}
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


def test_hidden_classes_are_revealed_only_on_request():
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
    for executor in MetaIterativeEnvExecutor, functools.partial(MetaParallelEnvExecutor, workers=2):
        assert equal(run(executor(MAKERS, 2, autoreset_mode=mode), steps), expected)
    sentences = {one["instruction"] for one in expected if one}
    assert len(sentences) > 1 or mode is AutoresetMode.DISABLED


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


@pytest.mark.parametrize(
    "library", ["Stable-Baselines3", "TorchRL", "Tianshou", "skrl", "PufferLib"]
)
def test_libraries_of_tensors_refuse_it_by_name(library):
    message = rf"^{library} takes no .* Text space, got .*: make .* without instr"
    with make_vec("CustomMT", **VEC) as envs, pytest.raises(ValueError, match=message):
        check_vec_env(envs, library, AutoresetMode.SAME_STEP)


@pytest.mark.parametrize("policy_in", ["parent", "workers"])
def test_policies_and_trajectories_have_arrays_of_sentences(policy_in):
    class Policy:
        def get_actions(self, observations):
            sentences = observations["instruction"]
            assert sentences.dtype == object
            assert sentences.shape == observations["task_onehot"].shape[:2]
            return np.zeros((*sentences.shape, 4)), [{} for _ in sentences]

    make_env = functools.partial(make, "CustomMT", **VEC)
    with closing(MetaSampler(make_env, Policy(), 2, 2, 3, seed=1, policy_in=policy_in)) as sampler:
        paths = [path for own in sampler.obtain_samples().values() for path in own]
    for path in paths:
        sentences = path["observations"]["instruction"]
        assert (sentences.shape, sentences.dtype) == ((3,), object)
        assert set(sentences) == {path["next_observation"]["instruction"]} <= set(EVERY)
        assert sentences[0] == TABLE[path["env_infos"]["task_name"][0]]
