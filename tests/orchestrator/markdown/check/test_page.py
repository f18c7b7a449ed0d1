"""`check-tables` reports contradictions in tables, and nothing else."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.cli.main import main
from orchestrator.common.errors import UserError
from orchestrator.hardware.gpus import Gpu, matching
from orchestrator.markdown.check.findings import TableFinding
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page

TIMES = "\N{MULTIPLICATION SIGN}"
V100 = tuple(matching("V100 SXM2"))


def table(titles: str, *rows: str, before: str = "", after: str = "") -> str:
    """Return a page with one table. In `titles` and in each row, blanks separate the cells."""
    lines = [titles.split(), ["-"] * len(titles.split()), *(row.split() for row in rows)]
    cells = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{before}\n\n{cells}\n\n{after}\n"


def findings_of(page: str, gpus: tuple[Gpu, ...] = ()) -> list[TableFinding]:
    """Return the findings of a page."""
    return check_page(read_page(page.encode()), gpus)


BATCH = "MBS Chunks DP GBS"
GPUS = "GPUs TP PP DP"
SIZES = "Size Layers Hidden Vocab"
SPEED = "GPUs GBS Step_time_(s) TFLOPs"

CONTRADICTIONS = {
    "a batch": (table(BATCH, "4 8 2 32"), "global-batch-size", "GBS 32, but MBS 4 x Chunks 8"),
    "a batch that is no multiple": (
        table("MBS DP GBS", "4 16 100"),
        "global-batch-size",
        "MBS 4 x DP 16 = 64 does not divide 100",
    ),
    "a batch by the GPUs that are left for data": (
        table("GPUs TP PP MBS Chunks GBS", "64 4 4 2 8 128"),
        "global-batch-size",
        "GPUs / TP / PP 4 = 64; GBS 64 or",
    ),
    "a batch without chunks where a list says there are none": (
        table(
            "MBS DP GBS", "4 16 128", after="- Global batch size is `micro-batch-size * dp-size`"
        ),
        "global-batch-size",
        "MBS 4 x chunks 1 (line 7) x DP 16 = 64",
    ),
    "GPUs": (table(GPUS, "64 4 8 1"), "world-size", "TP 4 x PP 8 x DP 1 = 32; GPUs 32 or TP 8 or"),
    "GPUs that do not divide": (table("GPUs PP DP", "16 32 1"), "world-size", "does not divide"),
    "GPUs by a list beside the table": (
        table("GPUs PP DP", "16 8 1", after="- `TP=4` in all of entries"),
        "world-size",
        "TP 4 (line 7) x PP 8 x DP 1 = 32",
    ),
    "GPUs by a comment": (
        table("GPUs PP DP", "16 8 1", before="<!-- teralog: tensor_parallel_size=4 -->"),
        "world-size",
        "tensor_parallel_size 4 (line 1)",
    ),
    "GPUs of nodes": (table("Nodes GPUs/node GPUs", "4 8 64"), "world-size", "= 32; GPUs 32 or"),
    "a rate": (
        table("GBS Time Throughput", "128 2.00s 60samples/s"),
        "throughput",
        "Time 2.00s means 64 sequences per second, but Throughput 60samples/s means 60",
    ),
    "a rate in tokens": (
        table("GBS Seq Time Throughput", "128 1024 2.0s 60000tokens/s"),
        "throughput",
        "means 58.59",
    ),
    "a rate in tokens by a list beside the table": (
        table("GBS Time Throughput", "128 2.0s 60000tokens/s", after="- Seq length is 1K tokens"),
        "throughput",
        "means 58.59",
    ),
    "a rate of one GPU": (
        table("GPUs Speed(samples/s) Speed(samples/s/GPU)", "8 64.0 7.00"),
        "throughput",
        "64.0 means 64 sequences per second, but Speed(samples/s/GPU) 7.00 means 56",
    ),
    "TFLOPs above the peak": (
        table("GPU_type TFLOPs", "V100 140"),
        "tflops-above-peak",
        "TFLOPs 140 is above 125, the peak of V100",
    ),
    "TFLOPs that are a bug": (
        table("GPU TFLOPs", "1 110", before="V100"),
        "tflops-too-high",
        "110",
    ),
    "a size that is not its shape's": (
        table(SIZES, "60B 64 8192 51200"),
        "model-size",
        "Size 60B, but Layers 64 and Hidden 8192 make 52B",
    ),
    "stages that Megatron-LM 2 lowers": (
        table(GPUS, "16 4 8 1"),
        "world-size",
        "PP 4 would fit; Megatron-LM 2 runs this row with PP 4, because it lowers PP to GPUs / TP",
    ),
    "stages that Megatron-LM 2 lowers, without copies": (
        table("GPUs TP PP", "64 4 32"),
        "world-size",
        "does not divide 64; Megatron-LM 2 runs this row with PP 16",
    ),
    "a size in 2**30": (
        table(SIZES, "48B 64 8192 51200"),
        "model-size",
        "make 52B (in units of 2**30, not of 10**9)",
    ),
    "a percentage": (table("Mem", "11087", "9160(↓11.4%)"), "relative-change", "it is ↓17.4%"),
    "a difference": (table("Mem", "11087", "9160(-1972)"), "relative-change", "is ↓1972"),
    "a direction": (table("Speed", "100", "90(↑10%)"), "relative-change", "it is ↓10%"),
    "a change with wide parentheses": (
        table("Mem", "11087", "9160\uff08-1927\uff0c↓11.4%\uff09"),
        "relative-change",
        "is ↓11.4%, but computed from 11087 (line 5)",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_named_with_both_numbers(case: str) -> None:
    """A contradiction in a row gives one finding, on the row's line.

    The finding has the type of the contradiction, and a sentence with both numbers.
    """
    page, kind, sentence = CONTRADICTIONS[case]
    (finding,) = findings_of(page)
    assert (finding.kind, finding.last_digit_only) == (kind, False)
    assert sentence in finding.message.replace(TIMES, "x")
    rows = [number for number, line in enumerate(page.split("\n"), 1) if line.startswith("|")]
    assert finding.line == rows[-1]


FINE = {
    "a batch": table(BATCH, "4 8 2 64"),
    "a batch with steps that have no column": table("MBS DP GBS", "4 16 256"),
    "GPUs": table(GPUS, "64 4 8 2"),
    "GPUs of each node": table("Nodes GPUs TP PP DP", "8 4 4 4 2"),
    "GPUs with tensor parallelism that has no column": table("GPUs PP DP", "16 8 1"),
    "GPUs with context parallelism": table("GPUs TP PP CP DP", "64 4 4 2 2"),
    "GPUs with expert parallelism": table("GPUs TP PP EP", "1024 2 16 64"),
    "a range of GPUs": table("GPUs TP PP DP", "128-512 4 8 1"),
    "a plan in a list": table("GPUs PP DP", "16 8 1", after="- later TP=4, if it fits"),
    "a condition in a list": table("GPUs PP DP", "16 8 1", after="- TP=4 in all but the first"),
    "two numbers in lists": table("GPUs PP DP", "16 8 1", after="- TP=4\n- TP=2"),
    "prose": table("GPUs PP DP", "16 8 1", after="So we take at most TP=4."),
    "a list of another section": table("GPUs PP DP", "16 8 1", after="## More\n\n- TP=4"),
    "a list in code": table("GPUs PP DP", "16 8 1", after="```\n- TP=4\n```"),
    "a rate": table("GBS Time Throughput", "128 2.0s 64samples/s"),
    "a rate and an average of its own": table("GBS Time Throughput", "128 2.00s 63.7samples/s"),
    "a rate of one GPU": table("GPUs GBS Time Throughput", "8 128 2.0s 8.0samples/s"),
    "a rate that says so": table("GPUs GBS Time Throughput", "8 128 2.0s 8.0samples/s/gpu"),
    "rates without a batch": table("Time Throughput", "2.0s 1samples/s"),
    "TFLOPs of all GPUs": table("GPUs Total_TFLOPs", "16 900", before="V100"),
    "TFLOPs of FP8": table("TFLOPs", "1200", before="H100 in FP8"),
    "TFLOPs of a GPU that is not known": table("TFLOPs", "1200", before="from A100 to GB300"),
    "TFLOPs without a GPU": table("TFLOPs", "1200"),
    "slow TFLOPs": table("TFLOPs", "12", before="V100"),
    "a size": table(SIZES, "52B 64 8192 51200"),
    "a size without embeddings": table("Size Layers Hidden", "85M 12 768"),
    "a size with embeddings": table("Size Layers Hidden", "124M 12 768"),
    "BLOOM": table("Size Layers Hidden", "176B 70 14336"),
    "a size of another family": table("Model Layers Hidden", "70B 80 8192", before="LLaMA 2"),
    "two columns of sizes": table("Params Size Layers Hidden", "9B 8B 64 8192"),
    "a number about": table("GBS Time Throughput", "128 ~2.0s 80samples/s"),
    "a change": table("Mem", "5603", "3849(-1754,↓31.3%)"),
    "a change with its arrow behind": table("Mem", "412", "395(4.1↓%)"),
    "a change of decimals": table("Speed", "1.2", "1.3(↑5.1%)"),
    "a change from the row above": table("Speed", "100", "50(-50%)", "55(+10%)"),
    "a change from the first row": table("Speed", "100", "50(-50%)", "55(-45%)"),
    "a change from the row below": table("Speed", "50(-50%)", "100"),
    "a change of percentages": table("MFU_(%)", "50", "46(↓4%)"),
    "a change from another table": table("Mem", "100") + table("Mem", "90(-10%)", "80(-20%)"),
    "a change from nothing": table("Mem", "90(-11%)"),
    "an efficiency": table("Speed", "100", "88(96%)"),
    "a deviation": table("Speed", "100", "88(±3%)"),
    "runs that failed": table(BATCH, "4 8 OOM 32", "— — — —", "x x x x"),
    "cells beyond the columns": table(BATCH, "4 8 2 32 1"),
    "code": f"```\n{table(BATCH, '4 8 2 32')}\n```",
}


@pytest.mark.parametrize("case", FINE)
def test_rows_that_may_be_right_give_no_finding(case: str) -> None:
    """A row gives no finding if there is a reason why its numbers may still be right.

    E.g. a number is marked as approximate, or the text around the table only plans a size.
    """
    assert findings_of(FINE[case]) == []


RATED = (
    "GPUs Size GBS Time TFLOPs",
    "16 7.5B 4 0.661s 23.2",
    "64 30B 4 1.439s 10.7",
    "128 50B 4 2.124s 6.0",
    "256 78B 4 2.953s {}",
    "256 60B 4 2.271s 3.4",
)


@pytest.mark.parametrize(
    ("tflops", "likely", "last_digit_only"),
    [("3.4", None, None), ("3.3", "3.4", True), ("4.2", "3.4", False), ("2.2", "3.4", False)],
)
def test_tflops_must_follow_as_they_do_in_the_other_rows(
    tflops: str, likely: str | None, last_digit_only: bool | None
) -> None:
    """In all rows, TFLOPs must follow from the other numbers by the same rule.

    A row that breaks the rule gives a finding. The check derives the rule from the other rows, so
    it needs neither the formula nor the sequence length.
    """
    findings = findings_of(table(*RATED).format(tflops))
    assert [(finding.line, finding.kind, finding.last_digit_only) for finding in findings] == (
        [(8, "tflops", last_digit_only)] if likely else []
    )
    assert all(f"TFLOPs {tflops}, but" in finding.message for finding in findings)
    assert all(f"it is {likely}" in finding.message for finding in findings)


@pytest.mark.parametrize("tflops", ["2.5", "6.8", "1.7"])
def test_tflops_worked_out_with_another_factor_are_not_doubted(tflops: str) -> None:
    """A row gives no finding if its TFLOPs differ from those of other rows by a usual factor.

    A factor of 3/4 means no recomputation; 2 or 1/2 means another sequence length.
    """
    assert findings_of(table(*RATED).format(tflops)) == []


def test_tflops_worked_out_with_the_size_in_2_30_are_called_that() -> None:
    """If TFLOPs were computed with a model size in units of 2**30, the finding says so."""
    rows = [*RATED[:4], "256 78B 4 2.953s 3.149", *RATED[5:]]
    (finding,) = findings_of(table(*rows))
    assert finding.message.endswith("(a size in units of 2**30 would give the printed value)")


def test_a_table_too_small_to_show_is_held_against_its_page() -> None:
    """A table of one row is compared with the rows of the page's other tables."""
    page = table(*RATED).format("3.4") + table(RATED[0], "64 30B 4 1.439s 12.9")
    (finding,) = findings_of(page)
    assert "as in 5 other rows it is 10.7" in finding.message


