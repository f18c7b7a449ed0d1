"""Whatever is printed in a format's own words is read back, however logs are mangled."""

import io
from dataclasses import replace
from random import Random

import printed_tables
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed import PRINTERS, Printed, Printer

from parsers.formats.table import ALL_FORMATS
from parsers.records import Record
from parsers.runs.reading import read
from parsers.scan.reader import read_records

assert printed_tables
FORMATS = {one.name: one for one in ALL_FORMATS}
CASES = [(name, printer) for name, printers in PRINTERS.items() for printer in printers]
IDS = [printer.__name__ for _, printer in CASES]

LABELS = ("", "0: ", " 12: ", "1023: ", "[rank0]: ", "[default7]:", "node2: ", "[1,3]<stderr>:")
BAR = " 50%|█████     | 5/10 [00:01<00:01,  4.2it/s]"
IN_FRONT = ("", f"\r{BAR}\r", f"\r{BAR}\r{' ' * 60}\r", "\x1b[H\x1b[2J\x1b[3J", f"{BAR}\r\x1b[A")
NOISE = ("", "noise\n", "\n\n", "\u2588\x1b[1mloading\x1b[0m shard 3 of 64\n", "\r\r\n")


def mangled(one: Printed, random: Random, *, label: str, end: str) -> str:
    """Return a log with a report, its lines labelled, coloured and ended in some way."""
    colour = random.choice(["", "\x1b[92m", "\x1b[1;31m"])
    report = (
        ("" if one.alone else random.choice(IN_FRONT))
        + colour
        + one.text
        + ("\x1b[0m" if colour else "")
    )
    log = (f"{one.header}\n" if one.header else "") + report
    log = label + log.replace("\n", f"{end}{label}") + end
    return random.choice(NOISE) + log + random.choice(NOISE)


def of_one_place(records: list[Record]) -> list[str]:
    """Return records without their offsets, as text: nan is not equal to itself, its text is."""
    return [repr(replace(record, offset=0)) for record in records]


def test_every_format_is_printed() -> None:
    """What is not printed here is neither read back nor mutated."""
    assert set(PRINTERS) == set(FORMATS)


@pytest.mark.parametrize(("name", "printer"), CASES, ids=IDS)
@given(
    random=st.randoms(use_true_random=False),
    label=st.sampled_from(LABELS),
    end=st.sampled_from(["\n", "\r\n"]),
    chunk_bytes=st.sampled_from([1, 64]),
)
def test_a_printed_report_is_read_back(
    name: str, printer: Printer, random: Random, label: str, end: str, chunk_bytes: int
) -> None:
    """From a log in pieces, behind a label and a progress bar, coloured, with any line end."""
    one = printer(random)
    log = mangled(one, random, label=label, end=end).encode()
    found = read_records(io.BytesIO(log), [FORMATS[name]], chunk_bytes=chunk_bytes)
    assert of_one_place(list(found)) == of_one_place(list(one.records))


@pytest.mark.parametrize(("name", "printer"), CASES, ids=IDS)
@given(random=st.randoms(use_true_random=False))
def test_a_report_is_understood_whole_and_by_its_own_format(
    name: str, printer: Printer, random: Random
) -> None:
    """No other format takes it for one of its own reports."""
    one = printer(random)
    (run,) = read(io.BytesIO(f"{one.log}\n".encode()))
    assert run.not_understood == ()
    assert run.formats == (name,)
    assert of_one_place(run.records) == of_one_place(list(one.records))
