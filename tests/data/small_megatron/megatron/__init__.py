"""A small package for tests, with the structure of Megatron core."""
