"""Write the script that Slurm runs for an array of runs, or for a single run.

This script starts the job script of a run unchanged. Before that, it makes sure that no
other job runs the same attempt. Afterwards it records how the job script ended.
"""

import shlex
from pathlib import Path

from orchestrator.slurm.arrays import directives

# The longest time that a job waits for the renamed script. After this time, it ends without a run.
_PATIENCE_SECONDS = 60
_BODY = """\
# teralog wrote this script. It starts job.sh, the job script of the run, unchanged.
batch={batch}
job=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
# If sbatch printed no job id, `teralog submit` renames script.sh, and later submits the runs again.
# This job renames script.sh, too. Only one of the two can do this, so no run starts twice.
mv "$batch/script.sh" "$batch/job-$job.sh" 2> /dev/null
# The other tasks of the array wait until they see the new name.
until [ -e "$batch/job-$job.sh" ]; do
  if [ -e "$batch/withdrawn.sh" ] || [ "$SECONDS" -ge {patience} ]; then
    echo "[teralog] this job starts no run, because teralog submit withdrew it; submit again"
    exit 1
  fi
  sleep 1
done

folder={folder}
cd -P "$folder" || exit
# job.json records when this job began and how it ended, because Slurm deletes old records.
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
# Pass signals from Slurm on to the job script.
for signal in HUP INT QUIT TERM USR1 USR2; do
  # shellcheck disable=SC2064
  trap "kill -$signal \\$script 2> /dev/null" "$signal"
done
# Without job control, the job script would ignore SIGINT, because it runs in the background.
set -m
bash "$folder/job.sh" &
script=$!
# A signal ends `wait`, but not the job script: wait again.
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
    For an array, the folder `batch` contains one link per task. The name of the link is the task's
    index, and its target is the folder of the task's attempt.
    """
    folder = '"$batch/$SLURM_ARRAY_TASK_ID"' if attempt is None else shlex.quote(str(attempt))
    body = _BODY.format(
        batch=shlex.quote(str(batch)),
        folder=folder,
        patience=_PATIENCE_SECONDS,
        comment=_COMMENT if attempt is None else "",
    )
    return "\n".join(("#!/bin/bash", *directives(script), body))
