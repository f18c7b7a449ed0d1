"""Parse OneFlow's GPT benchmarks: iterations, tables of iterations, memory, arguments."""

from collections.abc import Callable, Iterator

import pytest
from reports import cases, parse

from parsers.formats.oneflow import ONEFLOW_ARGUMENTS, ONEFLOW_MEMORY, ONEFLOW_STEP, ONEFLOW_TABLE
from parsers.records import Record, Setting, Step, Usage, UsageSource


def table(header: str) -> Callable[[int, str], Iterator[Record]]:
    """Return the parser of the rows below a header."""
    row = ONEFLOW_TABLE.row(header)
    assert row is not None
    return row


FIRST = "step: 10, loss: 9.725, throughput: 239.123 1607414400.1234567"
FIRST_STEP = Step(
    iteration=10,
    loss=9.725,
    samples_per_second=239.123,
    timestamp="2020-12-08T08:00:00+00:00",
    offset=7,
)
LATER = "step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,"
LATER_STEP = Step(
    iteration=10,
    step_seconds=14.26962,
    samples_per_second=35.88042,
    consumed_samples=5120,
    loss=11.23708,
    offset=7,
)

LINES = {
    "of the OSDI test": (FIRST, [FIRST_STEP]),
    "newer": (LATER, [LATER_STEP]),
    "newer, with batches": (LATER.replace("step=", "batches="), [LATER_STEP]),
    "newer, with another key behind": (LATER + "accuracy=0.50000,", [LATER_STEP]),
    "glued": (LATER + LATER, [LATER_STEP, LATER_STEP]),
    "of two kinds": (FIRST + LATER, [FIRST_STEP, LATER_STEP]),
}

NO_STEPS = (
    "",
    "# " + LATER,  # quoted in a script
    "step: 10, loss: 9.725",
    "step: 10, loss: 9.725, throughput: 239.123",
    "step: 10, loss: 9.725, throughput: 239.123 16074144001.5",
    "step: 10, loss: , throughput: 239.123 1607414400.5",
    "steps: 10 loss: 0.0585 iter time (s): 0.186 samples/sec: 53.694",
    "microstep=10,micro_batches=320,samples=5120,throughput=35.8,latency=14.2,loss=11.2,",
    "Generate 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68",
    LATER.replace("=320", "=many"),
    LATER.replace("5120", "5" * 5000),
    LATER.replace(",loss=11.23708", ""),
    "epoch" + FIRST,
)


@cases(LINES, NO_STEPS)
def test_a_report_is_a_step_whatever_is_around_it(text: str, records: list[Record]) -> None:
    """Reports of both OneFlow benchmarks are read, with any text around them.

    Torn lines and lines of other programs give no step.
    """
    assert parse(ONEFLOW_STEP, text) == records


HEADER = "| step     | micro_batches   | samples         | throughput | latency    | loss       |"
ROW = "| 10       | 320             | 5120            | 35.88042   | 14.26962   | 11.23708   |"
WITHOUT_LOSS = Step(
    iteration=10,
    step_seconds=14.26962,
    samples_per_second=35.88042,
    consumed_samples=5120,
    offset=7,
)
SHORT = ("| batches | micro_batches | samples | throughput | latency |", ROW[: ROW.rindex(" 11.")])
WIDE = (HEADER + " accuracy   |", ROW + " 0.5        |")

TABLES = {
    "as printed": (HEADER, ROW, [LATER_STEP]),
    "batches, without loss": (*SHORT, [WITHOUT_LOSS]),
    "a further column": (*WIDE, [LATER_STEP]),
    "glued": (HEADER, ROW + ROW, [LATER_STEP, LATER_STEP]),
    "the line below the header": (HEADER, "| ---- | ---- | ---- | ---- | ---- | ---- |", []),
    "a row of another table": (HEADER, "| 10 | 320 |", []),
    "a row with a word": (HEADER, ROW.replace("14.26962", "fast"), []),
    "a row cut off": (HEADER, ROW[:-1], []),
    "nvidia-smi": (HEADER, "| N/A   51C    P0 | 67W / 400W |      0MiB |  0% |  Default | 0 |", []),
}


