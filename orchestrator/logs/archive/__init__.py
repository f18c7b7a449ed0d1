"""Read a large archive of logs in shards, each by a separate Slurm job."""
