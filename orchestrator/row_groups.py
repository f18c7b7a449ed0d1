"""Where a table of runs is parted by blank rows: between runs that belong together."""

from itertools import pairwise

from orchestrator.tables import Table


def group_breaks(table: Table, columns: int) -> frozenset[int]:
    """Return the rows with which groups begin, but for the first.

    A group is the runs that agree in the first of the leading `columns` whose equal values stand
    together, and of which some row has a neighbour like it; where there is none, there are no
    groups.
    """
    for column in range(columns):
        values = [row[column] for row in table.rows]
        breaks = frozenset(
            row for row, (before, value) in enumerate(pairwise(values), start=1) if before != value
        )
        # As many groups as values: none comes back after another.
        if 0 < len(breaks) < len(values) - 1 and len(breaks) + 1 == len(set(values)):
            return breaks
    return frozenset()
