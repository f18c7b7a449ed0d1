"""Compute the numbers of a run from its records: averages, warm-up and absent values."""

import dataclasses
import math
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.measure.gpu_samples import GpuSamples
from orchestrator.measure.summary import Summary, configured, record_reports, summarise_records
from orchestrator.run.model import Run
from parsers.records import Record, RunTotals, Step, Usage, UsageSource
from parsers.summary.warmup import Warmup


def step(iteration: int, **values: Any) -> Step:
    """Return a step report of an iteration with these values, at offset 0 of a log."""
    return Step(iteration=iteration, offset=0, **values)


def timed(*seconds: float) -> list[Step]:
    """Return step reports of iterations 1, 2, ... with these step times."""
    return [step(number, step_seconds=time) for number, time in enumerate(seconds, start=1)]


def summary_of(run: Run, records: list[Record], warmup: Warmup) -> Summary:
    """Return the summary of a run whose log contains these records."""
    return summarise_records(run, records, record_reports(run, records, warmup))


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({"step_seconds": 0.5, "samples_per_second": 1000.0}, 0.5),
        ({"samples_per_second": 32.0}, 0.25),
        ({"samples_per_second": 0.0}, None),
        ({}, None),
    ],
)
def test_seconds_are_those_reported_or_follow_from_the_rate(
    run_of: RunOf, values: dict[str, float], seconds: float | None
):
    """If a report has no step time, it is computed from the global batch and the rate.

    E.g. with a global batch of 8 and 32 samples per second, a step takes 0.25 s.
    """
    reports = record_reports(run_of(micro_batch_size=8), [step(1, **values)], Warmup())
    assert reports.launches[0].step_seconds == [seconds]


def test_a_rate_over_an_unknown_batch_gives_no_seconds(run_of: RunOf):
    """If the global batch is unknown, no step time is computed from samples per second."""
    run = run_of(framework="deepspeed", script="a", tensor_parallel_size=2)
    assert configured(run).global_batch_size is None
    reports = record_reports(run, [step(1, samples_per_second=32.0)], Warmup())
    assert reports.launches[0].step_seconds == [None]


# A tiny GPT on 2 ranks, a global batch of 8 sequences, 6 iterations of which 2 are warm-up.
TINY = {"gpus_per_node": 2, "micro_batch_size": 4, "train_iters": 6}
FLOPS = 2 * 226_492_416


def at_median(seconds: float) -> dict[str, Any]:
    """Return the fields of a summary that follow from a median step time: the time and the TFLOPs.

    The TFLOPs are those of the run TINY.
    """
    tflops = pytest.approx(FLOPS / seconds / 2 / 1e12)
    return {
        "step_seconds_median": seconds,
        "tflops_per_gpu": tflops,
        "model_tflops_per_gpu": tflops,
    }


SUMMARIES: dict[str, tuple[list[Record], dict[str, Any]]] = {
    "nothing": ([], {}),
    "warm-up is left out": (
        timed(9.0, 8.0, 1.0, 2.0, 3.0, 6.0),
        {
            "reports": 4,
            "last_iteration": 6,
            "step_seconds_mean": 3.0,
            **at_median(2.5),
            "step_seconds_spread": pytest.approx(math.sqrt(14 / 3)),
            "running_samples_per_second": pytest.approx(8 / 3),
        },
    ),
    "one report has no spread": (
        timed(9.0, 8.0, 2.0),
        {
            "reports": 1,
            "last_iteration": 3,
            "step_seconds_mean": 2.0,
            **at_median(2.0),
            "running_samples_per_second": 4.0,
        },
    ),
    "nothing after the warm-up": (
        [
            step(
                2,
                step_seconds=1.0,
                samples_per_second=8.0,
                running_samples_per_second=8.0,
                loss=6.5,
                memory_allocated_gib=0.25,
                max_memory_allocated_gib=0.5,
            )
        ],
        {
            "last_iteration": 2,
            "final_loss": 6.5,
            "memory_allocated_gib": 0.25,
            "max_memory_allocated_gib": 0.5,
        },
    ),
    "DeepSpeed's rates": (
        [
            step(3, samples_per_second=32.0),
            step(4, samples_per_second=16.0, running_samples_per_second=24.5),
        ],
        {
            "reports": 2,
            "last_iteration": 4,
            "step_seconds_mean": 0.375,
            **at_median(0.375),
            "step_seconds_spread": pytest.approx(0.125 * math.sqrt(2)),
            "samples_per_second": 16.0,
            "running_samples_per_second": 24.5,
        },
    ),
    "double lines count once": (
        [
            step(3, step_seconds=1.0),
            step(3, samples_per_second=4.0),
            step(4, step_seconds=3.0),
            step(4, samples_per_second=2.0),
        ],
        {
            "reports": 2,
            "last_iteration": 4,
            "step_seconds_mean": 2.0,
            **at_median(2.0),
            "step_seconds_spread": pytest.approx(math.sqrt(2)),
            "samples_per_second": 2.0,
            "running_samples_per_second": 4.0,
        },
    ),
    "reports with skipped updates are left out": (
        [
            step(3, step_seconds=1.0, skipped_iterations=1),
            step(4, step_seconds=2.0, skipped_iterations=0),
        ],
        {
            "reports": 1,
            "skipped_reports": 1,
            "last_iteration": 4,
            "step_seconds_mean": 2.0,
            **at_median(2.0),
            "running_samples_per_second": 4.0,
        },
    ),
    "skipped updates counted from the start, with those of the warm-up": (
        [
            step(2, step_seconds=1.0, skipped=2),
            step(3, step_seconds=2.0, skipped=2),
            step(4, step_seconds=1.0, skipped=3),
        ],
        {
            "reports": 1,
            "skipped_reports": 1,
            "last_iteration": 4,
            "step_seconds_mean": 2.0,
            **at_median(2.0),
            "running_samples_per_second": 4.0,
        },
    ),
    "memory now and at its peak": (
        [
            RunTotals(parameters=136_960, offset=0),
            step(1, memory_allocated_gib=1.0, max_memory_allocated_gib=4.0),
            step(2, memory_allocated_gib=2.0, max_memory_allocated_gib=3.0),
            Usage(source=UsageSource.TORCH, max_memory_allocated_gib=3.5, offset=0),
            step(3),
            RunTotals(final_loss=5.5, max_memory_allocated_gib=4.25, offset=0),
        ],
        {
            "last_iteration": 3,
            "memory_allocated_gib": 2.0,
            "max_memory_allocated_gib": 4.25,
            "final_loss": 5.5,
            "parameters_logged": 136_960,
        },
    ),
}


