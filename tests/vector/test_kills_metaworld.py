"""Workers killed at random moments change nothing of Meta-World, of streams and of wrappers."""

from contextlib import closing
from functools import partial

import gymnasium
import pytest

import mtwrappers as mt
from tests.fakes import equal
from tests.metaworld.conftest import opengl  # noqa: F401 (a fixture)
from tests.metaworld.fakes import untimed
from tests.vector import faults
from tests.vector.processes import MANY, RECOVER, needs_proc, run_until_killed
from tests.vector.test_kills import run_steps

pytest.importorskip("metaworld")
pytestmark = [needs_proc, faults.loses_workers, pytest.mark.slow]


def make_vec(name, **kwargs):
    return partial(gymnasium.make_vec, f"mtwrappers/{name}-v0", **kwargs)


def make_env(name, wrap=lambda env: env, **kwargs):
    return wrap(gymnasium.make(f"mtwrappers/{name}-v0", **kwargs))


def make_mixed(**kwargs):
    """A class of Meta-World, and another environment, in one space."""
    reach = partial(make_env, "MT1", env_name="reach-v3", num_goals=2, max_episode_steps=15)
    car = partial(gymnasium.make, "MountainCarContinuous-v0", max_episode_steps=25)
    return mt.as_vector([reach, car], 4, unify="pad", **kwargs)


def make_wrapped(wrap, name="MT1", **kwargs):
    """Four environments with a wrapper in each of them."""
    options = {"env_name": "push-v3", "num_goals": 3, "max_episode_steps": 15}
    return mt.as_vector([partial(make_env, name, wrap, **options)], 4, **kwargs)


SETUPS = {
    "MT10": make_vec("MT10", num_goals=2, max_episode_steps=25),
    "mixed": make_mixed,
    "CW10": make_vec("CW10", num_envs=2, steps_per_task=20_000, max_episode_steps=15),
    "stream": lambda **kwargs: mt.as_vector(
        [partial(make_env, "CW10", steps_per_task=20, seed=0, max_episode_steps=15)], 2, **kwargs
    ),
    "ML10 continuous": make_vec("ML10-train", goals="continuous", max_episode_steps=25),
    "pixels": make_vec(
        "MT1",
        env_name="reach-v3",
        num_envs=2,
        num_goals=2,
        observation="pixels",
        width=24,
        height=24,
        shadows=False,
        max_episode_steps=15,
    ),
    "language": make_vec("MT10", instruction=True, num_goals=2, max_episode_steps=25),
    "RL2": partial(make_wrapped, mt.RL2Observation),
    "normalised observations": partial(make_wrapped, mt.NormalizeObservationPerTask),
    "normalised rewards": partial(make_wrapped, mt.NormalizeRewardPerTask),
    "normalised by the executor's side": lambda **kwargs: mt.VectorNormalizeObservationPerTask(
        make_vec("MT10", num_goals=2, max_episode_steps=25)(**kwargs)
    ),
}
# A worker that imports OpenGL takes seconds to begin, and is not to be killed before.
SECONDS = {"pixels": 0.5}


@pytest.mark.usefixtures("opengl")
@pytest.mark.parametrize("setup", SETUPS)
def test_kills_at_random_moments_change_nothing_of_metaworld(setup):
    make = SETUPS[setup]
    with closing(make(**RECOVER)) as envs:
        steps = partial(run_steps, envs)
        results = run_until_killed(envs.unwrapped, 2 * MANY, steps, SECONDS.get(setup, 0.2))
    with closing(make()) as oracle:
        for t, result in enumerate(results):
            assert equal(untimed(result), untimed(run_steps(oracle, t))), t
