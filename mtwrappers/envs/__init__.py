"""The embedded example, and the environments behind the ids that need no simulator."""