@pytest.mark.parametrize(("header", "row", "records"), TABLES.values(), ids=TABLES.keys())
def test_a_table_s_row_is_a_step(header: str, row: str, records: list[Record]) -> None:
    """A row of the table gives a step; columns are recognized by their titles."""
    assert list(table(header)(7, row)) == records


@pytest.mark.parametrize("header", ["", "| micro_batches |", HEADER[:40], HEADER.replace("|", "")])
def test_other_lines_with_the_word_are_not_headers(header: str) -> None:
    """Incomplete headers and other lines with the word micro_batches do not count as headers."""
    assert ONEFLOW_TABLE.row(header) is None


USAGES = {
    "in M": (
        "gpt0 max memory usage: 5603.00M",
        [
            Usage(
                source=UsageSource.ONEFLOW, device=0, max_memory_allocated_gib=5603 / 1024, offset=7
            )
        ],
    ),
    "in M, the word put right": (
        "gpu12 max memory usage: 0.00M",
        [Usage(source=UsageSource.ONEFLOW, device=12, max_memory_allocated_gib=0, offset=7)],
    ),
    "in bytes": (
        "max device3 memory usage is: 5875302400",
        [
            Usage(
                source=UsageSource.ONEFLOW,
                device=3,
                max_memory_allocated_gib=5875302400 / 2**30,
                offset=7,
            )
        ],
    ),
    "cut": ("gpt0 max memory usage: 5603.00", []),
    "another unit": ("gpt0 max memory usage: 5603.00MB", []),
    "no number": ("gpt0 max memory usage: nanM", []),
    "in bytes and a fraction": ("max device3 memory usage is: 58753.5", []),
    "of something else": ("Horde max memory usage: 12M; max memory usage is: 5", []),
}


@cases(USAGES)
def test_a_line_of_a_memory_file_gives_the_peak_of_a_device(
    text: str, records: list[Record]
) -> None:
    """A line of a memory file gives the peak of a device, in megabytes or in bytes."""
    assert parse(ONEFLOW_MEMORY, text) == records


ARGUMENTS = (
    "Running GPT-2: num_gpu_per_node = 8, num_nodes = 1.",
    "==================================================================",
    "dataset = /data/a b.txt",
    "batch_size_per_device = 4",
    "seq_len = 1024",
    "node_ips = ['10.0.0.1', '10.0.0.2']",
    "model_load_dir = None",
    "------------------------------------------------------------------",
    "time = 5",
)
TOLD = {
    "dataset": "/data/a b.txt",
    "micro_batch_size": "4",
    "seq_length": "1024",
    "node_ips": "['10.0.0.1', '10.0.0.2']",
    "model_load_dir": "None",
}


@pytest.mark.parametrize("before", ["", "0: ", "[rank0]: ", "[default7]:"])
def test_arguments_are_reported_up_to_the_rule(before: str) -> None:
    """Arguments are read up to the horizontal rule that ends their list.

    They get teralog's names for settings. Their values are texts, and keep their spaces.
    """
    text = "\n".join(before + line for line in ARGUMENTS)
    assert list(ONEFLOW_ARGUMENTS.parse(7, text)) == [
        Setting(name=name, value=value, source="arguments", offset=7)
        for name, value in TOLD.items()
    ]


@pytest.mark.parametrize("lines", [(), ARGUMENTS[1:], ARGUMENTS[:4], (*ARGUMENTS[:2], "x = 5")])
def test_an_argument_that_may_be_cut_is_not_reported(lines: tuple[str, ...]) -> None:
    """An argument on the last line is not read, because it may be cut off.

    A list without its title is not read at all.
    """
    names = [setting.name for setting in ONEFLOW_ARGUMENTS.parse(7, "\n".join(lines))]
    assert names == (["dataset"] if len(lines) == 4 else [])
