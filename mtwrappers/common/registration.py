"""One table of ids, with string entry points so that specs survive JSON and pickle.

Gymnasium 1.x has no plugins: the ids are known after ``import mtwrappers``, or when an id names the
module, as in ``"mtwrappers:mtwrappers/MT10-v0"``.
"""

from __future__ import annotations

from typing import Any

from gymnasium.envs.registration import register, registry

EPISODE_STEPS = 500
# The default arguments of Continual World's streams that other ids do not have, or have with other
# values.
STREAM_DEFAULTS: dict[str, Any] = {
    "steps_per_task": 1_000_000,
    "max_episode_steps": 200,
    "goals": "continuous",
}
_TRAIN = {"train_classes": ["reach-v3", "push-v3"]}
_CUSTOM_ML = {"benchmark": "CustomML", **_TRAIN, "test_classes": ["door-open-v3"]}

_META_WORLD: dict[str, dict[str, Any]] = {
    **{name: {"benchmark": name} for name in ("MT1", "MT10", "MT25", "MT50")},
    "CustomMT": {"benchmark": "CustomMT", **_TRAIN},
    **{
        f"{name}-{kind}": {"benchmark": name, "kind": kind}
        for name in ("ML1", "ML10", "ML25", "ML45")
        for kind in ("train", "test")
    },
    **{f"CustomML-{kind}": {**_CUSTOM_ML, "kind": kind} for kind in ("train", "test")},
}

# The families of tasks of `mtwrappers.envs.families`, each with the extra that it needs.
FAMILIES: dict[str, str | None] = {
    "HalfCheetahVel": "mujoco",
    "HalfCheetahDir": "mujoco",
    "AntDir": "mujoco",
    "AntGoal": "mujoco",
    "HumanoidDir": "mujoco",
    "Walker2dVel": "mujoco",
    "SwimmerVel": "mujoco",
    "Walker2dRandParams": "mujoco",
    "HopperRandParams": "mujoco",
    "PointRobot": None,
    "SparsePointRobot": None,
    "Bandit": None,
    "TabularMDP": None,
}

# id -> (module of make_env and make_vec_env, keyword arguments, steps of an episode)
TABLE: dict[str, tuple[str, dict[str, Any], int | None]] = {
    **{
        f"mtwrappers/{name}-v0": ("mtwrappers.metaworld.make", kwargs, EPISODE_STEPS)
        for name, kwargs in _META_WORLD.items()
    },
    **{
        f"mtwrappers/{name}-v0": (
            "mtwrappers.continual.continual_world",
            {"sequence": name},
            STREAM_DEFAULTS["max_episode_steps"],
        )
        for name in ("CW10", "CW20")
    },
    "mtwrappers/MultiEnv-v0": ("mtwrappers.envs.multi_env", {}, None),
    "mtwrappers/PointGoal-v0": ("mtwrappers.envs.point_goal", {}, 100),
    # The source of a family, an argument, has its own number of steps.
    **{
        f"mtwrappers/{name}-v0": ("mtwrappers.envs.families", {"family": name}, None)
        for name in FAMILIES
    },
}


def register_all() -> None:
    """Registers every id with Gymnasium; calling it again changes nothing."""
    for env_id, (module, kwargs, max_episode_steps) in TABLE.items():
        if env_id not in registry:
            register(
                id=env_id,
                entry_point=f"{module}:make_env",
                vector_entry_point=f"{module}:make_vec_env",
                kwargs=kwargs,
                max_episode_steps=max_episode_steps,
            )
