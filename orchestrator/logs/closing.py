"""Text below the table of `teralog parse`."""

from collections.abc import Iterator, Sequence

from orchestrator.common.text import counted
from orchestrator.logs.figures import NOTHING_GIVEN, Given, figure_lines, run_figures
from orchestrator.logs.names import log_name, shortly_named
from orchestrator.logs.read import ReadLogs
from parsers.summary.run import RunSummary


def closing_lines(
    read: ReadLogs, given: Given = NOTHING_GIVEN, *, keep_skipped: bool
) -> Iterator[str]:
    """Yield how the numbers were made, what was not understood, and what is lacking for TFLOPs."""
    summaries = shortly_named(read.summaries)
    skipped = sum(one.skipped for one in summaries)
    yield (
        f"step times: {', '.join(_warmups(summaries))}; "
        + (
            "reports with skipped updates kept"
            if keep_skipped
            else f"{counted(skipped, 'report')} with skipped updates left out"
        )
    )
    lines = sum(one.lines for one in summaries)
    puzzling = sum(one.not_understood for one in summaries)
    yield (
        f"{counted(lines, 'line')} understood; of those that look like a report, "
        f"{counted(puzzling, 'line')} not understood"
    )
    for one in summaries:
        if not one.steady:
            yield (
                f"{log_name(one)}: no steady state, the step time still changes in the second "
                "half of the log; half of the reports are left out"
            )
        yield from _no_step_time(one)
        if one.engine_samples_per_second is not None:
            yield (
                f"{log_name(one)}: step times and samples/s are end to end; the engines' own "
                f"timers report {one.engine_samples_per_second:.4g} samples/s"
            )
    named = [(log_name(one), one, run_figures(one, given)) for one in summaries]
    if any(figures.tflops_per_gpu is not None for _, _, figures in named):
        yield (
            "TFLOPs/GPU: FLOPs of the exact matrix products, recomputed ones included, over the "
            "median step time and the GPUs"
        )
    if any(figures.mfu is not None for _, _, figures in named):
        yield "MFU: TFLOP/s per GPU without recomputed products, over the GPU's dense peak"
    yield from figure_lines(named, given)
    if read.silent:
        say = "says" if read.silent == 1 else "say"
        yield f"{counted(read.silent, 'file')} in folders {say} nothing of a run"


def _no_step_time(one: RunSummary) -> Iterator[str]:
    """Yield why reports give no step time, if any are there."""
    after = one.reports - one.dropped
    if one.step_seconds.n or not after:
        return
    if one.skipped == after:
        yield (
            f"{log_name(one)}: every report after the warm-up holds a skipped update; "
            "--skipped keep counts them"
        )
    elif one.rates_only:
        yield (
            f"{log_name(one)}: no step time, for its reports give samples/s and no batch size; "
            "--global-batch-size N computes it"
        )


def _warmups(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield each warm-up, with who chose it if that was not the user, and what it leaves out."""
    alike: dict[tuple[str, bool], list[RunSummary]] = {}
    for one in summaries:
        by_campaign = one.warmup_source is not None
        alike.setdefault((str(one.warmup.written or "none"), by_campaign), []).append(one)
    for (written, by_campaign), these in alike.items():
        dropped = f"{counted(sum(one.dropped for one in these), 'report')} left out"
        if by_campaign:
            sources = {str(one.warmup_source) for one in these}
            source = min(sources) if len(sources) == 1 else counted(len(sources), "campaign")
            dropped = f"by {source}; {dropped}"
        yield f"warm-up {written} ({dropped})"
