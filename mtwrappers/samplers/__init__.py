"""Samplers: trajectories from environments, with ProMP's names and arguments."""
