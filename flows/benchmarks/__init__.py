"""What the pipeline itself costs; `make bench`."""
