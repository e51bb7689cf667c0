"""What runs a package: the simulated device, and real ones behind the same protocol."""
