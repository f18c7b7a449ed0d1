"""Define the options of the small Megatron, and validate them."""

import argparse
import os
from types import SimpleNamespace

import torch

try:
    from transformer_engine.pytorch import fused_rope
except ImportError:
    fused_rope = None


def parse_args(extra_args_provider=None, ignore_unknown_args=False):
    parser = extra_args_provider(argparse.ArgumentParser(allow_abbrev=False))
    for name in ("--num-layers", "--num-experts", "--seed", "--tensor-model-parallel-size"):
        parser.add_argument(name, type=int)
    parser.add_argument("--expert-model-parallel-size", type=int, default=1)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--decoupled-lr", type=float)
    parser.add_argument("--optimizer", choices=["adam", "muon"], default="adam")
    for name in (
        "--swiglu",
        "--squared-relu",
        "--fp8",
        "--opaque",
        "--other",
        "--needs-package",
        "--needs-driver",
        "--needs-installation",
        "--fuse-rope",
        "--group-options",
    ):
        parser.add_argument(name, action="store_true")
    args = parser.parse_args()
    args.world_size = int(os.environ["WORLD_SIZE"])
    return args


def validate_args(args, defaults):
    args.seed = args.seed or defaults["seed"]
    if args.squared_relu:
        assert not args.swiglu
    assert not (args.num_experts is None and args.expert_model_parallel_size > 1), (
        "experts are split,\n   and there are none"
    )
    if args.fp8:
        assert torch.cuda.get_device_capability() >= (8, 9), "--fp8 needs a later GPU"
    if args.opaque and not args.other:
        raise ValueError("this does not work")
    assert not args.needs_installation, "A compatible no-such-package installation is required."
    if args.needs_driver:
        raise RuntimeError("Found no NVIDIA driver on your system.")
    if args.needs_package:
        import package_that_is_not_here  # noqa: F401


def core_transformer_config_from_args(args):
    if args.fuse_rope and fused_rope is None:
        raise ValueError("fusion is not available. Please install TE >= 1.4.")
    if args.renamed_layers > 4:
        raise ValueError("too many renamed layers")
    return SimpleNamespace(num_layers=args.num_layers)
