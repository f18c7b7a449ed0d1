"""Request an allocation, and divide its nodes among the runs that start in it.

In an allocation, teralog starts a run as on one machine, but the run's devices are parts of nodes.
The run's supervisor runs on this machine. The srun in the run's job script starts a job step on
the run's nodes.
"""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.common.text import counted
from orchestrator.frameworks.launchers import LAUNCHERS
from orchestrator.hardware.time_limit import slurm_time
from orchestrator.local.devices import Devices, Lease, this_machines_devices
from orchestrator.local.executor import Refusal
from orchestrator.run.model import Run
from orchestrator.slurm.allocation_end import standing
from orchestrator.slurm.arrays import directives
from orchestrator.slurm.commands import SilenceError
from orchestrator.slurm.nodes import Node, job_nodes

# For these options, an allocation uses the sum or the maximum of the runs' values. Other options
# must have the same value in all runs.
_COUNTED = ("--nodes", "--ntasks-per-node", "--cpus-per-task", "--gres", "--time")
# Options that each step sets for its own tasks.
_OF_STEPS = ("--gpus-per-task",)
_OF_BATCH_JOBS = ("--requeue", "--no-requeue", "--batch", "--ignore-pbs", "--propagate")
# Job scripts themselves choose other ports, and operating systems assign higher ports.
_PORTS = range(30000, 32700)
_PORTS_A_JOB = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The Slurm allocation in which this process runs, with its nodes divided into equal shares.

    A share is a GPU with its part of the node's cores and memory. If the allocation has no GPUs, a
    share is a core with its part of the node's memory. A run with enough shares also has enough
    cores and memory. has_gpus: whether ranks run on GPUs; otherwise they run on cores. locks: the
    folder with the locks of the shares. overrun: whether a run may start if its time limit exceeds
    the time left in the allocation.
    """

    job_id: int
    nodes: tuple[Node, ...]
    has_gpus: bool
    locks: Path
    overrun: bool = False

    @property
    def cores(self) -> int | None:
        """None, because runs in an allocation do not share cores."""
        return None

    @property
    def allocation(self) -> str:
        """The id of the allocation's job."""
        return str(self.job_id)

    def refusal(self, run: Run) -> Refusal | None:
        """Return why a run must not start; None if it may start, or if Slurm does not answer.

        There are two reasons: the allocation has ended, or it will end before the run's time limit
        is over. With `overrun`, the second reason is ignored.
        """
        try:
            now = standing(self.allocation)
        except SilenceError:
            # Without an answer, no end is known.
            return None
        if now.state is not None:
            return Refusal(f"the allocation has ended ({now.state})", of_all=True)
        if now.seconds_left == 0:
            return Refusal("the allocation has reached its time limit", of_all=True)
        limit = run.resources.time_limit_seconds
        if self.overrun or now.seconds_left is None or limit <= now.seconds_left:
            return None
        return Refusal(
            f"the time limit of the run is {slurm_time(limit)}, and the allocation ends sooner "
            "(to start such runs anyway, use --overrun)",
            of_all=False,
        )

    @property
    def what(self) -> str:
        """The resources of the allocation, as text for the user."""
        kind = "GPU" if any(node.gpus for node in self.nodes) else "core"
        shares = sum(_shares(node) for node in self.nodes)
        return f"{counted(len(self.nodes), 'node')} of the allocation, with {counted(shares, kind)}"

    def require(self, run: Run) -> None:
        """Raise UserError if a run needs more nodes, or GPUs per node, than the allocation has."""
        wanted, had = run.resources, len(self.nodes)
        missing = f"nodes={wanted.nodes}, but this allocation has {had}"
        if self.has_gpus:
            fitting = sum(node.gpus >= wanted.gpus_per_node for node in self.nodes)
            if fitting < had:
                missing += f", {fitting} of them with gpus_per_node={wanted.gpus_per_node}"
            had = fitting
        if wanted.nodes > had:
            raise UserError(
                f"{missing}; `teralog salloc` prints the command that requests a large enough "
                "allocation"
            )

    def lease(self, run: Run, script: Path) -> Lease | None:
        """Lease the shares that a run needs, on the first nodes with enough free shares.

        script: the run's job script, which contains the numbers of GPUs and cores. Returns None if
        too few nodes have enough free shares.
        """
        asked = _asked(script.read_text(encoding="utf-8"))
        parts: list[Lease] = []
        for node in self.nodes:
            if self.has_gpus and node.gpus < run.resources.gpus_per_node:
                continue
            names = tuple(f"{node.name}/{number}" for number in range(_shares(node)))
            part = Devices("share", names, self.locks).lease(_needed(node, asked, run))
            if part is not None:
                parts.append(part)
            if len(parts) == run.resources.nodes:
                return _together(parts)
        _together(parts).close()
        return None

    def environment(self, lease: Lease, script: Path) -> dict[str, str]:
        """Return environment variables that make a job script use only the nodes of its run.

        With these variables, the script runs as if the run had its own job. srun cannot read the
        list of nodes from a variable. So one of the variables defines a bash function `srun`, which
        calls srun with the list as an option. The function also limits the memory of each job step
        to the run's part of the memory. Without this limit, a step would take all memory of its
        nodes, and would wait until other steps on these nodes end.
        """
        asked = _asked(script.read_text(encoding="utf-8"))
        held = Counter(share.rpartition("/")[0] for share in lease.devices)
        nodes, count, tasks = ",".join(held), len(held), int(asked["--ntasks-per-node"])
        options = [f"--nodes={count}", f"--nodelist={nodes}", "--exact"]
        whole = {node.name: _shares(node) for node in self.nodes if node.name in held}
        shared = any(held[name] < whole[name] for name in whole)
        memory_mib = min(
            node.memory_mib * held[node.name] // whole[node.name]
            for node in self.nodes
            if node.name in held
        )
        if memory_mib:
            options.append(f"--mem={memory_mib}M")
        options += [f"{name}={asked[name]}" for name in ("--gres", *_OF_STEPS) if name in asked]
        port = self.job_id * _PORTS_A_JOB + self._place(lease.devices[0])
        return {
            "SLURM_JOB_NODELIST": nodes,
            "SLURM_NODELIST": nodes,
            "SLURM_JOB_NUM_NODES": str(count),
            "SLURM_NNODES": str(count),
            "SLURM_NTASKS": str(count * tasks),
            "SLURM_NTASKS_PER_NODE": str(tasks),
            # Not the allocation's, which has all cores of a node in one task.
            "SLURM_CPUS_PER_TASK": asked.get("--cpus-per-task", "1"),
            "MASTER_PORT": str(_PORTS[port % len(_PORTS)]),
            "BASH_FUNC_srun%%": _srun(options, shared=shared),
        }

    def _place(self, share: str) -> int:
        """Return the index of a share among the shares of all nodes, counted from 0.

        share: the node's name, a slash, and the number of the share on the node.
        """
        node, _, number = share.rpartition("/")
        before = takewhile(lambda other: other.name != node, self.nodes)
        return sum(map(_shares, before)) + int(number)


