"""Define the frameworks of Megatron-LM, old and new, and of its two DeepSpeed forks of 2021."""
