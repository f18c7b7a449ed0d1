"""Name the choices of a model's options; `teralog --help` needs nothing more of a model."""

from typing import Literal

Biases = Literal["all", "qkv", "none"]
Norm = Literal["layernorm", "rmsnorm"]
