"""The project: where files lie, what its parameters say, which models it knows."""
