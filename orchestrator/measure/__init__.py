"""Summarize a run's log after its warm-up, and its GPU samples."""
