"""Define a run: model, batch, parallelism, identity, and the FLOPs and size formulas."""
