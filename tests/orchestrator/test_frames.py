"""Check the pandas frames of runs and steps."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import teralog
from orchestrator import frames
from orchestrator.campaign.parameters import option_names
from orchestrator.frames import collected_runs_frame, collected_steps_frame
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.submit.render import render_runs

LOG = "".join(
    f"[teralog] iteration {number}/4 | step_seconds 0.5 | samples_per_second 16 | loss nan "
    "| memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
    for number in (1, 2, 3)
)


@pytest.fixture
def runs(reported: Callable[..., Any]) -> Any:
    """Return a campaign and its two runs: one with three step reports, one not started."""
    campaign, collected, _ = reported(
        "matrix: {seed: [1, 2]}\n", {"log": LOG, "state": "COMPLETED"}, None
    )
    return campaign, collected


def test_a_frame_of_steps_has_a_row_for_each_report(runs: Any):
    """A frame of steps has a row per step report; the column `warmup` marks the warm-up."""
    _, collected = runs
    frame = collected_steps_frame(collected)
    assert frame["iteration"].tolist() == [1, 2, 3]
    assert frame["warmup"].tolist() == [True, False, False]
    assert frame["step_seconds"].tolist() == [0.5, 0.5, 0.5]
    assert frame["loss"].isna().all()
    assert set(frame["run_id"]) == {collected[0].planned.run_id}


def test_a_frame_of_steps_has_its_columns_without_a_report_too(runs: Any):
    """A frame of steps without any report has the same columns as a frame with reports.

    So a script that uses these columns works before the campaign has run.
    """
    _, collected = runs
    full, empty = (collected_steps_frame(some) for some in (collected, collected[1:]))
    assert len(empty) == 0
    assert empty.columns.tolist() == full.columns.tolist()


def test_a_frame_of_runs_has_a_row_for_each_run(runs: Any):
    """A frame of runs has a row per run, with its label, its state and its numbers.

    A run that has not started has a row, too.
    """
    _, collected = runs
    frame = collected_runs_frame(collected)
    assert frame["label"].tolist() == ["seed=1", "seed=2"]
    assert frame["seed"].tolist() == [1, 2]
    assert frame["state"].tolist() == ["COMPLETED", "NOT_STARTED"]
    assert frame["reports"].tolist() == [2, 0]
    assert frame["step_seconds_mean"].isna().tolist() == [False, True]


@pytest.mark.parametrize("chosen", [slice(1, 2), slice(0, 2)])
def test_a_column_of_numbers_is_one_of_numbers_too_where_all_are_absent(
    runs: Any, chosen: slice
) -> None:
    """A column of numbers is numeric even if all numbers are absent."""
    _, collected = runs
    every, each = collected_runs_frame(collected[chosen]), collected_steps_frame(collected[chosen])
    for frame, names in (
        (every, ("reports", "step_seconds_mean", "final_loss", "parameters_logged")),
        (each, ("iteration", "loss", "tokens_per_second", "skipped", "offset")),
    ):
        assert {frame[name].dtype.kind for name in names} <= {"i", "f"}
        assert frame["label"].dtype.kind not in "if"
    assert each["warmup"].dtype == bool
    assert math.isnan(every["tflops_per_gpu"].mean()) == (chosen.start == 1)


@pytest.fixture
def saved(reported: Callable[..., Any], tmp_path: Path) -> Any:
    """Save the campaign of the fixture `runs`, and its results folder, as `submit` does.

    Return the campaign and its two collected runs, without the paths of their logs and without
    attempts.
    """
    lines = "matrix: {seed: [1, 2]}\n"
    campaign, collected, _ = reported(lines, {"log": LOG, "state": "COMPLETED"}, None)
    (tmp_path / "results").rename(tmp_path / "stages")
    store = CampaignStore(tmp_path / "stages")
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    return campaign, [replace(run, log=None, attempts=()) for run in collected]


@pytest.mark.parametrize("as_text", [True, False])
def test_a_line_gives_the_frames_of_a_campaign_file(
    saved: Any, tmp_path: Path, as_text: bool
) -> None:
    """`frames.runs` and `frames.steps` return the frames of a campaign file's collected runs.

    The path of the file may be a string or a Path.
    """
    _, collected = saved
    source, results = tmp_path / "campaign.yaml", tmp_path
    given = (str(source), str(results)) if as_text else (source, results)
    assert frames.runs(*given).equals(collected_runs_frame(collected))
    assert frames.steps(*given).equals(collected_steps_frame(collected))


def test_a_line_gives_the_frames_of_a_folder_without_its_file(saved: Any, tmp_path: Path) -> None:
    """Without the campaign file, the frames of a results folder contain the started runs.

    Their numbers leave out the warm-up that the campaign file had set.
    """
    campaign, collected = saved
    campaign.path.unlink()
    frame = frames.runs(tmp_path / "stages")
    assert frame["label"].tolist() == ["seed=1"]
    assert frame["step_seconds_median"].tolist() == [0.5]
    assert frames.steps(tmp_path / "stages").equals(collected_steps_frame(collected))


def test_the_docstring_names_every_column(runs: Any) -> None:
    """The docstrings of `teralog.runs` and `teralog.steps` name all columns of their frames.

    Columns of parameters that only one framework has may be missing.
    """
    _, collected = runs
    own = option_names("gpt") | {"zero_stage", "activation_checkpointing", "model"}
    pairs = [
        (teralog.runs, collected_runs_frame(collected)),
        (teralog.steps, collected_steps_frame(collected)),
    ]
    for function, frame in pairs:
        words = set(re.findall(r"\w+", function.__doc__ or ""))
        assert not set(frame.columns) - own - words
