"""Comparing results: a branch with its base, a night with the nights before."""
