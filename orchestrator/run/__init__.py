"""What a run is: model, batch, parallelism, identity, and the FLOPs and size formulas."""
