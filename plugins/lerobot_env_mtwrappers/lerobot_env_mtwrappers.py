"""Registers mtwrappers with LeRobot, which imports all modules named ``lerobot_env_*``."""

import mtwrappers.adapters.lerobot  # noqa: F401
