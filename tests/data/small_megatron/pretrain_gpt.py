"""A program with the structure of Megatron's `pretrain_gpt.py`, for tests of its arguments."""

from megatron.training import pretrain
from missing_kernels import fused  # noqa: F401  (as Megatron imports what only GPUs need)


def _add_arguments(parser):
    parser.add_argument("--renamed-layers", type=int, default=0)
    return parser


if __name__ == "__main__":
    pretrain(None, extra_args_provider=_add_arguments, args_defaults={"seed": 7})
