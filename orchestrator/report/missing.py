"""Find values that are missing in a report, although they should have been measured."""

from collections.abc import Iterator, Sequence

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.text import counted
from orchestrator.frameworks.table import FRAMEWORKS


def left_out(campaign: Campaign, runs: Sequence[Collected], gone: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each reason why numbers are missing, with the runs that lack them.

    gone: labels of runs that were measured and are no longer in the campaign file.
    """
    completed = [run for run in runs if run.outcome == RunOutcome.COMPLETED]
    without_log = [run for run in completed if run.log is None]
    if without_log:
        yield (
            f"{counted(len(without_log), 'completed run')} without a log file, which may have been "
            f"deleted: {_labels(without_log)}"
        )
    logged = [
        run
        for run in completed
        if run.log is not None and FRAMEWORKS[run.planned.run.framework].log.reports_steps
    ]
    silent = [run for run in logged if not run.reports]
    if silent:
        runs_of = counted(len(silent), "completed run")
        yield f"{runs_of} without a step report in the log: {_labels(silent)}"
    # If a program measures the time of the whole run, the run needs no report after the warm-up.
    timeless = [run for run in logged if run.reports and run.summary.step_seconds_mean is None]
    overflowed = [run for run in timeless if run.summary.skipped_reports]
    if overflowed:
        yield (
            f"{counted(len(overflowed), 'completed run')} with a skipped update in every report "
            f"after the warm-up: {_labels(overflowed)}; gradients overflow until the loss scale is "
            "low enough: start with a lower loss scale, or raise `train_iters`"
        )
    untimed = [run for run in timeless if not run.summary.skipped_reports]
    if untimed:
        singular = "completed run has no step time after the warm-up"
        plural = "completed runs have no step time after the warm-up"
        warmup = f"(warmup: {campaign.warmup.written})"
        yield f"{counted(len(untimed), singular, plural)} {warmup}: {_labels(untimed)}"
    if gone:
        yield (
            f"{counted(len(gone), 'measured run')} left out of the report: no longer in "
            f"{campaign.path}; the results are kept"
        )


def _labels(runs: Sequence[Collected]) -> str:
    return ", ".join(run.planned.label for run in runs)
