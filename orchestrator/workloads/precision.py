"""Name the precisions that training programs know; `teralog --help` needs nothing more."""

from typing import Literal, get_args

Precision = Literal["fp32", "bf16", "fp16"]
PRECISIONS: tuple[str, ...] = get_args(Precision)
