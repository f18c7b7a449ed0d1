"""Start training programs as launchers do, and collect their results."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
# The number of parameters of the tiny shape.
PARAMETERS = 136_960
SHAPE = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 64,
    "micro_batch_size": 4,
    "device": "cpu",
}


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code and output of a process that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def reports(self) -> list[str]:
        """Return the lines of the output that the training program itself printed."""
        return [line for line in self.stdout.splitlines() if line.startswith("[teralog] ")]

    @property
    def final_loss(self) -> float:
        """Return the loss of the last line, which is printed only after all iterations."""
        assert self.exit_code == 0, self.stderr
        match = re.search(r"^\[teralog\] finished .* final_loss (\S+)", self.reports[-1])
        assert match, self.stdout
        return float(match[1])


def options(values: dict[str, object]) -> list[str]:
    """Return option names and values as words of a command line.

    An option with the value True has only its name on the command line.
    """
    words = []
    for name, value in values.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of the tests, without the variables that a launcher sets."""
    launcher = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(launcher)}
    # DeepSpeed looks for ninja on the PATH, where a virtual environment need not be.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return inherited | {"PATH": path, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"} | variables


def start(command: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Start a command in the folder of the repository."""
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Finished:
    """Wait for a process to end, and return its result.

    The time limit is long, because the first process also builds DeepSpeed's extensions.
    """
    try:
        stdout, stderr = process.communicate(timeout=400)
    finally:
        process.terminate()  # a launcher passes it on to its ranks
    return Finished(process.returncode, stdout, stderr)
