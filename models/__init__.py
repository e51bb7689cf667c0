"""Models the project is tried on: the registry, and functions that build or export them."""
