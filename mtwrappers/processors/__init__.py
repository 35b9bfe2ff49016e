"""Processors: training batches from trajectories, with ProMP's names and arguments."""
