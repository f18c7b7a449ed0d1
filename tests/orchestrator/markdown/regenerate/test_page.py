"""`regenerate-tflops` computes TFLOPs in tables again, and changes nothing else on a page."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.errors import UserError
from orchestrator.markdown.document.tables import read_document
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.settings import Formula, PageSettings
from orchestrator.markdown.regenerate.columns import COMPUTED
from orchestrator.markdown.regenerate.page import Regenerated, regenerate

PAGE = (Path(__file__).parents[3] / "data" / "benchmarks.md").read_bytes()
LENGTH = PageSettings(constants={Meaning.SEQ_LENGTH: 1024})
ADDED = ("mfu", "hfu", "tokens_per_second", "samples_per_second")
V100 = PageSettings(gpu="V100-SXM2", constants={Meaning.SEQ_LENGTH: 1024})

HEADER = "| GPUs | Size | Glob-BS | Throughput | TFlops |\n| ---: | ---: | ---: | ---: | ---: |\n"


def table(*rows: str, header: str = HEADER) -> bytes:
    """Return a table with these rows below the header.

    E.g. the row `16 | 7.5B | 4 | 0.661s` is a run on 16 GPUs with 7.5 billion parameters, a global
    batch of 4 and 0.661 s per step. With a sequence length of 1024, its TFLOPs are
    8·7.5·1024·4/(0.661·16·1000) = 23.2, where 8 is 2·factor.
    """
    return (header + "".join(f"{row}\n" for row in rows)).encode()


def only_row(made: Regenerated) -> str:
    """Return the last line of a page, which is the only row of its table."""
    return made.data.decode().rstrip("\n").rpartition("\n")[2]


def test_a_page_that_is_right_stays_as_it_is() -> None:
    """If the TFLOPs in a page equal the computed ones, the page stays as it is."""
    made = regenerate(PAGE, PageSettings())
    assert made.data == PAGE
    assert (made.rows, made.changes, made.unclear) == (9, [], [])
    assert [note.text for note in made.notes] == [
        "this line sets seq_length=1024 for the whole page"
    ]


@pytest.mark.parametrize(
    "page",
    [PAGE.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + PAGE, PAGE.rstrip(b"\n"), b"\xff\x00" + PAGE],
    ids=["CRLF", "BOM", "no last newline", "odd bytes"],
)
def test_a_stale_cell_is_mended_and_nothing_else(page: bytes) -> None:
    """A cell with wrong TFLOPs is corrected, and no other byte changes.

    This holds for any line endings, and with bytes that are not text.
    """
    for stale, right in ((b"14.2 ", b"14.3 "), (b"~52", b"~61"), (b"**54.61**", b"**55.61**")):
        assert page.count(stale) == 1
        wrong = page.replace(stale, right)
        made = regenerate(wrong, PageSettings())
        assert made.data == page
        assert len(made.changes) == 1


def test_a_change_shows_the_line_the_column_and_both_cells() -> None:
    """The record of a change has the line, the column's title, the old and the new cell."""
    (change,) = regenerate(table("| 16 | 7.5B | 4 | 0.661s | 29.2 |"), LENGTH).changes
    assert change == (3, "TFlops", "29.2", "23.2")


