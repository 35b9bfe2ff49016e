"""Verified results as datasets for other libraries."""
