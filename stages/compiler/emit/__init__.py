"""Emission: a recipe whose decisions are made becomes instructions with addresses and events."""
