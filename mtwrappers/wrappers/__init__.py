"""Wrappers: many environments as one, and the task in the observation or in the info."""
