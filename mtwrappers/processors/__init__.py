"""Processors: from paths to training batches, in the shape of ProMP's."""
