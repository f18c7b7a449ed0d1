"""A small package with the structure of Megatron core."""
