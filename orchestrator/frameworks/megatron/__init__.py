"""Megatron-LM and its DeepSpeed forks, of 2021 and of today."""
