"""The multi-task protocol, the order of tasks, and spaces padded to one size."""
