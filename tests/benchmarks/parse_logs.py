r"""Time the reading of logs, compared with other programs and with plain reading.

The logs are generated and in the page cache: one file with a step report per 200 lines, one with a
step report per 20, and many small files. All methods take turns, in several rounds. The benchmark
prints the median speed of each method, in GB per second of processor time and of wall time, child
processes included. Then it prints the aims. An aim is the factor by which one method should be
faster than another; the measured factor is printed next to it. "perl, one per file" is
`find -exec perl … {} \;`. teralog runs within this process; its start-up time is printed
separately. If a program is missing, its name is printed, and the aims that need it are left out.
The defaults need 4 GB of disk and of memory; `--sizes 0.1 1 10` needs 10 GB.
`--gigabytes 0.3 --files 500 --rounds 3` takes a minute.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from generated_logs import pieces, write_log

from parsers.formats.megatron.iterations import MEGATRON
from parsers.runs.many import read_each
from parsers.runs.reading import read
from parsers.runs.run import LogRun
from parsers.scan.resume import ReadState, read_appended
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

PATTERN = r"elapsed time per iteration \(ms\): ([0-9.]+)"
PERL = ["perl", "-lne", f"if (/{PATTERN}/) {{ print $1 }}"]
MAWK = ["mawk", f"match($0, /{PATTERN[:-9]}[0-9.]+/) {{ print substr($0, RSTART + 33) }}"]
GREP, RIPGREP = ["grep", "-aohrP", PATTERN], ["rg", "-aoIN", PATTERN]


@dataclass(frozen=True)
class Method:
    """A way to read logs.

    run: returns how many step reports it read, or None if it does not parse the logs.
    """

    name: str
    run: Callable[[], int | None]


@dataclass(frozen=True)
class Aim:
    """An aim: `method` should be `factor` times as fast as the method `other`.

    time: which time is compared, "processor" or "wall".
    """

    method: str
    time: str
    factor: float
    other: str


SPARSE_AIMS = (
    Aim("teralog, Megatron, outcome", "wall", 1.0, "rg -o"),
    Aim("teralog, all formats, outcome", "wall", 1.0, "rg -o"),
)
DENSE_AIMS = (
    Aim("teralog, Megatron, outcome", "processor", 1.5, "perl"),
    Aim("teralog, all formats, outcome", "processor", 1.5, "perl"),
)
MANY_AIMS = (
    Aim("teralog, all formats, outcome", "wall", 25.0, "perl, one per file"),
    Aim("teralog, all formats, outcome", "wall", 1.0, "rg -o"),
)


@dataclass(frozen=True)
class Speed:
    """The speed of a method, in GB per second of processor time and of wall time."""

    processor: float
    wall: float


def programs(commands: dict[str, list[str]], stdin: bytes | None = None) -> list[Method]:
    """Return methods that run other programs, e.g. grep, on the logs.

    commands: the command lines, by the names of the methods. Each command prints one line per step
    report. A method is left out, with a message, if a program that it needs is not on this machine.
    """
    methods = []
    for name, command in commands.items():
        # Another program may start the measured one.
        needed = [
            word for word in command if word in {"find", "xargs", "perl", "mawk", "grep", "rg"}
        ]
        if missing := [word for word in needed if not shutil.which(word)]:
            print(f"{name} is left out: there is no {missing[0]} on this machine")
        else:
            methods.append(Method(name, partial(count_lines, command, stdin)))
    return methods


def count_lines(command: list[str], stdin: bytes | None) -> int:
    """Return how many lines a program prints."""
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True)
    return done.stdout.count(b"\n")


def read_alone(logs: Sequence[Path]) -> None:
    """Read files into a buffer without parsing them.

    No parser that uses one processor can be faster than this.
    """
    buffer = bytearray(2**18)
    for log in logs:
        descriptor = os.open(log, os.O_RDONLY)
        while os.readv(descriptor, [buffer]):
            pass
        os.close(descriptor)


def count_steps(runs: list[LogRun]) -> int:
    """Return how many step reports the runs of a log have."""
    return sum(len(segment.step_columns) for run in runs for segment in run.segments)


def count_summarised(runs: list[LogRun]) -> int:
    """Compute the summary of each run of a log; return how many step reports the runs have."""
    return sum(summarise(run, Warmup(rule="first")).reports for run in runs)


def count_all(logs: Sequence[Path]) -> int:
    """Read the logs with several processes, as teralog does; return the number of step reports."""
    return sum(count for _, count in read_each(logs, count_steps) if isinstance(count, int))


def of_one_log(log: Path) -> list[Method]:
    """Return the methods to read one large log."""
    commands = {"perl": PERL, "grep -oP": GREP, "rg -o": RIPGREP, "mawk": MAWK}
    return [
        Method("bare read", lambda: read_alone([log])),
        *programs({name: [*command, str(log)] for name, command in commands.items()}),
        Method("teralog, Megatron, outcome", lambda: count_steps(read(log, [MEGATRON]))),
        Method("teralog, all formats, outcome", lambda: count_steps(read(log))),
        Method("teralog, the same, summarised", lambda: count_summarised(read(log))),
    ]


def of_many_logs(folder: Path, logs: Sequence[Path]) -> list[Method]:
    """Return the methods to read a folder of small logs."""
    commands = {
        "perl, one per file": ["find", str(folder), "-type", "f", "-exec", *PERL, "{}", ";"],
        "grep -oP": [*GREP, str(folder)],
        "rg -o": [*RIPGREP, str(folder)],
    }
    by_xargs = {"perl, by xargs": ["xargs", "-0", *PERL], "mawk, by xargs": ["xargs", "-0", *MAWK]}
    return [
        Method("bare read", lambda: read_alone(logs)),
        *programs(commands),
        *programs(by_xargs, "\0".join(map(str, logs)).encode()),
        Method("teralog, all formats, outcome", lambda: count_all(logs)),
    ]


def processor_seconds() -> float:
    """Return the processor time, in seconds, of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def speed(method: Method, size: int, records: int) -> Speed:
    """Run a method once, and return its speed.

    size: the bytes that the method reads. records: the number of step reports that it must read.
    With another number, the benchmark stops with an error.
    """
    processor, wall = processor_seconds(), time.perf_counter()
    steps = method.run()
    wall = time.perf_counter() - wall
    processor = processor_seconds() - processor
    if steps not in {None, records}:
        sys.exit(f"{method.name} found {steps} records of {records}")
    return Speed(size / 1e9 / processor, size / 1e9 / wall)


