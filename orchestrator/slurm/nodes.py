"""Read from scontrol which cores, memory and GPUs a job has on each node.

The environment variables of an allocation are not enough, for two reasons. salloc sets no
variables about GPUs. SLURM_JOB_CPUS_PER_NODE counts cores if a job takes one thread per
core, but otherwise it counts threads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.common.ask import ask
from orchestrator.common.errors import UserError
from orchestrator.slurm.commands import patience

# A line of `scontrol show job -d`, for nodes on which the job has the same resources:
# Nodes=gpu[001-002] CPU_IDs=0-9,40-49 Mem=8192 GRES=gpu:v100:2(IDX:0-1)
_SAME = re.compile(
    r"Nodes=(?P<nodes>\S+) CPU_IDs=(?P<cpus>[0-9,-]+) Mem=(?P<mib>[0-9]+)(?: GRES=(?P<gres>\S*))?"
)
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(?P<count>[0-9]+)")
# From `scontrol show node`: CoresPerSocket=20 ... CPUTot=80 ... Sockets=2
_HARDWARE = re.compile(r"\b(?P<name>CoresPerSocket|CPUTot|Sockets)=(?P<value>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The resources that a job has on a node.

    cores: the number of whole cores, because a job step always gets whole cores. cpus_per_core: how
    many CPUs Slurm counts per core. memory_mib: the memory in MiB; 0 if Slurm does not manage
    memory.
    """

    name: str
    gpus: int
    cores: int
    cpus_per_core: int
    memory_mib: int

    def cores_of(self, tasks: int, cpus_per_task: int) -> int:
        """Return how many whole cores `tasks` tasks need, with `cpus_per_task` CPUs each.

        Tasks share a core only if each task needs fewer CPUs than a core has.
        """
        if cpus_per_task < self.cpus_per_core:
            return _divide_up(tasks * cpus_per_task, self.cpus_per_core)
        return tasks * _divide_up(cpus_per_task, self.cpus_per_core)


def job_nodes(job_id: str, *, one_thread: bool) -> tuple[Node, ...]:
    """Return the resources that a running job has on each of its nodes.

    one_thread: whether the job uses one thread per core, so that a CPU is a core. Raises UserError
    if Slurm does not report the resources.
    """
    nodes = []
    ours = False
    for line in _lines("show", "job", "-d", job_id):
        # An array's last task has the array's own id. For that id scontrol prints all tasks.
        if line.startswith("JobId="):
            ours = line.split()[0] == f"JobId={job_id}"
        if ours and (same := _SAME.fullmatch(line)):
            names = _lines("show", "hostnames", same["nodes"])
            cpus_per_core = _cpus_per_core(_lines("show", "node", names[0]))
            nodes += [
                Node(
                    name=name,
                    gpus=gpus_of(same["gres"] or ""),
                    cores=_divide_up(_count(same["cpus"]), cpus_per_core),
                    cpus_per_core=1 if one_thread else cpus_per_core,
                    memory_mib=int(same["mib"]),
                )
                for name in names
            ]
    if not nodes:
        raise UserError(f"job {job_id}: the output of `scontrol show job -d` contains no node")
    return tuple(nodes)


def gpus_of(gres: str) -> int:
    """Return the number of GPUs, of any type, in scontrol's GRES field."""
    return sum(int(match["count"]) for match in _GPUS.finditer(gres))


def _lines(*arguments: str) -> Sequence[str]:
    answer = ask(("scontrol", *arguments), patience.seconds)
    if answer is None:
        raise UserError("scontrol is not on the PATH")
    if answer.problem is not None:
        raise UserError(answer.problem)
    return answer.lines


def _cpus_per_core(lines: Sequence[str]) -> int:
    hardware = {
        match["name"]: match["value"] for line in lines for match in _HARDWARE.finditer(line)
    }
    cores = int(hardware.get("Sockets", 1)) * int(hardware.get("CoresPerSocket", 0))
    return max(int(hardware.get("CPUTot", 0)) // cores, 1) if cores else 1


def _count(ranges: str) -> int:
    pairs = (part.partition("-") for part in ranges.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in pairs)


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)
