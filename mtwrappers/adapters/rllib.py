"""Requirements of RLlib's env runners for vector environments that they make by id.

An env runner takes the step after the end of an episode for a reset, whatever the environment's
metadata says, and passes nothing by which `make_vec` could recognise it. So the stack is searched
for it.
"""

from __future__ import annotations

import sys
from types import FrameType

from gymnasium.vector import AutoresetMode


def check_env_runner(num_envs: int, autoreset_mode: AutoresetMode) -> None:
    """Raises an error if the calling env runner would misread a vector environment.

    `mtwrappers.vector.make.make_executor` calls this in a process that has imported ``ray.rllib``;
    outside an env runner it does nothing.

    Raises:
        ValueError: If the autoreset mode or the number of environments is another than expected.
    """
    frame = _env_runner_frame()
    if frame is None:
        return
    if autoreset_mode is not AutoresetMode.NEXT_STEP:
        raise ValueError(
            "RLlib's env runners take the step after the end of an episode for a reset, and need "
            f"autoreset_mode='NextStep', got {autoreset_mode.value!r}: pass "
            ".environment(..., env_config={'autoreset_mode': 'NextStep'})"
        )
    config = getattr(frame.f_locals["self"], "config", None)
    expected = getattr(config, "num_envs_per_env_runner", num_envs)
    if expected != num_envs:
        raise ValueError(
            f"RLlib expects {expected} environments of this vector environment, which has "
            f"{num_envs}: pass .env_runners(num_envs_per_env_runner={num_envs})"
        )


def _env_runner_frame() -> FrameType | None:
    """Returns the frame of an env runner that is making its environment, or ``None``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("ray.rllib."):
            # Callbacks that make environments are called from another function.
            if not module.startswith("ray.rllib.env."):
                return None
            if frame.f_code.co_name == "make_env" and "self" in frame.f_locals:
                return frame
        frame = frame.f_back
    return None
