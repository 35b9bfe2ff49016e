"""Gymnasium's own vector wrappers over the executors of this package."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import equal, run_python
from tests.integrations.fakes import run
from tests.vector.fakes import BoxCountingEnv, all_modes


class FrameEnv(BoxCountingEnv):
    """Observes a frame whose pixels count."""

    def __init__(self, length: int, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self.observation_space = Box(0, 255, (4, 6, 3), np.uint8)


class FilmEnv(BoxCountingEnv):
    """Renders frames that are large enough for a film."""

    def render(self):
        return np.full((32, 32, 3), self.first + self.steps, np.uint8)


class PartsEnv(BoxCountingEnv):
    """Observes a dict of two arrays that count."""

    def __init__(self, length: int, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self.observation_space = Dict(
            {"a": Box(0, 1000, (2,), np.float32), "b": Box(0, 1000, (3,), np.float64)}
        )

    def _obs(self):
        count = self.first + self.steps
        return {
            name: np.full(space.shape, count, space.dtype)
            for name, space in self.observation_space.items()
        }


def sum_of_parts(obs):
    return obs["a"].sum(keepdims=True) + obs["b"].sum(keepdims=True)


def halve(x):
    return x / 2


def half_box(space):
    return Box(space.low / 2, space.high / 2, dtype=space.dtype.type)


def vectorize(kind, func, **given):
    """Wraps each environment with a single wrapper of Gymnasium's."""
    outer = getattr(wrappers, f"VectorizeTransform{kind}")
    inner = getattr(gymnasium.wrappers, f"Transform{kind}")
    return lambda envs: outer(
        envs, inner, func=func, **{name: make(envs) for name, make in given.items()}
    )


def transform_observation(envs):
    return wrappers.TransformObservation(
        envs, halve, single_observation_space=half_box(envs.single_observation_space)
    )


def convert_arrays(envs):
    return wrappers.ArrayConversion(envs, env_xp=np, target_xp=importlib.import_module("torch"))


def late(name):
    """A wrapper of arrays is looked up late: Gymnasium imports torch and jax with it."""
    return BoxCountingEnv, lambda envs: getattr(wrappers, name)(envs)


ARRAYS, FRAMES, PARTS = BoxCountingEnv, FrameEnv, PartsEnv
# What is wrapped, and what wraps it.
TABLE: dict[str, tuple[type[gymnasium.Env], Callable[..., Any]]] = {
    "ClipAction": (ARRAYS, wrappers.ClipAction),
    "ClipReward": (ARRAYS, partial(wrappers.ClipReward, max_reward=2.0)),
    "DictInfoToList": (ARRAYS, wrappers.DictInfoToList),
    "DtypeObservation": (ARRAYS, partial(wrappers.DtypeObservation, dtype=np.float16)),
    "FilterObservation": (PARTS, partial(wrappers.FilterObservation, filter_keys=["b"])),
    "FlattenObservation": (PARTS, wrappers.FlattenObservation),
    "GrayscaleObservation": (FRAMES, wrappers.GrayscaleObservation),
    "NormalizeObservation": (ARRAYS, wrappers.NormalizeObservation),
    "NormalizeReward": (ARRAYS, wrappers.NormalizeReward),
    "RecordEpisodeStatistics": (ARRAYS, wrappers.RecordEpisodeStatistics),
    "RescaleAction": (ARRAYS, partial(wrappers.RescaleAction, min_action=-5, max_action=5)),
    "RescaleObservation": (ARRAYS, partial(wrappers.RescaleObservation, min_obs=-1, max_obs=1)),
    "ReshapeObservation": (FRAMES, partial(wrappers.ReshapeObservation, shape=(8, 9))),
    "ResizeObservation": (FRAMES, partial(wrappers.ResizeObservation, shape=(2, 3))),
    "TransformAction": (ARRAYS, partial(wrappers.TransformAction, func=halve)),
    "TransformObservation": (ARRAYS, transform_observation),
    "TransformReward": (ARRAYS, partial(wrappers.TransformReward, func=halve)),
    "VectorizeTransformAction": (
        ARRAYS,
        vectorize("Action", halve, action_space=lambda envs: half_box(envs.single_action_space)),
    ),
    "VectorizeTransformObservation": (
        PARTS,
        vectorize(
            "Observation",
            sum_of_parts,
            observation_space=lambda envs: Box(0, 9000, (1,), np.float64),
        ),
    ),
    "VectorizeTransformReward": (ARRAYS, vectorize("Reward", halve)),
    "ArrayConversion": (ARRAYS, convert_arrays),
    "NumpyToTorch": late("NumpyToTorch"),
    "JaxToNumpy": late("JaxToNumpy"),
    "JaxToTorch": late("JaxToTorch"),
}
# The modules that some of them need.
NEEDS = {
    "ResizeObservation": ("cv2",),
    **dict.fromkeys(("ArrayConversion", "NumpyToTorch"), ("array_api_compat", "torch")),
}
RENDERING = {"HumanRendering", "RecordVideo"}
# Gymnasium's own limits: these refuse other modes, over its own vector environments, too. (Arrays
# of objects, as SAME_STEP returns them, are not converted; what is named after jax is for
# environments that are written in it, and hands them masks of jax.)
NOT_SAME_STEP = (
    *("ArrayConversion", "DtypeObservation", "FilterObservation", "FlattenObservation"),
    *("GrayscaleObservation", "NumpyToTorch", "RescaleObservation", "ReshapeObservation"),
    *("ResizeObservation", "TransformObservation", "VectorizeTransformObservation"),
)
JAX = ("JaxToNumpy", "JaxToTorch")
ONLY_NEXT_STEP = (*JAX, "NormalizeObservation")
MODES = {
    **{name: {AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED} for name in NOT_SAME_STEP},
    **{name: {AutoresetMode.NEXT_STEP} for name in ONLY_NEXT_STEP},
}
EXECUTORS = {
    "iterative": MetaIterativeEnvExecutor,
    # A server forks the workers: this process may have threads (torch's and jax's).
    "parallel": partial(MetaParallelEnvExecutor, workers=2, context="forkserver"),
}


