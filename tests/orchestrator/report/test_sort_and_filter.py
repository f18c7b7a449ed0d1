"""Choose the rows of a report by an expression, and sort them by columns."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.collected import Collected
from orchestrator.common.errors import UserError
from orchestrator.common.tables import as_records
from orchestrator.report.json_report import report_json
from orchestrator.report.report import Report, report_markdown
from orchestrator.report.sort_and_filter import arranged

Reported = tuple[Campaign, list[Collected], Report]

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB.\n"


def steps(*seconds: float, loss: str = "6.25") -> dict[str, Any]:
    """Return the values of an attempt for `reported`, whose steps took these seconds."""
    lines = (
        f"[teralog] iteration {number}/4 | step_seconds {time} | samples_per_second {8 / time} "
        f"| loss {loss} | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
        for number, time in enumerate(seconds, start=1)
    )
    return {"log": "".join(lines), "state": "COMPLETED"}


@pytest.fixture
def four(reported: Callable[..., Reported]) -> Reported:
    """Return a report of four runs: one slow, one out of memory, one fast, one not started."""
    return reported(
        "matrix: {strategy: [zero1, zero3], seed: [1, 2]}\n",
        steps(9.0, 3.0, 3.0, 3.0, loss="nan"),
        {"log": OOM, "state": "FAILED"},
        steps(9.0, 1.0, 1.0, 1.0),
        None,
    )


def labels(report: Report) -> list[str]:
    """Return a short label for each row, e.g. z1/2 for strategy zero1 and seed 2."""
    return [f"z{row['strategy'][-1]}/{row['seed']}" for row in as_records(report.table)]


ORDERS = {
    "by name": ("step_seconds_mean", ["z3/1", "z1/1", "z1/2", "z3/2"]),
    "by title": ("step mean (s)", ["z3/1", "z1/1", "z1/2", "z3/2"]),
    "in whatever case": ("tflops/gpu", ["z1/1", "z3/1", "z1/2", "z3/2"]),
    "descending, what is absent last all the same": (
        "-step_seconds_mean",
        ["z1/1", "z3/1", "z1/2", "z3/2"],
    ),
    "nan is as absent": ("final_loss", ["z3/1", "z1/1", "z1/2", "z3/2"]),
    "texts": ("-strategy", ["z3/1", "z3/2", "z1/1", "z1/2"]),
    "by two columns": ("-seed, strategy", ["z1/2", "z3/2", "z1/1", "z3/1"]),
    "what is the same keeps its order": ("precision", ["z1/1", "z1/2", "z3/1", "z3/2"]),
}


@pytest.mark.parametrize(("by", "order"), ORDERS.values(), ids=ORDERS)
def test_rows_are_sorted_by_columns(four: Reported, by: str, order: list[str]) -> None:
    """Rows are sorted by the given columns; then they form no groups.

    The line below the table names the columns.
    """
    campaign, runs, report = four
    made, sorted_runs = arranged(campaign, report, runs, by=by)
    assert labels(made) == order
    assert [run.planned.run.training.seed for run in sorted_runs] == [
        int(label[-1]) for label in order
    ]
    assert made.table.breaks == frozenset()
    assert made.provenance == f"{report.provenance} Sorted by {by}."


def test_in_the_campaign_s_order_rows_are_in_groups(four: Reported) -> None:
    """Rows in the campaign's order are grouped by strategy.

    They are not grouped by seed, because it changes with every row.
    """
    campaign, runs, report = four
    assert report.table.breaks == {2}
    assert arranged(campaign, report, runs) == (report, runs)
    page = report_markdown(campaign, report, runs, []).split("\n\n")[1].splitlines()
    assert [at for at, line in enumerate(page) if not line.strip("| ")] == [4]


CHOSEN = {
    "by a size": ("seed == 2", ["z1/2", "z3/2"]),
    "by one that is in no column": ("world_size == 2 and hidden_size > 8", None),
    "by what was measured": ("step_seconds_mean < 2", ["z3/1"]),
    "by the end, as report.json has it": ('outcome == "oom"', ["z1/2"]),
    "by the state": ('state == "NOT_STARTED"', ["z3/2"]),
    "by what is absent": ("step_seconds_mean == None", ["z1/2", "z3/2"]),
}


@pytest.mark.parametrize(("only", "rows"), CHOSEN.values(), ids=CHOSEN)
def test_rows_are_chosen_by_an_expression(
    four: Reported, only: str, rows: list[str] | None
) -> None:
    """An expression chooses rows; it may use all names of report.json.

    The line below the table has the expression.
    """
    campaign, runs, report = four
    made, chosen = arranged(campaign, report, runs, only=only)
    assert labels(made) == (labels(report) if rows is None else rows)
    assert made.table.names == report.table.names
    count = len(rows or runs)
    assert made.provenance.endswith(f" Shown: {count} of 4 runs: {only}.")
    record = report_json(campaign, made, chosen)
    assert [run["run_id"] for run in record["runs"]] == [run.planned.run_id for run in chosen]


def test_a_filter_parts_what_it_leaves(four: Reported) -> None:
    """After --filter has removed rows, groups are formed from the remaining rows only."""
    campaign, runs, report = four
    made, _ = arranged(campaign, report, runs, only='strategy == "zero1" or seed == 1')
    assert made.table.breaks == {2}
    assert arranged(campaign, report, runs, only="seed == 1")[0].table.breaks == frozenset()


MISTAKES = {
    "a column that is not there": (
        {"by": "step_seconds_men"},
        "--sort: there is no column 'step_seconds_men'; did you mean 'step_seconds_mean'?",
    ),
    "no column": ({"by": ""}, "--sort: there is no column ''"),
    "a name that is not there": (
        {"only": "tflops_per_gp > 1"},
        "--filter: there is no parameter 'tflops_per_gp'; did you mean 'tflops_per_gpu'?",
    ),
    "no expression": ({"only": ""}, "--filter: '' is not an expression"),
    "a call": ({"only": "exit()"}, "--filter: 'exit()' is not allowed in an expression"),
    "numbers and texts": ({"only": "strategy > 1"}, "--filter: 'strategy > 1' mixes numbers"),
    "an expression of no run": ({"only": "seed > 2"}, "--filter: 'seed > 2' matches no run"),
}


@pytest.mark.parametrize(("asked", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_sentence(four: Reported, asked: dict[str, str], problem: str) -> None:
    """The sentence about a mistake in --sort or --filter names the option."""
    campaign, runs, report = four
    with pytest.raises(UserError) as caught:
        arranged(campaign, report, runs, **asked)
    assert str(caught.value).startswith(problem)
