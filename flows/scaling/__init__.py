"""How many machines a fleet of models takes: a simulation of queue and store."""
