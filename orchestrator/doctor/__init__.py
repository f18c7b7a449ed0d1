"""Diagnose this machine: what is installed, what is missing, what to type."""
