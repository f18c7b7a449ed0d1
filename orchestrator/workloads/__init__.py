"""Training programs that run on their own, without the rest of teralog."""
