"""Steps and runs as pandas frames."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.frames import runs_frame, steps_frame

LOG = "".join(
    f"[teralog] iteration {number}/4 | step_seconds 0.5 | samples_per_second 16 | loss nan "
    "| memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
    for number in (1, 2, 3)
)


@pytest.fixture
def runs(reported: Callable[..., Any]) -> Any:
    """Return a campaign, and its two runs: one with three reports, one not begun."""
    campaign, collected, _ = reported(
        "matrix: {seed: [1, 2]}\n", {"log": LOG, "state": "COMPLETED"}, None
    )
    return campaign, collected


def test_a_frame_of_steps_has_a_row_for_each_report(runs: Any):
    """Warm-up included, and marked."""
    campaign, collected = runs
    frame = steps_frame(collected, campaign.warmup)
    assert frame["iteration"].tolist() == [1, 2, 3]
    assert frame["warmup"].tolist() == [True, False, False]
    assert frame["step_seconds"].tolist() == [0.5, 0.5, 0.5]
    assert frame["loss"].isna().all()
    assert set(frame["run_id"]) == {collected[0].planned.run_id}


def test_a_frame_of_steps_has_its_columns_without_a_report_too(runs: Any):
    """What is written for a campaign that has run works for one that has not."""
    campaign, collected = runs
    full, empty = (steps_frame(some, campaign.warmup) for some in (collected, collected[1:]))
    assert len(empty) == 0
    assert empty.columns.tolist() == full.columns.tolist()


def test_a_frame_of_runs_has_a_row_for_each_run(runs: Any):
    """Its sizes, its end and its numbers."""
    _, collected = runs
    frame = runs_frame(collected)
    assert frame["label"].tolist() == ["seed=1", "seed=2"]
    assert frame["seed"].tolist() == [1, 2]
    assert frame["state"].tolist() == ["COMPLETED", "NOT_STARTED"]
    assert frame["reports"].tolist() == [2, 0]
    assert frame["step_seconds_mean"].isna().tolist() == [False, True]
