"""Execution plans: instructions on engines with addresses and events, and the rules they obey."""
