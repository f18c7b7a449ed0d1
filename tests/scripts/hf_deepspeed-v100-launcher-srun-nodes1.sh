#!/bin/bash
#SBATCH --job-name=hf_deepspeed-v100-7386099bae59
#SBATCH --comment=7386099bae59
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=10
#SBATCH --partition=gpu_p13
#SBATCH --constraint=v100-32g
#SBATCH --account=abc@v100
#SBATCH --qos=qos_gpu-t3
#SBATCH --hint=nomultithread
#SBATCH --mem=160G
#SBATCH --exclusive
#SBATCH --switches=1@2:00:00
#SBATCH --signal=USR2@90
#SBATCH --no-requeue
#SBATCH --time=0:30:00
#SBATCH --output=/results/hf_deepspeed-v100/7386099bae59/slurm-%j.out
# Campaign hf_deepspeed-v100, run 7386099bae59: 'launcher=srun nodes1'
# Rendered by teralog VERSION.
set -eo pipefail

if [[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]]; then
  echo "[teralog] job $SLURM_JOB_ID starts again: restart $SLURM_RESTART_COUNT"
fi
module purge
module load cuda/12.1.0
module load nccl/2.18
export NCCL_DEBUG=WARN
export HF_HOME="$SCRATCH/hugging face"
# Only now: modules and activation scripts may use variables that are not set.
set -u
python=/usr/bin/python3
# ninja, which DeepSpeed compiles with, lies beside Python where pip installed it.
PATH="$(dirname "$python"):$PATH"
export PATH
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
# The optimizer steps on the CPU, with all cores of a rank.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-10}"

program=(-m teralog.hf_gpt)
args=(
  --num-layers 48
  --hidden-size 1600
  --ffn-hidden-size 6400
  --num-attention-heads 25
  --vocab-size 50257
  --seq-length 1024
  --micro-batch-size 8
  --num-microbatches 1
  --train-iters 20
  --precision fp16
  --learning-rate 0.00015
  --warmup-steps 0
  --seed 1234
  --activation-checkpointing
  --deepspeed-config /results/hf_deepspeed-v100/7386099bae59/ds_config.json
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

# Every task is a rank, and finds the variables that torch.distributed expects of a launcher.
# shellcheck disable=SC2016  # each task expands its own
srun --ntasks=4 --kill-on-bad-exit=1 bash -c \
  'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec "$@"' rank \
  "$python" -u "${program[@]}" "${args[@]}"
