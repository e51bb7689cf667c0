"""The stages that a pair goes through."""

STAGES = ("normalize", "compile", "validate", "benchmark", "gate", "thermal_stress")
"""In order, named as their files in `stages/`."""
