"""Write the campaign file of `teralog init`."""

import shlex
from pathlib import Path

from orchestrator.campaign.schema import campaign_schema
from orchestrator.common.errors import UserError
from orchestrator.common.files import disk_errors, json_text, write_text

# The schema of campaign files, for editors; next to the file that `teralog init` writes.
SCHEMA_FILE = "teralog.schema.json"

STARTER = """\
# yaml-language-server: $schema={schema}
# A campaign for teralog: what to measure, in one file.
#   teralog plan {file}      shows every run, and writes nothing
#   teralog submit {file}    starts the missing runs
#   teralog report {file}    prints the table of results
name: my-campaign             # names the folder under results/
cluster: local                # this machine; or the file of a cluster profile

# Parameters of every run. `teralog schema` lists them all.
defaults:
  framework: gpt              # the training program that comes with teralog
  model:                      # sizes, or a preset (xl), or {{preset: xl, seq_length: 512}}
    num_layers: 2
    hidden_size: 64
    num_attention_heads: 4
    vocab_size: 512
    seq_length: 64
  nodes: 1
  gpus_per_node: 2            # ranks per node; processes on a machine without GPUs
  micro_batch_size: 4         # sequences that a rank processes at a time
  # num_microbatches: 2       # gradient accumulation; or give global_batch_size
  train_iters: 20
  precision: fp32             # fp32, bf16 or fp16
  time_limit: 10              # minutes, or H:MM:SS

# Every combination of these values is a run.
matrix:
  strategy: [ddp, zero1, zero2, zero3]

# Single runs in addition to the matrix; each has the defaults, with these changes.
include:
  - {{strategy: zero3, offload_optimizer: cpu, offload_param: cpu}}

# Runs to leave out: by value, or by an expression over any parameter or size.
exclude:
  - {{strategy: ddp, precision: bf16}}
  - "world_size > 64"

repeats: 1                    # runs of each configuration
warmup: 25%                   # first iterations to leave out: a percentage, or a number
"""


def write_starter(file: Path, force: bool) -> None:
    """Write the starting campaign file to `file`, and the JSON schema for editors next to it.

    Raises UserError if the file already exists and `force` is false.
    """
    if file.exists() and not force:
        raise UserError(f"{file}: exists; give another name, or --force to overwrite it")
    with disk_errors(file, "give another file"):
        write_text(file, STARTER.format(file=shlex.quote(str(file)), schema=SCHEMA_FILE))
        write_text(file.with_name(SCHEMA_FILE), json_text(campaign_schema()))
