"""Statements about a result that no replay can verify."""

from __future__ import annotations

from dataclasses import dataclass

from mtwrappers.common.checks import check_name, check_string, not_negative, positive
from mtwrappers.common.errors import is_printable, printable

_MAX_NOTE = 1000  # characters


@dataclass(frozen=True)
class Description:
    """Statements about a result that no replay can verify.

    Args:
        policy: The name of the policy; `compare` groups results by it.
        training_seed: The seed of the training run that made the policy.
        training_steps: The agent steps of that run until then, over all environments; a whole
            number, such as 2e6.
        action_chunk: The number of actions of each chunk that were executed, for `ActionChunks`.
        note: A comment of at most 1000 printable characters in one line.

    Raises:
        TypeError, ValueError: If a text or a number is anything else.

    >>> from mtwrappers.evaluation import Description
    >>> Description(policy="ppo", training_seed=1, note="With the fixed seed.").policy
    'ppo'
    """

    policy: str | None = None
    training_seed: int | None = None
    training_steps: int | None = None
    action_chunk: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        check_name(self.policy, "the name of a policy")
        steps = self.training_steps
        if isinstance(steps, float) and steps.is_integer():
            object.__setattr__(self, "training_steps", int(steps))
        for name in ("training_seed", "training_steps"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, not_negative(number, name))
        if self.action_chunk is not None:
            positive(self.action_chunk, "action_chunk")
        if not is_printable(check_string(self.note, "the note")) or len(self.note) > _MAX_NOTE:
            raise ValueError(
                f"the note must have at most {_MAX_NOTE} printable characters, got "
                f"'{printable(self.note, 100)}' ({len(self.note)} characters)"
            )
