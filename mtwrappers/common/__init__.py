"""Used by all other modules: seeds, spaces, errors, checks of arguments, registration, extras."""
