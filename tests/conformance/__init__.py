"""ONNX's own node tests, each normalised, imported, compiled and run on the simulated device.

`python -m tests.conformance` runs all of them and writes `docs/conformance.md`.
"""
