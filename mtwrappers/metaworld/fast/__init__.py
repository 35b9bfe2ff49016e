"""Meta-World's classes with the same bits, several times sooner."""