@pytest.mark.parametrize(
    ("row", "new"),
    [
        ("| 16 | 7.5B | 4 | 0.661s |   22.0 |", "| 16 | 7.5B | 4 | 0.661s |   23.2 |"),
        ("| 16 | 7.5B | 4 | 0.661s |        |", "| 16 | 7.5B | 4 | 0.661s |   23.2 |"),
        ("| 16 | 7.5B | 4 | 0.661s |   22   |", "| 16 | 7.5B | 4 | 0.661s |   23   |"),
        ("| 16 | 7.5B | 4 | 661ms |  122.00 |", "| 16 | 7.5B | 4 | 661ms |   23.24 |"),
        ("| 16 | 7.5B | 4 | 66.1ms |  22.0 |", "| 16 | 7.5B | 4 | 66.1ms | 232.4 |"),
        ("| 16 | 7.5B | 4 | 6.05 samples/s | 1.0 |", "| 16 | 7.5B | 4 | 6.05 samples/s | 23.2 |"),
        ("16 | 7.5B | 4 | 0.661s | 1.0", "16 | 7.5B | 4 | 0.661s | 23.2"),
        ("  |16|7.5B|4|0.661s|1.0|", "  |16|7.5B|4|0.661s|23.2|"),
        ("| 2x8 | 7,500M | 4 | ~0.661 s/it | 1.0 |", "| 2x8 | 7,500M | 4 | ~0.661 s/it | 23.2 |"),
    ],
)
def test_a_row_gets_the_value_of_the_formula(row: str, new: str) -> None:
    """Computed TFLOPs are written in the number format of their cell.

    The cell keeps its width if the computed number fits into it.
    """
    made = regenerate(table(row), LENGTH)
    assert only_row(made) == new
    assert regenerate(made.data, LENGTH).data == made.data


@pytest.mark.parametrize(
    "row",
    [
        "|      |      |         |            |        |",
        "| ---- | ---- | ------- | ---------- | ------ |",
        "| 16 | 7.5B | 4 | OOM | |",
        "| 16 | 7.5B | 4 | OOM at step 3 | - |",
        "| 16 | 7.5B | 4 | | OOM |",
        "| 16 | 7.5B | 4 | 0.661s | OOM |",
        "| 64 | 52B | 1024 | | |",
        "| 16 | 7.5B | 4 | failed | |",
        "| best of all |",
        "no pipe at all",
    ],
)
def test_a_row_without_a_result_is_kept_silently(row: str) -> None:
    """Blank rows, separators and rows of failed runs stay, and no message mentions them."""
    made = regenerate(table(row), LENGTH)
    assert made.data == table(row)
    assert (made.unclear, made.rows) == ([], 0 if "0.661s" not in row else 1)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("| 16 | big | 4 | 0.661s | 1.0 |", "Size: 'big' is not a size such as 7.5B or 350M"),
        ("| | 7.5B | | 0.661s | 1.0 |", "Glob-BS is blank; GPUs is blank"),
        ("| 16 | 7.5B | 4 | | 1.0 |", "Throughput is blank"),
        ("| 16 | 7.5B | 4 | 1-2s | 1.0 |", "Throughput: '1-2s' is a range; one number is needed"),
        ("| 16 | 7.5B | 4 | 0.661s | 1-2 |", "TFlops: '1-2' is not a single number"),
        ("| 16 | 7.5B | 4 | 0.661s |", "the row has no cell for the column TFlops"),
        (
            "| 16 | 7.5B | 4 | 0.661s | 1.0 | x |",
            "the row has 6 cells, the table 5 columns; | in a cell is \\|",
        ),
        (
            "| 16 | 7.5B | 4 | 1e-30s | 1.0 |",
            "the numbers of this row give more TFLOPs than any GPU reaches",
        ),
    ],
)
def test_a_row_that_is_not_understood_is_listed_and_kept(row: str, why: str) -> None:
    """The message about a row that cannot be parsed has the line and the reason."""
    made = regenerate(table(row), LENGTH)
    assert made.data == table(row)
    assert made.unclear == [(3, why)]


@pytest.mark.parametrize(
    ("titles", "why"),
    [
        ("GPUs | Size | Throughput | TFlops", "no column contains the global batch size"),
        ("GPUs | GBS | Time | TFlops", "no column contains the size of the model"),
        (
            "Nodes | Time | GBS | Size | TFlops",
            ("a column contains the number of nodes, but no column contains gpus_per_node"),
        ),
        ("GPUs | Size | GBS | TFlops", "no column contains the time per iteration"),
        (
            "TFlops | TFLOPs/GPU | GBS | Time",
            (
                "'TFlops' and 'TFLOPs/GPU' both contain TFLOPs; add the word Reported to one of "
                "these titles"
            ),
        ),
    ],
)
def test_a_table_that_cannot_be_parsed_is_reported_once(titles: str, why: str) -> None:
    """If no row of a table can be computed, one message gives the reason for the whole table."""
    columns = titles.count("|") + 1
    row = " | ".join(["1"] * columns)
    page = table(row, row, header=f"{titles}\n{'|'.join(['--'] * columns)}\n")
    made = regenerate(page, LENGTH)
    assert made.data == page
    (remark,) = made.unclear
    assert remark.line == 1
    assert remark.text.startswith(why)
    assert remark.text.endswith("; the table is unchanged")


