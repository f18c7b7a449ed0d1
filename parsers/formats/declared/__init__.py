"""Formats with one line per report, declared as data, in one module per program."""
