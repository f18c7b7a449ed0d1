"""Read the numbers of a benchmark row, and derive others, e.g. GPUs from nodes."""

from collections.abc import Mapping

import pytest

from orchestrator.markdown.document.tables import MarkdownRow, MarkdownTable
from orchestrator.markdown.meaning.benchmark_rows import (
    BenchmarkColumns,
    BenchmarkRow,
    NotInTableError,
)
from orchestrator.markdown.meaning.cells import NotUnderstoodError
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.notes import as_notes


def row_of(cells: Mapping[str, str], **constants: int) -> BenchmarkRow:
    """Return a row with these cells, by the titles of their columns.

    constants: sizes that the page gives outside the table, by name.
    """
    titles, dashes, row = (
        MarkdownRow(line, 0, "|".join(texts).encode(), len(cells))
        for line, texts in enumerate((cells.keys(), ["-"] * len(cells), cells.values()), 1)
    )
    table = MarkdownTable(header=titles, delimiter=dashes, rows=(row,))
    notes = as_notes({Meaning(name): number for name, number in constants.items()})
    raws = [cell.encode() for cell in cells.values()]
    return BenchmarkRow(
        columns=BenchmarkColumns.of(table, notes), source=row, raw_cells=raws, ordinal=1
    )


@pytest.mark.parametrize(
    ("cells", "constants", "world_size"),
    [
        ({"GPUs": "64", "Nodes": "3"}, {"gpus_per_node": 4}, 64),
        ({"Nodes": "16", "GPUs/node": "4"}, {}, 64),
        ({"Nodes": "16"}, {"gpus_per_node": 4}, 64),
        ({"DP": "2", "TP": "4", "PP": "8"}, {}, 64),
        ({"Nodes": "9", "DP": "2", "TP": "4"}, {"pipeline_parallel_size": 8}, 64),
        ({"DP": "2", "TP": "4", "PP": "4", "CP": "2"}, {}, 64),
        ({"GPU": "64"}, {}, 64),
        ({"Size": "1B"}, {"world_size": 64}, 64),
    ],
)
def test_the_number_of_gpus_is_given_or_derived(
    cells: dict[str, str], constants: dict[str, int], world_size: int
) -> None:
    """The number of GPUs is given, or follows from the nodes, or from DP, TP, PP and CP.

    These are the data-, tensor-, pipeline- and context-parallel sizes.
    """
    assert row_of(cells, **constants).world_size() == world_size


@pytest.mark.parametrize(
    ("cells", "constants", "batch"),
    [
        ({"GBS": "1,024", "MBS": "1", "GAS": "1", "DP": "1"}, {}, 1024),
        ({"MBS": "4", "PP Chunks": "256", "DP": "2"}, {}, 2048),
        ({"MBS": "4", "GAS": "256", "GPUs": "64", "TP": "4", "PP": "8"}, {}, 2048),
        ({"MBS": "4", "GAS": "256"}, {"data_parallel_size": 2}, 2048),
        ({"MBS": "4"}, {"global_batch_size": 2048}, 2048),
    ],
)
def test_the_global_batch_is_given_or_derived(
    cells: dict[str, str], constants: dict[str, int], batch: int
) -> None:
    """The global batch is in the row, or is micro-batch * number of micro-batches * DP.

    DP is the data-parallel size.
    """
    assert row_of(cells, **constants).global_batch_size() == batch


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        ({"Throughput": "2s"}, 2),
        ({"Throughput": "128 samples/s", "GBS": "256"}, 2),
        ({"Samples/s": "100", "GBS": "256", "Sec/it": "2"}, 2),
        ({"Samples/s": "128", "GBS": "256", "Sec/it": "-"}, 2),
        ({"Tokens/s/GPU": "16384", "GBS": "256", "GPUs": "8", "Seq": "1024"}, 2),
        ({"Tokens/s": "131072", "GBS": "256", "Seq": "1024"}, 2),
        ({"It/s": "0.5"}, 2),
        ({"Time": "2"}, 2),
        ({"Speed (ms)": "2000"}, 2),
    ],
)
def test_the_time_of_a_step_is_given_or_derived(cells: dict[str, str], seconds: float) -> None:
    """The step time is in the row, or follows from a rate.

    If a row has both a time and a rate, the time is used. A column without a value in this row is
    ignored.
    """
    assert row_of(cells).step_seconds() == pytest.approx(seconds)


