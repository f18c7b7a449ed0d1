"""Write a table as a Parquet file."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.common.tables import Cell, Table

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST_INTEGER = 2**63 - 1


def as_parquet(table: Table) -> bytes:
    """Return the table as a Parquet file, with the table's `names` as the names of its columns.

    Raises ImportError without pyarrow.
    """
    import pyarrow as pa
    from pyarrow import parquet

    cells = [[row[at] for row in table.rows] for at in range(len(table.names))]
    file = io.BytesIO()
    parquet.write_table(pa.table(list(map(_array, cells)), names=list(table.names)), file)
    return file.getvalue()


def _array(cells: Sequence[Cell]) -> "pa.Array":
    """Return the cells of a column as a pyarrow array, in which all cells have one type.

    If any cell is text, all become text. Otherwise, if any cell is a float, or an integer with an
    absolute value above `_LARGEST_INTEGER`, all become floats.
    """
    import pyarrow as pa

    if any(isinstance(cell, str) for cell in cells):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    numbers = [cell for cell in cells if cell is not None and not isinstance(cell, str)]
    if any(isinstance(cell, float) or abs(cell) > _LARGEST_INTEGER for cell in numbers):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    return pa.array(cells)
