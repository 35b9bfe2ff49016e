"""Which environments and tasks come next: garage's environment updates and task samplers."""
