"""Define the frameworks whose programs read a DeepSpeed configuration; build this configuration."""