def measure(
    title: str, size: int, records: int, methods: Sequence[Method], aims: Sequence[Aim], rounds: int
) -> None:
    """Run the methods in turn; print a table of speeds, and the factor reached for each aim."""
    print(f"\n{title}: {size / 1e9:.2f} GB, {records:,} records")
    turns = [[speed(method, size, records) for method in methods] for _ in range(rounds)]
    medians = {
        method.name: Speed(
            statistics.median(measured.processor for measured in speeds),
            statistics.median(measured.wall for measured in speeds),
        )
        for method, speeds in zip(methods, zip(*turns, strict=True), strict=True)
    }
    others = [
        name for name in ("bare read", "rg -o", "perl", "perl, one per file") if name in medians
    ]
    print(f"{'GB/s of processor, wall time':32}{'':13}", *(f"x {name:18}" for name in others))
    for name, median in medians.items():
        ratios = (
            f"{median.processor / other.processor:8.2f} {median.wall / other.wall:8.2f}  "
            for other in map(medians.__getitem__, others)
        )
        print(f"{name:32}{median.processor:6.2f} {median.wall:6.2f}", *ratios)
    for aim in aims:
        if aim.other in medians:
            reached, compared = (
                getattr(medians[aim.method], aim.time),
                getattr(medians[aim.other], aim.time),
            )
            print(
                f"aim: {aim.method} {aim.factor:g} x {aim.other} ({aim.time});"
                f" reached {reached / compared:.2f} x"
            )


