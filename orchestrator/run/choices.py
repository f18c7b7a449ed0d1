"""List the allowed values of `biases` and `norm`.

They are in a small module so that `--help` starts fast.
"""

from typing import Literal

Biases = Literal["all", "qkv", "none"]
Norm = Literal["layernorm", "rmsnorm"]
