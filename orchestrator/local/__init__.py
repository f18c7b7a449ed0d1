"""Run jobs on this machine: devices, processes, supervision, display."""
