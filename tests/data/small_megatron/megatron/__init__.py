"""A package with the structure of Megatron core."""