def measure_sizes(folder: Path, sizes: Sequence[float], rounds: int) -> None:
    """Print the processor time per GB and the peak memory for logs of several sizes."""
    print("\nprocessor seconds a GB, a record per 200 lines")
    for gigabytes in sizes:
        log = folder / "sized.log"
        records = write_log(log, int(gigabytes * 1e9), 200)
        method = Method("all formats, outcome", partial(count_all, [log]))
        speeds = [speed(method, log.stat().st_size, records) for _ in range(rounds)]
        seconds = statistics.median(1 / measured.processor for measured in speeds)
        print(f"{gigabytes:6.1f} GB {seconds:6.2f} s, memory at the peak {peak_mib(log):6.0f} MiB")
        log.unlink()


def peak_mib(log: Path) -> float:
    """Return the peak memory, in MiB, of a Python process that reads a log in all formats.

    The peak is read from /proc, not with getrusage: for getrusage, a new process inherits the peak
    of its parent.
    """
    code = (
        "import re, sys; from parsers.runs.reading import read; runs = read(sys.argv[1]);"
        "print(re.search(r'VmHWM:\\s*([0-9]+)', open('/proc/self/status').read())[1])"
    )
    command = [sys.executable, "-c", code, str(log)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) / 2**10


def measure_growth(folder: Path) -> None:
    """Append to a log many times; print the mean time that reading each appended part takes."""
    log, grown = folder / "growing.log", list(pieces(20_000_000, 200))
    state: ReadState | None = None
    count = 0
    seconds = 0.0
    with log.open("wb", buffering=0) as file:
        for piece in grown:
            for part in (piece[: len(piece) // 2], piece[len(piece) // 2 :]):
                file.write(part)
                begun = time.perf_counter()
                appended = read_appended(log, [MEGATRON], state)
                seconds += time.perf_counter() - begun
                count, state = count + len(appended.records), appended.state
    print(f"\na log that grows to {log.stat().st_size / 1e6:.0f} MB, read {2 * len(grown)} times:")
    print(f"{count} of {len(grown)} records, {seconds / 2 / len(grown) * 1e3:.2f} ms each time")


def measure_start(rounds: int) -> None:
    """Print how long a new Python process takes to import the function that reads logs."""
    method = Method(
        "", lambda: count_lines([sys.executable, "-c", "import parsers.runs.reading"], None)
    )
    seconds = statistics.median(1 / speed(method, 10**9, 0).wall for _ in range(rounds))
    print(f"\nan interpreter that imports the reader: {seconds:.3f} s")


def main() -> None:
    """Generate the logs, measure all methods and print the results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gigabytes", type=float, default=2.0, help="size of a large log")
    options.add_argument("--files", type=int, default=5000, help="how many small logs, of 200 KB")
    options.add_argument("--sizes", type=float, nargs="*", default=[0.1, 1.0], help="in GB")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--folder", type=Path, help="where to write; by default a temporary one")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        for lines_per_record, aims in ((200, SPARSE_AIMS), (20, DENSE_AIMS)):
            log = folder / "large.log"
            records = write_log(log, int(chosen.gigabytes * 1e9), lines_per_record)
            title = f"one log, a record per {lines_per_record} lines"
            measure(title, log.stat().st_size, records, of_one_log(log), aims, chosen.rounds)
            log.unlink()
        small = folder / "small"
        small.mkdir()
        logs = [small / f"{number:05d}.out" for number in range(chosen.files)]
        records = sum(write_log(log, 200_000, 80, number) for number, log in enumerate(logs))
        size = sum(log.stat().st_size for log in logs)
        methods = of_many_logs(small, logs)
        measure(f"{len(logs):,} logs", size, records, methods, MANY_AIMS, chosen.rounds)
        measure_sizes(folder, chosen.sizes, chosen.rounds)
        measure_growth(folder)
    measure_start(chosen.rounds)


if __name__ == "__main__":
    main()
