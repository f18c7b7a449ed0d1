"""Suggest how much memory to request from Slurm after a job exceeded its host memory."""

import math
import re
from collections.abc import Iterable

SACCT_MEMORY_FIELDS = ("JobID", "MaxRSS", "NTasks", "NNodes")

# A killed job would have used more memory than was measured, and more than it was granted.
_MORE = 1.5
_GIB = {"": 2**-10, "K": 2**-20, "M": 2**-10, "G": 1.0, "T": 2.0**10}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)")


def amount_gib(text: str) -> float | None:
    """Convert an amount of memory in Slurm's notation, e.g. 512M, to GiB; None for other text.

    Without a unit, the amount is in MiB, as for sbatch.
    """
    match = _AMOUNT.fullmatch(text.strip())
    return float(match[1]) * _GIB[match[2]] if match else None


def read_used_gib(lines: Iterable[str]) -> float | None:
    """Return a job's largest peak memory per node from sacct's lines; None without a measurement.

    Each line has the SACCT_MEMORY_FIELDS of one job step, with `|` between them. MaxRSS is the peak
    of the step's largest task. Every other task of a node may have used as much. So MaxRSS is
    multiplied by the number of tasks per node.
    """
    steps_gib = []
    for line in lines:
        fields = line.split("|")
        if len(fields) != len(SACCT_MEMORY_FIELDS):
            continue
        _, most, tasks, nodes = fields
        # sacct prints no unit for bytes.
        used = amount_gib(most) if most[-1:].isalpha() else None
        if used and tasks.isdecimal() and nodes.isdecimal() and int(nodes):
            steps_gib.append(used * math.ceil(int(tasks) / int(nodes)))
    return max(steps_gib, default=None)


def asked_memory(script: str) -> str | None:
    """Return the memory per node that a job script requests, as in its line with --mem, e.g. 64G.

    Returns None if the script has no line with --mem.
    """
    requests = re.findall(r"^#SBATCH --mem=(\S+)", script, re.MULTILINE)
    return requests[-1] if requests else None


def memory_line(used_gib: float | None, asked: str | None) -> str:
    """Return advice after a job exceeded its host memory: how much memory to request, and why.

    If the job requested all memory of its nodes, the advice is to use nodes with more memory.
    used_gib: the measured peak per node. asked: the memory per node that the job requested, in
    Slurm's notation; `0` means all memory.
    """
    granted = amount_gib(asked) if asked else None
    details = [f"asked for {asked}"] if granted else []
    details += [f"used at least {used_gib:.3g} GiB per node (sacct)"] if used_gib else []
    if granted == 0:
        return (
            "ran out of the host's memory, although it had all memory of its nodes: choose "
            "nodes with more memory, with `retry --constraint` or `retry --partition`"
        )
    if not details:
        return (
            "ran out of the host's memory; how much it used is unknown: try `retry --memory` "
            "with a larger value than before"
        )
    least = max(used_gib or 0.0, granted or 0.0)
    # Whole GiB, and at least one more than before.
    more = max(math.ceil(_MORE * least), math.floor(least) + 1)
    return f"ran out of the host's memory; {' and '.join(details)}: try `retry --memory {more}G`"
