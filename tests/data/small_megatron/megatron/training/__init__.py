"""The part of the small Megatron that trains."""

from .training import pretrain as pretrain
