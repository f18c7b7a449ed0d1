"""Write the script that Slurm runs for an array of runs, or for a single run.

This script starts the job script of a run unchanged. Before that, it makes sure that no
other job runs the same attempt. Afterwards it records how the job script ended.
"""

import shlex
from pathlib import Path

from orchestrator.slurm.arrays import directives

# How long a job waits to learn the fate of its batch before it ends.
_PATIENCE_SECONDS = 60
_BODY = """\
# A batch of teralog: it runs the job script of its run as it is.
batch={batch}
job=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
# A submit that got no job id from sbatch withdraws its batch: it renames script.sh. Either it or
# this job does, so a job that Slurm accepts late runs nothing that another job runs.
mv "$batch/script.sh" "$batch/job-$job.sh" 2> /dev/null
# The other tasks of an array may see the new name late.
until [ -e "$batch/job-$job.sh" ]; do
  if [ -e "$batch/withdrawn.sh" ] || [ "$SECONDS" -ge {patience} ]; then
    echo "[teralog] this job runs nothing: its submit withdrew it; a later submit starts its runs"
    exit 1
  fi
  sleep 1
done

folder={folder}
cd -P "$folder" || exit
# Slurm forgets jobs: job.json says when this one began, and how it ended.
now() {{ date -u +%Y-%m-%dT%H:%M:%S+00:00; }}
record() {{
  if printf '{{"job_id": "%s", "started_at": "%s", "exit_code": %s, "ended_at": %s}}\\n' \\
    "$job${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}" "$began" "$1" "$2" > .job.json.tmp
  then
    mv -f .job.json.tmp job.json
  else
    rm -f .job.json.tmp
  fi
}} 2> /dev/null
began=$(now)
record null null
{comment}
# What Slurm sends this shell alone is for the job script.
for signal in HUP INT QUIT TERM USR1 USR2; do
  # shellcheck disable=SC2064
  trap "kill -$signal \\$script 2> /dev/null" "$signal"
done
# Without job control a shell in the background would never see SIGINT.
set -m
bash "$folder/job.sh" &
script=$!
# A signal ends `wait`, but not the job script.
until wait "$script"; ! kill -0 "$script" 2> /dev/null; do :; done
wait "$script"
code=$?
record "$code" "\\"$(now)\\""
exit "$code"
"""


# The tasks of an array share their name. A run can begin without an answer from Slurm.
_COMMENT = """\
# So that squeue shows which run this task is: `squeue --me -o "%i %T %k"`.
run=$(sed -n '/^# Campaign /{s/^[^,]*, run //p;q}' job.sh)
(scontrol update "JobId=${job}_$SLURM_ARRAY_TASK_ID" "Comment=$run" > /dev/null 2>&1 &)
"""


def batch_script(script: str, batch: Path, attempt: Path | None = None) -> str:
    """Return the script of a batch of runs that request the same resources.

    script: the job script of one of the runs; its #SBATCH lines are used.
    batch: the folder of the batch of runs.
    attempt: the folder of the attempt if the batch has a single run; None for an array.
    For an array, the folder `batch` contains one link per task: its name is the task's index, and
    its target is the folder of the task's attempt.
    """
    folder = '"$batch/$SLURM_ARRAY_TASK_ID"' if attempt is None else shlex.quote(str(attempt))
    body = _BODY.format(
        batch=shlex.quote(str(batch)),
        folder=folder,
        patience=_PATIENCE_SECONDS,
        comment=_COMMENT if attempt is None else "",
    )
    return "\n".join(("#!/bin/bash", *directives(script), body))
