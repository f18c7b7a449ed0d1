"""Formats with one line per report, declared as data: one module per program."""
