"""The schedule: in which order the instructions of a plan start, and where the SRAM holds tiles."""
