"""Text below the table of `teralog parse`."""

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.common.text import counted
from orchestrator.logs.figures import NOTHING_GIVEN, Given, run_figures, stated_config
from orchestrator.logs.names import log_name, shortly_named
from orchestrator.logs.read import ReadLogs
from orchestrator.logs.remarks import (
    contradicted_claims,
    contradicted_options,
    figure_remarks,
    time_remarks,
    unknown_gpu,
)
from parsers.summary.run import RunSummary


def closing_lines(
    read: ReadLogs, given: Given = NOTHING_GIVEN, *, keep_skipped: bool
) -> Iterator[str]:
    """Yield the lines below the table of `teralog parse`.

    They explain how the numbers in the table were computed, and why some numbers are missing, e.g.
    because TFLOPs need an option. They also state how many lines of the logs look like step reports
    but could not be parsed.
    """
    summaries = shortly_named(read.summaries)
    skipped = sum(summary.skipped for summary in summaries)
    yield (
        f"step times: {', '.join(_warmups(summaries))}; "
        + (
            "reports with skipped updates kept"
            if keep_skipped
            else f"{counted(skipped, 'report')} with skipped updates left out"
        )
    )
    lines = sum(summary.lines for summary in summaries)
    puzzling = sum(summary.not_understood for summary in summaries)
    yield (
        f"{counted(lines, 'line')} parsed; of the lines that look like step reports, "
        f"{counted(puzzling, 'line')} not parsed"
        + ("; `--unparsed` prints them" if puzzling else "")
    )
    runs = [(log_name(summary), summary, run_figures(summary, given)) for summary in summaries]
    yield from _by_remark(
        (name, line) for name, summary, _ in runs for line in time_remarks(summary, given)
    )
    if any(figures.tflops_per_gpu is not None for _, _, figures in runs):
        yield (
            "TFLOPs/GPU: FLOPs of the exact matrix products, including recomputed ones, divided by "
            "the median step time and the number of GPUs"
        )
    if any(figures.mfu is not None for _, _, figures in runs):
        yield "MFU: TFLOPs/GPU without recomputed products, divided by the GPU's dense peak"
    yield from _by_remark(
        (name, line) for name, summary, figures in runs for line in figure_remarks(summary, figures)
    )
    unknown = unknown_gpu(given)
    lacks_gpu = any("gpu" not in stated_config(summary) for summary in summaries)
    if (
        unknown is not None
        and lacks_gpu
        and all(unknown != figures.no_peak for *_, figures in runs)
    ):
        yield f"--gpu: {unknown}"
    yield from _by_remark(
        (name, line) for name, summary, _ in runs for line in contradicted_claims(summary, given)
    )
    yield from _by_remark(
        (name, line) for name, summary, _ in runs for line in contradicted_options(summary, given)
    )
    if read.silent:
        yield f"no training output in {counted(read.silent, 'file')}"


def _by_remark(remarks: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for each different remark: the run's name, and then the remark.

    If several runs have the same remark, the line begins with their number and the first name, e.g.
    "3 runs, e.g. a.out".

    remarks: pairs of a run's name and a remark about that run.
    """
    runs: dict[str, list[str]] = {}
    for name, remark in remarks:
        runs.setdefault(remark, []).append(name)
    for remark, names in runs.items():
        which = names[0] if len(names) == 1 else f"{len(names)} runs, e.g. {names[0]}"
        yield f"{which}: {remark}"


def _warmups(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a phrase for each warm-up, e.g. "warm-up 5 (10 reports left out)".

    If the warm-up is from a campaign, the phrase also contains the campaign's name, or the number
    of campaigns with this warm-up.
    """
    alike: dict[tuple[str, bool], list[RunSummary]] = {}
    for summary in summaries:
        by_campaign = summary.warmup_source is not None
        alike.setdefault((str(summary.warmup.written or "none"), by_campaign), []).append(summary)
    for (written, by_campaign), these in alike.items():
        dropped = f"{counted(sum(summary.dropped for summary in these), 'report')} left out"
        if by_campaign:
            sources = {str(summary.warmup_source) for summary in these}
            source = min(sources) if len(sources) == 1 else counted(len(sources), "campaign")
            dropped = f"by {source}; {dropped}"
        yield f"warm-up {written} ({dropped})"
