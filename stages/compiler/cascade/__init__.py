"""Cascades: chains of groups that run in stripes, so that what passes between them is never whole
in memory. Which chains are legal, what a stripe of each needs, what it costs, which to take."""
