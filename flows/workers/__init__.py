"""Many machines: shards on work pools and on Dask, sharing the run-cache."""
