"""Read a large archive of logs in shards, each by a Slurm job of its own."""
