"""The precisions that training programs accept; a small module, so that `--help` starts fast."""

from typing import Literal, get_args

Precision = Literal["fp32", "bf16", "fp16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
