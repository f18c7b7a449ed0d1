"""What holds for every format of frameworks and tools: one contract over a table of samples.

Megatron's family, DeepSpeed's timers and this project's own workload have their own tests.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.fields import NUMBER
from parsers.formats.colossalai import COLOSSALAI_MODELS, COLOSSALAI_THROUGHPUT
from parsers.formats.deepspeed_memory import DEEPSPEED_MEMORY
from parsers.formats.deepspeed_profiler import DEEPSPEED_PROFILER
from parsers.formats.hf_trainer import HF_TRAINER_METRICS, HF_TRAINER_RESULT
from parsers.formats.nvidia_smi import (
    NVIDIA_SMI_CSV,
    NVIDIA_SMI_DMON,
    NVIDIA_SMI_MEMORY_CSV,
    NVIDIA_SMI_TABLE,
)
from parsers.formats.oneflow import ONEFLOW_ARGUMENTS, ONEFLOW_MEMORY, ONEFLOW_STEP, ONEFLOW_TABLE
from parsers.records import Record, Setting, Timers
from parsers.scan.reader import LogFormat, TableFormat, decode


@dataclass(frozen=True)
class Sample:
    """A report: the lines of one record, or one row below its header."""

    log_format: LogFormat | TableFormat
    text: str
    header: str = ""

    def read(self, text: str) -> list[Record]:
        """Return what the format reads from a text in the report's place."""
        parse: Callable[[int, str], Iterator[Record]] | None
        if isinstance(self.log_format, LogFormat):
            parse = self.log_format.parse
        else:
            parse = self.log_format.row(self.header)
        assert parse is not None
        return list(parse(7, decode(text.encode(errors="surrogateescape"))))


SAMPLES = {
    "HF result": Sample(
        HF_TRAINER_RESULT,
        "{'train_runtime': 437.8544, 'train_samples_per_second': 25.132, 'train_steps_per_second':"
        " 3.145, 'train_tokens_per_second': 812.5, 'train_loss': 0.456, 'epoch': 3.0}",
    ),
    "HF block": Sample(
        HF_TRAINER_METRICS,
        "***** train metrics *****\n  train_loss               =      0.456\n"
        "  train_runtime            = 0:07:17.85\n  train_samples_per_second =     25.132\n"
        "  train_steps_per_second   =      3.145\n",
    ),
    "DeepSpeed memory": Sample(
        DEEPSPEED_MEMORY,
        "MA 0.28 GB         Max_MA 0.29 GB         CA 2.93 GB         Max_CA 3 GB \n"
        "CPU Virtual Memory:  used = 65.88 GB, percent = 3.3%",
    ),
    "DeepSpeed profiler": Sample(
        DEEPSPEED_PROFILER,
        "Profile Summary at step 10:\nworld size:                8       \n"
        "params of model = params per GPU * mp_size:      336.23 M\n"
        "fwd latency:       76.67 ms\niter latency:        184.73 ms\n"
        "FLOPS per GPU = 3 * fwd flops per GPU / iter latency:     102.0 TFLOPS\n"
        "samples/second:         3464.52 \n\n",
    ),
    "ColossalAI, of one GPU": Sample(
        COLOSSALAI_THROUGHPUT, "Learning throughput: 0.120 samples/sec, TFLOPS: 30.400"
    ),
    "ColossalAI, of all GPUs": Sample(
        COLOSSALAI_THROUGHPUT,
        "Generate 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68",
    ),
    "ColossalAI, overall": Sample(COLOSSALAI_THROUGHPUT, "Overall throughput: 0.75 samples/s"),
    "ColossalAI, peak": Sample(COLOSSALAI_THROUGHPUT, "Peak CUDA mem: 12.34 GB"),
    "ColossalAI, models": Sample(COLOSSALAI_MODELS, "Actor: 118.68 M\nCritic: 1.50 B"),
    "OneFlow, 2020": Sample(
        ONEFLOW_STEP, "step: 10, loss: 9.725, throughput: 239.123 1607414400.1234567"
    ),
    "OneFlow, 2021": Sample(
        ONEFLOW_STEP,
        "step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,",
    ),
    "OneFlow, table": Sample(
        ONEFLOW_TABLE,
        "| 10       | 320             | 5120            | 35.88042   | 14.26962   | 11.23708   |",
        header="| step | micro_batches   | samples  | throughput | latency    | loss       |",
    ),
    "OneFlow, memory": Sample(ONEFLOW_MEMORY, "gpt0 max memory usage: 5603.00M"),
    "OneFlow, arguments": Sample(
        ONEFLOW_ARGUMENTS,
        "Running GPT-2: num_gpu_per_node = 8, num_nodes = 1.\nbatch_size = 4\nseq_len = 1024\n----",
    ),
    "CSV": Sample(
        NVIDIA_SMI_CSV,
        "2024/03/01 12:00:00.000, 3, 85 %, 4096 MiB",
        header="timestamp, index, utilization.gpu [%], memory.used [MiB]",
    ),
    "CSV of memory": Sample(
        NVIDIA_SMI_MEMORY_CSV,
        "3, 4096 MiB, 81920 MiB",
        header="index, memory.used [MiB], memory.total [MiB]",
    ),
    "dmon": Sample(
        NVIDIA_SMI_DMON,
        "    3    70    48     -    85    61  4096     5",
        header="# gpu   pwr gtemp mtemp    sm   mem    fb  bar1",
    ),
    "nvidia-smi": Sample(
        NVIDIA_SMI_TABLE,
        "| N/A   51C    P0    67W / 400W |   4096MiB / 40960MiB |     85%      Default |",
    ),
}
BAR = " 50%|█████     | 5/10 [00:01<00:01,  4.2it/s]"
BEFORE = ("", "0: ", "  7: ", "1023: ", "[rank0]: ", "[default7]:", "\x1b[32m", "\x1b[1;92m")
GLUED = ("", BAR, f"\r{BAR}\r", f"\r{BAR}\r{' ' * 60}\r", "\x1b[H\x1b[2J\x1b[3J", BAR + "\x1b[A")


