"""Time `submit` and `status` on a real Slurm, compared with submitit.

The benchmark uses a separate practice cluster on which all jobs are held. The programs take turns,
each in a separate process. The benchmark prints the medians of the rounds, in seconds of wall time
and of processor time, including Slurm's commands. submitit's `submit` is timed for a few jobs; its
time for all runs is computed in proportion. Calls of Slurm's commands are counted in a round that
is not timed, by scripts with the same names that are first on the PATH. Nothing is deleted before
the end: after many files are deleted, an ext4 without a journal creates files slowly for minutes.
Campaigns of several sizes are submitted, queried and cancelled. A campaign of n runs is compared
with submitit's map_array of n functions. The first `status` records Slurm's states of the runs.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))

from practice.plan import Plan
from practice.running import Cluster, running

TERALOG = str(Path(sys.executable).parent / "teralog")
COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "srun", "salloc")
PROFILE = "gpus_per_node: 4\nmemory: 1G\n"
CAMPAIGN = """\
name: bench
cluster: slurm.yaml
defaults: {{framework: gpt, model: s, time_limit: 5}}
matrix: {{seed: {seeds}}}
"""
# Submits this many functions that do nothing, one by one or in an array.
SUBMITIT = """\
import sys
from submitit import SlurmExecutor
executor = SlurmExecutor(folder="submitit")
executor.update_parameters(time=5, mem="1G", additional_parameters={"hold": True})
executor.update_parameters(array_parallelism=int(sys.argv[2]))
if sys.argv[1] == "array":
    executor.map_array(abs, range(int(sys.argv[2])))
else:
    for number in range(int(sys.argv[2])):
        executor.submit(abs, number)
"""
COUNTER = """\
#!/bin/sh
echo {command} >> "$COUNTED"
exec {real} "$@"
"""


@dataclass(frozen=True)
class Seconds:
    """A duration, in seconds of wall and of processor time."""

    wall: float
    processor: float


def main() -> None:
    """Measure the commands on the practice cluster, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--one-by-one", type=int, default=30, help="jobs for submitit's submit")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 5000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp") as folder:
        plan = Plan(
            folder=Path(folder) / "cluster",
            nodes_32g=1,
            nodes_16g=0,
            max_array_size=max([*options.sizes, options.runs]) + 1,
            min_job_age_seconds=2,
        )
        with running(plan) as cluster:
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            _submitting(cluster, Path(folder), options.runs, options.one_by_one, options.rounds)
            _asking(cluster, Path(folder), options.sizes)


def _submitting(cluster: Cluster, folder: Path, runs: int, one_by_one: int, rounds: int) -> None:
    ways: dict[str, Callable[[Path], list[str]]] = {
        "teralog submit": lambda place: [TERALOG, "submit", str(_campaign(place, runs)), "--hold"],
        "submitit map_array": lambda place: [sys.executable, "-c", SUBMITIT, "array", str(runs)],
        "submitit submit": lambda place: [sys.executable, "-c", SUBMITIT, "each", str(one_by_one)],
    }
    times: dict[str, list[Seconds]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            place = _place(folder)
            times[name].append(_timed(cluster, way(place), place))
            cluster.run("scancel", "--user", str(os.getuid()))
    print(f"\n{runs:,} runs, medians of {rounds}            wall   processor")
    medians = {}
    for name, all_of_it in times.items():
        factor = runs / one_by_one if name == "submitit submit" else 1.0
        wall = statistics.median(seconds.wall for seconds in all_of_it) * factor
        processor = statistics.median(seconds.processor for seconds in all_of_it) * factor
        medians[name] = wall
        scaled = f"   from {one_by_one}" if factor != 1.0 else ""
        print(f"{name:28}{wall:10.2f} s{processor:8.2f} s{scaled}")
    ours = medians["teralog submit"]
    print(f"teralog is {medians['submitit submit'] / ours:.0f} x as fast as submit   aim: 40 x")
    print(f"and takes  {ours / medians['submitit map_array']:.1f} x the time of map_array")
    place = _place(folder)
    counted = _counted(cluster, ways["teralog submit"](place), place)
    cluster.run("scancel", "--user", str(os.getuid()))
    print(f"Slurm's commands: {_told(counted)}   aim: at most 20")


def _asking(cluster: Cluster, folder: Path, sizes: list[int]) -> None:
    print("\n                                  wall   processor   x map_array's processor time")
    for size in sizes:
        place = _place(folder)
        campaign = str(_campaign(place, size))
        array = [sys.executable, "-c", SUBMITIT, "array", str(size)]
        commands = {
            f"{size:,} runs: map_array": array,
            "submit": [TERALOG, "submit", campaign, "--hold"],
            "status, first": [TERALOG, "status", campaign],
            "status, again": [TERALOG, "status", campaign],
            "cancel": [TERALOG, "cancel", campaign, "--all"],
        }
        yardstick = None
        for name, command in commands.items():
            if name == "cancel":
                counted = _counted(cluster, [TERALOG, "status", campaign], place)
            took = _timed(cluster, command, place)
            if yardstick is None:
                yardstick = took
                cluster.run("scancel", "--user", str(os.getuid()))
            ratio = took.processor / yardstick.processor
            print(f"{name:>26}{took.wall:10.2f} s{took.processor:8.2f} s{ratio:8.1f}")
        print(f"Slurm's commands of status: {_told(counted)}")


def _place(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def _campaign(place: Path, runs: int) -> Path:
    (place / "slurm.yaml").write_text(PROFILE)
    campaign = place / "campaign.yaml"
    campaign.write_text(CAMPAIGN.format(seeds=list(range(runs))))
    return campaign


def _timed(cluster: Cluster, command: list[str], place: Path) -> Seconds:
    before, begun = os.times(), time.perf_counter()
    _run(command, place, cluster.environment)
    wall, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system
    return Seconds(wall, used - before.children_user - before.children_system)


def _counted(cluster: Cluster, command: list[str], place: Path) -> Counter[str]:
    """Run a command, and return how often it calls each of Slurm's commands.

    Scripts with the names of Slurm's commands count the calls. They are first on the PATH.
    """
    folder, ledger = place / "counters", place / "counted"
    folder.mkdir()
    ledger.touch()
    path = cluster.environment["PATH"]
    for name in COMMANDS:
        script = folder / name
        script.write_text(COUNTER.format(command=name, real=shutil.which(name, path=path)))
        script.chmod(0o755)
    counting = {"PATH": f"{folder}{os.pathsep}{path}", "COUNTED": str(ledger)}
    _run(command, place, {**cluster.environment, **counting})
    return Counter(ledger.read_text().split())


def _told(counted: Counter[str]) -> str:
    parts = ", ".join(f"{count} {name}" for name, count in counted.items())
    return f"{counted.total()} ({parts})"


def _run(command: list[str], place: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[:3])} failed: {done.stderr}")


if __name__ == "__main__":
    main()