def test_a_model_smaller_than_those_that_agree_is_not_doubted() -> None:
    """Deviating TFLOPs give no finding if the row's model is smaller than those of the other rows.

    For a small model, exact formulas give more FLOPs per parameter.
    """
    rows = [f"64 52B 1024 {seconds}s {52 * 8388.608 / seconds / 64:.1f}" for seconds in (125, 217)]
    page = table(RATED[0], *rows, rows[0], "64 1.3B 1024 3.00s 60.1")
    assert findings_of(page) == []


@pytest.mark.parametrize(
    ("cell", "last_digit_only"),
    [("742(↑3.4%)", True), ("742(↑3.5%)", None), ("742(↑3.2%)", False), ("742(↑3%)", None)],
)
def test_what_is_off_in_the_last_digit_is_distinguished(
    cell: str, last_digit_only: bool | None
) -> None:
    """A finding shows whether a change is wrong only in its last digit.

    E.g. from 717 to 742 is +3.487 %. So a stated change of 3.4 % is wrong only in its last digit. A
    stated change of 3.2 % is wrong by more.
    """
    findings = findings_of(table("Speed", "717", cell))
    assert [finding.last_digit_only for finding in findings] == (
        [] if last_digit_only is None else [last_digit_only]
    )


def test_where_both_parts_of_a_change_agree_the_other_row_is_suspected() -> None:
    """If a cell's difference and percentage agree, the number in the other row may be wrong.

    The other row is the one with which the cell compares its number. The finding shows the number
    there that would make both the difference and the percentage right.
    """
    (finding,) = findings_of(table("Mem", "11089", "9082(-2727,↓23.1%)"))
    assert finding.message.endswith("would be right if line 5 had 11809")


