"""`teralog compare` with a row of a published page."""

import pytest
from made_up_runs import Folder

PAGE = """\
Sequence length = 64

| GPUs | Layers | Global batch | Step time (s) |
|--:|--:|--:|--:|
| 1 | 1 | 2 | 1.12 |
| 1 | 4 | 2 | 1.12 |
| 1 | 1 | 2 | 1.13 |
| 1 | 1 | 2 | OOM |
"""


def test_a_published_row_is_one_run_that_cannot_be_repeated(layers: Folder) -> None:
    """A published row counts as a single run, so 12 runs of A are not enough for a verdict.

    The output then has two numbers: how many runs took longer per step than the published row, and
    how many runs are needed.
    """
    (layers.path / "page.md").write_text(PAGE)
    arguments = ("made-up.yaml", "page.md:5", "--a", "num_layers == 1")
    (comparison,) = layers.compared(*arguments)
    assert (comparison["b"], comparison["units_b"]) == ("page.md:5 row 1 (1, 1)", 1)
    assert (comparison["verdict"], comparison["more"], comparison["least"]) == (
        "cannot tell",
        48,
        True,
    )
    sentence = " ".join(comparison["said"])
    assert "The published row is one run" in sentence
    assert "12 runs took longer per step than the published row" in sentence
    slow = layers.teralog("compare", *arguments, "--fail-if-slower", "0%")
    assert slow.exit_code == 0


def test_settings_in_a_published_row_are_reported(layers: Folder) -> None:
    """The output lists the settings that a published row contains, e.g. `num_layers`.

    All other settings are assumed to be those of A, which may be wrong.
    """
    (layers.path / "page.md").write_text(PAGE)
    (comparison,) = layers.compared("made-up.yaml", "page.md:5", "--a", "num_layers == 1")
    assert (
        "The published row states world_size, num_layers, global_batch_size; "
        "all other parameters are assumed to be those of A."
    ) in comparison["said"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (
            "page.md",
            "2 rows have the sizes of this run; give one of these rows: page.md:5, page.md:7",
        ),
        (
            "page.md:6",
            (
                "no row has the sizes of this run; page.md:6 is nearest, but has num_layers 4 "
                "instead of 1"
            ),
        ),
        ("page.md:8", "contains no time per iteration"),
        (
            "page.md:99",
            (
                "page.md:99: this line is not a row of a table; give the number of another line, "
                "or only the page"
            ),
        ),
        ("none.md", "none.md: No such file"),
    ],
)
def test_a_row_must_have_the_sizes_of_the_runs(layers: Folder, page: str, message: str) -> None:
    """A published row is compared only if its sizes, e.g. `num_layers`, are those of the runs.

    Otherwise the message names the sizes that differ.
    """
    (layers.path / "page.md").write_text(PAGE)
    done = layers.teralog("compare", "made-up.yaml", page, "--a", "num_layers == 1")
    assert done.exit_code == 1
    assert message in done.stderr


def test_a_report_of_ours_is_a_page_to_compare_with(folder: Folder) -> None:
    """`compare` accepts a page that `teralog report` wrote, and uses the median step times on it.

    The mean step times are four times as large, because they include a step of 9 s.
    """
    folder.campaign("warmup: 0\nmatrix: {num_layers: [2, 4]}\n", lambda planned: 0.25)
    assert folder.teralog("report", "made-up.yaml", "--write").exit_code == 0
    page = folder.path / "results" / "made-up" / "report.md"
    comparison = folder.compared("made-up.yaml", str(page))
    assert [pair["units_b"] for pair in comparison] == [1, 1]
    assert [pair["ratio"] for pair in comparison] == pytest.approx([1.0, 1.0], rel=0.01)
