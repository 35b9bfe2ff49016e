"""The state of an environment between two episodes, and of a run in one file."""
