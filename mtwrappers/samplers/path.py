"""The format of trajectories, which samplers return and processors take.

A trajectory, *path* in ProMP's names, is one episode from a reset to its end, as a dict of arrays
over its ``T`` steps:

=====================  ==================  ====================================================
key                    shape, dtype        meaning
=====================  ==================  ====================================================
``observations``       ``(T, O)``          the observation before each action
``actions``            ``(T, A)``          its actions
``rewards``            ``(T,)`` float64    the reward of each step
``terminated``         ``(T,)`` bool       whether the task ended with the step
``truncated``          ``(T,)`` bool       whether a time limit ended with the step
``env_infos``          dict of ``(T, …)``  the infos that every step reports
``agent_infos``        dict of ``(T, …)``  what the policy returned beside its actions
``next_observation``   ``(O,)``            the episode's last observation, after the last step;
                                           not the first one of the next episode
=====================  ==================  ====================================================

Infos may be nested: dicts of dicts of arrays. The observations of a ``Dict`` or ``Tuple`` space are
a dict or tuple of arrays, which samplers return but processors do not accept. Processors need the
first three keys, finite observations, actions and rewards, infos with the same keys in all
trajectories of a task, and arrays whose shapes differ only in ``T``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Path: TypeAlias = dict[str, Any]
