"""Meta-World's classes with the same bits, in less than half the time."""
