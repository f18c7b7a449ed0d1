"""A user's own training script for DeepSpeed: trains one linear layer for a few steps."""

import argparse

import deepspeed
import torch

from orchestrator.workloads.rank_process import leave

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--local_rank", type=int)
parser = deepspeed.add_config_arguments(parser)
arguments = parser.parse_args()

model = torch.nn.Linear(arguments.width, arguments.width)
engine, *_ = deepspeed.initialize(args=arguments, model=model, model_parameters=model.parameters())
for _ in range(arguments.steps):
    rows = torch.randn(engine.train_micro_batch_size_per_gpu(), arguments.width)
    loss = engine(rows).square().mean()
    engine.backward(loss)
    engine.step()
if arguments.fail:
    raise ValueError("the option --fail ends this run")
torch.distributed.destroy_process_group()
# Threads of the connections may still run, and would abort a normal exit of Python.
leave(0)
