#!/bin/bash
#SBATCH --job-name=oneflow_gpt-v100-c54e9f934e53
#SBATCH --comment=c54e9f934e53
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=10
#SBATCH --time=0:30:00
#SBATCH --output=/results/oneflow_gpt-v100/c54e9f934e53/slurm-%j.out
# Campaign oneflow_gpt-v100, run c54e9f934e53: gpus1
# Rendered by teralog VERSION.
set -eo pipefail

if [[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]]; then
  echo "[teralog] job $SLURM_JOB_ID starts again: restart $SLURM_RESTART_COUNT"
fi
# Only now: modules and activation scripts may use variables that are not set.
set -u
python=python3
# DeepSpeed compiles small extensions at first use; all runs share them.
export TORCH_EXTENSIONS_DIR="${TORCH_EXTENSIONS_DIR:-${HOME:-/tmp}/.cache/teralog/torch_extensions}"
# A program that is killed while it compiles leaves its lock behind, and all others would wait for it.
# Who compiles may be on another node, and nothing compiles for more than ten minutes.
for turn in {1..300}; do
  lock="$(find "$TORCH_EXTENSIONS_DIR" -maxdepth 2 -name lock ! -mmin +10 -print -quit 2> /dev/null || true)"
  [[ -n "$lock" ]] || break
  [[ "$turn" != 2 ]] || echo "[teralog] $lock: a program compiles, or was killed as it did; waiting, 10 minutes at most"
  sleep 2
done
find "$TORCH_EXTENSIONS_DIR" -maxdepth 2 -name lock -mmin +10 -delete 2> /dev/null || true
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

export PYTHONUNBUFFERED=1
mkdir -p oneflow

program=(/programs/gpt-2/src/train.py)
args=(
  --non_distributed_optimizer=off
  --num_nodes=1
  --gpu_num_per_node=1
  --batch_size_per_device=4
  --use_fp16=True
  --seq_len=1024
  --n_ctx=1024
  --n_vocab=50304
  --n_embd=768
  --n_head=12
  --n_layer=12
  --iter_num=1000
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
# Set before the sampler starts, for a signal may come at any time. timeout leads a process group of its own.
sampler=
trap 'sampler="${sampler:-$!}"; kill -- "$sampler" "-$sampler" 2> /dev/null || true' EXIT
# In a step that shares what the training's step has, and begins behind it.
{ sleep 3; srun --overlap --mem=0 --cpus-per-task=1 --nodes=1 \
  --ntasks=1 bash -c "$sample" sample 1800
} > /dev/null 2>&1 &
sampler=$!

# Since Slurm 22.05 srun does not inherit --cpus-per-task by itself.
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
fi
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
export MASTER_ADDR
# One port a job, so that jobs that share a node do not meet.
export MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}"

# One process a node, which takes all its GPUs.
srun --ntasks-per-node=1 --kill-on-bad-exit=1 "$python" -u "${program[@]}" "${args[@]}"
