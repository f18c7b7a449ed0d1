"""Check that random reports of each format are read, and that damaged ones give no false number."""

import io
from collections.abc import Iterator
from dataclasses import fields, replace
from random import Random

import printed_declared
import printed_streams
import printed_tables
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed import PRINTERS, Printed, Printer

from parsers.formats.table import ALL_FORMATS
from parsers.records import Record, Timers
from parsers.runs.reading import read
from parsers.scan.reader import TableFormat, read_records

assert printed_tables
assert printed_declared
assert printed_streams
FORMATS = {log_format.name: log_format for log_format in ALL_FORMATS}
CASES = [(name, printer) for name, printers in PRINTERS.items() for printer in printers]
# Printers of lines whose last value may be torn, or that need the next line to be understood.
NO_END_MARK = {
    *("own_start", "own_step", "hf_step", "arguments", "echo", "deepspeed_json"),
    *("nemo", "verl", "verl_sft"),
    *("sizes", "parameters", "batches", "versions", "gpus", "smi_csv_without_units"),
}
ENDED = [case for case in CASES if case[1].__name__ not in NO_END_MARK]
ENDED_IDS = [printer.__name__ for _, printer in ENDED]
IDS = [printer.__name__ for _, printer in CASES]
# Examples per printer; test_soak.py has thousands more.
few_examples = settings(max_examples=25)

LABELS = (
    *("", "0: ", " 12: ", "1023: ", "[rank0]: ", "[default7]:", "node2: ", "[1,3]<stderr>:"),
    *("[trainer0|0]:", "train/0 ", "(Worker pid=7, ip=10.0.0.2) ", "(head, rank=0, pid=7) "),
    *("2026-04-28 14:11:45,123 ", "2026-04-28 14:11:45,123 - main - INFO - ", "14:11:45 "),
    *("2026-04-28 14:11:45.123 | INFO     | __main__:main:12 - ", "INFO:root:", "[INFO] "),
    *("[2026-04-28T14:11:45+08:00] ", "[2026-04-28 14:11:45,123][main][INFO] - "),
    *("1714312305 ", "1714312305.123456 ", "2026/04/28 14:11:45 ", "04/28/2026 14:11:45 - INFO - "),
    *("Apr 28 14:11:45 node-1 python[123]: ", "2026-04-28T14:11:45+0200 node-1 python3[123]: "),
    *("2026-04-28T14:11:45.123456789Z stdout F ", "train.1.x7@node1    | ", "main-1  | "),
    *("train-worker-0 main ", "train-7d9f8b-xk2vw main ", "[pod/train-0/main] "),
    *('2026-04-28T14:11:45Z {app="train", pod="train-0"} ', "INFO 04-28 14:11:45 [train.py:12] "),
    *("2026-04-28T14:11:45.123000+00:00 train/job-1/algo-1-1714312305 ", "train.log:7:"),
    *("[2026-04-28T14:11:45.123456Z] 1a2b3c4d || INFO: ", "x7-algo-1-xyz12  | [1,2]<stdout>:"),
    "I0428 14:11:45.123456 12345 train.py:123] ",
)
BAR = " 50%|█████     | 5/10 [00:01<00:01,  4.2it/s]"
ERASED = f"\r{BAR}\r{' ' * 60}\r"
IN_FRONT = ("", BAR, f"\r{BAR}\r", ERASED, "\x1b[H\x1b[2J\x1b[3J", f"{BAR}\r\x1b[A")
NOISE = ("", "noise\n", "\n\n", "\u2588\x1b[1mloading\x1b[0m shard 3 of 64\n", "\r\r\n")


def mangled(printed: Printed, random: Random, *, label: str, end: str) -> str:
    """Return a log with a report, and with other lines before or after it.

    Each line of the report gets this label and line end. The report may get colour codes.
    """
    colour = random.choice(["", "\x1b[92m", "\x1b[1;31m"])
    report = (
        ("" if printed.alone else random.choice(IN_FRONT))
        + colour
        + printed.text
        + ("\x1b[0m" if colour else "")
    )
    log = (f"{printed.header}\n" if printed.header else "") + report
    log = label + log.replace("\n", f"{end}{label}") + end
    return random.choice(NOISE) + log + random.choice(NOISE)


