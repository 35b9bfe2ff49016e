"""Samplers: whole paths from environments, in the shape of ProMP's."""
