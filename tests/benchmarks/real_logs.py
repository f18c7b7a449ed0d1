"""Time the reading of real logs, compared with perl and ripgrep one-liners for one value.

Each log is repeated up to a given size, as if many runs followed one another. `teralog parse` reads
all columns and the outcome of each run. perl and ripgrep print the step time or the rate of each
step report, or the result of the whole run if the program logs nothing else. All methods take
turns. The table contains speeds relative to perl's, from medians of wall time: 2.00 is twice as
fast as perl. teralog is measured on two cores (`two`) and pinned to one core (`one`). With
`--before CHECKOUT` the table also contains another version of teralog, on two cores and on one. The
times of teralog do not include the start of Python.

The logs are those in ../shared, or the project's own samples if that folder is absent.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
SHARED = HERE.parent / "shared"
SAMPLES = HERE / "tests" / "data" / "logs"

READ = """
import sys, time
from parsers.runs.many import read_each
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup
def digest(runs):
    return sum(summarise(run, Warmup(rule="first")).lines for run in runs)
begun = time.perf_counter()
(_, found), = read_each([sys.argv[1]], digest)
if isinstance(found, OSError):
    raise found
print(time.perf_counter() - begun, found)
"""
# One value per report: the first of these fields that a log has.
VALUES = (
    r"elapsed time per iteration \(ms\): ([0-9.]+)",
    r"CurrSamplesPerSec=([0-9.]+)",
    r"CurSamplesPerSec=([0-9.]+)",
    r"train_samples_per_second'?: '?([0-9.]+)",
    r'"train_step_tim(?:e|ing)": ([0-9.]+)',
    r"train_step_timing in s: ([0-9.]+)",
    r'"throughput": ([0-9.]+)',
    r'"tps_per_gpu": ([0-9.]+)',
    r"\btps: +([0-9,]+)",
    r", seconds: ([0-9.]+)",
    r"Step Time : ([0-9.]+)s",
    r"iter time: ([0-9.]+)",
    r"dt: ([0-9.]+)ms",
    r"step_avg:([0-9.]+)ms",
    r"timing_s/step:([0-9.]+)",
    r"interval_runtime: ([0-9.]+)",
    r"step_seconds ([0-9.]+)",
    r"throughput: ([0-9.]+)",
    r"latency=([0-9.]+)",
    r"Time/seq ([0-9.]+)",
)


def value_of(log: Path) -> str:
    """Return the regular expression with which perl and ripgrep search a log.

    It matches one number per report, e.g. the step time or the rate.
    """
    text = log.read_text(errors="replace")
    return next((value for value in VALUES if re.search(value, text)), VALUES[0])


def repeat(log: Path, size: int, into: Path) -> None:
    """Write the text of a log to a file again and again, until the file has the given size."""
    text = log.read_bytes()
    text += b"" if text.endswith(b"\n") else b"\n"
    piece = text * max(1, 2**20 // len(text))
    with into.open("wb") as file:
        while file.tell() < size:
            file.write(piece)


def program_seconds(command: Sequence[str]) -> float:
    """Return how many seconds a program takes."""
    begun = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode > 1:  # 1: nothing was found
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return time.perf_counter() - begun


def reading_seconds(checkout: Path, log: Path, cores: int) -> float:
    """Return how many seconds teralog takes to read a log.

    checkout: the source of the teralog to measure. cores: how many cores the reading may use.
    """
    cores_of_machine = sorted(os.sched_getaffinity(0))[:cores]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(log)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores_of_machine),
    )
    return float(done.stdout.split()[0])


def measure(log: Path, before: Path | None, rounds: int) -> dict[str, float]:
    """Return the median wall time of each method in seconds, by the method's name.

    before: the checkout of another version of teralog, which is measured too, or None.
    """
    value = value_of(log)
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        if shutil.which("perl"):
            one_liner = ["perl", "-nle", f"print $1 if m<{value}>", str(log)]
            taken.setdefault("perl", []).append(program_seconds(one_liner))
        if shutil.which("rg"):
            command = ["rg", "-oIN", "--no-unicode", "-r", "$1", value, str(log)]
            taken.setdefault("rg", []).append(program_seconds(command))
        for cores, name in ((2, "two"), (1, "one")):
            taken.setdefault(name, []).append(reading_seconds(HERE, log, cores))
            if before:
                seconds = reading_seconds(before, log, cores)
                taken.setdefault(f"{name} before", []).append(seconds)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def real_logs() -> list[Path]:
    """Return the paths of the logs to read."""
    folders = [folder for folder in (SHARED / "logs", SHARED / "logs-2026") if folder.is_dir()] or [
        SAMPLES
    ]
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [file for file in files if file.suffix in {".out", ".log", ".txt", ".jsonl"}]


def main() -> None:
    """Measure all methods on all logs, and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=float, default=200, help="size of each log")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--before", type=Path, help="another checkout, to compare with")
    options.add_argument("--folder", type=Path, help="where to write; by default a temporary one")
    options.add_argument("--only", default="", help="logs whose path contains this")
    chosen = options.parse_args()
    if chosen.before and not (chosen.before / "parsers").is_dir():
        options.error(f"--before: {chosen.before} is not a folder with a version of teralog")
    for program in ("perl", "rg"):
        if not shutil.which(program):
            print(f"{program} is left out: it is not on this machine")
    names = ["two", "one", *(["two before", "one before"] if chosen.before else []), "rg"]
    print(f"{'speed as multiples of perl':48} {'perl MB/s':>9}", *(f"{name:>10}" for name in names))
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        log = Path(name) / "repeated.log"
        for original in real_logs():
            if chosen.only not in str(original):
                continue
            repeat(original, int(chosen.megabytes * 1e6), log)
            seconds = measure(log, chosen.before, chosen.rounds)
            perl = seconds.get("perl", 1.0)
            ratios = (f"{perl / seconds[name]:10.2f}" if name in seconds else "-" for name in names)
            megabytes = log.stat().st_size / 1e6 / perl
            title = f"{original.parent.name}/{original.name}"[:48]
            print(f"{title:48} {megabytes:9.0f}", *ratios, flush=True)


if __name__ == "__main__":
    main()
