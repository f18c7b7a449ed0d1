#!/bin/bash
# Campaign gpt-local-cpu, run f833e017cadc: launcher=torchrun
# Rendered by teralog VERSION.
set -eo pipefail

# Only now: modules and activation scripts may use variables that are not set.
set -u
python=/usr/bin/python3
# ninja, which DeepSpeed compiles with, lies beside Python where pip installed it.
PATH="$(dirname "$python"):$PATH"
export PATH
# DeepSpeed compiles small extensions at first use; all runs share them.
export TORCH_EXTENSIONS_DIR="${TORCH_EXTENSIONS_DIR:-${HOME:-/tmp}/.cache/teralog/torch_extensions}"
# A program that is killed while it compiles leaves its lock behind, and all others would wait for it.
for lock in "$TORCH_EXTENSIONS_DIR"/*/lock; do
  holder="$(find -L /proc/[0-9]*/fd -maxdepth 1 -samefile "$lock" -print -quit 2> /dev/null || true)"
  [[ -n "$holder" ]] || find "$lock" ! -newermt "1 second ago" -delete 2> /dev/null || true
done
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export DS_ACCELERATOR=cpu

program=(-m orchestrator.workloads.gpt)
args=(
  --strategy ddp
  --num-layers 12
  --hidden-size 768
  --ffn-hidden-size 3072
  --num-attention-heads 12
  --vocab-size 50257
  --seq-length 1024
  --micro-batch-size 4
  --num-microbatches 1
  --train-iters 20
  --precision fp32
  --learning-rate 0.00015
  --seed 1234
  --activation-checkpointing
)

"$python" -u -m torch.distributed.run --standalone --nproc_per_node=2 \
  "${program[@]}" "${args[@]}"
