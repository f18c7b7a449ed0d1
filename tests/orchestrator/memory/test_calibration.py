"""Correct memory forecasts by logged peaks."""

import pytest

from orchestrator.memory.calibration import Calibration, Measured, calibrations
from orchestrator.memory.forecast import MemoryForecast, Part

FORECAST = MemoryForecast(
    (
        Part("weights", 8.0, 12.0, ""),
        Part("allocator", 0.0, 2.0, ""),
        Part("context", 1.0, 1.0, ""),
    ),
    9.0,
    15.0,
)


def measured(*peaks: float, whole_process: bool = False) -> list[Measured]:
    """Return one finished run per peak, in GiB; all runs have the same forecast.

    whole_process: whether the peaks include all memory of the process, or only tensors.
    """
    return [Measured("gpt", FORECAST, peak, whole_process) for peak in peaks]


def test_two_runs_correct_nothing():
    """A correction needs at least three runs."""
    assert calibrations(measured(9, 11)) == {}
    assert calibrations(measured(9, 10, 11)) == {"gpt": Calibration(3, 0.9, 1.1, False)}


def test_frameworks_are_calibrated_apart():
    """The peaks of one framework's runs do not correct forecasts for another framework."""
    other = [Measured("deepspeed", FORECAST, 5.0, whole_process=False)] * 2
    assert calibrations([*measured(9, 10, 11), *other]).keys() == {"gpt"}


def test_a_calibrated_forecast_is_the_interval_of_the_logged_peaks():
    """The logged peaks of runs with equal forecasts give the calibrated forecast of the tensors.

    It is from the lowest peak less 5 % to the highest peak plus 5 %. The allocator and the CUDA
    context are added unchanged.
    """
    calibrated = calibrations(measured(9, 10, 11))["gpt"].apply(FORECAST)
    assert calibrated.tensors.low_gib == pytest.approx(10 * 0.9 * 0.95)
    assert calibrated.tensors.high_gib == pytest.approx(10 * 1.1 * 1.05)
    assert calibrated.high_gib == pytest.approx(10 * 1.1 * 1.05 + 3)
    assert sum(part.high_gib for part in calibrated.parts) == pytest.approx(calibrated.high_gib)
    assert "3 finished runs" in calibrated.parts[-1].why


def test_the_peak_of_a_process_without_a_gpu_includes_all_its_memory():
    """Without a GPU, a logged peak includes the memory of Python and torch.

    So it is compared with the whole forecast, not only with the forecast for tensors.
    """
    calibrated = calibrations(measured(12, 12, 12, whole_process=True))["gpt"].apply(FORECAST)
    assert (calibrated.low_gib, calibrated.high_gib) == pytest.approx((12 * 0.95, 12 * 1.05))
