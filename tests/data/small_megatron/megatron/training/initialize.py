"""Set up the groups of ranks."""

import torch

from . import global_vars


def _initialize_distributed(store):
    args = global_vars._GLOBAL_ARGS
    world = torch.distributed.get_world_size()
    assert torch.cuda.device_count() > 0
    if world % args.expert_model_parallel_size:
        raise RuntimeError(f"world_size ({world}) is not divisible by the experts' ranks")
    options = torch.distributed.ProcessGroupNCCL.Options() if args.group_options else None
    half = torch.distributed.new_group(range(world // 2), backend="nccl", pg_options=options)
    torch.distributed.all_reduce(torch.ones(1), group=half)
