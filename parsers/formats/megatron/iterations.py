"""Parse the iteration lines of Megatron-LM and of the programs made from it.

A line is ` iteration {number}/{number of iterations} |` and fields, `{name}: {value} |`.
Versions and options add and remove many fields. So fields are read by their names, in any
order, and unknown ones are ignored. What the numbers mean, according to `training_log` of
these programs:

* The time is the mean over the iterations since the previous line, i.e. over
  `--log-interval` of them. nanotron times the reported iteration alone. Since core 0.16
  there is an additional line for the first iteration, and the line after it still includes
  that iteration. So an average must leave out one of the two lines.
* The unit of the time is in parentheses. The programs of NVIDIA, Microsoft and EleutherAI
  print milliseconds. BigScience's program prints seconds since January 2022, and so do its
  forks.
* In the eight weeks before January 2022, BigScience's program printed milliseconds. Its
  `samples per second` were then samples per millisecond: 1000 times too small. teralog
  corrects them if the batch size and the time on the line show the error.
* A loss is the mean over the iterations that were not skipped, and is missing if all were
  skipped. With DeepSpeed the printed loss scale is -1.0, and teralog keeps this value.
* AMD's Primus prints `{value of this line}/{running mean}`; the first is read.
* TFLOPs are the program's own claim, and formulas differ: Megatron core and nanotron leave
  out recomputation, Megatron-DeepSpeed and gpt-neox include it. ALCF's fork prints two; the
  first is read.
* nanotron rounds its numbers to three digits, with K for 1000 and so on.

Every version ends a field with a bar (`|`); only nanotron's last field has none. A value
without a bar after it may be torn and is not read.

A report is whole if it contains the number of skipped or of nan iterations. The reason is
that these fields once ended the lines of all versions. A few programs print neither number,
so another of their fields shows that the report is whole. MindSpeed-MM's last field with FSDP is
the gradient norm. Unlike other programs, it prints no loss scale before that. Other reports are
torn and make no steps.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from parsers.fields import COUNT, NUMBER, is_quoted, line_parts
from parsers.formats.megatron.fields import (
    MEGATRON_FIELDS,
    NANOTRON_2025_FIELDS,
    NANOTRON_FIELDS,
    Fields,
    closed_fields,
    measured,
    step_values,
)
from parsers.formats.megatron.layout import KnownLayouts
from parsers.records import Step
from parsers.scan.reader import LogFormat
from parsers.steps.blocks import StepBlock


@dataclass(frozen=True, slots=True)
class _Dialect:
    """One of the forms in which programs print the iteration line, e.g. nanotron's.

    header: matches the start of a report; its groups are the iteration and the number of
    iterations.
    fields: how to read the fields.
    closing: names of fields; every whole report has at least one of these fields.
    log_interval: 1 if the program times each iteration separately, otherwise None.
    """

    header: re.Pattern[str]
    fields: Fields
    closing: frozenset[str]
    log_interval: int | None = None


#  iteration       40/    1000 | consumed samples:          160 | …      NVIDIA and most others
#  samples/sec: 51.234 | iteration       10/      50 | …                 gpt-neox
#  iteration=       1/  317892 | consumed_samples=         768 | …       ALCF
# The look-behind comes last: a pattern that begins with a literal is searched for much faster.
_MEGATRON = _Dialect(
    header=re.compile(rf"iteration(?<!\witeration)[ =]+({COUNT}) ?/ *({COUNT}) *\|"),
    fields=MEGATRON_FIELDS,
    closing=frozenset(
        {
            "number of skipped iterations",
            "number_of_skipped_iterations",
            "number of nan iterations",
            "number_of_nan_iterations",
            "iteration time",  # abci
            "max_memory_reserved(GB)",  # MindSpeed with FSDP
            "mfu",  # torchtitan in Primus
        }
    ),
)
# iteration: 1 / 15 | consumed_tokens: 512 | …
_NANOTRON = _Dialect(
    header=re.compile(rf"iteration: ({COUNT}) / ({COUNT}) \|"),
    fields=NANOTRON_FIELDS,
    closing=frozenset({"model_tflops_per_gpu"}),
    log_interval=1,
)
# iteration: 1 / 15 | consumed_tokens: 1.05M | time_per_iteration_ms: 4.71K | …         since 2025
_NANOTRON_2025 = replace(_NANOTRON, fields=NANOTRON_2025_FIELDS)

_NEOX_RATE = re.compile(rf"samples/sec: *(?P<rate>{NUMBER}) *\|\s*$")

#  [2024-09-03 15:52:43] iteration           core since 0.6; with microseconds since 0.16
# [2024-06-21 10:50:42][INFO][training:1609] -  iteration=                               ALCF
# [20251202 09:12:08][rank-7/8][INFO ] [--------trainer.py:2560] : iteration             Primus
# 08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration                                   nanotron
_CLOCK = r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)"
_BRACKETS = r"(?: ?\[[^\[\]]*\]){0,4}[ >:-]*$"
_TIMESTAMPS = (
    re.compile(
        rf"\[(?P<year>[0-9]{{4}})-?(?P<month>[0-9]{{2}})-?(?P<day>[0-9]{{2}}) {_CLOCK}\]{_BRACKETS}"
    ),
    re.compile(
        rf"(?P<month>[0-9]{{2}})/(?P<day>[0-9]{{2}})/(?P<year>[0-9]{{4}}) {_CLOCK}{_BRACKETS}"
    ),
)


def _parse(dialect: _Dialect, layouts: KnownLayouts, offset: int, line: str) -> Iterator[Step]:
    if (values := layouts.read(line)) and not is_quoted(line):
        yield Step(log_interval=dialect.log_interval, offset=offset, **values)
        return
    for part in line_parts(line):
        for values, report in _reports(dialect, part):
            layouts.learn(report)
            yield Step(log_interval=dialect.log_interval, offset=offset, **values)


def _parse_lines(
    dialect: _Dialect, layouts: KnownLayouts, offsets: Sequence[int], text: str
) -> StepBlock | None:
    """Parse the first lines of a text together; return their steps as columns.

    All these lines have the same fields; parsing stops before the first line with other
    fields.
    offsets: for each line of `text`, the byte of the log at which it starts. Returns None
    if the lines must be parsed one by one.
    """
    # A line with `+ ` may be a command that `set -x` printed.
    columns = None if "+ " in text else layouts.read_lines(text, len(offsets))
    if not columns:
        return None
    if dialect.log_interval is not None:
        columns["log_interval"] = [dialect.log_interval] * len(columns["iteration"])
    return StepBlock({**columns, "offset": array("q", offsets[: len(columns["iteration"])])})


def _reports(dialect: _Dialect, text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield for each whole report: the values for a Step, and the text after the header."""
    # The text before the first header; then for each header its groups and the text after it.
    before, *rest = dialect.header.split(text)
    for iteration, iterations, report in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        lead, before = before, report
        closed = closed_fields(report)
        ends_with_norm = "grad norm" in closed and "loss scale" not in closed
        if dialect.closing.isdisjoint(closed) and not ends_with_norm:
            continue
        try:
            values = step_values(dialect.fields, closed)
        except ValueError:
            continue
        if rate := _NEOX_RATE.search(lead):
            # A number too large for a float is not a rate.
            with suppress(ValueError):
                values["samples_per_second"] = measured(rate["rate"])
        values |= zip(_IN_FRONT, (_timestamp(lead), int(iteration), int(iterations)), strict=True)
        yield values, report