def makers(env_class):
    return [
        partial(env_class, length, truncate=i % 2 == 1, first=10 * i)
        for i, length in enumerate((2, 3, 5, 4))
    ]


class Oracle(SyncVectorEnv):
    """Gymnasium's own, which takes the mask out of the options before its wrappers read it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=None if options is None else dict(options))


def test_every_vector_wrapper_of_gymnasium_is_tested():
    assert TABLE.keys() | RENDERING == set(wrappers.__all__)


def compare(name, ours, mode):
    """Requires of a wrapper over ``ours`` what it does over Gymnasium's own."""
    env_class, wrap = TABLE[name]
    oracle = Oracle(makers(env_class), autoreset_mode=mode)
    if mode not in MODES.get(name, AutoresetMode):
        for envs in (ours, oracle):
            with pytest.raises((AssertionError, BufferError, TypeError, ValueError)):
                run(wrap(envs), mode)
        return
    wrapped, expected = wrap(ours), wrap(oracle)
    assert wrapped.observation_space == expected.observation_space
    assert wrapped.action_space == expected.action_space
    found = run(wrapped, mode)
    assert equal(found, run(expected, mode))
    # No environment's first step is its last, so a wrapper that saw only one would be found out.
    assert sum(bool((result[2] | result[3]).any()) for result in found if len(result) == 5) >= 5
    oracle.close()


@pytest.mark.filterwarnings(
    # DtypeObservation casts the bounds of a space.
    "ignore:.*precision lowered by casting:UserWarning"
)
@pytest.mark.parametrize("name", [name for name in TABLE if name not in JAX])
@all_modes
def test_a_vector_wrapper_gives_what_it_gives_over_gymnasiums_own(name, mode):
    env_class, _ = TABLE[name]
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    # By turns: what the executors return is equal.
    executor = list(EXECUTORS.values())[list(TABLE).index(name) % 2]
    with closing(executor(makers(env_class), 2, 2, autoreset_mode=mode)) as envs:
        compare(name, envs, mode)


def test_the_wrappers_for_jax_give_what_they_give_over_gymnasiums_own():
    for module in ("array_api_compat", "jax", "torch"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    # In a Python of its own: once jax has started, it warns of every fork after it.
    run_python(
        "from tests.integrations.test_gymnasium import *\n"
        "for name, mode in zip(JAX * 2, [*AutoresetMode, AutoresetMode.NEXT_STEP]):\n"
        "    with closing(MetaIterativeEnvExecutor(makers(ARRAYS), 4, autoreset_mode=mode)) as e:\n"
        "        compare(name, e, mode)\n"
    )


def test_human_rendering_shows_every_environment(monkeypatch):
    pytest.importorskip("cv2")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = [partial(BoxCountingEnv, 9, first=10 * i, render_mode="rgb_array") for i in range(2)]
    envs = wrappers.HumanRendering(
        EXECUTORS["parallel"](made, 2, autoreset_mode="NextStep"), screen_size=(2, 4)
    )
    try:
        for step in range(3):
            if step == 0:
                envs.reset(seed=0)
            else:
                envs.step(np.zeros((2, 2), np.float32))
            shown = pygame.surfarray.array3d(envs.window)[..., 0]
            assert set(shown.ravel().tolist()) == {step, 10 + step}
    finally:
        envs.close()


def test_record_video_writes_a_film_of_every_episode(tmp_path):
    pytest.importorskip("moviepy")
    made = [partial(FilmEnv, 2, first=10 * i, render_mode="rgb_array") for i in range(2)]
    envs = wrappers.RecordVideo(
        EXECUTORS["parallel"](made, 2, autoreset_mode="NextStep"),
        str(tmp_path / "films"),
        episode_trigger=lambda episode: True,
        video_aspect_ratio=(2, 1),
        disable_logger=True,
    )
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(np.zeros((2, 2), np.float32))
    envs.close()
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == [
        "rl-video-episode-0.mp4",
        "rl-video-episode-1.mp4",
    ]
    assert all(path.stat().st_size > 500 for path in (tmp_path / "films").iterdir())