def test_a_missing_sequence_length_is_not_guessed() -> None:
    """If the sequence length is unknown, the tables stay unchanged, and a message asks for it."""
    page = table("| 16 | 7.5B | 4 | 0.661s | 1.0 |")
    made = regenerate(page, PageSettings())
    assert made.data == page
    assert made.unclear[0].text.startswith("no column contains the sequence length")


def test_a_reported_column_is_left_and_noticed() -> None:
    """A column with the title "Reported TFLOPs" stays unchanged, and a message reports that.

    Its values are not computed again, because the title means that a training program printed them.
    """
    header = "| GPUs | Size | GBS | Time | TFLOPs | Reported TFLOPs |\n|-|-|-|-|-|-|\n"
    made = regenerate(table("| 16 | 7.5B | 4 | 0.661s | 1.0 | 1.0 |", header=header), LENGTH)
    assert only_row(made) == "| 16 | 7.5B | 4 | 0.661s | 23.2 | 1.0 |"
    assert made.notes == (
        (1, ("'Reported TFLOPs' is unchanged: its title says that these values were reported")),
    )


def test_settings_of_the_page_override_options() -> None:
    """Settings in a comment of the page hold for the tables below it, and override options.

    A message reports each setting that differs from the option.
    """
    rows = table("| 16 | 7.5B | 4 | 0.661s | 1.0 |")
    page = rows + b"\n<!-- teralog: seq_length=2048 factor=3 decimals=2 -->\n\n" + rows
    made = regenerate(page, LENGTH)
    assert [change.new for change in made.changes] == ["23.2", "34.86"]
    assert made.notes == ((5, "the page's setting seq_length=2048 overrides the command's option"),)


def test_a_comment_may_stand_on_the_first_line() -> None:
    """A comment may be on the first line, even after a byte-order mark."""
    page = b"\xef\xbb\xbf<!-- teralog: seq_length=1024 -->\n" + table(
        "16 | 7.5B | 4 | 0.661s | 1.0"
    )
    assert only_row(regenerate(page, PageSettings())) == "16 | 7.5B | 4 | 0.661s | 23.2"


def test_a_mistake_in_a_comment_changes_nothing() -> None:
    """Mistakes in a page's comments raise one UserError, which has each mistake with its line."""
    page = b"<!-- teralog: factor=5 -->\n\n" + PAGE + b"\n<!-- teralog: foo=1 -->\n"
    with pytest.raises(UserError) as caught:
        regenerate(page, PageSettings())
    assert [problem[: problem.index(":")] for problem in caught.value.problems] == ["1", "49"]


@pytest.mark.parametrize(
    ("settings", "tflops"),
    [
        (PageSettings(), "23.2"),
        (PageSettings(factor=3), "17.4"),
        (PageSettings(decimals=3), "23.238"),
        (PageSettings(decimals=0), "23"),
    ],
)
def test_settings_change_the_value(settings: PageSettings, tflops: str) -> None:
    """The settings `factor` and `decimals` change the TFLOPs that are written."""
    page = b"seq_length=1024\n\n" + table("| 16 | 7.5B | 4 | 0.661s | 1.0 |")
    (change,) = regenerate(page, settings).changes
    assert change.new == tflops


