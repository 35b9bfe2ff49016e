"""Datasets for other libraries: episodes are recorded, replayed and stored."""
