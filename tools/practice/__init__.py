"""A real Slurm cluster on one machine, for an ordinary user, in one folder."""