@pytest.mark.parametrize(("records", "expected"), SUMMARIES.values(), ids=SUMMARIES)
def test_a_summary_has_what_the_log_shows_and_nothing_else(
    run_of: RunOf, records: list[Record], expected: dict[str, Any]
):
    """The summary has the numbers that the log gives; all its other fields are empty."""
    summary = dataclasses.asdict(summary_of(run_of(**TINY), records, Warmup(2)))
    assert summary == dataclasses.asdict(Summary()) | expected


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_of_nan_or_infinity_is_in_the_summary(run_of: RunOf, loss: float):
    """If the final loss is NaN or infinite, the summary contains it.

    The step time of the same report counts as usual.
    """
    records = [*timed(1.0, 1.0, 1.0), step(3, loss=6.0), step(4, step_seconds=1.0, loss=loss)]
    summary = summary_of(run_of(**TINY), records, Warmup(2))
    assert summary.final_loss == pytest.approx(loss, nan_ok=True)
    assert summary.step_seconds_mean == 1.0


def test_recomputation_counts_for_the_hardware_and_not_for_the_model(run_of: RunOf):
    """HFU includes recomputed FLOPs, and MFU does not."""
    records = timed(1.0, 1.0, 1.0)
    plain, again = (
        summary_of(run_of(**TINY, activation_checkpointing=on), records, Warmup(2))
        for on in (False, True)
    )
    assert again.model_tflops_per_gpu == plain.model_tflops_per_gpu
    assert again.tflops_per_gpu / plain.tflops_per_gpu == pytest.approx(285_212_672 / 226_492_416)


def test_the_gpu_is_what_the_log_calls_it(run_of: RunOf):
    """The summary has the name of the GPU that the log contains."""
    records = [RunTotals(device="NVIDIA H100 80GB HBM3", offset=0), RunTotals(offset=1)]
    assert summary_of(run_of(), records, Warmup(0)).device == "NVIDIA H100 80GB HBM3"
    assert summary_of(run_of(), [], Warmup(0)).device is None


@pytest.mark.parametrize(
    ("logged", "shown"), [(None, True), (2.0, True), (3.0, True), (3.1, False), (5.57, False)]
)
def test_samples_before_the_training_are_left_out(run_of: RunOf, logged: float | None, shown: bool):
    """GPU samples with less memory than the log's peak were taken before the training.

    Their memory and utilization would describe the start of the program, not the run.
    """
    records = [step(1, max_memory_allocated_gib=logged)]
    reports = record_reports(run_of(), records, Warmup(0))
    summary = summarise_records(run_of(), records, reports, GpuSamples(3.0, 5.0))
    expected = (3.0, 5.0) if shown else (None, None)
    assert (summary.device_memory_gib, summary.gpu_utilization_percent) == expected
    assert summary.max_memory_allocated_gib == logged


def test_a_run_of_unknown_shape_has_times_and_no_tflops(run_of: RunOf):
    """If the model's shape is unknown, the summary has step times, and None for TFLOPs."""
    run = run_of(framework="deepspeed", script="a", model={}, train_iters=6)
    summary = summary_of(run, timed(9.0, 9.0, 2.0), Warmup(2))
    assert (summary.step_seconds_mean, summary.tflops_per_gpu) == (2.0, None)


@given(st.lists(st.floats(1e-3, 1e3), max_size=8), st.integers(0, 8))
def test_the_median_is_between_the_extremes(run_of: RunOf, seconds: list[float], warmup: int):
    """The median is between the smallest and the largest step time after the warm-up."""
    summary = summary_of(run_of(train_iters=8), timed(*seconds), Warmup(warmup))
    counted = seconds[warmup:]
    assert summary.reports == len(counted)
    if counted:
        assert min(counted) <= summary.step_seconds_median <= max(counted)
    else:
        assert summary.step_seconds_median is None
