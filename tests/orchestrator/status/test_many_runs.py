"""The status of a campaign of many runs: a summary, and the runs that need attention."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fixture_types import AttemptIn, CampaignOf

from orchestrator.cli.main import main
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.errors import UserError
from orchestrator.status import many_runs
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.many_runs import (
    MOST_ROWS,
    configuration_label,
    hung_lines,
    in_state,
    many_runs_text,
    parse_states,
    waiting_lines,
)
from orchestrator.status.table import RunStatus, held_line, run_statuses
from orchestrator.store.campaign_store import CampaignStore, campaign_store
from orchestrator.store.job_state import JobState

CAMPAIGN = """\
name: many
defaults: {framework: gpt, model: s}
matrix: {strategy: [ddp, zero1], micro_batch_size: [1, 2, 4, 8, 16]}
repeats: 5
"""
# States by the number of the run; all other runs have completed.
STATES: dict[int, dict[str, Any]] = {
    3: {"state": "FAILED", "log": ""},
    13: {"state": "FAILED", "log": "torch.cuda.OutOfMemoryError: CUDA out of memory.\n"},
    48: {},
    49: {},
}


@pytest.fixture
def store(campaign_of: CampaignOf, attempt_in: AttemptIn, tmp_path: Path) -> CampaignStore:
    """Return the results of 50 runs: 46 completed, 1 failed, 1 out of memory, 2 not started."""
    campaign = campaign_of(CAMPAIGN)
    new_store = campaign_store(tmp_path / "results", campaign.name)
    for number, planned in enumerate(campaign.runs):
        values = STATES.get(number, {"state": "COMPLETED", "log": ""})
        if values:
            attempt_in(new_store.run(planned.run_id), **values)
    return new_store


@pytest.fixture
def statuses(store: CampaignStore, campaign_of: CampaignOf) -> list[RunStatus]:
    """Return the statuses of the 50 runs."""
    return run_statuses(campaign_of(CAMPAIGN), store)


def with_job(status: RunStatus, state: str, **values: Any) -> RunStatus:
    """Return a copy of a run's status in which a Slurm job has this state.

    values: more fields of the job, e.g. `reason`.
    """
    attempt = replace(status.attempts[-1], job=JobState("7_1", state, by="squeue", **values))
    return replace(status, state=state, outcome=None, log_outcome=None, attempts=(attempt,))


def hung(status: RunStatus) -> dict[str, HungRun]:
    """Return a dict from run id to hung run, in which only the run of this status hangs."""
    hung_run = object.__new__(HungRun)
    return {status.planned.run_id: hung_run}


def status_of(tmp_path: Path, *arguments: str) -> Result:
    """Run `teralog status` in a terminal of 80 columns."""
    command = ["status", str(tmp_path / "campaign.yaml"), "--results", str(tmp_path / "results")]
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [*command, *arguments])


def test_a_configuration_is_a_label_without_its_repeat(statuses: list[RunStatus]) -> None:
    labels = [configuration_label(status) for status in statuses]
    assert labels[:6] == ["ddp mb1"] * 5 + ["ddp mb2"]


def test_the_summary_counts_by_configuration_then_shows_what_needs_attention(
    statuses: list[RunStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary counts the runs of each configuration, and then lists runs that need attention.

    Completed runs and runs that have not started are counted, but not listed.
    """
    monkeypatch.setenv("COLUMNS", "80")
    first, second = many_runs_text(statuses, {}, {}).split("\n\n")
    assert [line.split("  ")[0] for line in first.splitlines()[2:4]] == [
        "ddp mb1",
        "ddp mb2",
    ]
    assert "4 completed, 1 failed" in first.splitlines()[2]
    assert "3 completed, 2 not started" in first.splitlines()[-1]
    failed, oom = statuses[3].planned.run_id[:4], statuses[13].planned.run_id[:4]
    assert second.splitlines()[2:] == [
        f"{failed}  ddp mb1 r4  failed  —",
        f"{oom}  ddp mb4 r4  oom     torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "and 48 more: 46 completed, 2 not started; --all shows every run",
    ]


