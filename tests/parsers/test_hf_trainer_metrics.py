"""Parse the block of metrics that Hugging Face's Trainer prints."""

from pathlib import Path

import pytest
from reports import parse

from parsers.formats.hf_trainer import HF_TRAINER_METRICS
from parsers.records import Record, RunTotals

LOG = (
    Path(__file__).parents[3] / "shared" / "logs" / "gpt2-hf-ds" / "hf_ds_gpt2_base_n4-1832555.out"
)


def logged(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return these lines with the prefix that transformers' logger adds."""
    return tuple(f"[INFO|trainer_pt_utils.py:912] 2026-01-02 03:04:05,966 >> {x}" for x in lines)


BLOCK = (
    "***** train metrics *****",
    "  epoch                    =        3.0",
    "  total_flos               = 38889053GF",
    "  train_loss               =      0.456",
    "  train_runtime            = 0:07:17.85",
    "  train_samples            =      11000",
    "  train_samples_per_second =     25.132",
    "  train_steps_per_second   =      3.145",
)
BLOCK_TOTALS = RunTotals(
    train_seconds=437.85,
    samples_per_second=25.132,
    steps_per_second=3.145,
    mean_loss=0.456,
    offset=7,
)
OF_STEPS = tuple(line for line in BLOCK if "steps_per_second" not in line)
EVALUATION = ("***** eval metrics *****", "  train_loss   = 9.9", "  eval_runtime = 0:00:01.00")

BLOCKS = {
    "plain": (BLOCK, [BLOCK_TOTALS]),
    "through the logger": (logged(BLOCK), [BLOCK_TOTALS]),
    "spaces collapsed, more lines behind": (
        tuple(f"INFO {' '.join(line.split())}" for line in (*BLOCK, "done")),
        [BLOCK_TOTALS],
    ),
    "lines of another rank between": (
        tuple(x for line in BLOCK for x in (line, "[rank3]: saving train_runtime")),
        [BLOCK_TOTALS],
    ),
    "before another block": ((*BLOCK, *EVALUATION), [BLOCK_TOTALS]),
    "more than a day": (
        (BLOCK[0], "  train_runtime = 1 day, 2:03:04.05", ""),
        [RunTotals(train_seconds=93784.05, offset=7)],
    ),
    "days": (
        (BLOCK[0], "  train_runtime = 12 days, 0:00:00.00", ""),
        [RunTotals(train_seconds=1036800, offset=7)],
    ),
    "the rate of 4.6 and earlier": (
        OF_STEPS,
        [RunTotals(train_seconds=437.85, mean_loss=0.456, offset=7)],
    ),
    "cut within the last value": (
        (*BLOCK[:-1], BLOCK[-1][:-1]),
        [RunTotals(train_seconds=437.85, mean_loss=0.456, offset=7)],
    ),
    "cut within the duration": ((*BLOCK[:4], BLOCK[4][:-1]), []),
    "collapsed and cut": (
        (BLOCK[0], "train_loss = 0.456", "train_runtime = 0:07:17.85", "train_samples_per_sec"),
        [RunTotals(train_seconds=437.85, mean_loss=0.456, offset=7)],
    ),
    "no line of its own": ((BLOCK[0], *EVALUATION), []),
    "no duration": ((BLOCK[0], "  train_runtime = 437.85", ""), []),
    "alone": ((BLOCK[0],), []),
}


@pytest.mark.parametrize(("lines", "records"), BLOCKS.values(), ids=BLOCKS.keys())
def test_a_block_of_metrics_is_one_record(lines: tuple[str, ...], records: list[Record]) -> None:
    """A block of metrics gives one record, with or without a logger's prefix on its lines.

    An incomplete block gives a record too.
    """
    assert parse(HF_TRAINER_METRICS, "\n".join(lines)) == records


@pytest.mark.skipif(not LOG.is_file(), reason="the published logs are not next to the checkout")
def test_the_published_block_is_read() -> None:
    """The block of metrics in one of the published logs is read."""
    lines = LOG.read_text().split("\n")
    (start,) = [number for number, line in enumerate(lines) if "***** train metrics *****" in line]
    block = "\n".join(lines[start : start + 1 + HF_TRAINER_METRICS.following])
    assert parse(HF_TRAINER_METRICS, block) == [
        RunTotals(train_seconds=919.02, samples_per_second=1.088, steps_per_second=0.017, offset=7)
    ]
