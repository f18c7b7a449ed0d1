"""Formats of one line for each report, declared as data: one module for each program."""
