"""The headings of markdown pages."""

import pytest

from orchestrator.markdown.document.headings import Heading, heading, heading_above, headings
from orchestrator.markdown.document.tables import read_document


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("# Results", "Results"),
        ("   ### Results of C# ", "Results of C#"),
        ("## Results ##", "Results"),
        ("## Results ##\r", "Results"),
        ("#", ""),
        ("## ##", ""),
        ("####### seven", None),
        ("#GPUs", None),
        ("    # code", None),
        ("text # Results", None),
    ],
)
def test_a_heading_says_what_stands_behind_its_signs(line: str, said: str | None):
    """And what is none says nothing."""
    assert heading(line) == said


def test_headings_in_code_and_comments_are_none():
    """As no reader sees them as such."""
    data = b"# A\n```\n# B\n```\n<!--\n# C\n-->\n## D\n"
    assert headings(data, read_document(data)) == [Heading(1, "A"), Heading(8, "D")]


def test_a_line_belongs_to_the_heading_above_it():
    """To none, before the first."""
    found = [Heading(3, "A"), Heading(9, "B")]
    assert [heading_above(line, found) for line in (1, 4, 10)] == ["", "A", "B"]
