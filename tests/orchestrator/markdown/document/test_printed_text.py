"""The text that a reader sees in a markdown cell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.tables import escape_markdown
from orchestrator.markdown.document.printed_text import printed_text


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**26.1**", "26.1"),
        ("*26.1*", "26.1"),
        ("_26.1_", "26.1"),
        ("~~26.1~~ **27**", "26.1 27"),
        ("`ds_config`", "ds_config"),
        ("[**52B**](runs/52b.md)", "52B"),
        ("**[52B][1]**", "52B"),
        ("4<br>8", "4 8"),
        ("\\_x\\_", "_x_"),
        ("\\*5\\*", "*5*"),
    ],
)
def test_signs_of_markdown_are_not_shown(markdown: str, shown: str):
    """Markdown's formatting characters, e.g. ** around text, are left out."""
    assert printed_text(markdown) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("~129 s", "2 * 3 * 4", "3849(-1754,↓31.3%)", "micro_batch_size", "a_b_c", "↑3.4%", "≈1"),
        *("<script>alert(1)</script>", "<b>1</b>", "a < b", "&lt;", "$x$", "1e-3", "[1, 2]"),
    ],
)
def test_all_other_text_is_shown_unchanged(text: str):
    """Text that does not format anything is unchanged, e.g. a single `*` or an HTML tag."""
    assert printed_text(text) == text


# Signs of markdown more often than chance would have them; a table escapes no ~.
SIGNS = st.sampled_from(["*", "_", "`", "[", "](", ")", "\\", "<", "br>", "|", "a", " a"])
LETTERS = st.characters(categories=["L", "N", "P", "S"], exclude_characters="~")


@given(st.lists(st.one_of(SIGNS, LETTERS), max_size=20).map("".join).map(str.strip))
def test_escaped_text_of_our_tables_is_read_back(text: str):
    """Text that teralog escapes for a markdown table is read back unchanged."""
    assert printed_text(escape_markdown(text)) == text
