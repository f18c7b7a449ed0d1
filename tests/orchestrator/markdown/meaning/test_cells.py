"""Read the numbers in table cells, in the ways in which people write them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.markdown.meaning.cells import (
    NotUnderstoodError,
    Pace,
    is_blank,
    read_count,
    read_length,
    read_pace,
    read_parameters,
    tells_failure,
)
from orchestrator.markdown.meaning.units import Quantity, Unit

LIKE_NUMBERS = st.text("0123456789.,~sBMmxe+-/() *%±", max_size=20)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("7.5B", 7_500_000_000),
        ("350M", 350_000_000),
        ("1.3b", 1_300_000_000),
        ("1T", 1_000_000_000_000),
        ("52", 52_000_000_000),
        ("104 B", 104_000_000_000),
        ("**52B**", 52_000_000_000),
        ("~52B", 52_000_000_000),
        ("1.3 billion", 1_300_000_000),
        ("6.7B params", 6_700_000_000),
        ("124439808", 124_439_808),
        ("124,439,808", 124_439_808),
        ("GPT-2 XL (1.5B)", 1_500_000_000),
        ("GPT-13B", 13_000_000_000),
    ],
)
def test_a_size_is_read(text: str, parameters: int) -> None:
    """A model size without a unit is in billions, e.g. 52.

    But a very large number, e.g. 124439808, is the number of parameters itself.
    """
    assert read_parameters(text) == parameters


def test_a_size_has_the_unit_of_its_title() -> None:
    """If a cell with a model size has no unit, the unit in its column's title is used."""
    millions = Unit(Quantity.PARAMETERS, 1e6)
    assert read_parameters("350", millions) == 350_000_000
    assert read_parameters("1.3B", millions) == 1_300_000_000


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64", 64),
        ("1,024", 1024),
        ("16x8", 128),
        ("16 \N{MULTIPLICATION SIGN} 8", 128),
        ("64 V100", 64),
        ("8xA100-80GB", 8),
        ("8 GPUs", 8),
        ("8 K80", 8),
        ("64 B200 (2 dies each)", 64),
        ("64 (16 nodes)", 64),
        ("`64`", 64),
        ("4.0", 4),
    ],
)
def test_a_count_is_read(text: str, count: int) -> None:
    """A count may have thousands separators (1,024), a product (16x8), or a noun (8 GPUs)."""
    assert read_count(text) == count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("4096", 4096),
        ("8K", 8192),
        ("8 ki tokens", 8192),
        ("8K (packed)", 8192),
        ("2048 (*)", 2048),
    ],
)
def test_a_length_is_read(text: str, tokens: int) -> None:
    """A sequence length may have the unit K, which is 1024, and a remark in parentheses."""
    assert read_length(text) == tokens


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.661s", 0.661),
        ("128.960s", 128.96),
        ("129 s", 129),
        ("~129s", 129),
        ("129s/it", 129),
        ("129 sec/iter", 129),
        ("2.5ms", 0.0025),
        ("1,024.5 ms", 1.0245),
        ("1.5 min", 90),
        ("1e3 ms", 1),
        ("125s ± 3", 125),
        ("125s (best)", 125),
        ("**125s**", 125),
        ("125s[^1]", 125),
    ],
)
def test_a_time_is_read(text: str, seconds: float) -> None:
    """A time has the unit in its cell, e.g. ms or min."""
    pace = read_pace(text)
    assert pace.quantity is Quantity.STEP_SECONDS
    assert pace.value == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("128 samples/s", Pace(Quantity.SAMPLES_PER_SECOND, 128, per_gpu=False)),
        ("128 samples per second", Pace(Quantity.SAMPLES_PER_SECOND, 128, per_gpu=False)),
        ("60 samples/min", Pace(Quantity.SAMPLES_PER_SECOND, 1, per_gpu=False)),
        ("131,072 tokens/s", Pace(Quantity.TOKENS_PER_SECOND, 131072, per_gpu=False)),
        ("16384 tok/s/GPU", Pace(Quantity.TOKENS_PER_SECOND, 16384, per_gpu=True)),
        ("0.5 it/s", Pace(Quantity.ITERATIONS_PER_SECOND, 0.5, per_gpu=False)),
    ],
)
def test_a_rate_is_read(text: str, pace: Pace) -> None:
    """A rate is in samples, tokens or iterations per second, of all GPUs or of one."""
    assert read_pace(text) == pace


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (read_parameters, "large", "'large' is not a size such as 7.5B or 350M"),
        (read_parameters, "52GB", "'52GB' is not a size such as 7.5B or 350M"),
        (read_parameters, "1B/2B", "'1B/2B' is not a size such as 7.5B or 350M"),
        (read_parameters, "0", "'0' is not a size such as 7.5B or 350M"),
        (read_count, "2k", "'2k' is not a whole number"),
        (read_count, "2K", "'2K' is not a whole number"),
        (read_count, "4 M", "'4 M' is not a whole number"),
        (read_count, "4M tokens", "'4M tokens' is not a whole number"),
        (read_count, "1.5", "'1.5' is not a whole number above zero"),
        (read_count, "9" * 30, f"'{'9' * 30}' is not a whole number above zero"),
        (read_pace, "120-130s", "'120-130s' is a range; one number is needed"),
        (read_pace, "120 to 130 s", "'120 to 130 s' is a range; one number is needed"),
        (read_pace, "120s..130s", "'120s..130s' is a range; one number is needed"),
        (
            read_pace,
            "129",
            "'129' has no unit; write 129s, or (s) or (samples/s) in the title",
        ),
        (read_pace, "89 GB", "'89 GB': the unit 'GB' is not known"),
        (read_pace, "0s", "'0s' is not above zero"),
        (read_pace, "s" * 200, f"'{'s' * 20}'… is too long to be a number"),
    ],
)
def test_text_that_is_not_such_a_number_is_reported(
    read: Callable[[str], object], text: str, why: str
) -> None:
    """If a text is not a number of the expected kind, e.g. a size, a message says why.

    No number is guessed.
    """
    with pytest.raises(NotUnderstoodError) as caught:
        read(text)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "text", ["", " ", "-", "—", "\N{EN DASH}", "...", "?", "n/a", "N/A", "TBD"]
)
def test_signs_that_stand_for_nothing_are_blank(text: str) -> None:
    """A cell counts as blank if it has only a sign for an absent value, e.g. a dash or `n/a`."""
    assert is_blank(text)


@pytest.mark.parametrize("text", ["0", "OOM", "-1", "52B", "none of it"])
def test_words_and_numbers_are_not_blank(text: str) -> None:
    """A cell with a word or a number that has a meaning does not count as blank."""
    assert not is_blank(text)


def test_failures_are_known_by_their_words() -> None:
    """Words such as `OOM` mean that a run has no result.

    A longer word such as `room`, which only contains these letters, does not mean that.
    """
    assert all(map(tells_failure, ["OOM", "oom!", "failed", "CUDA out of memory", "hangs"]))
    assert not any(map(tells_failure, ["room", "ok", "129s"]))


@given(LIKE_NUMBERS | st.text(max_size=30))
def test_any_text_is_a_number_or_is_not_understood(text: str) -> None:
    """Any text gives a finite number above zero, or raises NotUnderstoodError."""
    for read in (read_parameters, read_count, lambda text: read_pace(text).value):
        try:
            number = read(text)
        except NotUnderstoodError:
            continue
        assert 0 < number < float("inf")
