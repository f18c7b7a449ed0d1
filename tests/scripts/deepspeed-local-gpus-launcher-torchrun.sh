#!/bin/bash
# Campaign deepspeed-local-gpus, run f962352da1c3: launcher=torchrun
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

program=(/programs/train.py)
args=(
  --data
  '/datasets/the pile'
  --steps=20
  --deepspeed_config /results/deepspeed-local-gpus/f962352da1c3/ds_config.json
)

# Every 5 s, until the job ends, however it does; no longer than the job may take.
# shellcheck disable=SC2016  # each node expands its own
sample='command -v nvidia-smi > /dev/null || exit 0
exec timeout "$1" nvidia-smi ${CUDA_VISIBLE_DEVICES:+--id="$CUDA_VISIBLE_DEVICES"} --loop=5 --format=csv \
  --query-gpu=timestamp,index,utilization.gpu,memory.used > "gpus-${SLURMD_NODENAME:-$(hostname)}.csv"'
bash -c "$sample" sample 1800 > /dev/null 2>&1 &
sampler=$!
trap 'kill "$sampler" 2> /dev/null || true' EXIT

"$python" -u -m torch.distributed.run --standalone --nproc_per_node=2 \
  "${program[@]}" "${args[@]}"
