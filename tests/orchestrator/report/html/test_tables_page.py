"""The HTML page of a markdown page with published tables: the data of its rows."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.joined_tables import join_tables
from orchestrator.report.html.page import Page
from orchestrator.report.html.tables_page import RowDetail, make_details, make_tables_page
from orchestrator.report.report import report_markdown

PUBLISHED = Path(__file__).parents[4] / "results" / "published"
TABLE = "# Speed\n\n| GPUs | Size | Global batch | TFLOPs | Outcome |\n|---|---|---|---|---|\n"


def made(text: str) -> tuple[Page, list[RowDetail]]:
    """Return the HTML page of a markdown text, and the data for the view of each row."""
    read = read_page(text.encode())
    tables, findings = join_tables(read), check_page(read)
    return (
        make_tables_page("docs/speed.md", "speed.md", tables, findings),
        list(make_details("docs/speed.md", tables, findings)),
    )


def published(name: str) -> tuple[Page, list[RowDetail]]:
    """Return the HTML page of a file in results/published."""
    return made((PUBLISHED / f"{name}.md").read_text(encoding="utf-8"))


def test_the_page_names_its_source():
    """The HTML page shows the heading, the number of tables and the path of its markdown file."""
    page, _ = made(f"{TABLE}| 8 | 7B | 64 | 30.0 | — |\n")
    assert (page.title, page.about, page.beside) == (
        "Speed",
        "of 1 table in docs/speed.md",
        "speed.md",
    )
    assert not page.curves


def test_a_row_has_its_table_and_its_cells_as_printed():
    """A row has the title of its table and its cells as printed; an empty cell becomes a dash."""
    page, _ = made(f"{TABLE}| 8 | 7.50B | 64 | 30.0 |\n")
    assert [column.title for column in page.columns] == [
        *("table", "GPUs", "Size", "Global batch", "TFLOPs", "Outcome"),
    ]
    (row,) = page.runs
    assert (row.run_id, row.label) == ("5", "Speed: row 1 (8, 7.50B)")
    assert row.shown == ("Speed", "8", "7.50B", "64", "30.0", "—")
    assert row.values == ("Speed", 8, 7_500_000_000, 64, 30.0, None)


def test_rows_that_ran_out_of_memory_are_counted_and_kept():
    """Rows that ran out of memory are counted and kept; rows without an outcome are not counted."""
    page, _ = made(f"{TABLE}| 8 | 7B | 64 | 30 | — |\n| 8 | 7B | 128 | — | OOM |\n")
    assert page.ended == (("OOM", 1),)
    assert [run.ended for run in page.runs] == ["", "OOM"]
    assert page.best == 0


def test_measured_columns_have_no_filter():
    """Measured columns, e.g. TFLOPs, have no filter; all other columns have one."""
    page, _ = published("gpt2-experiments")
    unfiltered = [column.title for column in page.columns if not column.filter]
    assert unfiltered == ["Step time (s)", "TFLOPs", "TFLOPs (recomputed)", "Memory (GB)"]


def test_plots_have_the_tflops_as_printed():
    """There is a plot of TFLOPs against each size that varies, with the TFLOPs that are printed."""
    page, _ = published("gpt2-experiments")
    assert [plot.title for plot in page.plots] == [
        "TFLOPs against GPUs",
        "TFLOPs against global batch",
        "TFLOPs against micro-batches",
    ]
    assert page.plots[0].y[0] == 23.2
    assert page.runs[page.best or 0].run_id == "48"


def test_rates_are_plotted_if_a_page_has_no_tflops():
    """If a page has no TFLOPs, the plot shows throughput against GPUs.

    The number of GPUs may be computed from the number of nodes.
    """
    page, _ = published("oneflow-megatron-lm")
    (plot,) = page.plots
    assert plot.title == "Throughput (samples/s) against GPUs"
    assert plot.x == (8, 8, 8, 8, 16, 16, 32, 32)
    assert plot.y[1] == 89.0


def test_nothing_is_plotted_if_no_column_is_understood():
    """If teralog understands no column, the page has only the table."""
    page, _ = published("deepspeed-cifar")
    assert page.plots == ()
    assert page.best is None


GPUS = "| 8 | 7B | 64 | 30 | — |\n| 16 | 7B | 128 | 27 | — |\n"


def test_scaling_compares_rows_that_differ_only_in_gpus():
    """For rows that differ only in GPUs, efficiency is relative to the row with the fewest GPUs.

    It is the ratio of the two rows' TFLOPs, in per cent.
    """
    page, _ = made(TABLE + GPUS)
    (efficiency,) = [plot for plot in page.plots if plot.title == "Scaling efficiency"]
    assert efficiency.y == (100, 90)
    assert "weak scaling" in efficiency.note


def test_without_a_batch_nothing_is_reported_about_scaling():
    """Without a global batch there is no plot of scaling: it could be weak or strong scaling."""
    page, _ = made("| GPUs | TFLOPs |\n|---|---|\n| 8 | 30 |\n| 16 | 27 |\n")
    (plot,) = page.plots
    assert plot.note == "Lines join rows that are equal in everything else."


@pytest.mark.parametrize(
    "page",
    [
        TABLE + GPUS.replace("27", "—"),
        TABLE + GPUS.replace("16 | 7B", "16 | 13B"),
        (TABLE + GPUS).replace("Outcome |\n", "Kernels |\n").replace("27 | —", "27 | fused"),
        (TABLE + GPUS).replace("Outcome |\n", "Date |\n").replace("27 | —", "27 | 05-27"),
        TABLE + GPUS.replace("| 16", f"\n## Others\n\n{TABLE[9:]}| 16"),
    ],
    ids=["one number", "another size", "an unknown column", "another day", "another table"],
)
def test_rows_that_differ_in_anything_else_are_not_compared(page: str):
    """Rows that differ in more than the number of GPUs are not compared.

    They are not compared even if they differ in a column that teralog does not know.
    """
    assert "Scaling efficiency" not in [plot.title for plot in made(page)[0].plots]


def test_the_view_of_a_row_shows_its_line_and_its_findings():
    """The view of a row has its line number and the findings of check-tables.

    It also has sizes that the page gives outside of the table.
    """
    page, details = published("gpt2-experiments")
    place = next(at for at, run in enumerate(page.runs) if run.run_id == "16")
    detail = details[place]
    assert detail.place == "docs/speed.md:16"
    (finding,) = detail.findings
    assert finding.startswith("Global batch 4, but Micro-batch 1")
    assert finding.endswith("= 16; Global batch 16 or Chunks 1 or DP 1 would fit")
    assert detail.outside_sizes == {"Sequence length": "1024 (line 7)", "TP": "4 (line 8)"}
    assert page.runs[place].shown[-1] == "global-batch-size"
    assert "7 contradictions in 7 rows" in page.provenance


def test_a_page_without_a_contradiction_has_no_column_of_them():
    """If check-tables finds no contradiction, the table has no column for contradictions.

    A sentence on the page reports that there are none.
    """
    page, details = published("deepspeed-cifar")
    assert page.columns[-1].name != "findings"
    assert "finds no contradiction" in page.provenance
    assert not any(detail.findings for detail in details)


def report(*words: str) -> Result:
    """Run `teralog report` with these arguments."""
    return CliRunner().invoke(main, ["report", *words])


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a page with one table."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "speed.md"
    path.write_text(TABLE + GPUS)
    return path


def test_the_command_writes_the_page_next_to_its_source_and_reports_it(page: Path):
    """The command writes the HTML page next to its markdown file, and a message names the page.

    The command replaces a page that it wrote earlier.
    """
    pytest.importorskip("plotly")
    for _ in range(2):
        done = report("speed.md", "--html")
        assert (done.exit_code, done.stdout) == (0, "")
        assert done.stderr == "wrote speed.html\n"
    assert "<title>Speed</title>" in page.with_suffix(".html").read_text()
    assert sorted(path.name for path in page.parent.iterdir()) == ["speed.html", "speed.md"]


def test_a_page_of_another_author_is_not_overwritten(page: Path):
    """An HTML page that teralog did not write is not overwritten."""
    pytest.importorskip("plotly")
    page.with_suffix(".html").write_text("<!doctype html>mine")
    done = report("speed.md", "--html")
    assert done.exit_code == 1
    assert done.stderr == (
        "teralog: speed.html: exists, and teralog did not write it; move it elsewhere first\n"
    )
    assert page.with_suffix(".html").read_text() == "<!doctype html>mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "add --html to write it as an HTML page next to it"),
        (["--html", "--by-node"], "--by-node: applies only to a campaign"),
        (["--html", "--update", "other.md"], "--update: applies only to a campaign"),
        (["--html", "--format", "text"], "--format: applies only to a campaign"),
        (
            ["--html", "--filter", "x", "--sort", "y"],
            "--filter, --sort: applies only to a campaign",
        ),
        (["--html", "--results", "there"], "--results: applies only to a campaign"),
    ],
)
def test_options_that_a_page_cannot_use_are_refused(page: Path, options: list[str], message: str):
    """For a markdown page, `report` needs --html and refuses options that apply only to campaigns.

    After such an error, it has written no HTML page.
    """
    done = report("speed.md", *options)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not page.with_suffix(".html").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No table\n", "speed.md: contains no table with rows"),
        ("<!-- teralog: gpus=many -->\n", "speed.md:1: "),
    ],
)
def test_a_page_without_a_table_or_with_a_wrong_comment_is_reported(
    page: Path, text: str, message: str
):
    """If a page has no table, or a wrong comment for teralog, one sentence reports it."""
    pytest.importorskip("plotly")
    page.write_text(text if "No" in text else text + TABLE[9:] + GPUS)
    done = report("speed.md", "--html")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"teralog: {message}")


def test_a_page_that_is_not_there_is_reported(page: Path):
    """A message names a page that does not exist."""
    pytest.importorskip("plotly")
    done = report("other.md", "--html")
    assert done.exit_code == 1
    assert done.stderr == "teralog: other.md: No such file or directory\n"
    assert page.exists()


def test_without_plotly_nothing_is_written(page: Path, monkeypatch: pytest.MonkeyPatch):
    """Without plotly, a message shows what to install, and no HTML page is written."""
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    done = report("speed.md", "--html")
    assert done.exit_code == 1
    assert "pip install 'teralog[html]'" in done.stderr
    assert not page.with_suffix(".html").exists()


@pytest.mark.parametrize(
    "line",
    [
        "matrix: {strategy: [ddp, zero1]}\n",
        "include: [{framework: deepspeed, script: a/train.py}, {strategy: ddp}]\n",
    ],
)
def test_measured_columns_of_our_own_report_have_no_filter(reported: Callable[..., Any], line: str):
    """In a report of teralog, columns that distinguish runs, and the outcome, have a filter.

    Measured columns have no filter.
    """
    campaign, runs, report = reported(line, None, None)
    page, _ = made(report_markdown(campaign, report, runs, ()))
    titles = report.table.titles[: len(report.describing)]
    assert [column.title for column in page.columns if column.filter] == ["table", *titles, "ended"]


@pytest.mark.parametrize(
    "framework", [each for each in FRAMEWORKS.values() if each.report.measures]
)
def test_columns_measured_by_a_framework_have_no_filter(framework: Framework):
    """A framework's own measured columns have no filter; they are recognized by their titles."""
    titles = [column.title for column in framework.report.measures]
    cells = f"| n |{'|'.join(titles)}|\n|--|{'--|' * len(titles)}\n| 1 |{'2|' * len(titles)}\n"
    page, _ = made(cells)
    assert [column.title for column in page.columns if column.filter] == ["table", "n"]
