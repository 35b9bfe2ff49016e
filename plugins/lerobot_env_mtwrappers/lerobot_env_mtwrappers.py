"""Makes LeRobot find the environments of mtwrappers: it imports what has such a name."""

import mtwrappers.adapters.lerobot  # noqa: F401
