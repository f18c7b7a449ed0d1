"""Read the headings of markdown pages."""

import pytest

from orchestrator.markdown.document.headings import heading, markdown_lines
from orchestrator.markdown.document.tables import read_document


@pytest.mark.parametrize(
    ("line", "text"),
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
def test_a_heading_is_the_text_after_its_signs(line: str, text: str | None):
    """The text of a heading is what follows its `#` characters; other lines give None."""
    assert heading(line) == text


def test_headings_in_code_and_comments_are_none():
    """Lines in code and comments are not headings, even if they begin with `#`."""
    data = b"# A\n```\n# B\n```\n<!--\n# C\n-->\n## D"
    lines = markdown_lines(data, read_document(data))
    assert [(number, heading(line)) for number, line in lines] == [(1, "A"), (8, "D")]
