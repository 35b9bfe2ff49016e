"""Compiles each of MuJoCo's models once.

That takes ten times as long as copying one, and Meta-World's tests build hundreds of environments.
The latest are kept, 21 MB each; Pythons of their own compile as ever.
"""

import copy
import functools

import mujoco

_compiled = functools.lru_cache(maxsize=16)(mujoco.MjModel.from_xml_path)
mujoco.MjModel.from_xml_path = lambda path, *args: copy.copy(_compiled(path, *args))
