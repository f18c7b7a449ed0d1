"""Time `teralog regenerate-tflops --check`, compared with `teralog --help`.

The command reads one page of the project's tests and two generated pages of many megabytes. One
generated page has tables among prose; the other has only tables, with different numbers in every
row. The programs take turns. The shortest time of several rounds counts, because other programs
disturbed it least. The processor time is printed too, because it is more reliable on a busy
machine.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TERALOG = str(Path(sys.executable).parent / "teralog")
PAGE = Path(__file__).parents[1] / "data" / "benchmarks.md"
HEADER = (
    "| GPUs | Size | DP | PP | PP Chunks | Mic-BS | Glob-BS | Throughput | TFlops | Notes |\n"
    "| ---: | ---: | -: | -: | --------: | -----: |  -----: | ---------: | -----: | ----: |\n"
)
BLANK = "|      |      |    |    |           |        |         |            |        |       |\n"
PROSE = "The pipeline's bubble is what is left of the time when all stages have had their share.\n"


def row(numbers: random.Random) -> str:
    """Return a table row with correct TFLOPs."""
    gpus, size = 16 * numbers.randint(1, 64), numbers.randint(1, 200)
    chunks, micro = 2 ** numbers.randint(2, 9), numbers.randint(1, 12)
    seconds = numbers.randint(1000, 900000) / 1000
    tflops = size * 8 * 1024 * chunks * micro / (seconds * gpus * 1e3)
    return (
        f"| {gpus:4} | {size:3}B |  1 | 16 | {chunks:9} | {micro:6} | {chunks * micro:7}"
        f" | {f'{seconds}s':10} | {tflops:6.1f} | 05-26 |\n"
    )


def page(size: int, prose_lines: int) -> str:
    """Return a page of about this many bytes, with lines of prose between its tables."""
    numbers = random.Random(1)
    parts = ["Seq length is 1024.\n"]
    length = 0
    while length < size:
        rows = [BLANK if place % 6 == 5 else row(numbers) for place in range(18)]
        parts.append("".join(("\n", PROSE * prose_lines, "\n", HEADER, *rows)))
        length += len(parts[-1])
    return "".join(parts)


def seconds(command: list[str]) -> tuple[float, float]:
    """Return the wall time and the processor time of a command; its output is thrown away."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def main() -> None:
    """Generate the pages, measure the commands and print their times."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=float, default=10.0)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mixed, dense = Path(folder) / "mixed.md", Path(folder) / "dense.md"
        mixed.write_text(page(int(chosen.megabytes * 1e6), prose_lines=18))
        dense.write_text(page(int(chosen.megabytes * 1e6), prose_lines=0))
        commands = {"--help": [TERALOG, "--help"]}
        for name, file in {"a page": PAGE, "tables and prose": mixed, "tables only": dense}.items():
            command = [TERALOG, "regenerate-tflops", "--check", str(file)]
            commands[f"{name}, {file.stat().st_size / 1e6:.2f} MB"] = command
        turns = [[seconds(command) for command in commands.values()] for _ in range(chosen.rounds)]
    print(f"{'best of ' + str(chosen.rounds):28}{'wall':>8}{'processor':>12}")
    for name, times in zip(commands, zip(*turns, strict=True), strict=True):
        wall, processor = (min(column) for column in zip(*times, strict=True))
        print(f"{name:28}{wall:6.3f} s{processor:10.3f} s")
    print("aims: a page at most 0.05 s over --help, 10 MB at most 2 s")


if __name__ == "__main__":
    main()
