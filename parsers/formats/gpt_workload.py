"""Parse the lines of this project's own workloads, which all begin with `[teralog] `.

    [teralog] start | strategy zero2 | world_size 2 | backend gloo | device cpu | …
    [teralog] iteration 3/20 | step_seconds 0.012345 | samples_per_second 648.04 | loss 6.238123 | …
    [teralog] iteration 3/20 | loss 6.238123 | mean over ranks            if DeepSpeed has the times
    [teralog] finished | iterations 20 | train_seconds 1.234567 | final_loss 6.238123 | …

A line is a title and fields, separated by ` | `; a field is a name, a space and a value. A line
that lacks one of its fields was torn and makes no record. Unknown fields are ignored.
"""

import math
import re
from collections.abc import Iterator, Mapping

from parsers.fields import COUNT, NUMBER, parse_number
from parsers.records import Record, RunTotals, Step
from parsers.scan.reader import LogFormat

_MARK = "[teralog] "
_ITERATION = re.compile(rf"iteration (?P<iteration>{COUNT})/(?P<iterations>{COUNT})")
# White space separates a value from text that may follow on its line, e.g. a progress bar.
_COUNT_VALUE = re.compile(rf"{COUNT}(?!\S)")
_NUMBER_VALUE = re.compile(rf"{NUMBER}(?!\S)")


def _parse(offset: int, line: str) -> Iterator[Record]:
    for report in line.split(_MARK)[1:]:
        title, *fields = (part.strip() for part in report.split(" | "))
        values = {name: value for name, _, value in (field.partition(" ") for field in fields)}
        try:
            yield _record(offset, title, values)
        except (KeyError, ValueError):
            continue


def _record(offset: int, title: str, values: Mapping[str, str]) -> Record:
    """Return the record of a line with this title and these values.

    Raises KeyError if a field is missing, and ValueError for an unknown title or a value that
    cannot be read.
    """
    iteration = _ITERATION.fullmatch(title)
    if iteration and values.get("mean") == "over ranks":
        return Step(
            iteration=int(iteration["iteration"]),
            iterations=int(iteration["iterations"]),
            loss=_number(values["loss"]),
            offset=offset,
        )
    if iteration:
        return Step(
            iteration=int(iteration["iteration"]),
            iterations=int(iteration["iterations"]),
            step_seconds=_measured(values["step_seconds"]),
            log_interval=1,
            samples_per_second=_measured(values["samples_per_second"]),
            loss=_number(values["loss"]),
            memory_allocated_gib=_measured(values["memory_allocated_gib"]),
            max_memory_allocated_gib=_measured(values["max_memory_allocated_gib"]),
            offset=offset,
        )
    if title == "start":
        return RunTotals(
            strategy=_word(values["strategy"]),
            world_size=_count(values["world_size"]),
            backend=_word(values["backend"]),
            device=_text(values["device"]),
            precision=_word(values["precision"]),
            parameters=_count(values["parameters"]),
            versions=tuple(
                (name, _word(values[name]))
                for name in ("torch", "deepspeed")
                if name == "torch" or name in values
            ),
            offset=offset,
        )
    if title == "finished":
        iterations = _count(values["iterations"])
        return RunTotals(
            iterations=iterations,
            last_iteration=iterations,
            train_seconds=_measured(values["train_seconds"]),
            final_loss=_number(values["final_loss"]),
            max_memory_allocated_gib=_measured(values["max_memory_allocated_gib"]),
            offset=offset,
        )
    raise ValueError(title)


def _text(value: str) -> str:
    if not value:
        raise ValueError(value)
    return value


def _word(value: str) -> str:
    return _text(value).split()[0]


def _count(value: str) -> int:
    if not (match := _COUNT_VALUE.match(value)):
        raise ValueError(value)
    return int(match[0])


def _number(value: str) -> float:
    match = _NUMBER_VALUE.match(value)
    if not match or (number := parse_number(match[0])) is None:
        raise ValueError(value)
    return number


def _measured(value: str) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


GPT_WORKLOAD = LogFormat(
    name="teralog GPT workload",
    anchors=(_MARK.encode(),),
    parse=_parse,
    report=re.compile(r"\[teralog\] (?:iteration|start|finished) "),
)