def test_what_needs_attention_most_comes_first(statuses: list[RunStatus]) -> None:
    """Failed runs come first, then hung, held, running, cancelled and waiting runs."""
    statuses[1] = replace(statuses[1], state="CANCELLED", outcome=RunOutcome.CANCELLED)
    statuses[20] = with_job(statuses[20], "PENDING", reason="Priority")
    statuses[21] = with_job(statuses[21], "RUNNING", nodes="gpu001")
    statuses[22] = with_job(statuses[22], "PENDING", reason="JobHeldAdmin")
    statuses[23] = with_job(statuses[23], "RUNNING", nodes="gpu002")
    text = many_runs_text(statuses, {}, hung(statuses[23])).split("\n\n")[-1]
    lines = text.splitlines()[2:9]
    assert [re.search(" r[0-9]", line)[0] for line in lines] == [  # type: ignore[index]
        *(" r4", " r4", " r4", " r3", " r2", " r2", " r1")
    ]
    states = [re.split(" r[0-9]", line)[1].split()[0] for line in lines]
    assert states == ["failed", "oom", "hung", "pending", "running", "cancelled", "pending"]


@pytest.fixture(params=[80, 60])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the width of the terminal to which the summary is printed, and return it."""
    monkeypatch.setattr(many_runs, "terminal_width", lambda: request.param)
    return int(request.param)


def test_the_summary_fits_the_terminal(statuses: list[RunStatus], width: int) -> None:
    """The summary is not wider than the terminal.

    Long labels continue on the next line; Slurm's reason is cut to one line.
    """
    reason = "ReqNodeNotAvail, UnavailableNodes:gpu[001-003,007,009,011,013,015,017,019,021]"
    for number in range(20, 45):
        status = with_job(statuses[number], "PENDING", reason=reason)
        label = f"a_very_long_parameter_of_a_framework={number} and_another_one=7 r12"
        planned = replace(status.planned, label=label)
        statuses[number] = replace(status, planned=planned)
    text = many_runs_text(statuses, {}, {})
    assert max(map(len, text.splitlines())) <= width
    attention = text.split("\n\n")[-1]
    assert attention.count("and_another_one=7") == MOST_ROWS - 2
    assert attention.count("ReqNodeNot") == MOST_ROWS - 2
    assert len(re.findall("ReqNodeNot.*…$", attention, re.MULTILINE)) == MOST_ROWS - 2


@pytest.mark.parametrize("label", ["zero1 x={} y=1", f"{'x' * 40}{{}} near=1 {'x' * 70}"])
def test_configurations_never_look_the_same(
    statuses: list[RunStatus], width: int, label: str
) -> None:
    """On a narrow terminal, the labels of configurations are wrapped, and no part of them is lost.

    So configurations with long, similar labels still look different.
    """
    for number, status in enumerate(statuses[:20]):
        text = f"{label.format(number // 5)} r{status.planned.run.repeat}"
        statuses[number] = replace(status, planned=replace(status.planned, label=text))
    table = many_runs_text(statuses[:20], {}, {}).split("\n\n")[1].splitlines()
    first = len(table[1].split()[0])
    shown = "".join(line[:first].replace(" ", "") for line in table[2:])
    assert shown == "".join(label.format(number).replace(" ", "") for number in range(4))


@pytest.mark.parametrize(("count", "last"), [(5, "r5"), (30, "and 25 more hang: --state hung")])
def test_of_many_runs_that_hang_the_first_are_reported(count: int, last: str) -> None:
    """If many runs hang, only the first few are listed, and the others are counted.

    E.g. all runs hang if a file system is unavailable.
    """
    hung_run = HungRun(
        label="",
        node_list=None,
        silent_since=datetime.now(UTC),
        silent_seconds=61.0,
        report_seconds=0.2,
        last_line=None,
    )
    lines = hung_lines([replace(hung_run, label=f"r{number + 1}") for number in range(count)])
    assert len(lines) <= 6
    assert lines[-1].startswith(last)


def test_without_repeats_there_is_no_table_of_configurations(statuses: list[RunStatus]) -> None:
    """Without repeats there is no table of configurations, which would have one row per run."""
    text = many_runs_text(statuses[::5], {}, {})
    assert "configuration" not in text
    assert text == "no run needs attention; --all shows every run"


def test_of_many_configurations_those_that_need_attention_are_shown(
    statuses: list[RunStatus],
) -> None:
    """If there are too many configurations for the table, those with a failed run are not left out.

    The last line counts the configurations without a row, and their runs by outcome.
    """
    many = []
    for number in range(60):
        status = statuses[3] if number == 59 else statuses[0]
        label = f"n={number // 2} r{status.planned.run.repeat}"
        many.append(replace(status, planned=replace(status.planned, label=label)))
    text = many_runs_text(many, {}, {}).split("\n\n")[0]
    assert len(text.splitlines()) == MOST_ROWS + 3
    assert "1 completed, 1 failed" in text
    assert text.splitlines()[-1] == "and 10 more configurations: 20 completed"


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["failed"], [3]),
        (["oom"], [13]),
        (["OOM,failed"], [3, 13]),
        (["oom", "not started"], [13, 48, 49]),
        (["NOT_STARTED"], [48, 49]),
        (["hung"], [5]),
        (["node_fail"], []),
        (["out_of_memory"], []),
    ],
)
def test_runs_are_chosen_by_state_or_outcome(
    statuses: list[RunStatus], texts: list[str], numbers: list[int]
) -> None:
    """`--state` chooses runs by the words of the line of totals, e.g. `oom` or `not started`.

    Upper and lower case are equal. Several words are separated by commas.
    """
    chosen = in_state(statuses, parse_states(texts), hung(statuses[5]))
    assert chosen == [statuses[number] for number in numbers]


@pytest.mark.parametrize(
    ("texts", "problems"),
    [
        (["fialed,x"], ["'fialed' is neither", "'x' is neither"]),
        (["runing", "oom"], ["did you mean 'running'?"]),
        ([","], ["'' is neither"]),
    ],
)
def test_an_unknown_state_is_a_sentence(texts: list[str], problems: list[str]) -> None:
    """One message reports all words after `--state` that are neither a state nor an outcome."""
    with pytest.raises(UserError) as caught:
        parse_states(texts)
    assert len(caught.value.problems) == len(problems)
    for problem, part in zip(caught.value.problems, problems, strict=True):
        assert part in problem


def test_reasons_are_explained_only_for_jobs_that_wait(statuses: list[RunStatus]) -> None:
    """Only the reasons of waiting jobs are explained.

    The command that releases a held job is shown, unless an administrator holds the job.
    """
    jobs = [
        with_job(statuses[0], "PENDING", reason="JobHeldAdmin"),
        with_job(statuses[1], "RUNNING", reason="Priority"),
    ]
    assert [line.partition(":")[0] for line in waiting_lines(jobs)] == ["JobHeldAdmin (1 run)"]
    assert held_line(jobs) is None
    jobs.append(with_job(statuses[2], "PENDING", reason="JobHeldUser"))
    assert held_line(jobs) == "Slurm holds 1 run until you type: scontrol release '7_[1]'"


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["--all"], 50),
        (["--state", "failed,oom"], 2),
        (["--filter", "micro_batch_size == 4 and outcome == 'oom'"], 1),
        (["--filter", "micro_batch_size == 4", "--state", "completed"], 9),
        (["--state", "completed"], 46),
        (["--format", "markdown"], 50),
        (["--format", "csv"], 50),
        (["--json"], 50),
        (["--json", "--state", "oom"], 1),
    ],
)
def test_every_run_that_is_asked_for_has_a_row(
    store: CampaignStore, tmp_path: Path, arguments: list[str], rows: int
) -> None:
    """Each run that the user selects has a row; JSON, CSV and markdown have all runs by default."""
    printed = status_of(tmp_path, *arguments)
    assert printed.exit_code == 0, printed.output
    assert sum(" mb" in line for line in printed.output.splitlines()) == rows
    assert "more configurations" not in printed.output


def test_the_command_summarises_many_runs(store: CampaignStore, tmp_path: Path) -> None:
    """For many runs, `status` prints the totals first."""
    printed = status_of(tmp_path).output
    assert printed.startswith("50 runs: 46 completed, 1 failed, 1 oom, 2 not started\n\n")
    assert "and 48 more" in printed


def test_a_filter_that_matches_no_run_gives_a_message(store: CampaignStore, tmp_path: Path) -> None:
    """If no run matches the expression after --filter, `status` quotes it in a message."""
    answer = status_of(tmp_path, "--filter", "micro_batch_size == 3")
    assert "'micro_batch_size == 3' matches no run" in f"{answer.output}{answer.exception}"
