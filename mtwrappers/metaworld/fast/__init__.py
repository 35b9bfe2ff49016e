"""Faster versions of Meta-World's classes with bit-identical results."""
