"""How much of its GPUs' peak a run reaches, and whence the peak is known."""

from collections.abc import Sequence

from orchestrator.campaign import Campaign
from orchestrator.collection import Collected
from orchestrator.flops import utilization
from orchestrator.gpus import Figure


def mfu(campaign: Campaign, run: Collected) -> float | None:
    """Return the model FLOPs utilization, without recomputation; None where it is not known."""
    return _of_peak(run.summary.model_tflops_per_gpu, _peak(campaign, run))


def hfu(campaign: Campaign, run: Collected) -> float | None:
    """Return the hardware FLOPs utilization, recomputed ones included; None as `mfu`."""
    return _of_peak(run.summary.tflops_per_gpu, _peak(campaign, run))


def peaks_told(campaign: Campaign, runs: Sequence[Collected]) -> str:
    """Return what the peaks are and where they are from, or why they are not known.

    Nothing where no run has FLOPs to set against them.
    """
    if all(run.summary.model_tflops_per_gpu is None for run in runs):
        return ""
    peaks = dict.fromkeys(_peak(campaign, run) for run in runs)
    told = (
        f"MFU unknown: {peak.said}; "
        if peak.value is None
        else f"MFU: FLOPs without recomputation, over {peak.said}; "
        for peak in peaks
        if peak is not None
    )
    return "".join(told)


def _peak(campaign: Campaign, run: Collected) -> Figure | None:
    return campaign.cluster.peak_tflops(run.planned.run.training.precision, run.summary.device)


def _of_peak(tflops: float | None, peak: Figure | None) -> float | None:
    return utilization(tflops, peak.value if peak else None)