def test_the_size_may_be_in_the_model_s_name() -> None:
    """A size in a model's name, e.g. "GPT-2 XL (1.5B)", is used only if nothing else has the size.

    If a column or a comment of the page has the size, that size is used instead.
    """
    assert row_of({"Model": "GPT-2 XL (1.5B)"}).parameters() == 1_500_000_000
    assert row_of({"Model": "GPT-2 XL (1.5B)", "Params": "1.6B"}).parameters() == 1_600_000_000
    assert row_of({"Model": "ours"}, parameters=5).parameters() == 5


@pytest.mark.parametrize(
    ("cells", "ask", "why"),
    [
        ({"Size": ""}, "parameters", "Size is blank"),
        ({"Size": "big"}, "parameters", "Size: 'big' is not a size such as 7.5B or 350M"),
        ({"GPUs": "V100"}, "world_size", "GPUs: 'V100' is not a whole number"),
        ({"Throughput": "1-2s"}, "step_seconds", "Throughput: '1-2s' is a range"),
        (
            {"MBS": "1", "GAS": "1", "GPUs": "10", "TP": "4", "PP": "1"},
            "global_batch_size",
            "10 GPUs are not a multiple of the 4 GPUs of a model copy",
        ),
    ],
)
def test_a_cell_that_is_not_understood_is_named(cells: dict[str, str], ask: str, why: str) -> None:
    """The message about a cell that cannot be parsed names its column and content."""
    with pytest.raises(NotUnderstoodError) as caught:
        getattr(row_of(cells), ask)()
    assert str(caught.value).startswith(why)
    assert not isinstance(caught.value, NotInTableError)


@pytest.mark.parametrize(
    ("cells", "ask", "why"),
    [
        (
            {},
            "parameters",
            (
                "no column contains the size of the model; add one, or a comment "
                "<!-- teralog: parameters=... -->"
            ),
        ),
        (
            {},
            "world_size",
            (
                "no column contains the number of GPUs; add one, or a comment "
                "<!-- teralog: world_size=... -->"
            ),
        ),
        (
            {"Nodes": "4"},
            "world_size",
            "a column contains the number of nodes, but no column contains gpus_per_node",
        ),
        (
            {"MBS": "4"},
            "global_batch_size",
            (
                "no column contains the global batch size; add one, or a comment <!-- teralog: "
                "global_batch_size=... -->"
            ),
        ),
        (
            {"MBS": "4", "GAS": "1"},
            "global_batch_size",
            "no column contains the global batch size or the data-parallel size",
        ),
        ({}, "step_seconds", "no column contains the time per iteration"),
        (
            {"Size": "1B", "Params": "1B"},
            "parameters",
            "two columns contain the size of the model: 'Size' and 'Params'",
        ),
    ],
)
def test_a_problem_of_all_rows_is_reported_for_the_table(
    cells: dict[str, str], ask: str, why: str
) -> None:
    """A problem of all rows is reported once, for the whole table."""
    with pytest.raises(NotInTableError) as caught:
        getattr(row_of(cells), ask)()
    assert str(caught.value) == why


@pytest.mark.parametrize(("median", "seconds"), [("2.00", 2.0), ("—", 2.5)])
def test_the_time_of_our_own_report_is_its_median(median: str, seconds: float) -> None:
    """In a teralog report, a row's step time is the median, or the mean if there is no median."""
    cells = {"samples/s (avg)": "9", "samples/s (last)": "7", "step mean (s)": "2.50"}
    row = row_of({**cells, "median (s)": median, "spread (s)": "0.1", "n": "3"})
    assert row.step_seconds() == seconds
