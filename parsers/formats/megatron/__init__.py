"""Formats of Megatron-LM and its forks."""
