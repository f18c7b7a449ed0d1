"""Compare how several programs count the FLOPs of the same run, and explain the differences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.common.fitted import fitted_text
from orchestrator.common.tables import Column, Style, Table, make_table
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import printable
from orchestrator.estimate.case import Case, distinct
from orchestrator.model.convention_names import CONVENTIONS
from orchestrator.model.conventions import (
    ConventionCount,
    count_by_convention,
)
from orchestrator.run.described import description
from orchestrator.run.flops import tflops_per_gpu, utilization


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The FLOPs that one program counts for an iteration of a case; absent values are None."""

    case: Case
    count: ConventionCount
    exact_model_flops: int
    tflops_per_gpu: float | None

    @property
    def difference(self) -> float | None:
        """How much higher the program's FLOPs are than the exact model FLOPs, in percent.

        Negative if the program's FLOPs are lower. None if the program cannot count this model.
        """
        if self.count.flops is None:
            return None
        return 100 * (self.count.flops / self.exact_model_flops - 1)

    @property
    def per_token(self) -> float | None:
        """The FLOPs per token that the program counts, in units of 10**9; None if not known."""
        if self.count.flops is None or self.case.global_batch_size is None:
            return None
        return self.count.flops / self.case.global_batch_size / self.case.model.seq_length / 1e9

    @property
    def of_peak(self) -> float | None:
        """The TFLOP/s that the program would print, in percent of the GPU's peak: MFU or HFU.

        It is the HFU if the program counts recomputation, and otherwise the MFU. None if the speed
        or the peak is not known.
        """
        peak = None if self.case.peak is None else self.case.peak.value
        part = utilization(self.tflops_per_gpu, peak)
        return None if part is None else 100 * part


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("convention", "convention", lambda row: row.count.convention.name),
    Column(
        "counts",
        "counts",
        lambda row: "hardware" if row.count.convention.counts_recomputation else "model",
    ),
    Column(
        "10**12 FLOPs (per iteration)",
        "flops",
        lambda row: None if row.count.flops is None else row.count.flops / 1e12,
        Style(digits=6),
    ),
    Column("GFLOPs (per token)", "gflops_per_token", lambda row: row.per_token, Style(digits=5)),
    Column("difference %", "difference_percent", lambda row: row.difference, Style(digits=3)),
    Column("TFLOP/s (per GPU)", "tflops_per_gpu", lambda row: row.tflops_per_gpu),
    Column("% of peak", "percent_of_peak", lambda row: row.of_peak, Style(digits=3)),
)
_RUN: Column[_Row] = Column("run", "label", lambda row: row.case.label)
_OPTIONAL = {"tflops_per_gpu", "percent_of_peak"}


def conventions_table(cases: Sequence[Case], step_seconds: float | None) -> Table:
    """Return a table of FLOPs, with one row per case and convention (a program's way to count).

    step_seconds: the seconds of an iteration; None if unknown. Raises UserError if no case has a
    global batch size.
    """
    return _table(_distinct_rows(cases, step_seconds), several=len(cases) > 1)


def _distinct_rows(cases: Sequence[Case], step_seconds: float | None) -> list[_Row]:
    return _rows(distinct(cases, lambda case: replace(case, label="")), step_seconds)


def _table(rows: Sequence[_Row], *, several: bool) -> Table:
    columns = [
        column
        for column in _COLUMNS
        if column.name not in _OPTIONAL or any(map(column.value, rows))
    ]
    return make_table((*([_RUN] if several else []), *columns), rows)


def conventions_text(cases: Sequence[Case], step_seconds: float | None) -> str:
    """Return `conventions_table` as text, and why each count differs from the exact FLOPs."""
    rows = _distinct_rows(cases, step_seconds)
    table = fitted_text(_table(rows, several=len(cases) > 1), terminal_width())
    several = len({row.case.label for row in rows}) > 1
    blocks = ("\n".join(_reasons(row, several=several)) for row in rows)
    return "\n\n".join((table, *blocks))


def convention_records(cases: Sequence[Case], step_seconds: float | None) -> list[dict[str, Any]]:
    """Return the FLOPs as JSON objects, one per case and convention.

    An object also contains the reasons why its FLOPs differ from the exact FLOPs.
    """
    return [
        {
            "label": row.case.label,
            "convention": row.count.convention.name,
            "title": row.count.convention.title,
            "source": row.count.convention.source or None,
            "counts_recomputation": row.count.convention.counts_recomputation,
            "flops": row.count.flops,
            "exact_flops": row.count.exact,
            "deviations": dict(row.count.deviations),
            "unsuited": row.count.unsuited,
            "tflops_per_gpu": row.tflops_per_gpu,
        }
        for row in _rows(cases, step_seconds)
    ]


def _rows(cases: Sequence[Case], step_seconds: float | None) -> list[_Row]:
    rows = [row for case in cases for row in _case_rows(case, step_seconds)]
    if not rows:
        raise UserError("the global batch is not known; give --global-batch-size")
    return rows


def _case_rows(case: Case, step_seconds: float | None) -> Iterator[_Row]:
    if case.global_batch_size is None:
        return
    model = description(case.model, case.padded_vocab_size)
    counts = [
        count_by_convention(
            convention, model, sequences=case.global_batch_size, recomputed=case.recomputed
        )
        for convention in CONVENTIONS.values()
    ]
    exact = next(count.exact for count in counts if not count.convention.counts_recomputation)
    for count in counts:
        speed = None
        if case.world_size is not None:
            speed = tflops_per_gpu(count.flops, step_seconds, case.world_size)
        yield _Row(case=case, count=count, exact_model_flops=exact, tflops_per_gpu=speed)


def _reasons(row: _Row, *, several: bool) -> Iterator[str]:
    count = row.count
    convention = count.convention
    of = f"{printable(row.case.label)}, " if several else ""
    source = f" ({convention.source})" if convention.source else ""
    yield f"{of}{convention.name}: {convention.title}{source}"
    if count.flops is None:
        yield f"  does not apply to this model: {count.unsuited}"
        return
    exact = "hardware" if convention.counts_recomputation else "model"
    if not count.deviations:
        yield f"  equal to the exact {exact} FLOPs"
    for reason, flops in count.deviations:
        yield f"  {100 * flops / count.exact:+.3g} %: {reason} ({flops:+,})"
