"""The TFLOPs on BigScience's original page of GPT-2 experiments follow from its formula.

The tests are skipped if the original page is not in the folder `shared` next to this checkout.
"""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main
from orchestrator.markdown.meaning.settings import PageSettings
from orchestrator.markdown.regenerate.page import regenerate

FOUND = sorted((Path(__file__).parents[5] / "shared" / "seeds").glob("002_*"))

pytestmark = pytest.mark.skipif(not FOUND, reason="the published page is not here")

# A row by the page's own words: GPUs first, then the size, and at some place what a step takes.
RESULT = re.compile(
    rb"^\| *(?P<gpus>\d+) *\| *(?P<size>[\d.]+)B *\|.*"
    rb"\| *(?P<batch>\d+) *\| *(?P<seconds>[\d.]+)s *\| *(?P<tflops>[\d.]+) *\|",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def page() -> bytes:
    """Return the bytes of the original page."""
    return FOUND[0].read_bytes()


def test_every_row_is_computed_and_equal_to_one_decimal(page: bytes) -> None:
    """All 61 printed TFLOPs equal the computed ones to one decimal.

    They are computed twice: by `regenerate`, and by the test with a formula of its own.
    """
    rows = list(RESULT.finditer(page))
    for row in rows:
        size, batch, seconds, gpus = (
            float(row[name]) for name in ("size", "batch", "seconds", "gpus")
        )
        tflops = size * 4 * 2 * 1024 * batch / (seconds * gpus * 1e3)
        assert row["tflops"].decode() == f"{tflops:.1f}"
    made = regenerate(page, PageSettings())
    assert (made.rows, made.changes, made.unclear) == (len(rows), [], [])
    assert len(rows) == 61


def test_the_command_finds_nothing_to_change() -> None:
    """`regenerate-tflops --check` without further options finds nothing to change on the page.

    No option is needed, because the page's prose contains the sequence length.
    """
    done = CliRunner().invoke(main, ["regenerate-tflops", "--check", str(FOUND[0])])
    assert (done.exit_code, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "convert",
    [
        lambda page: page,
        lambda page: page.replace(b"\n", b"\r\n"),
        lambda page: b"\xef\xbb\xbf" + page,
        lambda page: page.rstrip(b"\n"),
    ],
    ids=["as it is", "CRLF", "BOM", "no last newline"],
)
def test_all_its_cells_are_mended_when_stale(page: bytes, convert) -> None:
    """If all TFLOPs on the page are wrong, each is corrected, and no other byte changes."""
    page = convert(page)
    places = [row.span("tflops") for row in RESULT.finditer(page)]
    stale = bytearray(page)
    for begin, end in places:
        stale[begin:end] = b"9.9".rjust(end - begin, b"9")
    assert regenerate(page, PageSettings()).data == page
    made = regenerate(bytes(stale), PageSettings())
    assert made.data == page
    assert len(made.changes) == 61


def test_columns_are_added_once(page: bytes) -> None:
    """Each table with TFLOPs gets three added columns; a second call changes nothing."""
    add = ("mfu", "hfu", "tokens_per_second")
    made = regenerate(page, PageSettings(gpu="V100-SXM2"), add)
    assert made.new_columns == 3 * 10
    assert b"|   23.2 | 13.9% | 18.6% |" in made.data
    assert regenerate(made.data, PageSettings(gpu="V100-SXM2"), add).data == made.data
