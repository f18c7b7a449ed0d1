"""In a user's page, teralog replaces only the report between its two marks.

A mark is a comment in the page.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.errors import UserError
from orchestrator.markdown.document.report_marks import marks, with_report

FIRST, LAST = (mark.encode() for mark in marks("mine"))
TEXT = "| a |\n|---|\n| 1 |\n\nHow it was made."
BETWEEN = b"\n" + TEXT.encode() + b"\n\n"

PAGES: dict[str, tuple[bytes, bytes]] = {
    "nothing between": (
        b"# Page\n" + FIRST + b"\n" + LAST + b"\nmore\n",
        b"# Page\n" + FIRST + b"\n" + BETWEEN + LAST + b"\nmore\n",
    ),
    "an older table": (
        FIRST + b"\n| b |\n|---|\n| 2 |\nold\n" + LAST + b"\n",
        FIRST + b"\n" + BETWEEN + LAST + b"\n",
    ),
    "no last newline": (FIRST + b"\n" + LAST, FIRST + b"\n" + BETWEEN + LAST),
    "Windows's ends of line": (
        b"x\r\n" + FIRST + b"\r\nold\r\n" + LAST + b"\r\n",
        b"x\r\n" + FIRST + b"\r\n" + BETWEEN.replace(b"\n", b"\r\n") + LAST + b"\r\n",
    ),
    "a byte-order mark": (
        b"\xef\xbb\xbf" + FIRST + b"\n" + LAST,
        b"\xef\xbb\xbf" + FIRST + b"\n" + BETWEEN + LAST,
    ),
    "bytes that are no UTF-8": (
        b"\xff\n" + FIRST + b"\n\xfe\n" + LAST + b"\n\xfd",
        b"\xff\n" + FIRST + b"\n" + BETWEEN + LAST + b"\n\xfd",
    ),
    "twice": (
        (FIRST + b"\n" + LAST + b"\n") * 2,
        (FIRST + b"\n" + BETWEEN + LAST + b"\n") * 2,
    ),
    "another campaign's": (
        b"<!-- teralog report mine-2 -->\nx\n" + LAST + b"\n" + FIRST + b"\n" + LAST,
        b"<!-- teralog report mine-2 -->\nx\n" + LAST + b"\n" + FIRST + b"\n" + BETWEEN + LAST,
    ),
    "marks in code too": (
        b"```\n" + FIRST + b"\n" + LAST + b"\n```\n" + FIRST + b"\n" + LAST,
        b"```\n" + FIRST + b"\n" + LAST + b"\n```\n" + FIRST + b"\n" + BETWEEN + LAST,
    ),
    "other blanks in the marks": (
        b"<!--teralog  report mine-->  \n<!--  end of teralog report-->",
        b"<!--teralog  report mine-->  \n" + BETWEEN + b"<!--  end of teralog report-->",
    ),
}


@pytest.mark.parametrize(("page", "written"), PAGES.values(), ids=PAGES)
def test_the_text_between_the_marks_is_replaced(page: bytes, written: bytes) -> None:
    """The text between the two marks is replaced, and the marks stay.

    So a second call with the same report changes nothing.
    """
    assert with_report(page, "mine", TEXT) == written
    assert with_report(written, "mine", TEXT) == written


NO_PLACE = {
    "an empty page": b"",
    "another campaign's alone": b"<!-- teralog report mine-2 -->\n" + LAST,
    "in code": b"~~~\n" + FIRST + b"\n" + LAST + b"\n~~~\n",
    "in a comment": b"<!-- so:\n" + FIRST.removesuffix(b"-->") + b"\n-->\n",
    "in raw HTML": b"<pre>\n" + FIRST + b"\n" + LAST + b"\n</pre>\n",
    "in a list": b"- " + FIRST + b"\n  " + LAST + b"\n",
    "in a quote": b"> " + FIRST + b"\n> " + LAST + b"\n",
    "in a sentence": b"see " + FIRST + b"\n" + LAST + b"\n",
    "both on one line": FIRST + LAST,
    "the last one alone": LAST,
}


@pytest.mark.parametrize("page", NO_PLACE.values(), ids=NO_PLACE)
def test_for_a_page_without_marks_the_message_shows_what_to_paste(page: bytes) -> None:
    """The message about a page without marks contains both marks, for the user to copy."""
    with pytest.raises(UserError) as caught:
        with_report(page, "mine", TEXT)
    (problem,) = caught.value.problems
    assert all(mark in problem for mark in marks("mine"))
    assert problem.startswith(" has no comments for the report of mine; paste these two")


HALF = {
    "no last one": FIRST + b"\n| a |\n",
    "a last one in code": FIRST + b"\n```\n" + LAST + b"\n```\n",
    "another's first one before it": (
        FIRST + b"\n<!-- teralog report other -->\n" + LAST + b"\n" + LAST + b"\n"
    ),
    "its own first one before it": FIRST + b"\n" + FIRST + b"\n" + LAST + b"\n",
}


@pytest.mark.parametrize("page", HALF.values(), ids=HALF)
def test_a_mark_that_is_not_closed_is_named_with_its_line(page: bytes) -> None:
    """If the second mark is missing, an error names the line of the first mark.

    Without this error, teralog would replace the rest of the page.
    """
    with pytest.raises(
        UserError, match=r"^2: <!-- end of .* is missing after <!-- teralog report mine -->; add it"
    ):
        with_report(b"# Page\n" + page, "mine", TEXT)


CLOSED = st.sampled_from(
    [
        b"text\n",
        b"text\r\n",
        b"| a | b |\n|---|---|\n| 1 | 2 |\n",
        b"```\n" + FIRST + b"\n" + LAST + b"\n```\r\n",
        b"<pre>\n" + FIRST + b"\n</pre>\n",
        b"<!-- a comment\n```\n-->\n",
        b"<!-- teralog: seq_length=2048 -->\n",
        b"<!-- teralog report other -->\nx\n" + LAST + b"\n",
        b"- item\n\n> quoted\n\n",
        b"\xff\xfe\x00\n",
        b"\n",
    ]
) | st.text(alphabet="ab |#é\t", max_size=8).map(lambda text: text.encode() + b"\n")
LINES = st.lists(CLOSED, max_size=6).map(b"".join)


@given(
    begin=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    before=LINES,
    old=LINES.filter(lambda old: LAST not in old),
    after=LINES | st.binary(),
    newline=st.sampled_from([b"\n", b"\r\n"]),
)
def test_all_bytes_outside_the_marks_stay(
    begin: bytes, before: bytes, old: bytes, after: bytes, newline: bytes
) -> None:
    """Any bytes of the page stay; the report gets the page's line endings."""
    head, tail = begin + before + FIRST + newline, LAST + newline + after
    written = with_report(head + old + tail, "mine", TEXT)
    assert written.startswith(head)
    assert written.endswith(tail)
    between = written[len(head) : len(written) - len(tail)]
    assert between == BETWEEN.replace(b"\n", newline)
    assert with_report(written, "mine", TEXT) == written
