"""Parse random bytes and damaged reports: no crash, no endless loop, no invented numbers.

The environment variable TERALOG_SOAK sets the number of cases, by default some thousands.
"""

import io
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import fields
from itertools import accumulate, combinations
from random import Random

import printed_declared
import printed_streams
import printed_tables
import pytest
from printed import PRINTERS

from parsers.formats.table import ALL_FORMATS
from parsers.records import Record, RunTotals, Setting, Step, Timers
from parsers.runs.reading import read
from parsers.scan.reader import decode
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

assert printed_declared
assert printed_streams
assert printed_tables
CASES = int(os.environ.get("TERALOG_SOAK", "4000"))
PARTS = 20
# A case takes milliseconds; a regular expression that backtracks takes minutes.
HANGS_SECONDS = 20.0
LONG = 2**16

pytestmark = pytest.mark.timeout(600 + CASES)

PRINTERS_OF_ALL = [printer for printers in PRINTERS.values() for printer in printers]
PIECES = [
    *"\n\r |=-.e0K%/}[",
    *("\r\n", "\x1b[92m", "\x1b[A", ": ", ", ", "{'", "# ", "+ ", "nan", "inf"),
    *("9" * 20, "1e999", "\ufffd", "\u2588"),
]
# Lines without a record that show the beginning of a run or its end.
MARKS = [
    "------------------------ arguments ------------------------",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
    "  successfully loaded checkpoint from /save [ t 1/2, p 1/1 ] at iteration 500",
    "***** Running training *****",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total",
    'Traceback (most recent call last):\n  File "train.py", line 3, in main\nValueError: 5 layers',
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
    "slurmstepd: error: Detected 2 oom_kill events in StepId=300.13. Some of the step tasks",
    "Killing subprocess 4303",
    "[after training is done] datetime: 2026-01-02 03:04:05",
]


