"""Define a finding in a table: its line on the page, its type and a sentence."""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow


class FindingKind(StrEnum):
    """The type of a finding, e.g. `model-size` or `tflops-above-peak`."""

    GLOBAL_BATCH_SIZE = "global-batch-size"
    WORLD_SIZE = "world-size"
    THROUGHPUT = "throughput"
    TFLOPS = "tflops"
    TFLOPS_ABOVE_PEAK = "tflops-above-peak"
    TFLOPS_TOO_HIGH = "tflops-too-high"
    TFLOPS_MISTUNED = "tflops-mistuned"
    UTILIZATION = "utilization"
    MODEL_FLOPS = "model-flops"
    UNEQUAL_FLOPS = "unequal-flops"
    MODEL_SIZE = "model-size"
    RELATIVE_CHANGE = "relative-change"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFinding:
    """A contradiction in a table: its line on the page, its type, and a sentence that explains it.

    last_digit_only: whether rounding, or a difference of one in the last printed digit, would
    explain the contradiction.
    """

    line: int
    kind: FindingKind
    message: str
    last_digit_only: bool = False


def finding(
    row: BenchmarkRow, kind: FindingKind, message: str, *, last_digit_only: bool = False
) -> TableFinding:
    """Return a finding about a row; its sentence consists of the row's name and `message`."""
    return TableFinding(
        line=row.line,
        kind=kind,
        message=f"{row.name}: {message}"
        + (" (only the last digit differs)" if last_digit_only else ""),
        last_digit_only=last_digit_only,
    )
