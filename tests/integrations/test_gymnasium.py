"""Gymnasium's own tools over the executors and ids of this package: wrappers, specs, `make_vec`."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import equal
from tests.vector.fakes import BoxCountingEnv, all_modes


def plain(value: Any) -> Any:
    """NumPy's arrays for those of torch, and no times."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items() if key not in ("t", "_t")}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(v) for v in value]
    if type(value).__module__.partition(".")[0] == "torch":
        return np.asarray(value)
    return value


def run(envs, mode):
    """What ten steps return, with the resets that the mode asks for."""
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(10)]
    results = [plain(envs.reset(seed=3))]
    for action in actions:
        results.append(plain(envs.step(action)))
        over = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            results.append(plain(envs.reset(options={"reset_mask": over})))
    return results


class FrameEnv(BoxCountingEnv):
    """Observes a frame whose pixels count, and renders one that is large enough for a film."""

    def __init__(self, length: int, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self.observation_space = Box(0, 255, (4, 6, 3), np.uint8)

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


def single(kind):
    """A single wrapper of Gymnasium's, for each environment, with `halve`."""
    return {"wrapper": getattr(gymnasium.wrappers, f"Transform{kind}"), "func": halve}


# What each wrapper is given; a function is called with the environments.
TABLE: dict[str, dict[str, Any]] = {
    "ArrayConversion": {"env_xp": np, "target_xp": lambda _: pytest.importorskip("torch")},
    "ClipAction": {},
    "ClipReward": {"max_reward": 2.0},
    "DictInfoToList": {},
    "DtypeObservation": {"dtype": np.float16},
    "FilterObservation": {"filter_keys": ["b"]},
    "FlattenObservation": {},
    "GrayscaleObservation": {},
    "NormalizeObservation": {},
    "NormalizeReward": {},
    "NumpyToTorch": {},
    "RecordEpisodeStatistics": {},
    "RescaleAction": {"min_action": -5, "max_action": 5},
    "RescaleObservation": {"min_obs": -1, "max_obs": 1},
    "ReshapeObservation": {"shape": (8, 9)},
    "ResizeObservation": {"shape": (2, 3)},
    "TransformAction": {"func": halve},
    "TransformObservation": {
        "func": halve,
        "single_observation_space": lambda envs: half_box(envs.single_observation_space),
    },
    "TransformReward": {"func": halve},
    "VectorizeTransformAction": {
        **single("Action"),
        "action_space": lambda envs: half_box(envs.single_action_space),
    },
    "VectorizeTransformObservation": {
        **single("Observation"),
        "func": sum_of_parts,
        "observation_space": Box(0, 9000, (1,), np.float64),
    },
    "VectorizeTransformReward": single("Reward"),
}
OBSERVES = {
    **dict.fromkeys(("FilterObservation", "FlattenObservation"), PartsEnv),
    "VectorizeTransformObservation": PartsEnv,
    **dict.fromkeys(("GrayscaleObservation", "ReshapeObservation", "ResizeObservation"), FrameEnv),
}
# The modules that some of them need.
NEEDS = {
    "ResizeObservation": ("cv2",),
    **dict.fromkeys(("ArrayConversion", "NumpyToTorch"), ("array_api_compat", "torch")),
}
# What has a test of its own, and what is for environments that are written in jax.
OTHERS = {"HumanRendering", "RecordVideo", "JaxToNumpy", "JaxToTorch"}
# Gymnasium's own limits: these refuse other modes, over its own vector environments, too. (Arrays
# of objects, as SAME_STEP returns them, are not converted.)
MODES = {
    **dict.fromkeys(
        (
            *("ArrayConversion", "DtypeObservation", "FilterObservation", "FlattenObservation"),
            *("GrayscaleObservation", "NumpyToTorch", "RescaleObservation", "ReshapeObservation"),
            *("ResizeObservation", "TransformObservation", "VectorizeTransformObservation"),
        ),
        (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED),
    ),
    "NormalizeObservation": (AutoresetMode.NEXT_STEP,),
}
# A server forks the workers: this process may have threads (torch's).
Parallel = partial(MetaParallelEnvExecutor, workers=2, context="forkserver")


class Oracle(SyncVectorEnv):
    """Gymnasium's own, which takes the mask out of the options before its wrappers read it."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=None if options is None else dict(options))


def test_every_vector_wrapper_of_gymnasium_is_tested():
    assert TABLE.keys() | OTHERS == set(wrappers.__all__)


def wrap(name, envs):
    given = {
        key: value(envs) if getattr(value, "__name__", "") == "<lambda>" else value
        for key, value in TABLE[name].items()
    }
    return getattr(wrappers, name)(envs, **given)


@pytest.mark.filterwarnings(
    # DtypeObservation casts the bounds of a space.
    "ignore:.*precision lowered by casting:UserWarning"
)
@pytest.mark.parametrize("name", TABLE)
@all_modes
@pytest.mark.slow_but("SameStep")
def test_a_vector_wrapper_gives_what_it_gives_over_gymnasiums_own(name, mode):
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    makers = [
        partial(OBSERVES.get(name, BoxCountingEnv), length, truncate=i % 2 == 1, first=10 * i)
        for i, length in enumerate((2, 3, 5, 4))
    ]
    # By turns: what the executors return is equal.
    executor = (MetaIterativeEnvExecutor, Parallel)[list(TABLE).index(name) % 2]
    oracle = Oracle(makers, autoreset_mode=mode)
    with closing(executor(makers, 2, 2, autoreset_mode=mode)) as ours, closing(oracle):
        if mode not in MODES.get(name, AutoresetMode):
            for envs in (ours, oracle):
                with pytest.raises((AssertionError, BufferError, TypeError, ValueError)):
                    run(wrap(name, envs), mode)
            return
        wrapped, expected = wrap(name, ours), wrap(name, oracle)
        assert wrapped.observation_space == expected.observation_space
        assert wrapped.action_space == expected.action_space
        found = run(wrapped, mode)
        assert equal(found, run(expected, mode))
        # No environment's first step is its last, so a wrapper that saw only one would be found.
        ends = [bool((result[2] | result[3]).any()) for result in found if len(result) == 5]
        assert sum(ends) >= 5


def test_human_rendering_displays_every_environment(monkeypatch):
    pytest.importorskip("cv2")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = [partial(BoxCountingEnv, 9, first=10 * i, render_mode="rgb_array") for i in range(2)]
    below = Parallel(made, 2, autoreset_mode="NextStep")
    with closing(wrappers.HumanRendering(below, screen_size=(2, 4))) as envs:
        envs.reset(seed=0)
        for step in (1, 2):
            envs.step(np.zeros((2, 2), np.float32))
            displayed = pygame.surfarray.array3d(envs.window)[..., 0]
            assert set(displayed.ravel().tolist()) == {step, 10 + step}


def test_record_video_writes_a_film_of_every_episode(tmp_path):
    pytest.importorskip("moviepy")
    made = [partial(FrameEnv, 2, first=10 * i, render_mode="rgb_array") for i in range(2)]
    envs = wrappers.RecordVideo(
        Parallel(made, 2, autoreset_mode="NextStep"),
        str(tmp_path / "films"),
        episode_trigger=lambda episode: True,
        video_aspect_ratio=(2, 1),
        disable_logger=True,
    )
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(np.zeros((2, 2), np.float32))
    envs.close()
    films = sorted((tmp_path / "films").iterdir())
    assert [film.name for film in films] == [f"rl-video-episode-{i}.mp4" for i in range(2)]
    assert all(film.stat().st_size > 500 for film in films)


# The ids.

SMALL = {"num_goals": 2, "max_episode_steps": 3}
IDS: dict[str, dict[str, Any]] = {
    "MT1": SMALL,
    "CustomMT": SMALL,
    "MultiEnv": {},
    "PointGoal": {"radius": 2.0, "max_episode_steps": 3},
}


@pytest.mark.parametrize("env_id", IDS)
def test_the_spec_of_a_vector_environment_survives_json(env_id):
    kwargs = {"workers": 1, "autoreset_mode": "NextStep", **IDS[env_id]}
    envs = gymnasium.make_vec(f"mtwrappers/{env_id}-v0", **kwargs)
    text = envs.spec.to_json()
    saved = json.loads(text)
    assert {name: saved["kwargs"].get(name, saved.get(name)) for name in kwargs} == kwargs
    again = gymnasium.make_vec(EnvSpec.from_json(text))
    assert again.spec == envs.spec
    assert again.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert equal(plain(again.reset(seed=1)), plain(envs.reset(seed=1)))


@pytest.mark.parametrize("env_id", ["MultiEnv", "PointGoal"])
@all_modes
def test_sync_and_async_vectorization_give_the_same(env_id, mode):
    found = []
    for kind, extra in (("sync", {}), ("async", {"context": "forkserver"})):
        envs = gymnasium.make_vec(
            f"mtwrappers/{env_id}-v0",
            3,
            vectorization_mode=kind,
            vector_kwargs={"autoreset_mode": mode, **extra},
            wrappers=[gymnasium.wrappers.RecordEpisodeStatistics],
            **{"max_episode_steps": 3, **IDS[env_id]},
        )
        with closing(envs):
            assert type(envs) is {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[kind]
            assert envs.metadata["autoreset_mode"] is mode
            found.append(run(envs, mode))
    assert equal(*found)
    assert sum(result[3].any() for result in found[0] if len(result) == 5) >= 2
