"""Write numbers into table cells; the number format and the width of a cell stay."""

import pytest

from orchestrator.markdown.meaning.cells import NotUnderstoodError
from orchestrator.markdown.regenerate.cells import ColumnForm, Form, common_form, exchanged

TO_RIGHT = ColumnForm(
    is_share=False, in_percent=False, to_right=True, decimals=None, blank=Form(decimals=1)
)
TO_LEFT = ColumnForm(
    is_share=False, in_percent=False, to_right=False, decimals=None, blank=Form(decimals=1)
)
SHARE = ColumnForm(
    is_share=True,
    in_percent=False,
    to_right=True,
    decimals=None,
    blank=Form(decimals=1, scale=100, sign="%"),
)


@pytest.mark.parametrize(
    ("cell", "value", "new"),
    [
        (b"   52.8 ", 7.31, b"    7.3 "),
        (b"   52.8 ", 152.84, b"  152.8 "),
        (b" 52.8   ", 7.31, b" 7.3    "),
        (b" 52.8   ", 152.84, b" 152.8  "),
        (b" 52.8 ", 7.31, b"  7.3 "),
        (b" 52.8 ", 152.84, b" 152.8 "),
        (b"52.8", 7.31, b"7.3"),
        (b"52.8", 152.84, b"152.8"),
        (b"  52 ", 7.31, b"   7 "),
        (b" 52.80 ", 7.314, b"  7.31 "),
        (b" **52.8** ", 7.31, b"  **7.3** "),
        (b" ~52.8 ", 7.31, b"  ~7.3 "),
        (b" 52.8 TFLOPs ", 61.0, b" 61.0 TFLOPs "),
        (b" 1,024.5 ", 2345.6, b" 2,345.6 "),
        (b" 52.8 (best) ", 61.0, b" 61.0 (best) "),
        (b"        ", 7.31, b"    7.3 "),
        (b"  ", 7.31, b" 7.3 "),
        (b"", 7.31, b"7.3"),
        (b"   -    ", 7.31, b"   7.3  "),
        ("   —   ".encode(), 7.31, b" 7.3   "),
    ],
)
def test_a_number_keeps_the_form_and_the_width_of_its_cell(
    cell: bytes, value: float, new: bytes
) -> None:
    """A new number has the decimals, the thousands separators and the width of the old one.

    The text around the number stays.
    """
    assert TO_RIGHT.written(cell, value) == new
    assert TO_RIGHT.written(new, value) == new


@pytest.mark.parametrize(("cell", "new"), [(b" 52.8 ", b" 7.3  "), (b"        ", b" 7.3    ")])
def test_a_column_to_the_left_is_padded_on_the_right(cell: bytes, new: bytes) -> None:
    """In a left-aligned column, a number is padded on the right."""
    assert TO_LEFT.written(cell, 7.31) == new


@pytest.mark.parametrize(
    "cell", [b" 30-60 ", b" 46,7 ", b" 41.9 +- 0.3 ", b" see text ", b" V100 "]
)
def test_a_cell_without_exactly_one_number_is_unchanged(cell: bytes) -> None:
    """A cell with no number or with several is unchanged, and a message reports it."""
    with pytest.raises(NotUnderstoodError, match="is not a single number"):
        TO_RIGHT.written(cell, 7.31)


@pytest.mark.parametrize(
    ("cell", "new"),
    [(b" 12.3% ", b" 37.2% "), (b" 0.123 ", b" 0.372 "), (b"        ", b"  37.2% ")],
)
def test_a_share_is_in_per_cent_if_its_cell_shows_it(cell: bytes, new: bytes) -> None:
    """A utilization is written in per cent if its cell has a % sign, and as a fraction if not.

    In a blank cell it has the form that is set for blank cells, in this test per cent.
    """
    assert SHARE.written(cell, 0.3721) == new


def test_a_share_of_more_than_one_must_say_that_it_is_per_cent() -> None:
    """A cell with a utilization above 1 and no % sign, e.g. 12.3, raises NotUnderstoodError.

    If the whole column is in per cent, the cell is valid.
    """
    with pytest.raises(
        NotUnderstoodError, match=r"12\.3 is above 1; if it is a percentage, write 12\.3 %"
    ):
        SHARE.written(b" 12.3 ", 0.3721)
    in_percent = ColumnForm(
        is_share=True, in_percent=True, to_right=True, decimals=None, blank=Form(decimals=1)
    )
    assert in_percent.written(b" 12.3 ", 0.3721) == b" 37.2 "


def test_decimals_that_are_asked_for_go_before_those_of_the_cell() -> None:
    """If the user gives a number of decimals, it is used for all cells, filled or blank."""
    two = ColumnForm(
        is_share=False, in_percent=False, to_right=True, decimals=2, blank=Form(decimals=1)
    )
    assert two.written(b"   52.8 ", 7.314) == b"   7.31 "
    assert two.written(b"        ", 7.314) == b"   7.31 "


def test_a_blank_cell_has_the_form_that_most_of_its_column_have() -> None:
    """A blank cell gets the number format of most cells of its column."""
    raws = [b" 1.25 ", b" 2.5 ", b" 3.75 ", b"", b" 1-2 "]
    assert common_form(raws, is_share=False, in_percent=False) == Form(decimals=2)
    assert common_form([b"", b"OOM"], is_share=False, in_percent=False) is None


def test_one_blank_stays_at_each_pipe_that_had_one() -> None:
    """If a new number is too wide for its cell, the cell grows.

    At each end of the cell, one blank stays if there was a blank before.
    """
    assert exchanged(b" 1 ", 1, 2, b"12345", to_right=True) == b" 12345 "
    assert exchanged(b"   1   ", 3, 4, b"12345", to_right=True) == b" 12345 "
    assert exchanged(b"1 ", 0, 1, b"12345", to_right=True) == b"12345 "
