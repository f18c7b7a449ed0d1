"""The block of metrics that Hugging Face's Trainer prints."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.hf_trainer import HF_TRAINER_METRICS
from parsers.records import Record, RunTotals

LOG = (
    Path(__file__).parents[3] / "shared" / "logs" / "gpt2-hf-ds" / "hf_ds_gpt2_base_n4-1832555.out"
)


def metrics(*lines: str) -> list[Record]:
    """Return the records of a block that starts at byte 7, as far as the log has it."""
    return list(HF_TRAINER_METRICS.parse(7, "\n".join(lines)))


def logged(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return lines as transformers' logger prints them."""
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
    """In the logger's and in plain layout, as far as the log has it."""
    assert metrics(*lines) == records


@given(
    hundredths=st.integers(0, 10**10),
    rates=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    before=st.sampled_from(("", "0: ", "[rank0]: ", "[INFO|trainer_pt_utils.py:912] x >> ")),
)
def test_a_printed_block_is_read_back(hundredths: int, rates: tuple[int, int], before: str) -> None:
    """Values aligned on the right; the duration in days, hours, minutes and hundredths."""
    minutes, rest = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    day = "" if not days else f"{days} day{'s' if days > 1 else ''}, "
    values = {
        "train_runtime": f"{day}{hours}:{minutes:02}:{rest // 100:02}.{rest % 100:02}",
        "train_samples_per_second": str(rates[0] / 1000),
        "train_steps_per_second": str(rates[1] / 1000),
    }
    width = max(map(len, values.values()))
    lines = [f"  {name:<24} = {value:>{width}}" for name, value in values.items()]
    assert metrics(*(before + line for line in ("***** train metrics *****", *lines))) == [
        RunTotals(
            train_seconds=hundredths / 100,
            samples_per_second=rates[0] / 1000,
            steps_per_second=rates[1] / 1000,
            offset=7,
        )
    ]


@pytest.mark.skipif(not LOG.is_file(), reason="the published logs are not beside the checkout")
def test_the_published_block_is_read() -> None:
    """In the one log that has it."""
    lines = LOG.read_text().split("\n")
    (start,) = [number for number, line in enumerate(lines) if "***** train metrics *****" in line]
    assert metrics(*lines[start : start + 1 + HF_TRAINER_METRICS.following]) == [
        RunTotals(train_seconds=919.02, samples_per_second=1.088, steps_per_second=0.017, offset=7)
    ]
