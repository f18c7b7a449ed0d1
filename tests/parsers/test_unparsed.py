"""List lines that look like a report but could not be parsed."""

import io

from hypothesis import given
from hypothesis import strategies as st

from parsers.runs.reading import read
from parsers.runs.unparsed import unparsed_lines

WHOLE = "steps: 10 loss: 0.0625 iter time (s): 0.125 samples/sec: 64.000"
TORN = "steps: 20 loss: 0.0625 iter time (s): 0.12"
LINES = st.sampled_from([WHOLE, TORN, "noise", "# " + TORN, "\x1b[1m" + TORN + "\x1b[0m"])


def test_a_line_has_its_number_and_its_text() -> None:
    """An unparsed line has its line number, and its text without terminal colors."""
    log = io.BytesIO(f"noise\n{WHOLE}\n\x1b[1m{TORN}\x1b[0m\r\n".encode())
    assert list(unparsed_lines(log)) == [(3, "DeepSpeed pipeline engine", TORN)]


@given(st.lists(LINES, max_size=30))
def test_the_lines_are_those_that_a_run_counts(lines: list[str]) -> None:
    """The list has as many unparsed lines as the runs count, in the order of the log."""
    text = "".join(f"{line}\n" for line in lines).encode()
    unparsed = list(unparsed_lines(io.BytesIO(text)))
    counted = [count for run in read(io.BytesIO(text)) for _, count in run.not_understood]
    assert len(unparsed) == sum(counted)
    assert [line.number for line in unparsed] == sorted({line.number for line in unparsed})
