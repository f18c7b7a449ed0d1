"""Programs that take a DeepSpeed configuration, and that configuration."""
