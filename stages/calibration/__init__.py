"""Calibration: a few named numbers of a spec fitted to measured latencies, and how far it errs."""
