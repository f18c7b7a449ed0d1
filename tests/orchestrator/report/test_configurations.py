"""Combine repeats and seeds of a configuration into one row, with the ids of its runs."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.report.configurations import configurations, report_for_people, short_ids
from orchestrator.report.json_report import report_json
from orchestrator.report.report import Report

Reported = tuple[Campaign, list[Collected], Report]
MATRIX = "matrix: {strategy: [ddp, zero1], seed: [1, 2]}\nrepeats: 2\n"


def log(seconds: float, device: str = "cpu") -> str:
    """Return the text of a log with two steps that each took this many seconds."""
    start = (
        f"[teralog] start | strategy ddp | world_size 2 | backend gloo | device {device} "
        "| precision fp16 | parameters 136960 | torch 2.13.0\n"
    )
    return start + "".join(
        f"[teralog] iteration {number}/4 | step_seconds {seconds} | samples_per_second 8 "
        "| loss nan | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
        for number in (1, 2)
    )


def ended(seconds: float, state: str = "COMPLETED", device: str = "cpu") -> dict[str, Any]:
    """Return the values of an attempt for `reported`: its log, and the state in which it ended."""
    return {"log": log(seconds, device), "state": state}


@pytest.fixture
def rows(reported: Callable[..., Reported]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes a campaign, and returns the rows of its report.

    The function takes the arguments of `reported`: lines of the campaign file, and an attempt for
    each run. Options of the report may follow. By default, runs of a configuration are combined.
    """

    def make(text: str, *attempts: dict[str, Any] | None, **options: Any) -> list[dict[str, Any]]:
        campaign, runs, report = reported(text, *attempts)
        table = report_for_people(campaign, report, runs, **options).table
        return [dict(zip(table.names, row, strict=True)) for row in table.rows]

    return make


def test_a_configuration_is_a_row_of_medians(rows: Callable[..., list[dict[str, Any]]]) -> None:
    """The row of a configuration has the medians of its runs, and the range of their TFLOPs.

    Seed and repeat have no columns.
    """
    attempts = [ended(seconds) for seconds in (1, 2, 4, 5, 3, 3, 3, 3)]
    ddp, zero1 = rows(MATRIX, *attempts)
    assert [row["strategy"] for row in (ddp, zero1)] == ["ddp", "zero1"]
    assert [row["runs"] for row in (ddp, zero1)] == [4, 4]
    assert ddp["step_seconds_median"] == pytest.approx(3)
    assert not {"seed", "repeat", "label"} & ddp.keys()
    low, high = map(float, ddp["tflops_per_gpu_range"].split(" to "))
    assert high == pytest.approx(5 * low, rel=0.01)
    assert low < ddp["tflops_per_gpu"] < high
    assert len({*ddp["run_ids"].split(), *zero1["run_ids"].split()}) == 8


def test_only_completed_runs_count(rows: Callable[..., list[dict[str, Any]]]) -> None:
    """If some runs of a configuration completed, the row's numbers are computed from these only.

    The row reports the outcomes of all runs.
    """
    attempts = (ended(1), ended(1, "FAILED"), ended(3), None, *[ended(3, "FAILED")] * 4)
    ddp, zero1 = rows(MATRIX, *attempts)
    assert ddp["step_seconds_median"] == pytest.approx(2)
    assert ddp["outcome"] == "2 completed, 1 FAILED, 1 not started"
    assert (zero1["outcome"], zero1["step_seconds_median"]) == ("FAILED", pytest.approx(3))


@pytest.mark.parametrize("options", [{"singly": True}, {"by": "-seed"}, {"by": "strategy,repeat"}])
def test_runs_are_listed_singly(
    rows: Callable[..., list[dict[str, Any]]], options: dict[str, Any]
) -> None:
    """Each run has its own row if the user asks for it, or sorts by seed or repeat."""
    shown = rows(MATRIX, *[ended(1)] * 8, **options)
    assert len(shown) == 8
    assert len({row["run_ids"] for row in shown}) == 8


def test_rows_are_sorted_by_what_they_show(rows: Callable[..., list[dict[str, Any]]]) -> None:
    """Rows are sorted by the medians that they show, not by the fastest run of a configuration."""
    attempts = [ended(seconds) for seconds in (1, 9, 9, 9, 3, 3, 3, 3)]
    shown = rows(MATRIX, *attempts, by="-tflops_per_gpu")
    assert [row["strategy"] for row in shown] == ["zero1", "ddp"]


def test_a_campaign_without_repeats_has_a_row_for_each_run(
    reported: Callable[..., Reported],
) -> None:
    """Without repeats, each run has a row, and each row has one id."""
    campaign, runs, report = reported("matrix: {strategy: [ddp, zero1]}\n", ended(1), ended(2))
    shown = report_for_people(campaign, report, runs)
    assert [row[1:] for row in shown.table.rows] == list(report.table.rows)
    assert shown.provenance == report.provenance
    assert [len(configuration.runs) for configuration in configurations(runs)] == [1, 1]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["abcd1234"], ["abcd"]),
        (["abcd1234", "abce1234"], ["abcd", "abce"]),
        (["abcd1234", "abcd1934"], ["abcd12", "abcd19"]),
        (["abc", "abd"], ["abc", "abd"]),
    ],
)
def test_ids_are_shortened_to_distinct_starts(ids: list[str], expected: list[str]) -> None:
    """Ids are shortened to at least four digits, and to as many more as keep them different."""
    assert list(short_ids(ids).values()) == expected


def test_json_has_the_configurations_with_their_intervals(
    reported: Callable[..., Reported],
) -> None:
    """The JSON has the lowest, median and highest step time, TFLOPs etc. of each configuration.

    Only completed runs count. A quantity that is unknown for all of them, e.g. MFU, is null.
    """
    attempts = [*map(ended, (1, 2, 4)), ended(9, "FAILED"), *map(ended, (3, 3, 3, 3))]
    campaign, runs, report = reported(MATRIX, *attempts)
    ddp, zero1 = report_json(campaign, report, runs)["configurations"]
    assert (ddp["label"], zero1["label"]) == ("ddp", "zero1")
    assert ddp["run_ids"] == [run.planned.run_id for run in runs[:4]]
    assert ddp["measured_run_ids"] == ddp["run_ids"][:3]
    seconds = ddp["step_seconds_median"]
    assert seconds == {"n": 3, "median": 2, "low": 1, "high": 4}
    assert ddp["tflops_per_gpu"]["high"] == pytest.approx(4 * ddp["tflops_per_gpu"]["low"])
    assert (zero1["tflops_per_gpu"]["n"], zero1["mfu"], zero1["crowded_run_ids"]) == (4, None, [])
