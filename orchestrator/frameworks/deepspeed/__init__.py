"""Define the frameworks whose programs read a DeepSpeed configuration, and build it."""
