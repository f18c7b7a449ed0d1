"""Choose runs, write their scripts, and start them on this machine or on Slurm."""