@pytest.mark.parametrize(("factor", "passes", "head"), [(4, 96, 16), (3, 72, 12)])
def test_the_formula_of_narayanan_takes_the_model_s_shape(
    factor: int, passes: int, head: int
) -> None:
    """The formula of Narayanan et al. uses the sizes of the model, here of GPT-3 on 1024 GPUs.

    The FLOPs are 96·B·s·l·h²·(1 + s/6h + V/16lh). B: global batch, s: sequence length, l: layers,
    h: hidden size, V: padded vocabulary. Without recomputation, 72 replaces 96, and 12 replaces 16.
    """
    layers, hidden, vocabulary, seq_length, batch = 96, 12288, 51200, 2048, 1536
    flops = passes * batch * seq_length * layers * hidden**2
    flops *= 1 + seq_length / (6 * hidden) + vocabulary / (head * layers * hidden)
    page = (
        f"<!-- teralog: formula={Formula.NARAYANAN} padded_vocab_size=51200 seq_length=2048 -->\n\n"
        "| GPUs | Layers | Hidden | GBS | Time | TFLOPs |\n|-|-|-|-|-|-|\n"
        "| 1024 | 96 | 12,288 | 1536 | 31.4 | 1.0 |\n"
    )
    (change,) = regenerate(page.encode(), PageSettings(factor=factor)).changes
    assert change.new == f"{flops / 31.4 / 1024 / 1e12:.1f}"


def test_columns_are_added_behind_the_tflops_and_computed_when_there() -> None:
    """Added columns, e.g. MFU, are placed after the TFLOPs.

    A second call adds no column, but computes the values of the added ones again.
    """
    page = table("| 16 | 7.5B | 4 | 0.661s | 23.2 |", "|  |  |  | OOM |  |")
    made = regenerate(page, V100, ADDED)
    assert made.new_columns == 4
    assert made.data.decode() == (
        "| GPUs | Size | Glob-BS | Throughput | TFlops |   MFU |   HFU | Tokens/s | Samples/s |\n"
        "| ---: | ---: | ---: | ---: | ---: | ----: | ----: | -------: | --------: |\n"
        "| 16 | 7.5B | 4 | 0.661s | 23.2 | 13.9% | 18.6% |     6197 |      6.05 |\n"
        "|  |  |  | OOM |  |       |       |          |           |\n"
    )
    again = regenerate(made.data, V100, ADDED)
    assert (again.data, again.new_columns) == (made.data, 0)
    stale = made.data.replace(b"18.6%", b"99.9%")
    assert regenerate(stale, V100, ADDED).data == made.data
    assert regenerate(stale, V100).data == stale


def test_tflops_are_added_where_a_benchmark_has_none() -> None:
    """With `--add tflops`, a table of benchmarks without TFLOPs gets them after the step times.

    Without --add, nothing changes. Tables of other content never change.
    """
    page = b"GPUs | Size | GBS | Time | Notes\n-|-|-|-|-\n16 | 7.5B | 4 | 0.661 | x\n"
    assert regenerate(page, LENGTH).data == page
    made = regenerate(page, LENGTH, ["tflops"])
    assert made.data.splitlines()[2] == b"16 | 7.5B | 4 | 0.661 |   23.2 | x"
    other = b"| a | b |\n| - | - |\n| 1 | 2 |\n"
    assert (regenerate(other, LENGTH, ["tflops"]).data, regenerate(other, LENGTH).unclear) == (
        other,
        [],
    )


def test_a_row_that_no_pipe_ends_gets_no_blanks_at_its_end() -> None:
    """A row without a pipe at its end gets no blanks there, which would break the line."""
    page = b"GPUs | Size | GBS | Time\n-|-|-|-\n16 | 7.5B | 4 | 0.661\n1 | 1B | 1 | OOM\n"
    made = regenerate(page, LENGTH, ["tflops"])
    assert made.data.splitlines() == [
        b"GPUs | Size | GBS | Time | TFLOPs",
        b"-|-|-|- | -----:",
        b"16 | 7.5B | 4 | 0.661 |   23.2",
        b"1 | 1B | 1 | OOM |",
    ]
    assert regenerate(made.data, LENGTH, ["tflops"]).data == made.data


