"""Models the project is tried on: a folder each, and functions that build or export them."""
