"""Names for types that Gymnasium and NumPy leave open, as both do themselves.

The observations, actions and frames of an environment have any type, and so have the values of
infos, options and states.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium
from gymnasium.spaces import Space
from numpy.typing import NDArray

AnyEnv: TypeAlias = gymnasium.Env[Any, Any]
AnyWrapper: TypeAlias = gymnasium.Wrapper[Any, Any, Any, Any]
AnySpace: TypeAlias = Space[Any]
# An array of any dtype.
AnyArray: TypeAlias = NDArray[Any]
# The infos of a reset or step, and the options of a reset.
Info: TypeAlias = dict[str, Any]
Options: TypeAlias = dict[str, Any]
# The state of an object for a checkpoint: JSON values, tuples and arrays.
State: TypeAlias = dict[str, Any]