def mutated(random: Random) -> bytes:
    """Return reports with pieces removed, inserted, doubled and moved, and random bytes."""
    texts = [random.choice(PRINTERS_OF_ALL)(random).log for _ in range(random.randint(1, 4))]
    texts.insert(random.randint(0, 4), random.choice(["", *MARKS]))
    log = random.choice(["\n", "", "\r"]).join(texts).encode()
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        begin = random.randint(0, len(log))
        end = min(len(log), begin + random.choice((0, 1, 2, 5, 20, 200)))
        match random.randrange(6):
            case 0:
                piece = b""
            case 1:
                piece = random.randbytes(random.randint(1, 6))
            case 2:
                piece = random.choice(PIECES).encode()
            case 3:
                piece = log[begin:end] * random.randint(2, 4)
            case 4:
                other = random.randint(0, len(log))
                piece = log[other : other + random.choice((1, 5, 40))]
            case _:
                piece = str(random.randrange(10 ** random.randint(1, 25))).encode()
        log = log[:begin] + piece + log[end:]
    if random.random() < 0.003:  # a long line of one repeated text
        place = random.randint(0, len(log))
        piece = (log[place : place + random.randint(1, 6)] or b" ").replace(b"\n", b"-")
        log = log[:place] + piece * (LONG // len(piece)) + log[place:]
    return random.randbytes(random.choice((0, 0, 9))) + log[: random.randint(0, 4 * len(log) + 1)]


DURATION = re.compile(r"(?:(\d{1,30}) days?, )?(\d\d?):(\d\d):(\d\d)(?:\.(\d\d))?")
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# 1d 2h 3m 4s
IN_UNITS = re.compile(r"(?=(\d{1,5}[dhm](?: \d{1,2}[hms]){0,3}))")
# Thirty digits are more than a float has.
NUMBERS = re.compile(r"(?=(([0-9]{1,30})(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?))")


def digits(value: float) -> str:
    """Return the first eleven digits of a number, without sign and power of ten."""
    return f"{abs(value):.10e}".partition("e")[0]


def values_in(text: str) -> set[float]:
    """Return all numbers in a text, also those that begin or end within a longer number."""
    numbers = {
        part for match in set(NUMBERS.findall(text.replace(",", "") + " " + text)) for part in match
    }
    values = {float(number) for number in numbers}
    for days, *clock in DURATION.findall(text):
        hours, minutes, seconds, hundredths = (int(part or 0) for part in clock)
        minutes += 60 * (hours + 24 * int(days or 0))
        values.add(60 * minutes + seconds + hundredths / 100)
    for duration in IN_UNITS.findall(text):
        parts = [int(part[:-1]) * UNITS[part[-1]] for part in duration.split()]
        values.update(map(float, accumulate(parts)))
    return {value for value in values if math.isfinite(value)}


# Lines of these formats have no iteration, or some of them have none. So teralog numbers them.
COUNTED = {
    "MLPerf",
    *(log_format.name for log_format in ALL_FORMATS if getattr(log_format, "counted", False)),
}


def numbers_of(record: Record) -> Iterator[tuple[str, float]]:
    """Yield each number that a record has from its log, with the name of its field or timer."""
    if isinstance(record, Timers):
        yield from record.seconds
        return
    for field in fields(record):
        value = getattr(record, field.name)
        printed = field.name not in {"offset", "log_interval"}
        if printed and isinstance(value, int | float) and not isinstance(value, bool):
            yield field.name, value


class Text:
    """The text of a log, and the numbers in it."""

    def __init__(self, log: bytes) -> None:
        """Decode a log, and collect all numbers in its text."""
        self.text = decode(log)
        self.values = values_in(self.text)
        self.digits = {digits(value) for value in self.values}

    def holds(self, value: float) -> bool:
        """Return whether the text contains a number, possibly in another unit.

        Units differ by a power of 1000 or of 1024.
        """
        if not math.isfinite(value):
            return str(value).strip("-") in self.text.lower()
        # A number halfway between two numbers of that many digits may be rounded to either.
        near = [value, value * (1 + 1e-12), value * (1 - 1e-12)]
        if any(
            digits(number * 1024.0**power) in self.digits
            for power in range(-4, 5)
            for number in near
        ):
            return True
        # Counts of parameters and of tokens are rounded to whole ones.
        return isinstance(value, int) and any(
            abs(number * unit - value) <= 0.5
            for number in self.values
            for unit in (2**10, 2**20, 2**30, 10**3, 10**6, 10**9, 10**12)
        )

    def has_mean_of(self, record: Record) -> bool:
        """Return whether the text contains the mean step time of a whole run, in ms."""
        if not isinstance(record, RunTotals) or not record.train_seconds or not record.iterations:
            return False
        mean = 1000 * record.train_seconds / record.iterations
        return any(abs(value - mean) <= 0.0051 for value in self.values)

    def has_interval_of(self, record: Record) -> bool:
        """Return whether the text contains the seconds of the steps between two reports."""
        if not isinstance(record, Step) or not record.step_seconds or not record.log_interval:
            return False
        return self.holds(record.step_seconds * record.log_interval)


MESH = re.compile(r"device mesh with .*")


def is_product(setting: str, text: str) -> bool:
    """Return whether a setting is the product of numbers on a line about torchtitan's mesh."""
    return any(
        math.prod(sizes[first:last]) == int(setting)
        for line in MESH.findall(text)
        for sizes in [[*map(int, re.findall(r"(?<![0-9])[0-9]{1,6}(?![0-9])", line))]]
        for first, last in combinations(range(len(sizes) + 1), 2)
    )


def check(log: bytes) -> None:
    """Parse a log; assert that its records contain only numbers of the log.

    Assert also that the parsing ends in a short time.
    """
    begun = time.process_time()
    runs = read(io.BytesIO(log))
    steps = [run.steps for run in runs]
    assert time.process_time() - begun < HANGS_SECONDS
    assert all(
        len(run_steps) <= len(run.records) for run_steps, run in zip(steps, runs, strict=True)
    )
    for run in runs:
        summarise(run, Warmup(rule="first"))
    records = [(run, record) for run in runs for record in run.records]
    if not records:
        return
    text = Text(log)
    for run, record in records:
        assert 0 <= record.offset < len(log)
        if isinstance(record, Setting) and record.value not in text.text:
            setting = record.value
            known = text.holds(float(setting) if "." in setting else int(setting))
            assert known or is_product(setting, text.text), record
        for name, number in numbers_of(record):
            is_counted = name == "iteration" and not COUNTED.isdisjoint(run.formats)
            is_quotient = name == "iterations" and text.has_mean_of(record)
            is_quotient |= name == "step_seconds" and text.has_interval_of(record)
            assert text.holds(number) or is_counted or is_quotient, (name, number)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_log_gives_no_error_and_no_invented_number(part: int) -> None:
    """A damaged log gives no error and no number that it does not contain.

    The seed of a failing case is printed, so that the case can be repeated.
    """
    for seed in range(part, CASES, PARTS):
        log = mutated(Random(seed))
        try:
            check(log)
        except Exception as error:  # noqa: BLE001 (the message must contain the seed)
            pytest.fail(f"seed {seed}: {error!r} in {log[:2000]!r}")


@pytest.mark.parametrize("part", range(PARTS))
def test_random_bytes_contain_nothing(part: int) -> None:
    """Random bytes give no records, however many there are."""
    for seed in range(part, CASES // 4, PARTS):
        random = Random(-1 - seed)
        for run in read(io.BytesIO(random.randbytes(random.randint(0, 2000)))):
            assert run.records == []
