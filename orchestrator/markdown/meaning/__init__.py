"""Interpret a table's columns, cells and notes: models, batches, units."""
