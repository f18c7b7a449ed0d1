"""A real Slurm cluster on one machine, as an ordinary user, in one folder."""
