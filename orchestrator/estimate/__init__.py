"""Estimate parameters, FLOPs, memory and training time before anything runs."""
