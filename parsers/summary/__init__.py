"""Summarize runs that were read: numbers, rows and data frames."""
