"""Locks that one process holds, and a killed one leaves free."""
