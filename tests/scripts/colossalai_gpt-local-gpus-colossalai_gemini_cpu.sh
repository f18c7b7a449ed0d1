#!/bin/bash
# Campaign colossalai_gpt-local-gpus, run 5babb09fd689: colossalai_gemini_cpu
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

program=('/programs/Colossal AI/applications/Chat/benchmarks/benchmark_gpt_dummy.py')
# Batch sizes are per GPU.
args=(
  --model xl
  --strategy colossalai_gemini_cpu
  --experience_batch_size 8
  --train_batch_size 8
  --num_episodes 3
  --max_timesteps 8
  --update_timesteps 8
  --max_epochs 3
)

"$python" -u -m torch.distributed.run --standalone --nproc_per_node=4 \
  "${program[@]}" "${args[@]}"
