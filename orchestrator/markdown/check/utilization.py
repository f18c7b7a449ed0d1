"""Check MFU and HFU against the TFLOPs of their rows and the peak of the GPU.

TFLOPs divided by MFU are the peak that a page used. This peak must be one of the GPU's peaks,
and the same in all rows of a table about one GPU.

HFU counts recomputation, and MFU does not. If a column's title is only "TFLOPs", it does
not show whether its numbers count recomputation. Recomputation adds up to a third to the
FLOPs. So two factors are accepted: the TFLOPs may be 4/3 of the TFLOPs that the MFU
implies, or 3/4 of the TFLOPs that the HFU implies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from orchestrator.hardware.gpus import Gpu, matching
from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.check.peaks import gpus_of_row
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkTable
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.printed_numbers import NumberRange, most_common

# Pages round peaks differently: 989, 989.4 and 990 are the same peak.
_SLACK = Fraction(1, 100)
# With recomputation, the hardware FLOPs are at most four thirds of the model FLOPs.
_RECOMPUTED = Fraction(4, 3)
# The number of rows that must agree before another row is reported as different.
_ALIKE = 3
_SHARES = (Meaning.MFU, Meaning.HFU)
_SPEEDS = (Meaning.TFLOPS_PER_GPU, Meaning.MODEL_TFLOPS_PER_GPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The MFU or HFU of a row, the row's TFLOPs, and the GPU's peak that follows from both.

    share: the MFU or HFU.
    peak: the TFLOPs divided by `share`.
    accepted: the range of peaks that do not contradict this row. It is 1 % wider than `peak` at
        both ends, because pages round peaks differently. It is even wider if recomputation may be
        counted in only one of the two numbers.
    """

    row: BenchmarkRow
    share: RowNumber
    tflops: RowNumber
    peak: NumberRange
    accepted: NumberRange


def utilizations(table: BenchmarkTable, gpus: Sequence[Gpu] = ()) -> Iterator[TableFinding]:
    """Find an MFU or HFU that is above 100 %, or that does not follow from the row's TFLOPs.

    gpus: the GPUs that the user gives. A GPU that is named only in the page's text is not used.
    """
    unknown: list[_Share] = []
    for row in table.rows:
        for meaning in _SHARES:
            number = row.numbers.get(meaning)
            if number is not None and number.printed.interval().low > 1:
                yield finding(
                    row, FindingKind.UTILIZATION, f"{number.shown} is above 100 % of the peak"
                )
                continue
            share = _share(row, meaning)
            if share is None:
                continue
            candidates = gpus or gpus_of_row(row) or (matching(table.gpu) if table.gpu else [])
            peaks = {peak * gpu.dies for gpu in candidates for peak in gpu.peak_tflops.values()}
            if not peaks:
                unknown.append(share)
            elif not any(_meets(share, Fraction(peak)) for peak in peaks):
                names = " or ".join(dict.fromkeys(gpu.name for gpu in candidates))
                listed = ", ".join(f"{peak:g}" for peak in sorted(peaks, reverse=True))
                yield _unlike(share, f"{names} has {listed}")
    for name in {_gpu_words(share.row): None for share in unknown}:
        yield from _unequal([share for share in unknown if _gpu_words(share.row) == name])


def _share(row: BenchmarkRow, meaning: Meaning) -> _Share | None:
    share = row.numbers.get(meaning)
    speeds = [row.numbers[each] for each in _SPEEDS if each in row.numbers]
    if share is None or len(speeds) != 1:
        return None
    [tflops] = speeds
    peak = tflops.printed.interval() / share.printed.interval()
    low, high = peak.low * (1 - _SLACK), peak.high * (1 + _SLACK)
    counts_recomputation = meaning is Meaning.HFU
    if counts_recomputation:
        high *= _RECOMPUTED
    elif Meaning.MODEL_TFLOPS_PER_GPU not in row.numbers:
        low /= _RECOMPUTED
    return _Share(row=row, share=share, tflops=tflops, peak=peak, accepted=NumberRange(low, high))


def _unequal(shares: Sequence[_Share]) -> Iterator[TableFinding]:
    """Yield a finding for each row that implies another peak than most of the rows do.

    The implied peak is the row's TFLOPs divided by its MFU or HFU.

    shares: the TFLOPs, and the MFU or HFU, of rows with the same GPU.
    """
    if not shares:
        return
    count, common = most_common(
        NumberRange(share.peak.low * (1 - _SLACK), share.peak.high * (1 + _SLACK))
        for share in shares
    )
    if count < _ALIKE or 2 * count <= len(shares):
        return
    for share in shares:
        if not share.accepted.meets(common):
            yield _unlike(share, f"{count} other rows imply a peak of {float(common.middle):.4g}")


def _unlike(share: _Share, but: str) -> TableFinding:
    return finding(
        share.row,
        FindingKind.UTILIZATION,
        f"{share.tflops.shown} at {share.share.shown} implies a peak of "
        f"{float(share.peak.middle):.4g} TFLOP/s, but {but}",
    )


def _meets(share: _Share, peak: Fraction) -> bool:
    return share.accepted.meets(NumberRange(peak, peak))


def _gpu_words(row: BenchmarkRow) -> str:
    """Return a row's GPU in lower case, without the number of GPUs, e.g. `v5p` for `v5p-128`."""
    return (row.gpu_name or "").split("-")[0].split("x ")[-1].strip().lower()
