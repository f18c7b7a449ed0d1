"""Check MFU and HFU against TFLOPs and the peak of the GPU."""

import pytest

from orchestrator.markdown.check.findings import FindingKind
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page


def messages_about(titles: str, *rows: str) -> list[str]:
    """Return the messages about utilizations in a table."""
    dashes = "|" + "---|" * (titles.count("|") + 1)
    data = "\n".join((f"| {titles} |", dashes, *(f"| {row} |" for row in rows))).encode()
    findings = check_page(read_page(data))
    return [finding.message for finding in findings if finding.kind is FindingKind.UTILIZATION]


@pytest.mark.parametrize(
    ("titles", "row", "peak"),
    [
        ("GPU | MFU | Model TFLOP", "h100_80gb | 41.25 | 408", None),
        ("GPU | MFU | Model TFLOP", "A100 80GB | 0.64 | 200", None),
        ("GPU | MFU | Model TFLOP", "H100 | 60 | 408", "680"),
        ("GPU | MFU | Model TFLOP", "H100 | 20.6% | 408", None),  # of the FP8 peak
        ("GPU | MFU | TFLOPs", "A100 | 50% | 208", None),  # may count recomputation
        ("GPU | MFU | TFLOPs", "A100 | 50% | 117", "234"),
        ("GPU | HFU | Model TFLOP", "A100 | 67% | 156", None),
        ("GPU | HFU | TFLOPs", "A100 | 40% | 156", "390"),
        ("GPU | MFU (%) | TFLOPs", "A100 | 0.5 | 1.56", None),
        ("GPU | MFU | TFLOPs", "Secret9 | 55% | 408", None),
        ("GPU | MFU | TFLOPs", "A100 | ~90% | 100", None),
        ("GPU | MFU | TFLOPs", "A100 | 10-20% | 100", None),
    ],
)
def test_utilization_follows_from_a_peak_of_the_gpu(
    titles: str, row: str, peak: str | None
) -> None:
    """TFLOPs divided by MFU or HFU must be a peak of the row's GPU, of any precision.

    If a title is only "TFLOPs", they may include recomputation, which an MFU leaves out. So TFLOPs
    divided by MFU may then be higher than the peak.
    """
    messages = messages_about(titles, row)
    assert len(messages) == (peak is not None)
    assert peak is None or f"a peak of {peak}" in messages[0]


def test_more_than_everything_is_impossible() -> None:
    """An MFU or HFU above 100 % gives a finding."""
    [message] = messages_about("Model | MFU", "Llama 3 8B | 133%")
    assert "MFU 133% is above 100 %" in message


def test_rows_of_an_unknown_accelerator_must_agree() -> None:
    """For an unknown accelerator, TFLOPs divided by MFU must be the same peak in all rows."""
    titles = "Accelerator Type | TFLOP/chip/sec | MFU"
    rows = ("x9-128 | 3.23e+02 | 70.31%", "x9-256 | 315 | 68.68%", "x9-512 | 316 | 68.82%")
    assert messages_about(titles, *rows) == []
    [message] = messages_about(titles, *rows, "x9-2048 | 2.49e+02 | 64.05%")
    assert "implies a peak of 388.8 TFLOP/s, but 3 other rows imply a peak of 459" in message
    assert messages_about(titles, *rows[:2], "x9-2048 | 249 | 64.05%") == []
