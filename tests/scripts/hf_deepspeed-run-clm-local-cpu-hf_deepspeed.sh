#!/bin/bash
# Campaign hf_deepspeed-run-clm-local-cpu, run 46ffc313385a: hf_deepspeed
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

# Compute nodes seldom reach the Hub; what is needed lies in the cache.
export HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1
# Emptied, so that no run goes on from what another has saved.
rm -rf -- /results/hf_deepspeed-run-clm-local-cpu/46ffc313385a/output

program=(/programs/run_clm.py)
args=(
  --model_type gpt2
  --config_overrides "n_embd=768,n_head=12,n_layer=12,n_positions=1024,vocab_size=50257"
  --tokenizer_name /models/bpe
  --dataset_name /datasets/texts
  --block_size 1024
  --max_train_samples 20
  --do_train
  --max_steps 10
  --per_device_train_batch_size 1
  --gradient_accumulation_steps 1
  --learning_rate 0.00015
  --warmup_steps 0
  --seed 1234
  --logging_steps 1
  --save_strategy no
  --report_to none
  --output_dir /results/hf_deepspeed-run-clm-local-cpu/46ffc313385a/output
  --deepspeed /results/hf_deepspeed-run-clm-local-cpu/46ffc313385a/ds_config.json
  --use_cpu
  --ddp_backend gloo
)

"$python" -u -m torch.distributed.run --standalone --nproc_per_node=2 \
  "${program[@]}" "${args[@]}"
