"""Nights: what they measured, and the history."""
