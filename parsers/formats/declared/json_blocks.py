"""Read many lines of JSON at once, as columns.

The objects of one log differ only in their numbers, and in the digits within their strings.
So teralog makes a pattern from one line, and reads the lines after it with this pattern.
teralog tests the pattern first on that line with other numbers, all of them different: it must
read the same values as the reader of single lines. Otherwise the pattern is not used. So it is
not used if it reads the wrong one of two keys that had the same value in the line.
"""

import math
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from parsers.fields import alike
from parsers.formats.declared.blocks import LinePattern, LinePatterns
from parsers.records import COUNT_FIELDS, Record, Step
from parsers.steps.blocks import StepBlock

# Numbers that JSON allows and `int` accepts.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][-+]?[0-9]{1,3})?"
_TOKEN = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*)"|(?P<number>-?[0-9][-+.0-9eE]*)|[^"0-9-]+|-')

Keys = Mapping[str, tuple[str, float]]
"""Field of a Step by key, with the divisor of the value."""


@dataclass(frozen=True, slots=True, eq=False)
class JsonBlocks:
    """A callable for `LogFormat.parse_lines`, which reads many lines of JSON at once.

    keys: for each JSON key to read, the field of Step, and the divisor that converts the value to
    the field's unit. parse: the reader of single lines. log_interval: 1 if each report is about one
    iteration; None if unknown.
    """

    keys: Keys
    parse: Callable[[int, str], Iterator[Record]]
    log_interval: int | None = None
    line_patterns: LinePatterns = field(init=False, default_factory=LinePatterns)

    def __call__(self, offsets: Sequence[int], text: str) -> StepBlock | None:
        """Return the steps of the first lines of `text`, as columns.

        The columns end before the first line that differs from the lines above in more than its
        digits. offsets: for each line, the byte of the log at which it starts. Returns None if the
        lines must be read one by one.
        """
        make = partial(json_pattern, keys=self.keys, parse=self.parse)
        columns = self.line_patterns.columns(text, len(offsets), make)
        if columns is None:
            return None
        count = len(columns["iteration"])
        interval = self.log_interval
        more_columns = {} if interval is None else {"log_interval": [interval] * count}
        return StepBlock({**columns, **more_columns, "offset": array("q", offsets[:count])})


def json_pattern(
    line: str, keys: Keys, parse: Callable[[int, str], Iterator[Record]]
) -> LinePattern | None:
    """Return a pattern for lines that differ from `line` only in digits; None if impossible.

    line: without its newline. keys: for each JSON key to read, the field of Step, and the divisor
    that converts the value to the field's unit. parse: the reader of single lines.
    """
    read = [*parse(0, line)]
    if len(read) != 1 or not isinstance(step := read[0], Step) or "{" not in line:
        return None
    begin = line.index("{")
    pieces, names = [alike(line[:begin])], list[str]()
    converts: list[Callable[[Sequence[str]], Sequence[Any]]] = []
    key = before = ""
    for token in _TOKEN.finditer(line, begin):
        text, string = token[0], token["string"]
        if token["number"] is None and string is None:
            key = before if text.strip() == ":" else ""
            pieces.append(re.escape(text))
            continue
        name, divisor = keys.get(key, ("timestamp" if key == "timestamp" else "", 1.0))
        value = alike(text) if string is not None else _NUMBER
        wanted = name not in {"", *names} and (string is None) == (name != "timestamp")
        if wanted:
            names.append(name)
            converts.append(_texts if name == "timestamp" else partial(_column, name, divisor))
            value = value if string is None else f'"({value[1:-1]})"'
        pieces.append(f"({value})" if wanted and string is None else value)
        key, before = "", string or ""
    pattern = LinePattern("".join(["^", *pieces, "$"]), names, converts)
    line = _with_other_numbers(line)
    columns = pattern.columns(line + "\n", 1)
    if columns is None or "iteration" not in columns:
        return None
    same = StepBlock({**columns, "offset": [0], "log_interval": [step.log_interval]}).step(0)
    return pattern if [*parse(0, line)] == [same] else None


def _with_other_numbers(line: str) -> str:
    """Return a line in which each number of the object is replaced by a different one."""
    begin, others = line.index("{"), count(1)

    def other(token: re.Match[str]) -> str:
        if (number := token["number"]) is None:
            return token[0]
        return f"{next(others)}.0" if {*number} & {*".eE"} else str(next(others))

    return line[:begin] + _TOKEN.sub(other, line[begin:])


def _texts(texts: Sequence[str]) -> Sequence[str]:
    return texts


def _column(name: str, divisor: float, texts: Sequence[str]) -> Sequence[Any]:
    """Convert the texts of one field in several lines to numbers in the field's unit.

    name: the field of Step. divisor: converts a number to the field's unit. Raises ValueError if a
    number is not finite, or if a count is not an integer, negative or too large.
    """
    numbers = array("d", map(float, texts))
    if not math.isfinite(sum(numbers)):
        raise ValueError(name)
    if name in COUNT_FIELDS:
        if min(numbers) < 0 or max(numbers) >= 2**53 or not all(map(float.is_integer, numbers)):
            raise ValueError(name)
        return array("q", map(int, numbers))
    return numbers if divisor == 1 else [number / divisor for number in numbers]