@pytest.fixture(params=SAMPLES.values(), ids=SAMPLES.keys())
def sample(request: pytest.FixtureRequest) -> Sample:
    """Each of the samples."""
    value = request.param
    assert isinstance(value, Sample)
    return value


def test_a_report_s_line_contains_an_anchor(sample: Sample) -> None:
    """Or it would never be looked at; and no row looks like a header."""
    line = sample.text.split("\n")[0].encode()
    assert any(anchor in line for anchor in sample.log_format.anchors)
    if isinstance(sample.log_format, TableFormat):
        assert sample.log_format.header in sample.header.encode()
        assert sample.log_format.header not in line
    else:
        assert sample.text.rstrip("\n").count("\n") <= sample.log_format.following


def test_a_report_is_read_the_same_whatever_stands_before_and_behind_it(sample: Sample) -> None:
    """Labels on all its lines; colours, bars and carriage returns around the first and last."""
    records = sample.read(sample.text)
    assert records
    for before in BEFORE:
        text = "\n".join(before + line for line in sample.text.split("\n"))
        for glued in GLUED:
            for behind in ("", "\r", "\x1b[0m", "\x1b[0m\r"):
                assert sample.read(glued + text + behind) == records


def is_part(record: Record, whole: Record) -> bool:
    """Tell whether a record says nothing that another does not, too."""
    if type(record) is not type(whole):
        return False
    if isinstance(record, Timers) and isinstance(whole, Timers):
        return record.seconds == whole.seconds[: len(record.seconds)]
    return all(
        getattr(record, field.name) in (None, getattr(whole, field.name))
        for field in fields(record)
    )


def test_a_report_cut_anywhere_holds_no_other_number(sample: Sample) -> None:
    """A line is whole or not there; of several lines, some may be missing.

    Two kinds of line have no end mark and are not here: OneFlow's memory in bytes, and nvidia-smi's
    rows that end with a number without unit, or with their only one.
    """
    records = sample.read(sample.text)
    one_line = "\n" not in sample.text
    for end in range(len(sample.text)):
        for record in sample.read(sample.text[:end]):
            assert record in records if one_line else any(is_part(record, r) for r in records)


