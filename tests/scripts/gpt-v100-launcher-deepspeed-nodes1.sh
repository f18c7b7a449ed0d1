#!/bin/bash
#SBATCH --job-name=gpt-v100-fe716e8a99a1
#SBATCH --comment=fe716e8a99a1
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=40
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
#SBATCH --time=30:00:00
#SBATCH --output=/results/gpt-v100/fe716e8a99a1/slurm-%j.out
# Campaign gpt-v100, run fe716e8a99a1: 'launcher=deepspeed nodes1'
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
# Not earlier: modules and activation scripts may use variables that are not set.
set -u
python=/usr/bin/python3
begin() {
  # ninja, which DeepSpeed compiles with, is next to Python if pip installed it.
  PATH="$(dirname "$python"):$PATH"
  export PATH
  # DeepSpeed compiles small extensions at first use. If they were compiled for another Python, torch, CUDA, GPU or
  # CPU, a run may crash, e.g. by SIGILL. So each combination has its own folder.
  if [[ -z "${TORCH_EXTENSIONS_DIR:-}" ]]; then
    local kind
    kind="$("$python" -c '"""Print a name for the platform of compiled torch extensions: Python, torch, CUDA, CPU, GPUs."""

# Job scripts contain this text, for Pythons from 3.6 on. Arguments: files on the CPU and the GPUs.
import hashlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

VERSION = r"(?m)^(?:__version__|cuda|hip)\b[^=]*= *[\x22\x27](.+)[\x22\x27]"
KEPT = r"(?m)^(?:vendor_id|model|model name|flags|CPU \w+|Features|Model)\s*:.*|^gfx_target.*"
specs = [find_spec(name) for name in ("torch", "deepspeed")]
folders = [Path(spec.origin).parent for spec in specs if spec and spec.origin]
texts = [file.read_text("utf-8") for folder in folders for file in folder.glob("version.py")]
files = [Path(name) for name in sys.argv[1:] if Path(name).is_file()]
machine = [file.read_text("utf-8", "replace").split("\n\n")[0] for file in files]
exact = [sys.version, *texts, *sorted(set(re.findall(KEPT, "\n".join(machine))))]
for folder in folders:
    exact += [str(folder), *sorted(path.name for path in folder.parent.glob("deepspeed-*-info"))]
digest = hashlib.sha256("\n".join(exact).encode()).hexdigest()[:10]
torch = re.findall(VERSION, texts[0]) if specs[0] and texts else ["none"]
print("-".join([str(sys.implementation.cache_tag), "torch", *torch, digest]))
' /proc/cpuinfo /proc/driver/nvidia/gpus/*/information \
      /sys/class/kfd/kfd/topology/nodes/*/properties 2> /dev/null)" || kind=unknown
    export TORCH_EXTENSIONS_DIR="${HOME:-/tmp}/.cache/teralog/torch_extensions/$kind"
  fi
  # A program that is killed while it compiles leaves its lock behind, and all others would wait for that lock.
  local lock
  # The program that compiles may run on another node. No extension takes more than ten minutes.
  local turn
  for turn in {1..300}; do
    lock="$(find "$TORCH_EXTENSIONS_DIR" -maxdepth 2 -name lock ! -mmin +10 -print -quit 2> /dev/null || true)"
    [[ -n "$lock" ]] || break
    [[ "$turn" != 2 || "${SLURM_PROCID:-0}" != 0 ]] ||
      echo "[teralog] $lock: another program is compiling, or was killed while it compiled; waiting for 10 minutes at most"
    sleep 2
  done
  find "$TORCH_EXTENSIONS_DIR" -maxdepth 2 -name lock -mmin +10 -delete 2> /dev/null || true
  exec "$@"
}
task=(bash -c "$(declare -p python; declare -f begin); begin \"\$@\"" task)
# The optimizer runs on the CPU, with all cores of a rank.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-10}"

program=(--module teralog.gpt)
args=(
  --strategy zero3
  --num-layers 48
  --hidden-size 1600
  --ffn-hidden-size 6400
  --num-attention-heads 25
  --vocab-size 50257
  --seq-length 1024
  --micro-batch-size 1
  --num-microbatches 8
  --train-iters 20
  --precision fp16
  --learning-rate 0.00015
  --seed 1234
  --deepspeed-config /results/gpt-v100/fe716e8a99a1/ds_config.json
)

# Sample every 5 s until the job ends for any reason, and no longer than its time limit.
# shellcheck disable=SC2016  # each node expands these variables itself
sample='command -v nvidia-smi > /dev/null || exit 0
exec nvidia-smi ${CUDA_VISIBLE_DEVICES:+--id="$CUDA_VISIBLE_DEVICES"} --loop=5 --format=csv \
  --query-gpu=timestamp,index,utilization.gpu,memory.used > "gpus-${SLURMD_NODENAME:-$(hostname)}.csv"'
# The set-up lines may have set a trap, which must still run. bash prints it as: trap -- 'COMMANDS' EXIT
third() { printf '%s' "${3-}"; }
set_up_trap="$(trap -p EXIT)"
set_up_trap="$(eval "third $set_up_trap")"
# Set the trap before the sampler starts, because a signal may come at any time. timeout passes SIGTERM on to all
# processes that it started.
sampler=
trap '(eval "$set_up_trap") || true; sampler="${sampler:-$!}"; kill "$sampler" 2> /dev/null || true' EXIT
# The sampler is a Slurm step that shares the resources of the training step, and starts after it. Within an
# allocation, srun may be a shell function, which bash inherits.
timeout 108000 bash -c 'sleep 3; srun "$@"' sampler \
  --overlap --mem=0 --cpus-per-task=1 --nodes=1 --ntasks=1 \
  bash -c "$sample" > /dev/null 2>&1 &
sampler=$!

# Since Slurm 22.05 srun does not inherit --cpus-per-task by itself.
if [[ -n "${SLURM_CPUS_PER_TASK:-}" ]]; then
  export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
fi
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)"
export MASTER_ADDR
# One port per job, so that jobs on the same node do not collide.
export MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}"

# Started by srun too: within a larger allocation, srun selects the run's own node and GPUs.
# --num_gpus would use the first GPUs of the node and ignore CUDA_VISIBLE_DEVICES.
# shellcheck disable=SC2016  # the task expands these variables itself
srun --ntasks-per-node=1 --kill-on-bad-exit=1 "${task[@]}" bash -c \
  'exec "$1" -m deepspeed.launcher.runner --include "localhost:$CUDA_VISIBLE_DEVICES" "${@:2}"' node \
  "$python" --master_port "$MASTER_PORT" "${program[@]}" "${args[@]}"