def test_utilizations_need_a_gpu_that_is_known() -> None:
    """MFU and HFU need a known GPU: without it, one error per page names the option to give."""
    with pytest.raises(UserError) as caught:
        regenerate(PAGE, LENGTH, ["mfu", "hfu"])
    needed = "15: MFU and HFU need the peak of the GPU; give --gpu or --gpu-peak-tflops"
    assert caught.value.problems == (needed,)
    with pytest.raises(UserError, match="15: 'Voodoo 2' is not in the table of GPUs") as caught:
        regenerate(PAGE, PageSettings(gpu="Voodoo 2"), ["mfu"])
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("settings", [V100, PageSettings(gpu_peak_tflops=125)])
def test_the_peak_is_the_gpu_s_or_the_one_given(settings: PageSettings) -> None:
    """The peak is that of the named GPU, e.g. 125 TFLOP/s of a V100 SXM2, or the given one."""
    page = b"<!-- teralog: seq_length=1024 -->\n\n" + table("| 16 | 7.5B | 4 | 0.661s | 23.2 |")
    assert only_row(regenerate(page, settings, ["hfu"])).endswith("| 18.6% |")


CELLS = st.sampled_from(
    [
        *("", "16", "64", "7.5B", "52B", "4", "1,024", "0.661s", "129 s", "100 samples/s", "OOM"),
        *("23.2", "12.5", "**9.9**", "1.0%", "30-60", "-", "---", "a\\|b", "`a|b`", "|", "é"),
    ]
)
TITLES = st.sampled_from(
    [
        *("GPUs", "Size", "Glob-BS", "Throughput", "TFlops", "TFLOPs", "Reported TFLOPs", "Notes"),
        *(
            "Seq",
            "Nodes",
            "DP",
            "TP",
            "PP",
            "MBS",
            "GAS",
            "Time (ms)",
            "Samples/s",
            "MFU",
            "HFU (%)",
        ),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Return a table of any of these titles and cells, with or without outer pipes."""
    titles = draw(st.lists(TITLES, min_size=2, max_size=9, unique=draw(st.booleans())))
    sizes = st.integers(len(titles) - 1, len(titles) + 1)
    rows = [titles, [draw(st.sampled_from(["-", ":-:", "--:"])) for _ in titles]]
    for _ in range(draw(st.integers(0, 4))):
        size = draw(sizes)
        rows.append(draw(st.lists(CELLS, min_size=size, max_size=size)))
    edge = draw(st.sampled_from(["| {} |", "{}", " | {} |", "|{}"]))
    joint = draw(st.sampled_from([" | ", "|", "  |   "]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(edge.format(joint.join(row)) for row in rows) + end


BLOCKS = tables() | st.sampled_from(
    ["text\n", "\n", "```\n", "<!-- x\n", "-->\n", "# title\n", "\ufeff", "- item\n\n", "> "]
)
DOCUMENTS = st.lists(BLOCKS, max_size=6).map("\n".join).map(str.encode)
ADDITIONS = st.lists(st.sampled_from(sorted(COMPUTED)), max_size=3)


@given(DOCUMENTS | st.binary(max_size=300), ADDITIONS)
def test_the_second_time_nothing_changes(data: bytes, add: list[str]) -> None:
    """If a page is computed twice with the same added columns, the second time changes nothing.

    This holds for any document.
    """
    once = regenerate(data, V100, add)
    again = regenerate(once.data, V100, add)
    assert again.data == once.data
    assert (again.changes, again.new_columns) == ([], 0)


@given(DOCUMENTS | st.binary(max_size=300))
def test_only_cells_of_the_column_change(data: bytes) -> None:
    """Only cells in the column of TFLOPs change; all other bytes of the page stay."""
    made = regenerate(data, LENGTH)
    titles = {change.line: change.title for change in made.changes}
    rest_before, rest_after = list(data.split(b"\n")), list(made.data.split(b"\n"))
    tables = [read_document(page).tables for page in (data, made.data)]
    for before, after in zip(*tables, strict=True):
        texts = [cell.text for cell in before.header.cells]
        for old, new in zip(before.rows, after.rows, strict=True):
            if old.line in titles:
                column = texts.index(titles[old.line])
                cells = [*old.raw_cells], [*new.raw_cells]
                assert cells[0].pop(column) != cells[1].pop(column)
                assert cells[0] == cells[1]
                rest_before[old.line - 1] = rest_after[new.line - 1] = b""
    assert rest_before == rest_after
