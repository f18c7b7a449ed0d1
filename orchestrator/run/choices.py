"""List the choices of a model's options, in a small module so that `--help` starts fast."""

from typing import Literal

Biases = Literal["all", "qkv", "none"]
Norm = Literal["layernorm", "rmsnorm"]
