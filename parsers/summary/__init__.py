"""Summarize runs that were read: as numbers, rows and data frames."""
