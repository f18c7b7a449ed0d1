"""Write a table as LaTeX, for the package booktabs; text in cells is escaped."""

import re
from collections.abc import Sequence

from orchestrator.common.tables import Table, numeric_columns, shown_rows
from orchestrator.common.text import printable

_WORDS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # These four are other signs, or make others, in the encoding that LaTeX has by default.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    # At the beginning of a row, LaTeX would read these as part of the end of the row before.
    "[": "{[}",
    "*": "{*}",
}
# LaTeX turns two hyphens into a dash.
_SPECIAL = re.compile(r"[\\~^<>|`↑↓→\[*]|[_%&#${}]|-(?=-)")


def as_latex(table: Table) -> str:
    """Return the table as a `tabular` for the package booktabs; groups of rows are set apart."""
    numeric = numeric_columns(table)
    lines = [
        rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in numeric)}}}",
        r"\toprule",
        _row(table.titles),
        r"\midrule",
    ]
    for at, cells in enumerate(shown_rows(table)):
        if at in table.breaks:
            lines.append(r"\addlinespace")
        lines.append(_row(cells))
    return "\n".join((*lines, r"\bottomrule", r"\end{tabular}"))


def latex_comment(text: str) -> str:
    """Return text as a LaTeX comment line."""
    return f"% {printable(text)}"


def escape_latex(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    return _SPECIAL.sub(_escaped, text)


def _escaped(match: "re.Match[str]") -> str:
    sign = match[0]
    if sign == "-":
        return "-{}"
    return _WORDS.get(sign, f"\\{sign}")


def _row(cells: Sequence[str]) -> str:
    return rf"{' & '.join(map(escape_latex, cells))} \\"
