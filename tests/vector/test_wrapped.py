"""Our own wrapper and Gymnasium's vector wrappers over both executors."""

import copy
import sys
import types
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers import MetaVectorWrapper
from tests.fakes import CountingEnv, counting_makers, equal
from tests.vector.fakes import all_modes, both_executors
from tests.vector.faults import fragile_makers

NO_ACTIONS = np.zeros(4, dtype=np.int64)


class HalfReward(MetaVectorWrapper):
    def step_wait(self):
        obs, rewards, terminated, truncated, infos = self.env.step_wait()
        return obs, rewards / 2, terminated, truncated, infos


@both_executors
def test_a_meta_vector_wrapper_forwards_everything(executor):
    envs = executor(fragile_makers(length=2), 2, 2, autoreset_mode="NextStep")
    wrapped = HalfReward(HalfReward(envs))
    assert wrapped.unwrapped is envs
    assert wrapped.autoreset_mode is AutoresetMode.NEXT_STEP
    assert (wrapped.meta_batch_size, wrapped.envs_per_task) == (2, 2)
    assert wrapped.num_envs == 4
    assert wrapped.observation_space == envs.observation_space
    wrapped.set_tasks([10, 20])
    assert wrapped.reset(seed=0)[0][:, 0].tolist() == [10, 10, 20, 20]
    assert wrapped.step(NO_ACTIONS)[1].tolist() == [0.25] * 4
    wrapped.step_async(NO_ACTIONS)
    assert wrapped.step_wait()[1].tolist() == [0.5] * 4
    assert wrapped.call("run_fault") == ("no fault",) * 4
    assert wrapped.get_attr("first") == (10, 10, 20, 20)
    wrapped.set_attr("first", [1, 2, 3, 4])
    assert wrapped.get_attr("first") == (1, 2, 3, 4)
    assert wrapped.np_random_seed == (0, 1, 2, 3)
    wrapped.close()
    assert envs.closed is True
    with pytest.raises(ClosedEnvironmentError, match="was closed"):
        wrapped.step(NO_ACTIONS)


@both_executors
@all_modes
def test_gymnasiums_statistics_are_those_of_the_episodes(executor, mode):
    makers = [partial(CountingEnv, 2), partial(CountingEnv, 3, truncate=True)]
    envs = vector_wrappers.RecordEpisodeStatistics(executor(makers, 2, autoreset_mode=mode))
    envs.reset(seed=0)
    found = []
    for _ in range(6):
        *_, terminated, truncated, infos = envs.step(np.array([0, 0]))
        if "episode" in infos:
            episode = infos["episode"]
            found.append((episode["r"].tolist(), episode["l"].tolist()))
        over = terminated | truncated
        if mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
    first, second = ([3.0, 0.0], [2, 0]), ([0.0, 6.0], [0, 3])
    # In the sixth step both end, but for the steps that NEXT_STEP spends on resets.
    third = {"NextStep": first}.get(mode.value, first)
    expected = [first, second, third]
    if mode is not AutoresetMode.NEXT_STEP:
        expected.append(([3.0, 6.0], [2, 3]))
    assert found == expected
    envs.close()


@both_executors
def test_gymnasiums_normalization_is_that_over_its_own_vector_environment(executor):
    makers = counting_makers(3)
    normalized = [
        vector_wrappers.NormalizeObservation(envs)
        for envs in (
            executor(makers, 3, autoreset_mode="NextStep"),
            SyncVectorEnv(makers, autoreset_mode="NextStep"),
        )
    ]
    ours, oracle = ([envs.reset(seed=0)] for envs in normalized)
    for _ in range(6):
        for results, envs in zip((ours, oracle), normalized, strict=True):
            results.append(envs.step(np.zeros(3, int)))
    assert equal(ours, oracle)
    assert len({result[0].tobytes() for result in ours}) == 7
    for envs in normalized:
        envs.close()


@both_executors
def test_gymnasiums_recorder_films_the_episodes(executor, tmp_path, monkeypatch):
    films = {}

    class Clip:
        def __init__(self, frames, fps):
            self.frames, self.fps = list(frames), fps

        def write_videofile(self, path, logger):
            films[path.rpartition("/")[2]] = (
                [frame[0, :, 0].tolist() for frame in self.frames],
                self.fps,
            )

    module = types.ModuleType("moviepy.video.io.ImageSequenceClip")
    module.ImageSequenceClip = Clip
    for name in ("moviepy", "moviepy.video", "moviepy.video.io"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)

    makers = [partial(CountingEnv, 2, first=10 * i, render_mode="rgb_array") for i in range(2)]
    envs = vector_wrappers.RecordVideo(
        executor(makers, 2, autoreset_mode="NextStep"),
        str(tmp_path / "films"),
        episode_trigger=lambda episode: True,
        video_aspect_ratio=(2, 1),
    )
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(np.array([0, 0]))
    envs.close()
    assert films == {
        "rl-video-episode-0.mp4": ([[0, 0, 10, 10], [1, 1, 11, 11], [2, 2, 12, 12]], 10),
        "rl-video-episode-1.mp4": ([[0, 0, 10, 10], [1, 1, 11, 11], [2, 2, 12, 12]], 10),
    }


@both_executors
def test_registered_environments_work(executor):
    maker = partial(gymnasium.make, "CartPole-v1", max_episode_steps=5)
    oracle = SyncVectorEnv([maker] * 4, autoreset_mode="SameStep")
    with closing(executor(maker, 2, 2)) as envs, closing(oracle):
        assert equal(envs.reset(seed=0), oracle.reset(seed=0))
        for _ in range(12):
            actions = np.array([0, 1, 1, 0])
            given = copy.deepcopy(actions)
            assert equal(envs.step(actions), oracle.step(actions))
            assert equal(actions, given)
