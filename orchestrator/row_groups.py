"""Where a table of runs is parted by blank rows: between runs that belong together."""

from collections import Counter
from itertools import accumulate, groupby

from orchestrator.tables import Table


def group_breaks(table: Table, columns: int) -> frozenset[int]:
    """Return the rows with which groups begin, but for the first.

    A group is the runs that agree in the first of the leading `columns` whose equal values stand
    together, and of whose groups half at least are of several rows; where there is none, there are
    no groups.
    """
    for column in range(columns):
        sizes = Counter(row[column] for row in table.rows)
        values = [value for value, _ in groupby(row[column] for row in table.rows)]
        of_one_row = sum(size == 1 for size in sizes.values())
        # As many groups as values: none comes back after another.
        if 1 < len(values) == len(sizes) >= 2 * of_one_row:
            return frozenset(accumulate(sizes[value] for value in values[:-1]))
    return frozenset()