def _timestamp(lead: str) -> str | None:
    """Return the time in the text before a report, in ISO 8601; None if it contains no time."""
    if not lead.strip():
        return None
    for pattern in _TIMESTAMPS:
        if match := pattern.search(lead):
            text = "{year}-{month}-{day}T{clock}".format_map(match.groupdict())
            try:
                datetime.fromisoformat(text)
            except ValueError:
                return None
            return text
    return None


# The values before the fields, in the order of a line.
_IN_FRONT: dict[str, Callable[[str], Any]] = {
    "timestamp": _timestamp,
    "iteration": int,
    "iterations": int,
}


def _format(
    name: str, anchors: tuple[bytes, ...], dialect: _Dialect, report: re.Pattern[str] | None = None
) -> LogFormat:
    layouts = KnownLayouts(dialect.header, [*_IN_FRONT.items()], dialect.fields)
    return LogFormat(
        name=name,
        anchors=anchors,
        parse=partial(_parse, dialect, layouts),
        parse_lines=partial(_parse_lines, dialect, layouts),
        report=report,
    )


MEGATRON = _format(
    "Megatron",
    (
        b"elapsed time per iteration (",
        b"elapsed_time_per_iteration_ms=",
        b"| iteration time: ",
    ),
    _MEGATRON,
    # Lines of 2019, which have no colon after the learning rate, are another format's.
    re.compile(
        r"^(?!.*\| learning rate [0-9]).*(?:elapsed.time.per.iteration|\| iteration time: )"
        r"[^\r]{0,20}?[0-9]"
    ),
)
NANOTRON = _format("nanotron", (b"elapsed_time_per_iteration_ms: ",), _NANOTRON)
NANOTRON_2025 = _format("nanotron since 2025", (b" time_per_iteration_ms: ",), _NANOTRON_2025)
