"""Parse OneFlow's GPT benchmarks: iterations on lines and in a table, memory, arguments.

    step: 10, loss: 9.725, throughput: 239.123 1607414400.1234567                   OSDI test, 2020
    step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,
    | step     | micro_batches   | samples         | throughput | latency    | loss       |
    | 10       | 320             | 5120            | 35.88042   | 14.26962   | 11.23708   |
    gpt0 max memory usage: 5603.00M
    max device0 memory usage is: 5875302400

These facts are from OneFlow-Benchmark, LanguageModeling/gpt-2/src/util.py and
GPT/oneflow_gpt/util.py:

* A report is about the iterations since the previous report, ten by default. The first one includes
  the start-up. Throughput is in samples per second, over all ranks.
* Latency is the mean time of an iteration. The older version, which prints `batches` instead of
  `step`, divides the time by the iterations done. The newer version divides it by the interval. So
  its latency in the last report is too small if this report covers fewer iterations.
* The line of 2020 (`step: 10, ...`) ends with a Unix time. Its fraction is left out,
  because a torn fraction looks like a whole one.
* Memory is that of the whole device, from samples. In `max memory usage`, M is 2**20 bytes. The
  number in `max device0 memory usage` is in bytes, and nothing follows it. So if the log
  ends within this number, a smaller number is read.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from parsers.fields import COUNT, NUMBER, finite, matches, parse_number
from parsers.labels import after_labels
from parsers.records import Setting, Step, Usage, UsageSource
from parsers.scan.reader import LogFormat, TableFormat

_GPT2_STEP = re.compile(
    rf"(?<![A-Za-z_])step: (?P<iteration>{COUNT}), loss: (?P<loss>{NUMBER}), "
    rf"throughput: (?P<throughput>{NUMBER}) (?P<unix_time>[0-9]{{10}})\.[0-9]*"
)
_GPT_STEP = re.compile(
    rf"(?<![A-Za-z_])(?:step|batches)=(?P<iteration>{COUNT}),micro_batches={COUNT},"
    rf"samples=(?P<samples>{COUNT}),throughput=(?P<throughput>{NUMBER}),"
    rf"latency=(?P<latency>{NUMBER}),loss=(?P<loss>{NUMBER}),"
)

_HEADER = re.compile(
    r"\|\s*(?:step|batches)\s*\|\s*micro_batches\s*\|\s*samples\s*\|\s*throughput\s*"
    r"\|\s*latency\s*\|(?P<keys>(?:\s*\w+\s*\|)*)"
)

_MEMORY = re.compile(
    rf"(?<!\w)gp[tu](?P<gpu>[0-9]{{1,4}}) max memory usage: (?P<mib>{NUMBER})M(?!\w)"
    rf"|(?<!\w)max device(?P<device>[0-9]{{1,4}}) memory usage is: (?P<bytes>{COUNT})(?![\w.])"
)

_TITLE = re.compile(rf"Running \S+: num_gpu_per_node = {COUNT}, num_nodes = {COUNT}\.")
_NAMES = {
    "batch_size_per_device": "micro_batch_size",
    "seq_len": "seq_length",
    "num_gpu_per_node": "gpus_per_node",
    "gpu_num_per_node": "gpus_per_node",
    "num_nodes": "nodes",
}
_ARGUMENT = r"(?P<name>[A-Za-z_]\w*) = (?P<value>.*)"


def _parse_steps(offset: int, line: str) -> Iterator[Step]:
    for match in matches(_GPT2_STEP, line):
        yield Step(
            iteration=int(match["iteration"]),
            samples_per_second=finite(match["throughput"]),
            loss=parse_number(match["loss"]),
            timestamp=datetime.fromtimestamp(int(match["unix_time"]), UTC).isoformat(),
            offset=offset,
        )
    for match in matches(_GPT_STEP, line):
        yield _step(offset, match.groupdict())


def _step(offset: int, values: dict[str, str]) -> Step:
    return Step(
        iteration=int(values["iteration"]),
        step_seconds=finite(values["latency"]),
        samples_per_second=finite(values["throughput"]),
        consumed_samples=int(values["samples"]),
        loss=parse_number(values["loss"]) if "loss" in values else None,
        offset=offset,
    )


def _row(header: str) -> Callable[[int, str], Iterator[Step]] | None:
    if not (match := _HEADER.search(header)):
        return None
    keys = match["keys"].replace("|", " ").split()
    cells = [
        rf"(?P<iteration>{COUNT})",
        COUNT,
        rf"(?P<samples>{COUNT})",
        rf"(?P<throughput>{NUMBER})",
        rf"(?P<latency>{NUMBER})",
        *("(?P<loss>" + NUMBER + ")" if key == "loss" else NUMBER for key in dict.fromkeys(keys)),
    ]
    row = re.compile(r"\|" + "".join(rf"\s*{cell}\s*\|" for cell in cells))

    def parse(offset: int, line: str) -> Iterator[Step]:
        for match in row.finditer(line):
            yield _step(offset, match.groupdict())

    return parse


def _parse_memory(offset: int, line: str) -> Iterator[Usage]:
    for match in _MEMORY.finditer(line):
        used_bytes = int(match["bytes"]) if match["bytes"] else None
        mib = finite(match["mib"])
        if used_bytes is not None or mib is not None:
            yield Usage(
                source=UsageSource.ONEFLOW,
                device=int(match["gpu"] or match["device"]),
                max_memory_allocated_gib=(
                    used_bytes / 2**30 if used_bytes is not None else mib and mib / 1024
                ),
                offset=offset,
            )


def _parse_arguments(offset: int, text: str) -> Iterator[Setting]:
    title, *lines = text.split("\n")
    if not _TITLE.search(title):
        return
    # A value ends with its line; the log's last one may be cut off.
    for line in lines[:-1]:
        if match := after_labels(_ARGUMENT).match(line.rstrip()):
            name = _NAMES.get(match["name"], match["name"])
            yield Setting(name=name, value=match["value"], source="arguments", offset=offset)
        elif "====" not in line:
            return


ONEFLOW_STEP = LogFormat(
    name="OneFlow GPT",
    anchors=(b" throughput: ", b",throughput="),
    parse=_parse_steps,
    report=re.compile(r"\bstep: [0-9]+, loss: |micro_batches=[0-9]"),
)

ONEFLOW_TABLE = TableFormat(
    name="OneFlow GPT, table", header=b"| micro_batches ", anchors=(b"|",), row=_row
)

ONEFLOW_MEMORY = LogFormat(
    name="OneFlow memory",
    anchors=(b" max memory usage: ", b" memory usage is: "),
    parse=_parse_memory,
    report=re.compile(r"gp[tu][0-9]+ max memory|max device[0-9]+ memory"),
)

# Some forty arguments, a line each, between a line of = and one of -.
ONEFLOW_ARGUMENTS = LogFormat(
    name="OneFlow arguments",
    anchors=(b": num_gpu_per_node = ",),
    parse=_parse_arguments,
    following=80,
)
