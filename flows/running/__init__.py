"""What a run takes: a flow server, processes, places, locks, and ends that are clean."""
