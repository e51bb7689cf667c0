"""Recipes: a typed graph of operators, and the decisions that a compiler adds to it."""
