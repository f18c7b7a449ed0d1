"""Words to choose from, in options and in files: all that the command line needs to begin."""

from typing import Literal, get_args

Precision = Literal["fp32", "bf16", "fp16"]
Biases = Literal["all", "qkv", "none"]
Norm = Literal["layernorm", "rmsnorm"]

PRECISIONS: tuple[str, ...] = get_args(Precision)
