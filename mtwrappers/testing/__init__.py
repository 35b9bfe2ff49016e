"""The contracts of this package as checks for any environment."""

from mtwrappers.testing.check import (
    CheckReport,
    check_meta_vector_env,
    check_mtenv,
    check_set_task_env,
    check_vector_env,
)

__all__ = [
    "CheckReport",
    "check_meta_vector_env",
    "check_mtenv",
    "check_set_task_env",
    "check_vector_env",
]
