"""Time the command line: `--help` compared with `import click`, and plans of many runs.

The two commands of a comparison are measured alternately. The shortest of several times counts,
because other programs disturbed it least.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
TERALOG = str(Path(sys.executable).parent / "teralog")
CAMPAIGN = """\
name: bench
defaults: {{framework: gpt, model: s, gpus_per_node: 2}}
matrix:
  strategy: [ddp, zero0, zero1, zero2, zero3]
  micro_batch_size: [1, 2, 4, 8, 16]
  seq_length: [64, 128, 192, 256]
  precision: [fp32, bf16]
  seed: {seeds}
exclude:
  - {{strategy: zero3, micro_batch_size: 32}}
  - "world_size > 64"
"""


def seconds(command: list[str]) -> float:
    """Return the wall time of a command in seconds; its output is thrown away."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def alternately(*commands: list[str]) -> list[float]:
    """Return the shortest wall time of each command; the commands are measured in turn."""
    times = [[seconds(command) for command in commands] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*times, strict=True)]


def main() -> None:
    """Measure the commands, and print their times."""
    import_click, show_help = alternately(
        [sys.executable, "-c", "import click"], [TERALOG, "--help"]
    )
    print(f"import click        {import_click:6.3f} s")
    print(f"teralog --help      {show_help:6.3f} s   {show_help / import_click:.2f} x import click")
    with tempfile.TemporaryDirectory() as folder:
        plans = []
        for runs in (1_000, 10_000):
            file = Path(folder) / f"{runs}.yaml"
            file.write_text(CAMPAIGN.format(seeds=list(range(runs // 200))))
            plans.append([TERALOG, "plan", str(file)])
        thousand, ten_thousand = alternately(*plans)
    print(f"plan of  1,000 runs {thousand:6.3f} s   aim: at most 0.5 s")
    print(f"plan of 10,000 runs {ten_thousand:6.3f} s   aim: at most 5 s")


if __name__ == "__main__":
    main()
