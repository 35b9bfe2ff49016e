"""The contract of this package, run on anyone's environment: ``mtwrappers check``."""
