"""Write a table as LaTeX: the text of a cell is shown, and never run as a command."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.latex import as_latex, escape_latex, latex_comment
from orchestrator.common.tables import Column, make_table

COLUMNS = (
    Column("run_name", "label", lambda row: row[0]),
    Column("MFU %", "mfu_percent", lambda row: row[1]),
)

ESCAPED = {
    "zero3": "zero3",
    "a_b": r"a\_b",
    "50%": r"50\%",
    "a & b": r"a \& b",
    "#1": r"\#1",
    "$x$": r"\$x\$",
    "{x}": r"\{x\}",
    "a~b": r"a\textasciitilde{}b",
    "x^2": r"x\textasciicircum{}2",
    r"\input{/etc/passwd}": r"\textbackslash{}input\{/etc/passwd\}",
    r"\\": r"\textbackslash{}\textbackslash{}",
    "[x]": "{[}x]",
    "*": "{*}",
    "--lr": "-{}-lr",
    "---": "-{}-{}-",
    "1e-05": "1e-05",
    "a<b>|`": r"a\textless{}b\textgreater{}\textbar{}\textasciigrave{}",
    "(↓31.3%)": r"($\downarrow$31.3\%)",
    "optimizer → cpu": r"optimizer $\rightarrow$ cpu",
    "—": "—",
}


@pytest.mark.parametrize(("text", "escaped"), ESCAPED.items())
def test_text_is_escaped(text: str, escaped: str) -> None:
    """LaTeX's special characters are escaped, also those that are special only at a row's start."""
    assert escape_latex(text) == escaped


def test_the_table_has_the_rules_of_booktabs() -> None:
    """A table has the rules of the LaTeX package booktabs, and extra space between groups of rows.

    Numbers are aligned to the right, and None is a dash.
    """
    table = make_table(COLUMNS, [("[a]", 12.5), ("b", None)])
    assert as_latex(replace(table, breaks=frozenset({1}))).splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"run\_name & MFU \% \\",
        r"\midrule",
        r"{[}a] & 12.50 \\",
        r"\addlinespace",
        r"b & — \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_comment_stays_one_line() -> None:
    """A line break in a comment's text cannot end the comment."""
    assert latex_comment("made\n\\end{x}\r\x0b") == "% made\ufffd\\end{x}\ufffd\ufffd"


# Escaped cells may contain only commands without arguments, and signs behind a backslash.
_KNOWN = re.compile(
    r"\\text[a-z]+\{\}|\$\\(?:up|down)arrow\$|\\[_%&#${}]|\{\[\}|\{\*\}|-\{\}|[^\\{}$&#%_~^<>|`\[*]"
)
HOSTILE = st.text(alphabet="\\_%&#${}~^<>|`[]*-\"'ab1 ↑↓—é", max_size=20) | st.text(max_size=20)


@given(HOSTILE)
def test_text_contains_no_command_of_latex(text: str) -> None:
    """A cell contains only known escapes and plain characters, and its braces are balanced."""
    escaped = escape_latex(text)
    assert _KNOWN.sub("", escaped) == ""
    assert "--" not in escaped
    plain = re.sub(r"\\[{}]", "", escaped)
    assert plain.count("{") == plain.count("}")


@given(st.lists(st.tuples(HOSTILE, st.none() | st.floats()), max_size=5))
def test_every_row_has_as_many_cells_and_ends_once(rows: list[tuple[str, float | None]]) -> None:
    r"""Whatever a label contains, a row has all its cells, and `\\` occurs only at its end."""
    lines = as_latex(make_table(COLUMNS, rows)).splitlines()
    assert len(lines) == 6 + len(rows)
    for line in lines[4 : 4 + len(rows)]:
        assert len(re.findall(r"(?<!\\)&", line)) == 1
        assert line.endswith(r" \\")
        assert line.count("\\\\") == 1
        assert not line.startswith(("[", "*"))