def test_slow_rows_are_named_only_for_a_gpu_that_is_asked_about() -> None:
    """The check reports contradictions. A slow run is none, so it is reported only with --gpu."""
    page = table("TFLOPs", "24.9", "25.1", "60", before="V100")
    assert findings_of(page) == []
    (finding,) = findings_of(page, V100)
    assert (finding.kind, finding.line) == ("tflops-mistuned", 5)


def test_an_unknown_setting_of_a_page_is_reported() -> None:
    """A misspelt setting in a `teralog` comment of a page raises UserError."""
    with pytest.raises(UserError, match="tensor_parallel_siz"):
        findings_of(table("GPUs", "1", before="<!-- teralog: tensor_parallel_siz=4 -->"))


@pytest.mark.parametrize(
    "page",
    [
        table("TFLOPs", "60", "9" * 5000, before="V100"),
        table("Speed", "9" * 5000, "89(↓14.4%)"),
        table(GPUS, "64 4 8 2", before="- TP = " + "9" * 5000),
    ],
)
def test_text_too_long_for_a_number_is_ignored(page: str) -> None:
    """A number with too many digits for Python is ignored."""
    assert findings_of(page) == []


def test_control_characters_of_a_page_do_not_reach_the_terminal() -> None:
    """Messages quote cells and titles without control characters."""
    (finding,) = findings_of(table(f"Run {GPUS}", "a\x1b[2J 64 4 8 1"))
    assert "\x1b" not in finding.message


