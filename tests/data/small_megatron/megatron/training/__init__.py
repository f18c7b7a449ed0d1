"""The package `megatron.training` of the small Megatron."""

from .training import pretrain as pretrain
