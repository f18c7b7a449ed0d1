"""Group rows of a table by equal, adjacent values in the first suitable column."""

from dataclasses import replace

import pytest

from orchestrator.common.tables import Cell, Column, as_markdown, as_text, make_table
from orchestrator.report.report import group_breaks

COLUMNS = tuple(
    Column(name, name, lambda row, place=place: row[place]) for place, name in enumerate("abc")
)

GROUPS: dict[str, tuple[list[tuple[Cell, ...]], set[int]]] = {
    "by the first column": ([(1, 1, 0), (1, 2, 0), (2, 1, 0), (2, 2, 0)], {2}),
    "by the second, for the first changes faster": (
        [(1, "x", 0), (2, "x", 0), (1, "y", 0), (2, "y", 0), (1, None, 0)],
        {2, 4},
    ),
    "a column that is the same in all": ([(1, 1, 0), (1, 1, 0), (1, 2, 0)], {2}),
    "most groups would be of one row": ([(1, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 0)], set()),
    "groups of one row next to larger groups": ([(1, 1, 0), (2, 1, 0), (2, 2, 0)], {1}),
    "no row has a neighbour like it": ([(1, 1, 0), (2, 2, 0), (3, 3, 0)], set()),
    "what was measured makes no groups": ([(1, 1, 5), (2, 2, 5), (3, 3, 6)], set()),
    "values that come back": ([(1, 1, 0), (2, 2, 0), (2, 2, 0), (1, 1, 0)], set()),
    "one row": ([(1, 1, 0)], set()),
    "no rows": ([], set()),
}


@pytest.mark.parametrize(("rows", "breaks"), GROUPS.values(), ids=GROUPS)
def test_a_group_begins_where_the_value_changes(
    rows: list[tuple[Cell, ...]], breaks: set[int]
) -> None:
    """A group begins at each row in which the value of the first suitable column changes.

    In a suitable column, equal values are adjacent, and at least half of the groups have several
    rows. The third column is measured, so it forms no groups.
    """
    assert group_breaks(make_table(COLUMNS, rows), 2) == breaks


def test_a_page_shows_a_row_without_text_between_groups_and_a_terminal_does_not() -> None:
    """Between groups, a markdown table has an empty row; a table on a terminal does not."""
    table = make_table(COLUMNS[:2], [(1, "x"), (1, "y"), (2, "x")])
    parted = replace(table, breaks=frozenset({2}))
    assert as_markdown(parted).splitlines() == [
        "| a | b |",
        "|--:|:--|",
        "| 1 | x |",
        "| 1 | y |",
        "|   |   |",
        "| 2 | x |",
    ]
    assert as_text(parted) == as_text(table)
