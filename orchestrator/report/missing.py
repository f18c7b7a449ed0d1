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
        have = counted(len(without_log), "completed run has", "completed runs have")
        yield f"{have} no log file any more: {_labels(without_log)}"
    logged = [
        run
        for run in completed
        if run.log is not None and FRAMEWORKS[run.planned.run.framework].log.reports_steps
    ]
    silent = [run for run in logged if not run.reports]
    if silent:
        logs = counted(
            len(silent), ("log of a completed run contains"), "logs of completed runs contain"
        )
        yield f"{logs} no step: {_labels(silent)}"
    # If a program measures the time of the whole run, the run needs no report after the warm-up.
    timeless = [run for run in logged if run.reports and run.summary.step_seconds_mean is None]
    overflowed = [run for run in timeless if run.summary.skipped_reports]
    if overflowed:
        runs_have = counted(len(overflowed), "completed run has", "completed runs have")
        yield (
            f"{runs_have} a skipped update in every report after the warm-up: gradients overflow "
            f"until the loss scale is low enough; start it lower, or raise train_iters: "
            f"{_labels(overflowed)}"
        )
    untimed = [run for run in timeless if not run.summary.skipped_reports]
    if untimed:
        singular = "completed run has no step time after the warm-up"
        plural = "completed runs have no step time after the warm-up"
        warmup = f"(warmup: {campaign.warmup.written})"
        yield f"{counted(len(untimed), singular, plural)} {warmup}: {_labels(untimed)}"
    if gone:
        runs_are = counted(len(gone), "run is", "runs are")
        yield f"{runs_are} no longer in {campaign.path}, and are left out; their results are kept"


def _labels(runs: Sequence[Collected]) -> str:
    return ", ".join(run.planned.label for run in runs)
