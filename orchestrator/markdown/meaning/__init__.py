"""What a table's columns, cells and notes mean: models, batches, units."""
