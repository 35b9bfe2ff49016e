"""Wrappers: many environments as one, and the task in observations or infos."""