# A number's units, all that a format may convert: powers of 1024 and of 1000.
FACTORS = [float(base) ** power for base in (2**10, 10**3) for power in range(-5, 4)]
DURATION = re.compile(r"(?:(\d+) days?, )?(\d\d?):(\d\d):(\d\d)\.(\d\d)")
NUMBERS = re.compile(rf"(?=({NUMBER}))")


def numbers_in(text: str) -> set[float]:
    """Return every number that may be read in a text, starting anywhere."""
    found = {float(match[1].replace(",", "")) for match in NUMBERS.finditer(text)}
    for match in DURATION.finditer(text):
        days, *rest = (int(part or 0) for part in match.groups())
        found.add(days * 86400 + rest[0] * 3600 + rest[1] * 60 + rest[2] + rest[3] / 100)
    return found


def numbers_of(record: Record) -> Iterator[float]:
    """Yield the numbers of a record."""
    values = [getattr(record, field.name) for field in fields(record) if field.name != "offset"]
    if isinstance(record, Timers):
        values = [seconds for _, seconds in record.seconds]
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield value


def is_in(number: float, numbers: set[float]) -> bool:
    """Tell whether a number is one of some, but for its unit and, if whole, its rounding."""
    return any(
        math.isclose(number, candidate * factor, rel_tol=1e-9)
        or (isinstance(number, int) and abs(number - candidate * factor) <= 0.5)
        for candidate in numbers
        for factor in FACTORS
    )


pieces = st.sampled_from(
    [piece for sample in SAMPLES.values() for piece in re.split(r"(\W+)", sample.text)]
)
noise = st.one_of(
    st.text(max_size=5), st.binary(max_size=5).map(lambda raw: raw.decode(errors="replace")), pieces
)
edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 8), noise), min_size=1, max_size=5)


@given(name=st.sampled_from(list(SAMPLES)), edits=edits)
def test_a_mutated_report_never_yields_a_number_that_it_does_not_hold(
    name: str, edits: list[tuple[float, int, str]]
) -> None:
    """Pieces deleted, replaced and put in, of the same report, of others, and at random."""
    text = SAMPLES[name].text
    for place, deleted, inserted in edits:
        start = int(place * len(text))
        text = text[:start] + inserted + text[start + deleted :]
    text = text.encode(errors="replace").decode()
    for record in SAMPLES[name].read(text):
        if isinstance(record, Setting):
            assert record.value in text.replace(",", "")
        assert all(
            is_in(number, numbers_in(decode(text.encode()))) for number in numbers_of(record)
        )


@given(name=st.sampled_from(list(SAMPLES)), raw=st.binary(), texts=st.lists(noise))
def test_random_bytes_are_read_without_an_error(name: str, raw: bytes, texts: list[str]) -> None:
    """Whatever a line with an anchor holds."""
    for text in (raw.decode(errors="replace"), "".join(texts)):
        list(SAMPLES[name].read(text.encode(errors="replace").decode()))
        if isinstance(table := SAMPLES[name].log_format, TableFormat):
            table.row(text)


@pytest.mark.parametrize(
    "unit", ["-", " ", ":", "\r", "|", "1", "a", ", ", ": ", "] ", "' ", "{'", "{'a': 1, ", "| x "]
)
def test_a_long_line_of_one_thing_is_no_report_and_no_hang(sample: Sample, unit: str) -> None:
    """Alone, and with the beginning of a report before it."""
    long = unit * (50_000 // len(unit))
    records = sample.read(sample.text)
    for end in (len(sample.text) // 2, len(sample.text) - 1):
        found = sample.read(long + sample.text[:end] + long)
        assert all(any(is_part(record, whole) for whole in records) for record in found)
    if isinstance(sample.log_format, TableFormat):
        sample.log_format.row(long + sample.header + long)
