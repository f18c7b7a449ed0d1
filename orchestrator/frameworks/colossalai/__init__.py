"""ColossalAI's RLHF benchmarks."""
