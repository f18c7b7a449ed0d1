"""Errors, files, locks, YAML, tables, expressions: nothing about benchmarks."""
