"""Judging a package: accuracy, latency statistics, the gate's rule, heat."""
