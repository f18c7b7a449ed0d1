#!/bin/bash
#SBATCH --job-name=gpt-slurm-cpu-82c0dac672eb
#SBATCH --comment=82c0dac672eb
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=0:30:00
#SBATCH --output=/results/gpt-slurm-cpu/82c0dac672eb/slurm-%j.out
# Campaign gpt-slurm-cpu, run 82c0dac672eb: launcher=torchrun
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
  --micro-batch-size 1
  --num-microbatches 1
  --train-iters 20
  --precision fp32
  --learning-rate 0.00015
  --seed 1234
)

# Since Slurm 22.05 srun does not inherit --cpus-per-task by itself.
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
fi
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
export MASTER_ADDR
# One port a job, so that jobs that share a node do not meet.
export MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}"

# One launcher a node, told which: launchers that meet of themselves number the nodes as they come.
# shellcheck disable=SC2016  # each task expands its own
srun --ntasks-per-node=1 --kill-on-bad-exit=1 bash -c \
  'exec "$1" -u -m "$2" --node_rank "$SLURM_NODEID" "${@:3}"' node \
  "$python" torch.distributed.run \
  --nnodes 2 --nproc_per_node 2 \
  --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \
  "${program[@]}" "${args[@]}"
