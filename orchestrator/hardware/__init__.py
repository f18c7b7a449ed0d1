"""GPUs, this machine, cluster profiles and their time limits."""