def this_allocation(*, has_gpus: bool, overrun: bool = False) -> Allocation:
    """Return the allocation of this process. Raises UserError outside an allocation."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if job_id is None:
        raise UserError(
            "--here: this is not an allocation (SLURM_JOB_ID is not set); `teralog salloc --run` "
            "gets one"
        )
    nodes = job_nodes(job_id, one_thread=os.environ.get("SLURM_THREADS_PER_CORE") == "1")
    folder = this_machines_devices(gpus_wanted=False).folder / f"job-{job_id}"
    folder.mkdir(exist_ok=True)
    return Allocation(
        job_id=int(job_id), nodes=nodes, has_gpus=has_gpus, locks=folder, overrun=overrun
    )


def _srun(options: Sequence[str], *, shared: bool) -> str:
    """Return the body of a bash function that calls srun with additional options.

    options: the options that srun gets before the arguments of the bash function.
    shared: whether other runs may use GPUs of the run's nodes. If so, the bash function does
    nothing when it is called with `--overlap`. Job scripts call it with `--overlap` to watch
    the run's GPUs. But that job step would watch the first GPUs of the node, which may
    belong to another run.
    """
    guard = 'case " $* " in *" --overlap "*) return ;; esac; ' if shared else ""
    # srun would use the variables about the allocation's GPUs for the job step, too.
    call = f'(unset "${{!SLURM_GPUS@}}"; exec srun {shlex.join(options)} "$@")'
    return f"() {{ {guard}{call}; }}"


def _shares(node: Node) -> int:
    return node.gpus or node.cores


def _needed(node: Node, asked: dict[str, str], run: Run) -> int:
    """Return how many shares of `node` a run needs, so that it gets all its GPUs and cores.

    asked: the sbatch options in the run's job script. If the run needs whole nodes, e.g.
    because of `--exclusive`, the result is the number of all shares of the node.
    """
    takes_first = run.resources.nodes > 1 and LAUNCHERS[run.options.launcher].takes_first_gpus
    if "--exclusive" in asked or takes_first:
        return _shares(node)
    gpus = int(asked.get("--gres", "gpu:0").rpartition(":")[2])
    tasks, cpus = int(asked["--ntasks-per-node"]), int(asked.get("--cpus-per-task", 1))
    of_cores = -(-node.cores_of(tasks, cpus) * _shares(node) // node.cores)
    return max(gpus, of_cores)


def _together(parts: Sequence[Lease]) -> Lease:
    return Lease(
        tuple(name for part in parts for name in part.devices),
        tuple(descriptor for part in parts for descriptor in part.descriptors),
    )


def allocation_options(name: str, scripts: Sequence[str], time_limit_seconds: int) -> list[str]:
    """Return the salloc or sbatch options for an allocation in which each script can run.

    name: the name of the job. scripts: the job scripts of runs. time_limit_seconds: the time limit
    of the allocation. Raises UserError if the options of the runs cannot be combined.
    """
    all_asked = [_asked(script) for script in scripts]
    nodes = max(int(asked["--nodes"]) for asked in all_asked)
    cpus = max(
        int(asked["--ntasks-per-node"]) * int(asked.get("--cpus-per-task", 1))
        for asked in all_asked
    )
    gpus = max(
        (asked["--gres"].rpartition(":") for asked in all_asked if "--gres" in asked),
        key=lambda gres: int(gres[2]),
        default=None,
    )
    options = [
        f"--job-name={name}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
    ]
    if gpus:
        options.append(f"--gres={''.join(gpus)}")
    options += [
        f"{option}={value}" if value else option
        for option, value in _same_of_all(all_asked).items()
        if option not in (*_COUNTED, *_OF_STEPS, *_OF_BATCH_JOBS)
    ]
    return [*options, f"--time={slurm_time(time_limit_seconds)}"]


def _same_of_all(all_asked: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the sbatch options that must be the same for all runs, e.g. `--partition`.

    An allocation can have only one value of each of these options. all_asked: for each run, its
    sbatch options with their values. Raises UserError if two runs have different values of one
    of these options.
    """
    options: dict[str, str] = {}
    for option, value in (pair for asked in all_asked for pair in asked.items()):
        if option not in _COUNTED and options.setdefault(option, value) != value:
            raise UserError(
                f"sbatch: one of these runs has {option}={options[option]}, another "
                f"{option}={value}; in an allocation, all runs must have the same value: choose "
                "runs with the same value, or start each run as a job with `teralog submit`"
            )
    return options


def _asked(script: str) -> dict[str, str]:
    """Return the value of each sbatch option in a script's #SBATCH lines, by the option's name.

    An option without a value, e.g. `--exclusive`, has the value "".
    """
    words = (
        # sbatch's quotes work like the shell's, except for backslashes.
        shlex.split(line.removeprefix("#SBATCH "), posix=True)[0]
        for line in directives(script)
    )
    pairs = (word.partition("=") for word in words)
    return {option: value for option, _, value in pairs}
