"""The contracts of this package as checks for any environment."""

from mtwrappers.testing.check import (
    CheckReport,
    check_meta_vector_env,
    check_mtenv,
    check_set_task_env,
    check_vector_env,
)
from mtwrappers.testing.ledger import Ledger, TransitionReport, check_transitions

__all__ = [
    "CheckReport",
    "Ledger",
    "TransitionReport",
    "check_meta_vector_env",
    "check_mtenv",
    "check_set_task_env",
    "check_transitions",
    "check_vector_env",
]
