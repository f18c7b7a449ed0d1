"""Tables as Parquet contain the same values as CSV."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.parquet import as_parquet
from orchestrator.common.tables import as_csv, records_table

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)
VALUES = st.none() | TEXTS | st.integers() | st.floats(allow_nan=False) | st.lists(TEXTS)


@given(st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), min_size=1))
def test_csv_and_parquet_have_every_value(records: list[dict[str, object]]):
    """CSV and Parquet contain every value of a table.

    In Parquet, a column of numbers and text becomes text. A column of integers and floats becomes
    floats.
    """
    parquet = pytest.importorskip("pyarrow.parquet")
    table = records_table(records)
    rows = csv.DictReader(io.StringIO(as_csv(table), newline=""))
    stored = parquet.read_table(io.BytesIO(as_parquet(table))).to_pylist()
    for record, row, kept in zip(records, rows, stored, strict=True):
        for name, value in record.items():
            if value is None:
                assert (row[name], kept[name]) == ("", None)
            elif isinstance(value, list):
                assert json.loads(row[name]) == json.loads(kept[name]) == value
            elif isinstance(kept[name], float):
                assert float(row[name]) == kept[name] == float(value)  # type: ignore[arg-type]
            else:
                assert row[name] == str(kept[name]) == str(value)
