"""Working within an allocation: the line that asks for one, and its nodes shared out to runs.

A run is then a local one whose devices are nodes: it is supervised here, and its job script's srun
starts steps on the nodes it was given.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.devices import Devices, Lease, this_machines_devices
from orchestrator.errors import UserError
from orchestrator.model import Run
from orchestrator.programs import ask
from orchestrator.scripts import slurm_time
from orchestrator.slurm_batches import directives

# What an allocation takes the sum or the most of; of the rest all runs of a campaign say the same.
_COUNTED = ("--nodes", "--ntasks-per-node", "--cpus-per-task", "--gres", "--time")
_OF_BATCH_JOBS = ("--requeue", "--no-requeue")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The nodes of the allocation that this process is in."""

    devices: Devices

    @property
    def what(self) -> str:
        """What there is to share out, for people."""
        return f"{len(self.devices.names)} nodes of the allocation"

    def require(self, run: Run) -> None:
        """Raise UserError where a run wants more nodes than there are."""
        had = len(self.devices.names)
        if run.resources.nodes > had:
            raise UserError(
                f"nodes={run.resources.nodes}, but this allocation has {had}; "
                "`teralog salloc` prints the line for one that is large enough"
            )

    def lease(self, run: Run) -> Lease | None:
        """Return nodes for a run, or None where too few are free just now."""
        return self.devices.lease(run.resources.nodes)

    def environment(self, lease: Lease, script: Path) -> dict[str, str]:
        """Return the variables that make a job script see its nodes alone, as if it had a job.

        srun takes no list of nodes from a variable, so bash is given a function of that name.
        """
        asked = _asked(script.read_text(encoding="utf-8"))
        nodes = ",".join(lease.devices)
        count, tasks = len(lease.devices), int(asked["--ntasks-per-node"])
        options = [f"--nodes={count}", f"--nodelist={nodes}", "--exact"]
        if "--gres" in asked:
            options.append(f"--gres={asked['--gres']}")
        return {
            "SLURM_JOB_NODELIST": nodes,
            "SLURM_NODELIST": nodes,
            "SLURM_JOB_NUM_NODES": str(count),
            "SLURM_NNODES": str(count),
            "SLURM_NTASKS": str(count * tasks),
            "SLURM_NTASKS_PER_NODE": str(tasks),
            # Not the allocation's, which has all cores of a node in one task.
            "SLURM_CPUS_PER_TASK": asked.get("--cpus-per-task", "1"),
            "BASH_FUNC_srun%%": f'() {{ command srun {shlex.join(options)} "$@"; }}',
        }


def this_allocation() -> Allocation:
    """Return the allocation this process is in. Raises UserError where it is in none."""
    job_id, nodes = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NODELIST")
    if job_id is None or nodes is None:
        raise UserError(
            "--here: this is no allocation (SLURM_JOB_ID is not set); `teralog salloc --run` gets "
            "one"
        )
    answer = ask(("scontrol", "show", "hostnames", nodes))
    if answer is None or answer.problem is not None:
        raise UserError(f"--here: {answer.problem if answer else 'scontrol is not on the PATH'}")
    folder = this_machines_devices(gpus_wanted=False).folder / f"job-{job_id}"
    folder.mkdir(exist_ok=True)
    return Allocation(Devices("node", answer.lines, folder))


def salloc_command(name: str, scripts: Sequence[str], time_limit_seconds: int) -> list[str]:
    """Return the line that allocates what the largest of these job scripts asks for.

    Each must fit, one after another; `time_limit_seconds` is for all together.
    """
    all_asked = [_asked(script) for script in scripts]
    nodes = max(int(asked["--nodes"]) for asked in all_asked)
    cpus = max(
        int(asked["--ntasks-per-node"]) * int(asked.get("--cpus-per-task", 1))
        for asked in all_asked
    )
    gpus = max(
        (int(asked["--gres"].partition(":")[2]) for asked in all_asked if "--gres" in asked),
        default=0,
    )
    found = ["salloc", f"--job-name={name}", f"--nodes={nodes}", "--ntasks-per-node=1"]
    found.append(f"--cpus-per-task={cpus}")
    if gpus:
        found.append(f"--gres=gpu:{gpus}")
    found += [
        f"{option}={value}" if value else option
        for option, value in all_asked[0].items()
        if option not in (*_COUNTED, *_OF_BATCH_JOBS)
    ]
    return [*found, f"--time={slurm_time(time_limit_seconds)}"]


def _asked(script: str) -> dict[str, str]:
    """Return the options of a script's #SBATCH lines, each with its value, which may be empty."""
    words = (
        # sbatch's quotes are the shell's, but for backslashes.
        shlex.split(line.removeprefix("#SBATCH "), posix=True)[0]
        for line in directives(script)
    )
    pairs = (word.partition("=") for word in words)
    return {option: value for option, _, value in pairs}
