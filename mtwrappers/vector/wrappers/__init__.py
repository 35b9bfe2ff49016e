"""Wrappers of vector environments that multi-task training needs."""