@given(
    st.binary() | st.text(alphabet="|-: \n#0123456789.,%()↓↑+BsGPUsTFLOPsDPMBS`=").map(str.encode)
)
@example(b"| GPUs | DP |\n|-|-|\n| 0 | 0 |")
@example(
    b"| Size | TFLOPs | GPUs | GBS | Time |\n|-|-|-|-|-|\n" + b"| 0B | 0.0 | 1 | 1 | 0s |\n" * 5
)
def test_any_bytes_are_a_page(data: bytes) -> None:
    """A page of any bytes can be checked without an exception."""
    page = read_page(data)
    rows = {row.line for table in page.tables for row in table.rows}
    assert {finding.line for finding in check_page(page)} <= rows


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 4, 8]),
            st.sampled_from([1, 2, 4, 8, 16]),
            st.integers(1, 64),
            st.integers(1, 512),
            st.integers(1, 48),
            st.floats(0.05, 900),
            st.sampled_from([7.5, 18, 39, 52, 206]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([3, 4]),
    st.sampled_from([512, 1024, 2048]),
    st.integers(0, 3),
)
def test_a_computed_table_has_no_finding(
    rows: list[tuple[int, int, int, int, int, float, float]],
    factor: int,
    seq_length: int,
    decimals: int,
) -> None:
    """A table whose numbers were computed from each other gives no finding.

    This holds for any number of decimals to which the numbers are rounded. The test ignores
    findings about rates, because a rounded time may differ from a rounded rate.
    """
    lines = []
    for tensor, pipeline, data, chunks, micro_batch, seconds, size in rows:
        world, batch = tensor * pipeline * data, chunks * micro_batch * data
        tflops = size * factor * 2 * seq_length * batch / (seconds * world * 1e3)
        lines.append(
            f"{world} {size:g}B {tensor} {pipeline} {data} {chunks} {micro_batch} {batch} "
            f"{seconds:.{decimals}f}s {tflops:.{decimals}f} {batch / seconds:.{decimals}f}samples/s"
        )
    titles = "GPUs Size TP PP DP Chunks MBS GBS Time TFLOPs Speed"
    # A rate is compared with a time to a hundredth, which a few digits may not tell.
    assert [
        finding for finding in findings_of(table(titles, *lines)) if finding.kind != "throughput"
    ] == []


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Return a folder with two pages: one with a finding, and one without."""
    (tmp_path / "wrong.md").write_text(table(GPUS, "64 4 8 1"))
    (tmp_path / "right.md").write_text(table(GPUS, "64 4 8 2"))
    return tmp_path


def call(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of `check-tables` in a folder."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["check-tables", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_a_line_a_finding(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check-tables` prints one line per finding: the file, the line number and a sentence.

    On stderr it prints the number of findings.
    """
    status, out, err = call(pages, monkeypatch, "wrong.md", "right.md")
    assert status == 1
    assert out.replace(TIMES, "x").startswith(
        "wrong.md:5: row 1 (64, 4): GPUs 64, but TP 4 x PP 8 x DP 1 = 32"
    )
    assert err == "1 finding in 2 tables of 2 files; findings about the last digit only: 0\n"


