"""Whether an environment is in an episode, or needs a reset."""

from __future__ import annotations

import enum


class EpisodeStatus(enum.Enum):
    """Whether an environment is in an episode of its current task; if not, `step` is an error.

    Setting a task leads to ``TASK_SET``, and a reset to ``BEGUN``. A value is the end of the
    message of that error, after the name of the task.
    """

    NONE = "has no episode since the environment was made, copied or closed, or a reset failed"
    TASK_SET = "was set but not reset"
    BEGUN = "is in an episode"

    def without_episode(self) -> EpisodeStatus:
        """The status once the episode is lost: in a copy, after `close`, and in a failed reset."""
        return EpisodeStatus.NONE if self is EpisodeStatus.BEGUN else self
