"""Offsets for buffers with known lifetimes: the problem, its solvers, and an independent judge."""
