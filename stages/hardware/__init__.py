"""Hardware specs: one YAML file describes one device; what an instruction costs on it."""
