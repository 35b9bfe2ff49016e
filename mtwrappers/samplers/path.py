"""The path format, where samplers and processors meet.

A path is one episode, from a reset to its end, as a dict of arrays over its ``T`` steps:

=====================  ==================  ====================================================
key                    shape, dtype        meaning
=====================  ==================  ====================================================
``observations``       ``(T, O)``          what the agent saw before each action
``actions``            ``(T, A)``          what it did
``rewards``            ``(T,)`` float64    what it got for it
``terminated``         ``(T,)`` bool       whether the task ended with the step
``truncated``          ``(T,)`` bool       whether a time limit ended with the step
``env_infos``          dict of ``(T, …)``  the infos that every step reports
``agent_infos``        dict of ``(T, …)``  what the policy returned beside its actions
``next_observation``   ``(O,)``            what the agent would have seen next: the episode's
                                           last observation, not the next episode's first
=====================  ==================  ====================================================

Infos may be nested: dicts of dicts of arrays. The observations of a ``Dict`` or ``Tuple`` space are
a dict or tuple of arrays, which samplers give and processors refuse. Processors need the first
three keys, finite observations, actions and rewards, infos with the same keys in all paths of a
task, and arrays that differ in ``T`` alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Path: TypeAlias = dict[str, Any]
