"""Check TFLOPs against the peak of GPUs, and against the usual range of training."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.hardware.gpus import GPUS, Gpu, matching
from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow
from orchestrator.markdown.meaning.columns import Meaning

_WORD = re.compile(r"[A-Z0-9]+")
# Shorter names may have another meaning, e.g. T4 may mean table 4.
_SHORTEST = 4
# Names of accelerators. If a page has such a name that teralog does not know, no GPU is assumed.
_UNKNOWN = re.compile(
    r"[AH]800|H20|GB\d+|B\d00|MI\d{3}\w?|RTX\w*|TPU\w*|NPU\w*|GAUDI\w*|ASCEND\w*|TRN\d|TRAINIUM\d?"
)
# Formats of eight bits and less have other peaks.
_NARROW = frozenset({"FP8", "INT8", "FP4", "NVFP4", "MXFP8", "MXFP4", "E4M3"})

_FORMAT = re.compile(r"FP4|FP8|BF16|FP16|FP32", re.IGNORECASE)
_PEAKS = {
    "FP4": frozenset({"fp4"}),
    "FP8": frozenset({"fp8"}),
    "BF16": frozenset({"bf16", "fp16"}),
    "FP16": frozenset({"bf16", "fp16"}),
    # FP32 may be computed in TF32, at half the rate of 16 bits.
    "FP32": frozenset({"fp32", "bf16", "fp16"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Usual:
    """The usual range of a GPU's TFLOPs in training.

    mistuned: the low end; a run with fewer TFLOPs is slow. too_high: the high end; a page with more
    TFLOPs contains a mistake.
    """

    mistuned: float
    too_high: float


# BigScience's GPT2 experiments (2021): well tuned runs reach 30 to 60 TFLOPs, runs in the low 20s
# are not well tuned, and more than 100 is a bug in the calculation.
_USUAL = {"V100": _Usual(mistuned=25, too_high=100)}


def named_gpus(data: bytes) -> list[Gpu]:
    """Return the GPUs whose model names occur on a page.

    Names of fewer than 4 characters are ignored: e.g. T4 may mean table 4. The result is empty if
    the page also names unknown accelerators, or number formats below 16 bits. The page's TFLOPs
    may then be those of other accelerators or formats.
    """
    words = set(_WORD.findall(data.decode("utf-8", "replace").upper()))
    unknown = any(_UNKNOWN.fullmatch(word) for word in words - {gpu.model for gpu in GPUS})
    if unknown or words & _NARROW:
        return []
    return [gpu for gpu in GPUS if gpu.model in words and len(gpu.model) >= _SHORTEST]


def gpus_called(name: str) -> list[Gpu]:
    """Return the GPUs that a name may mean. Raises UserError if no known GPU has this name.

    For example, `V100` may mean V100 SXM2 and V100 PCIe.
    """
    gpus = matching(name)
    if not gpus:
        hint = did_you_mean(name, {gpu.name for gpu in GPUS})
        raise UserError(f"--gpu: the peak of {name!r} is not known{hint}")
    return gpus


def gpus_of_row(row: BenchmarkRow) -> list[Gpu]:
    """Return the GPUs that a row's cell or a heading names; empty if no known GPU is named."""
    return matching(row.gpu_name) if row.gpu_name else []


def tflops_range(
    row: BenchmarkRow, gpus: Sequence[Gpu], *, judge_tuning: bool
) -> Iterator[TableFinding]:
    """Find TFLOPs above the peak of the GPUs, or outside the usual range of training.

    judge_tuning: whether TFLOPs below the usual range are findings, too.
    """
    number = row.numbers.get(Meaning.MODEL_TFLOPS_PER_GPU) or row.numbers.get(
        Meaning.TFLOPS_PER_GPU
    )
    if number is None or not gpus:
        return
    low, high = (number.printed.interval().low, number.printed.interval().high)
    peak, usual = _highest_peak(gpus, row.precision), _usual_tflops(gpus)
    names = " or ".join(dict.fromkeys(gpu.model for gpu in gpus))
    if peak is not None and low > peak:
        total = "; if it is the sum of all GPUs, write this in the column's title"
        yield finding(
            row,
            FindingKind.TFLOPS_ABOVE_PEAK,
            f"{number.shown} is above {peak:g}, the peak of {names}{total}",
        )
    elif usual and low > usual.too_high:
        yield finding(
            row,
            FindingKind.TFLOPS_TOO_HIGH,
            f"{number.shown} is above {usual.too_high:g}, which no training reaches on {names}; "
            "check the calculation",
        )
    elif usual and judge_tuning and high < usual.mistuned:
        yield finding(
            row,
            FindingKind.TFLOPS_MISTUNED,
            f"{number.shown} is below {usual.mistuned:g}, which is slow for {names}",
        )


def _highest_peak(gpus: Sequence[Gpu], precision: str | None) -> float | None:
    """Return the highest peak of the GPUs, in TFLOPs, at the precision of a row.

    The peak of a card is the sum over its dies, e.g. two for MI250X. If `precision` is None or
    unknown, the highest peak of all precisions is returned. Returns None if there is no GPU, or
    if the peak of a GPU is not known.
    """
    names = _names_of(precision)
    peaks = [
        [peak * gpu.dies for name, peak in gpu.peak_tflops.items() if not names or name in names]
        for gpu in gpus
    ]
    if not all(peaks):
        return None
    return max((peak for each in peaks for peak in each), default=None)


def _names_of(precision: str | None) -> frozenset[str]:
    """Return the precisions whose peak may apply to a number format, e.g. `fp8` for `FP8-MX`.

    The result is empty if the number format is not known.
    """
    match = _FORMAT.search(precision or "")
    return _PEAKS[match[0].upper()] if match else frozenset()


def _usual_tflops(gpus: Sequence[Gpu]) -> _Usual | None:
    """Return the usual range of TFLOPs in training.

    Returns None if the GPUs are of several models, or if the range of their model is not known.
    """
    models = {gpu.model for gpu in gpus}
    return _USUAL.get(models.pop()) if len(models) == 1 else None