def test_the_command_prints_json(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON is an array of objects, which is empty if there are no findings."""
    status, out, _ = call(pages, monkeypatch, "--json", "wrong.md")
    (record,) = json.loads(out)
    assert status == 1
    assert list(record) == ["file", "line", "kind", "message", "last_digit_only"]
    assert call(pages, monkeypatch, "--json", "right.md")[:2] == (0, "[]\n")


def test_a_file_that_cannot_be_read_is_a_sentence_and_the_others_are_read(
    pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a file cannot be read, a message reports it, and the other files are still checked.

    The exit code is 1 even if the other files have no findings.
    """
    status, out, err = call(pages, monkeypatch, "missing.md", ".", "right.md")
    assert (status, out) == (1, "")
    assert "teralog: missing.md: No such file or directory\n" in err
    assert "teralog: .: Is a directory\n" in err
    assert "of 1 file" in err
    _, _, err = call(pages, monkeypatch, "missing.md")
    assert err == "teralog: missing.md: No such file or directory\n"


def test_a_gpu_that_is_not_known_is_a_sentence(
    pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the GPU after --gpu is unknown, a message names the option and this GPU."""
    status, _, err = call(pages, monkeypatch, "--gpu", "V101", "right.md")
    assert status == 1
    assert "--gpu: the peak of 'V101' is not known" in err


REPORT = """\
| size (B) | GPUs | global batch | recompute | samples/s (avg) | samples/s (last) | step mean (s) \
| median (s) | spread (s) | n | TFLOPs/GPU |
|--|--|--|--|--|--|--|--|--|--|--|
| 0.1235 | 8 | 64 | no | 25.60 | 31.00 | 2.50 | 2.00 | 1.2 | 9 | 10.0 |
| 0.1235 | 8 | 128 | no | 51.20 | 33.00 | 2.50 | 2.00 | 1.2 | 9 | 20.0 |
| 0.1235 | 8 | 256 | no | 102.4 | 32.00 | 2.50 | 2.00 | 1.2 | 9 | 40.0 |
| 0.1235 | 8 | 64 | yes | 25.60 | 31.00 | 2.50 | 2.00 | 1.2 | 9 | 12.4 |
"""


def test_averages_of_a_report_of_ours_contradict_nothing() -> None:
    """A teralog report gives no finding, although the mean and the median of its step times differ.

    With other column titles, the same numbers give findings.
    """
    assert findings_of(REPORT) == []
    # As people's own, the same numbers are held against each other.
    theirs = REPORT.replace("samples/s (last)", "Notes").replace("median (s)", "Time (s)")
    assert {finding.kind for finding in findings_of(theirs)} == {"throughput", "tflops"}
