"""The merge gate: two sides, compared, told."""
