"""Slurm's commands, states, nodes and job arrays."""
