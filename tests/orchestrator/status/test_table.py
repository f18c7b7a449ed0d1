"""The status of a campaign as a table: one line per run, and totals."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fixture_types import AttemptIn, CampaignOf

from orchestrator.common.tables import as_records, as_text
from orchestrator.status import table as statuses
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.slow_runs import SlowRun
from orchestrator.status.table import RunStatus, run_statuses
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.job_state import JobState
from orchestrator.store.records import Ended


@pytest.fixture
def standing(campaign_of: CampaignOf, attempt_in: AttemptIn, tmp_path: Path) -> list[RunStatus]:
    """Return the statuses of four runs.

    They are a run that completed in its second attempt, a failed run, an interrupted run, and a run
    that has not started.
    """
    campaign = campaign_of(
        "name: a\ndefaults: {framework: gpt, model: s}\nmatrix: {seed: [1, 2, 3, 4]}\n"
    )
    store = CampaignStore(tmp_path / "results")
    first, second, third, _ = (store.run(planned.run_id) for planned in campaign.runs)
    attempt_in(first, state="TIMEOUT", seconds=60.0, signal="SIGTERM")
    attempt_in(first, log="fine\n", state="COMPLETED", seconds=12.3456, exit_code=0)
    attempt_in(second, log="bad\n", state="FAILED", seconds=1.5, exit_code=3)
    attempt_in(third, log="so far\n")
    return run_statuses(campaign, store)


@pytest.mark.parametrize(
    ("seconds", "earlier", "hours"), [(None, 1800.0, 0.5), (1800.0, 1800.0, 1.0), (None, 0.0, None)]
)
def test_the_time_before_a_requeue_counts_if_the_job_never_starts_again(
    standing: list[RunStatus], seconds: float | None, earlier: float, hours: float | None
):
    """The GPU-hours of a requeued job include the time of its earlier starts.

    This holds even if the job is cancelled before it starts again.
    """
    ended = Ended("CANCELLED", "2026-01-02T03:05:05+00:00", seconds)
    job = JobState("7", "CANCELLED", "sacct", restarts=1, earlier_seconds=earlier)
    attempt = replace(standing[1].attempts[-1], ended=ended, job=job)
    assert replace(standing[1], attempts=[attempt]).gpu_hours == hours


def test_a_status_is_that_of_the_last_attempt(standing: list[RunStatus]):
    """The status of a run is that of its last attempt.

    Statuses are in the order of the campaign's runs.
    """
    assert [
        (status.state, status.outcome, len(status.attempts), status.seconds, status.unsuccessful)
        for status in standing
    ] == [
        ("COMPLETED", "completed", 2, 12.3456, False),
        ("FAILED", "failed", 1, 1.5, True),
        ("INTERRUPTED", "interrupted", 1, None, True),
        ("NOT_STARTED", None, 0, None, False),
    ]


def test_the_table_has_one_line_per_run(standing: list[RunStatus]):
    """The table has one line per run; a value that the run does not have is a dash."""
    table = statuses.status_table(standing)
    assert [row["label"] for row in as_records(table)] == [f"seed={seed}" for seed in (1, 2, 3, 4)]
    lines = [line.split()[1:] for line in as_text(table).splitlines()[2:]]
    assert lines == [
        ["seed=1", "COMPLETED", "completed", "2", "12.3"],
        ["seed=2", "FAILED", "failed", "1", "1.50"],
        ["seed=3", "INTERRUPTED", "interrupted", "1", "—"],
        ["seed=4", "NOT_STARTED", "—", "0", "—"],
    ]


def test_a_record_shows_all_of_the_last_attempt(standing: list[RunStatus]):
    """The JSON of a run has all values of its last attempt; an absent value is null."""
    slow = SlowRun(
        label="seed=1",
        node_list="here",
        step_seconds=0.4,
        usual_seconds=0.2,
        others="siblings",
        count=4,
    )
    hung = HungRun(
        label="seed=1",
        node_list="here",
        silent_since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        silent_seconds=100.0,
        report_seconds=0.5,
        last_line="saving",
    )
    identity = standing[0].planned.run_id
    records = statuses.status_records(standing, {identity: slow}, {identity: hung})
    assert json.loads(json.dumps(records)) == records
    completed, failed, _, waiting = records
    assert completed == {
        "run_id": standing[0].planned.run_id,
        "label": "seed=1",
        "rehearsed": False,
        "state": "COMPLETED",
        "outcome": "completed",
        "outcome_by": "scheduler",
        "attempts": 2,
        "started_at": "2026-01-02T03:04:05+00:00",
        "ended_at": "2026-01-02T03:05:05+00:00",
        "seconds": 12.3456,
        "exit_code": 0,
        "signal": None,
        "log": str(standing[0].attempts[-1].log),
        # Both attempts, of one rank.
        "gpu_hours_used": pytest.approx((60.0 + 12.3456) / 3600),
        "gpu_hours_asked": 0.5,
        "job_id": None,
        "node_list": None,
        "restarts": None,
        "reason": None,
        "expected_start": None,
        "scheduler_state": None,
        "scheduler_state_by": None,
        "slow": {
            "step_seconds": 0.4,
            "usual_step_seconds": 0.2,
            "ratio": 2.0,
            "compared_with": "siblings",
            "compared": 4,
        },
        "hung": {
            "silent_since": "2026-01-02T03:04:05+00:00",
            "silent_seconds": 100.0,
            "report_seconds": 0.5,
            "last_line": "saving",
        },
    }
    assert failed["exit_code"] == 3
    present = {"run_id", "label", "rehearsed", "state", "attempts", "gpu_hours_asked"}
    assert {value for key, value in waiting.items() if key not in present} == {None}


@pytest.mark.parametrize(
    ("chosen", "gone", "line"),
    [
        ([0, 1, 2, 3], [], "4 runs: 1 completed, 1 failed, 1 interrupted, 1 not started"),
        ([1], [], "1 run: 1 failed"),
        ([1, 1, 3], [], "3 runs: 2 failed, 1 not started"),
        (
            [0, 3],
            ["seed=9", "seed=8"],
            "2 runs: 1 completed, 1 not started, 2 no longer in the campaign file, results kept",
        ),
    ],
)
def test_the_totals_are_one_line(
    standing: list[RunStatus], chosen: list[int], gone: list[str], line: str
):
    """The line of totals has the number of runs with each outcome.

    It also has the number of runs whose results are kept, but that are no longer in the campaign
    file.
    """
    assert statuses.totals([standing[index] for index in chosen], gone) == line
