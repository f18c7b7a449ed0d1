"""Bind a rank to cores near its GPU, or start the rank with the user's own command for binding.

On every rank, the launcher starts one of these commands instead of `PROGRAM ARGUMENT…`. The
process of the command binds itself, and then becomes the rank's program:

    python bind_rank.py numa RANKS PROGRAM ARGUMENT…
    python bind_rank.py custom COUNT WORD… PROGRAM ARGUMENT…

RANKS is the number of ranks per node if the ranks have no GPUs, else 0. WORD… is the user's
command that binds, and COUNT is the number of its words. PROGRAM may be `-m MODULE`.
Launchers older than torchrun insert --local_rank as the first argument; bind_rank.py passes
it on to PROGRAM.

The folder of each run that needs this file contains a copy. The copy runs in the run's own
Python, which may be an old one, so it uses only the standard library.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

_SMI = ("nvidia-smi", "--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader")


def bind_rank_main() -> None:
    """Bind this process as its command line requests, and run the rank's program in its place."""
    handed = [word for word in sys.argv[1:2] if re.match("--local[_-]rank(=|$)", word)]
    mode, number, *words = sys.argv[1 + len(handed) :]
    count, prefix = int(number), []
    if mode == "custom":
        prefix, words = words[:count], words[count:]
    else:
        problem = bind_to_numa_node(count, Path("/"))
        if problem:
            print("[teralog] binding: numa: " + problem, flush=True)
    length = 2 if words[0] in ("-m", "--module") else 1
    program = ["-m", words[1]] if length == 2 else words[:1]
    command = [*prefix, sys.executable, "-u", *program, *handed, *words[length:]]
    os.execvp(command[0], command)  # noqa: S606  (a shell would add nothing)


def bind_to_numa_node(ranks: int, root: Path) -> "str | None":
    """Bind this process to the cores of its NUMA node; return the reason if that is impossible.

    Returns None if the process is bound, or if the machine has only one NUMA node. Memory needs no
    binding: Linux allocates it on the node of the core that first uses it.

    ranks: the number of ranks per node if they have no GPUs, else 0. A rank with a GPU is bound to
        the NUMA node of this GPU. Ranks without GPUs are spread over the NUMA nodes, so that
        consecutive ranks share a node.
    root: the folder that contains Linux's folder `sys`: / except in tests.
    """
    local = os.environ.get("LOCAL_RANK", "")
    if not local.isdigit():
        return "not bound: this process uses all GPUs of the node"
    nodes = numa_nodes(root)
    if len(nodes) < 2:
        return None
    spread = sorted(nodes)[int(local) * len(nodes) // ranks] if ranks else None
    node = spread if ranks else gpu_numa_node(int(local), root)
    if node is None or node not in nodes:
        return "rank " + local + ": not bound, because the NUMA node of its GPU is not known"
    cores = nodes[node] & os.sched_getaffinity(0)
    if not cores:
        return f"rank {local}: not bound, because the job has no core of NUMA node {node}"
    os.sched_setaffinity(0, cores)
    return None


def numa_nodes(root: Path) -> "dict[int, set[int]]":
    """Return the NUMA nodes of this machine: a mapping from a node's number to the node's cores.

    Nodes without cores are left out. root: the folder that contains Linux's folder `sys`.
    """
    nodes = {}
    for folder in root.glob("sys/devices/system/node/node[0-9]*"):
        cores = listed_cores(_text(folder / "cpulist"))
        if cores:
            nodes[int(folder.name[len("node") :])] = cores
    return nodes


def listed_cores(text: str) -> "set[int]":
    """Return the numbers of the cores in a text of the Linux kernel: {0, 1, 2, 8} for `0-2,8`."""
    ranges = [part.split("-") for part in text.strip().split(",") if part]
    return {core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)}


def gpu_numa_node(local_rank: int, root: Path) -> "int | None":
    """Return the number of the NUMA node to which a rank's GPU is connected; None if unknown.

    CUDA_VISIBLE_DEVICES and `local_rank` determine which GPU the rank has.
    """
    try:
        listed = subprocess.check_output(_SMI, universal_newlines=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in listed.splitlines()]
    gpus = [row for row in rows if len(row) == 3]
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    names = [name for name in visible if name] or [row[0] for row in gpus]
    # A task that sees only one GPU uses this GPU, whatever its rank.
    name = names[local_rank] if local_rank < len(names) else names[0] if len(names) == 1 else None
    for index, uuid, bus in gpus:
        if name is not None and (name == index or uuid.startswith(name)):
            # nvidia-smi writes the domain with eight digits; the kernel uses four or more.
            domain, _, rest = bus.lower().partition(":")
            address = f"{int(domain, 16):04x}:{rest}"
            node = _text(root / "sys/bus/pci/devices" / address / "numa_node").strip()
            return int(node) if node.isdigit() else None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    bind_rank_main()
