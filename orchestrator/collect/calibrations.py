"""Calibrate memory forecasts from the finished runs of a campaign."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.campaign.campaign import Campaign
from orchestrator.memory.calibration import Calibrations, Measured, calibrations
from orchestrator.store.records import COMPLETED

# `plan` calls this without results, too, and then loads no reader of logs.
if TYPE_CHECKING:
    from orchestrator.collect.collected import Collected


def calibrations_by(campaign: Campaign, runs: "Sequence[Collected]") -> Calibrations:
    """Return the calibration of memory forecasts for each framework, by the framework's name.

    runs: the runs of the campaign. A calibration compares the forecasts of completed runs with
    their measured memory.
    """
    return calibrations(
        Measured(
            run.planned.run.framework,
            run.planned.memory,
            run.summary.max_memory_allocated_gib,
            whole_process=not campaign.cluster.has_gpus,
        )
        for run in runs
        if run.state == COMPLETED
        and run.planned.memory is not None
        and run.summary.max_memory_allocated_gib is not None
    )
