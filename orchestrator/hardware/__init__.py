"""GPUs, this machine, cluster profiles, and the forms of time limits."""
