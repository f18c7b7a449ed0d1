"""Lines of logs that several tests use, a function that parses lines, and tables of cases."""

from collections.abc import Mapping, Sequence

import pytest

from parsers.records import Record
from parsers.scan.reader import LogFormat, decode

OWN_START = (
    "[teralog] start | strategy ddp | world_size 2 | backend nccl | device NVIDIA A100-SXM4-80GB"
    " | precision bf16 | parameters 136960 | torch 2.13.0"
)
OWN_STEP = (
    "[teralog] iteration {}/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss 6.5"
    " | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402\n"
)
OWN_END = (
    "[teralog] finished | iterations 20 | train_seconds 1.5 | final_loss 6.25"
    " | max_memory_allocated_gib 0.402"
)
CUDA_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a"
SLURM = "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05"
OOM_KILL = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks"
EXIT_9 = (
    "[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = -9"
)
KILL = "Killing subprocess 7\nKilling subprocess 8\n"
OMP = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
RESULT = "{'train_runtime': 8.1, 'train_samples_per_second': 1.1, 'train_steps_per_second': 1.1}\n"


def parse(log_format: LogFormat, text: str) -> list[Record]:
    """Return the records that a format gives for a text at byte offset 7 of a log.

    If there are records, asserts that the text contains an anchor of the format: a string without
    which a line is not parsed.
    """
    plain = decode(text.encode())
    records = list(log_format.parse(7, plain))
    assert not records or any(anchor.decode() in plain for anchor in log_format.anchors)
    return records


def cases(
    reports: Mapping[str, tuple[str, object]], nothing: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test for each report, and for each text without a report.

    reports: by the name of the test case, a text and the records that the parser must give for it.
    nothing: texts for which the parser must give no records.
    """
    named = [pytest.param(*report, id=name) for name, report in reports.items()]
    return pytest.mark.parametrize(("text", "records"), [*named, *((text, []) for text in nothing)])