def of_one_place(records: list[Record]) -> list[str]:
    """Return records as texts, so that they can be compared: two nan are equal only as texts.

    All offsets are set to 0.
    """
    return [repr(replace(record, offset=0)) for record in records]


# The lines of these formats have no iteration, or are read only with a line above them.
ELSEWHERE = {
    *("Megatron-Bridge", "NeMo-RL", "MLPerf, throughput", "MLPerf, run time"),
}


def test_every_format_is_printed() -> None:
    """Each format has a function that prints random reports; the other tests call all of them."""
    assert set(PRINTERS) == set(FORMATS) - ELSEWHERE


@pytest.mark.parametrize(("name", "printer"), CASES, ids=IDS)
@few_examples
@given(
    random=st.randoms(use_true_random=False),
    label=st.sampled_from(LABELS),
    end=st.sampled_from(["\n", "\r\n"]),
    chunk_bytes=st.sampled_from([1, 64]),
)
def test_a_printed_report_is_read_back(
    name: str, printer: Printer, random: Random, label: str, end: str, chunk_bytes: int
) -> None:
    """A printed report is read back from chunks of any size, with any label and line ending.

    Progress bars and colours are added to the report.
    """
    printed = printer(random)
    log = mangled(printed, random, label=label, end=end).encode()
    records = read_records(io.BytesIO(log), [FORMATS[name]], chunk_bytes=chunk_bytes)
    assert of_one_place(list(records)) == of_one_place(list(printed.records))


@pytest.mark.parametrize(("name", "printer"), CASES, ids=IDS)
@few_examples
@given(random=st.randoms(use_true_random=False))
def test_a_report_is_understood_whole_and_by_its_own_format(
    name: str, printer: Printer, random: Random
) -> None:
    """A report is read completely by its own format, and no other format reads anything in it."""
    printed = printer(random)
    (run,) = read(io.BytesIO(f"{printed.log}\n".encode()))
    assert run.not_understood == ()
    assert run.formats == (name,)
    assert of_one_place(run.records) == of_one_place(list(printed.records))


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each field of a record; for timers, of each timer.

    Values are texts. A field that is None is left out, and so are `offset` and `log_interval`.
    """
    if isinstance(record, Timers):
        yield from ((name, repr(seconds)) for name, seconds in record.seconds)
        return
    for field in fields(record):
        if field.name not in {"offset", "log_interval"}:
            value = getattr(record, field.name)
            if value is not None:
                yield field.name, repr(value)


def facts_in(name: str, log: str) -> set[tuple[str, str]]:
    """Return the names and values that a format reads in a log."""
    records = read_records(io.BytesIO(log.encode()), [FORMATS[name]])
    return {fact for record in records for fact in facts(record)}


@pytest.mark.parametrize(("name", "printer"), ENDED, ids=ENDED_IDS)
@few_examples
@given(random=st.randoms(use_true_random=False), place=st.floats(0, 1))
def test_a_torn_report_contains_no_other_number(
    name: str, printer: Printer, random: Random, place: float
) -> None:
    """A torn report gives no number that the whole report does not give."""
    printed = printer(random)
    torn = printed.log[: int(place * len(printed.log))]
    assert facts_in(name, torn) <= facts_in(name, printed.log)


@pytest.mark.parametrize(
    "unit", ["-", " ", ":", "\r", "|", "1", "a", ", ", ": ", "] ", "' ", "{'", "{'a': 1, ", "| x "]
)
@pytest.mark.parametrize(("name", "printer"), ENDED, ids=ENDED_IDS)
def test_a_long_line_of_one_repeated_text_gives_no_report_and_no_hang(
    name: str, printer: Printer, unit: str
) -> None:
    """A very long line of one repeated text is read in a short time.

    In the test, a torn report is between two such texts. The line gives no value that the whole
    report does not give.
    """
    printed = printer(Random(0))
    long = unit * (50_000 // len(unit))
    header = f"{printed.header}\n" if printed.header else ""
    for end in (len(printed.text) // 2, len(printed.text) - 1):
        torn = f"{header}{long}{printed.text[:end]}{long}"
        assert facts_in(name, torn) <= facts_in(name, printed.log)
    if isinstance(table := FORMATS[name], TableFormat):
        table.row(long + printed.header + long)
