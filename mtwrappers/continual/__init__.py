"""Streams of tasks, and the evaluation along them."""
