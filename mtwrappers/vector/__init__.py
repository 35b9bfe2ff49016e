"""Vector environments laid out task by task: in this process, or on all cores."""
