#!/bin/bash
# Campaign deepspeed-local-cpu, run 4e6c93ab0476: launcher=deepspeed
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

program=(/programs/train.py)
args=(
  --data
  '/datasets/the pile'
  --steps=20
  --deepspeed_config /results/deepspeed-local-cpu/4e6c93ab0476/ds_config.json
)

# Any free port, so that runs that share the machine do not meet.
MASTER_PORT="$("$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')"
launcher=("$python" -m deepspeed.launcher.runner)
"${launcher[@]}" --num_gpus 2 --master_port "$MASTER_PORT" \
  "${program[@]}" "${args[@]}"
