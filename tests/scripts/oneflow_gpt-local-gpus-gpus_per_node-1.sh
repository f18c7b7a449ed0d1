#!/bin/bash
# Campaign oneflow_gpt-local-gpus, run 8f43825cec94: gpus_per_node=1
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

export PYTHONUNBUFFERED=1
mkdir -p oneflow

program=(/programs/gpt-2/src/train.py)
args=(
  --non_distributed_optimizer=off
  --num_nodes=1
  --gpu_num_per_node=1
  --batch_size_per_device=1
  --use_fp16=False
  --seq_len=1024
  --n_ctx=1024
  --n_vocab=50304
  --n_embd=1024
  --n_head=16
  --n_layer=24
  --iter_num=100
  --optimizer=adamw
  --learning_rate=0.00015
  --dataset=/datasets/wiki/enwiki/AA
  --cfg_dir=/programs/gpt-2/models/117M
  --log_dir=oneflow
)

# Every 5 s, until the job ends, however it does; no longer than the job may take.
# shellcheck disable=SC2016  # each node expands its own
sample='command -v nvidia-smi > /dev/null || exit 0
exec timeout "$1" nvidia-smi ${CUDA_VISIBLE_DEVICES:+--id="$CUDA_VISIBLE_DEVICES"} --loop=5 --format=csv \
  --query-gpu=timestamp,index,utilization.gpu,memory.used > "gpus-${SLURMD_NODENAME:-$(hostname)}.csv"'
bash -c "$sample" sample 1800 > /dev/null 2>&1 &
sampler=$!
trap 'kill "$sampler" 2> /dev/null || true' EXIT

# One process a node, which takes all its GPUs.
"$python" -u "${program[@]}" "${args[@]}"
