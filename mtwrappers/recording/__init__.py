"""Datasets to learn from: episodes that are recorded, replayed and kept, for other libraries."""
