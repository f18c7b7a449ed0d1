"""The data of a campaign's runs that the HTML page contains."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.cli.main import main
from orchestrator.collect.collected import Collected, collect_campaign
from orchestrator.measure.summary import record_reports
from orchestrator.report.html.detail import limits, make_detail
from orchestrator.report.html.document import document
from orchestrator.report.html.page import Page, make_page
from orchestrator.report.report import Report, make_report
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Started
from parsers.records import Step

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))
PHASES = Path(__file__).parents[3] / "data" / "logs" / "colossalai_gpt.log"

Reported = tuple[Campaign, list[Collected], Report]


def log(seconds: float, device: str = "cpu") -> str:
    """Return the text of a log of a run; each of its steps took this many seconds."""
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


def page_of(reported: Reported, *gone: str) -> Page:
    """Return the HTML page of a report.

    gone: the labels of runs that are no longer in the campaign.
    """
    campaign, runs, report = reported
    return make_page(campaign, report, runs, gone)


def titles(page: Page) -> list[str]:
    """Return the titles of the plots on a page."""
    return [plot.title for plot in page.plots]


def test_the_table_is_the_report_s(reported: Callable[..., Reported]):
    """The page has the same columns and cells as the report."""
    made = reported("matrix: {seed: [1, 2]}\n", ended(1.0), None)
    page, table = page_of(made), made[2].table
    assert tuple(column.name for column in page.columns) == table.names
    assert [run.shown[0] for run in page.runs] == ["1", "2"]
    assert page.runs[1].values == table.rows[1]
    # The value is text, because JSON has no NaN.
    assert page.runs[0].values[-2] == "nan"
    assert {column.name for column in page.columns if column.filter} == {
        "seed",
        "strategy",
        "offload",
        "precision",
        "outcome",
    }


def test_the_best_run_is_the_fastest_that_completed(reported: Callable[..., Reported]):
    """The best run is the fastest completed run; a faster run that failed does not count."""
    attempts = (ended(2.0), ended(1.0, "FAILED"), ended(1.5), None)
    page = page_of(reported("matrix: {strategy: [ddp, zero1, zero2, zero3]}\n", *attempts))
    assert page.best == 2
    assert page.ended == (("completed", 2), ("FAILED", 1), ("not started", 1))


def test_the_best_configuration_has_the_best_median(reported: Callable[..., Reported]):
    """The best configuration is the one with the best median of its runs.

    The page names the run of this configuration whose speed is the median.
    """
    attempts = map(ended, (1.0, 4.0, 4.0, 2.0, 1.9, 2.1))
    matrix = "matrix: {strategy: [ddp, zero1], seed: [1, 2, 3]}\n"
    assert page_of(reported(matrix, *attempts)).best == 3


def test_without_a_completed_run_no_run_is_best(reported: Callable[..., Reported]):
    """If no run completed, the page names no best run."""
    assert page_of(reported("", ended(1.0, "FAILED"))).best is None


def test_a_crowded_run_is_never_the_best(reported: Callable[..., Reported]):
    """A crowded run is never the best, because its speed depends on other runs."""
    matrix = "matrix: {strategy: [ddp, zero1]}\n"
    campaign, runs, report = reported(matrix, ended(1.0), ended(2.0))
    started = Started(1, "here", "t", "2026", 60, (), ranks=8, cores=2)
    crowded = replace(runs[0].attempts[0], started=started)
    runs = [replace(runs[0], attempts=(crowded,)), runs[1]]
    assert runs[0].crowded is not None
    assert make_page(campaign, report, runs, ()).best == 1


def test_micro_batches_have_their_throughput_and_what_ran_out_of_memory(
    reported: Callable[..., Reported],
):
    """The plot of throughput against micro-batch shows a run out of memory as a cross.

    Such a run has no throughput.
    """
    oom = {"log": "torch.OutOfMemoryError: CUDA out of memory.\n", "state": "FAILED"}
    page = page_of(reported("matrix: {micro_batch_size: [1, 2, 4]}\n", *[ended(2.0)] * 2, oom))
    (plot,) = (
        candidate for candidate in page.plots if candidate.title == "Throughput against micro-batch"
    )
    assert (plot.x, plot.y, plot.failed) == ((1, 2, 4), (1.0, 2.0, None), (False, False, True))
    assert plot.note.endswith("Crosses: runs that ran out of memory.")


def test_strong_scaling_has_a_speed_up_and_its_ideal(reported: Callable[..., Reported]):
    """If the global batch is constant, a plot shows the speed-up with more GPUs, and the ideal one.

    With twice the GPUs, a step takes 0.6 of the time. So the speed-up is 1.67; the ideal one is 2.
    """
    matrix = "matrix: {gpus_per_node: [1, 2], global_batch_size: [8]}\n"
    page = page_of(reported(matrix, ended(1.0), ended(0.6)))
    (plot,) = (
        candidate for candidate in page.plots if candidate.title == "Strong-scaling speed-up"
    )
    assert plot.y == pytest.approx((1.0, 1 / 0.6))
    assert plot.ideal == ((1, 1.0), (2, 2.0))


@pytest.mark.parametrize(("seconds", "warned"), [(0.99, False), (0.8, True)])
def test_more_than_ideal_efficiency_is_warned_of(
    reported: Callable[..., Reported], seconds: float, warned: bool
):
    """The page warns of an efficiency above 100 % only if noise does not explain it."""
    page = page_of(reported("matrix: {gpus_per_node: [1, 2]}\n", ended(1.0), ended(seconds)))
    (plot,) = (candidate for candidate in page.plots if candidate.title == "Scaling efficiency")
    assert ("The highest efficiency is " in plot.note) == warned
    assert plot.ideal == ((1, 100.0), (2, 100.0))


def test_facts_are_those_of_the_runs(reported: Callable[..., Reported]):
    """The page's data have the configuration, label, step times, outcome and memory of each run.

    Repeats belong to one configuration. Box plots show the step times after the warm-up.
    """
    matrix = "matrix: {strategy: [ddp, zero1]}\nrepeats: 2\n"
    facts = page_of(reported(matrix, *[ended(2.0)] * 3, None)).facts
    assert facts.configuration == (0, 0, 1, 1)
    assert facts.labels == ("ddp", "zero1")
    assert facts.boxes[0] in (None, (2.0,) * 5)
    assert facts.completed == (True, True, True, False)
    assert facts.forecast[0]
    assert facts.peak_gib == (0.5, 0.5, 0.5, None)


PLOTS: dict[str, tuple[str, int, list[str]]] = {
    "nothing": ("matrix: {seed: [1, 2]}\n", 2, []),
    "GPUs, and the batch with them": (
        "matrix: {gpus_per_node: [1, 2]}\n",
        2,
        [
            "TFLOPs/GPU against GPUs",
            "Scaling efficiency",
            "TFLOPs/GPU against global batch",
        ],
    ),
    "GPUs at the same batch": (
        "matrix: {gpus_per_node: [1, 2], global_batch_size: [8]}\n",
        2,
        [
            "TFLOPs/GPU against GPUs",
            "Scaling efficiency",
            "Strong-scaling speed-up",
            "TFLOPs/GPU against micro-batches",
        ],
    ),
    "micro-batches": (
        "matrix: {num_microbatches: [1, 2]}\n",
        2,
        ["TFLOPs/GPU against global batch", "TFLOPs/GPU against micro-batches"],
    ),
}


@pytest.mark.parametrize(("text", "runs", "expected"), PLOTS.values(), ids=PLOTS)
def test_there_is_a_plot_for_each_size_that_varies(
    reported: Callable[..., Reported], text: str, runs: int, expected: list[str]
):
    """There is a plot for each size that varies; if GPUs vary, there is also one of efficiency."""
    assert titles(page_of(reported(text, *[ended(1.0)] * runs))) == expected


def test_mfu_is_plotted_where_it_is_known(reported: Callable[..., Reported], tmp_path: Path):
    """If the peak of the GPU is known, the page has a plot of MFU."""
    (tmp_path / "gpus.yaml").write_text("gpus_per_node: 2\ngpu: V100-SXM2-32GB\n")
    on_gpus = ended(1.0, device="Tesla V100-SXM2-32GB")
    text = "cluster: gpus.yaml\nmatrix: {num_microbatches: [1, 2], precision: [fp16]}\n"
    page = page_of(reported(text, on_gpus, on_gpus))
    assert "MFU % against micro-batches" in titles(page)


def test_a_peak_is_next_to_its_forecast(reported: Callable[..., Reported], tmp_path: Path):
    """Peak memory is shown next to its forecast.

    On a CPU, both are of the whole process; on a GPU, both are of tensors only.
    """
    made = reported("matrix: {seed: [1, 2]}\n", ended(1.0), None)
    forecast = made[1][0].planned.memory
    assert forecast is not None
    page = page_of(made)
    assert page.runs[0].memory == (forecast.low_gib, forecast.high_gib, 0.5)
    assert page.runs[1].memory is None
    (tmp_path / "gpus.yaml").write_text("gpus_per_node: 2\n")
    made = reported("cluster: gpus.yaml\n", ended(1.0))
    forecast = made[1][0].planned.memory
    assert forecast is not None
    assert page_of(made).runs[0].memory == (
        forecast.tensors.low_gib,
        forecast.tensors.high_gib,
        0.5,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_framework_s_campaign_is_a_page(example: Path, tmp_path: Path):
    """A page can be made of every example campaign, although none of its runs has started."""
    campaign = load_campaign(example)
    runs = collect_campaign(campaign, CampaignStore(tmp_path))
    page = make_page(campaign, make_report(campaign, runs, "2026-01-02"), runs, [])
    assert [run.label for run in page.runs] == [planned.label for planned in campaign.runs]
    assert page.best is None
    assert f"<title>{campaign.name}</title>" in document(page, [], "")


def test_tflops_of_a_framework_s_own_are_plotted(tmp_path: Path, attempt_in: Callable[..., Any]):
    """TFLOPs that ColossalAI's benchmarks print are plotted, although their logs have no steps."""
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: phases\ndefaults: {framework: colossalai_gpt, model: s, source: .}\n"
        "matrix: {gpus_per_node: [4, 8]}\n"
    )
    campaign = load_campaign(path)
    store = CampaignStore(tmp_path / "results")
    for planned in campaign.runs:
        attempt_in(store.run(planned.run_id), log=PHASES.read_text(), state="COMPLETED")
    runs = collect_campaign(campaign, store)
    page = make_page(campaign, make_report(campaign, runs, "2026-01-02"), runs, [])
    (plot,) = [
        candidate
        for candidate in page.plots
        if "learn" in candidate.title and candidate.x_title == "GPUs"
    ]
    assert plot.y == (48.022, 48.022)
    assert page.best is None


def test_a_run_shows_its_node_and_its_attempts(reported: Callable[..., Reported]):
    """The view of a run has each attempt with its nodes, and the numbers of the last attempt."""
    made = reported("", ended(1.0))
    assert page_of(made).runs[0].nodes == ("here",)
    detail = make_detail(made[0], made[1][0], {}, None, 100)
    (attempt,) = detail.attempts
    assert (attempt.number, attempt.state, attempt.nodes) == (1, "COMPLETED", ("here",))
    assert detail.warmup == 1
    assert detail.step_seconds.y == (1.0, 1.0)
    assert (detail.loss.y, detail.loss.not_finite) == ((), 2)


def test_the_curve_leaves_out_reports_with_a_skipped_update(
    reported: Callable[..., Reported],
):
    """The curve of step times leaves out reports with a skipped update.

    The plot draws these reports separately.
    """
    campaign, (run,), _ = reported("", ended(1.0))
    skips = (1, 0, 1, 0)
    steps = [
        Step(offset=at, iteration=at, step_seconds=float(at), skipped_iterations=skip)
        for at, skip in enumerate(skips, start=1)
    ]
    reports = record_reports(run.planned.run, steps, campaign.warmup)
    detail = make_detail(campaign, replace(run, reports=reports), {}, None, 100)
    assert (detail.step_seconds.x, detail.skipped_seconds.x) == ((2, 4), (1, 3))
    assert detail.skipped_seconds.y == (1.0, 3.0)


@pytest.mark.parametrize("runs", [0, 1, 1000, 3000, 10_000, 100_000])
def test_a_page_of_many_runs_has_less_of_each(runs: int):
    """The more runs a page has, the fewer steps and log lines it has per run.

    For each run, the limit is at least 10 steps and 10 log lines.
    """
    held = limits(runs)
    assert held.steps >= 10
    assert held.lines >= 10
    assert held.steps * runs <= max(400 * 1000, 10 * runs)


def test_the_command_writes_the_page_where_it_is_asked_to(
    reported: Callable[..., Reported], tmp_path: Path
):
    """`report` writes the HTML page only with --html, in the folder of the other reports."""
    pytest.importorskip("plotly")
    reported("", None)
    command = ["report", str(tmp_path / "campaign.yaml"), "--results", str(tmp_path / "results")]
    assert CliRunner().invoke(main, command).exit_code == 0
    folder = tmp_path / "results" / "stages"
    assert not (folder / "report.html").exists()
    done = CliRunner().invoke(main, [*command, "--html"])
    assert done.exit_code == 0
    assert "and report.html in the same folder" in done.stderr
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_a_campaign_s_page_and_one_of_tables_do_not_replace_each_other(
    reported: Callable[..., Reported], tmp_path: Path
):
    """A campaign's page and the page of the tables in report.md do not replace each other.

    Both pages would be the file report.html. Each command replaces only a page that it wrote
    itself, and refuses to replace the page of the other command.
    """
    pytest.importorskip("plotly")
    reported("", None)
    campaign = ["report", str(tmp_path / "campaign.yaml"), "--results", str(tmp_path / "results")]
    folder = tmp_path / "results" / "stages"
    place, tables = folder / "report.html", ["report", str(folder / "report.md"), "--html"]
    for first, second, message in (
        ([*campaign, "--html"], tables, "is the report of a campaign, and would be replaced"),
        (tables, [*campaign, "--html"], "is a page of published tables, and would be replaced"),
    ):
        for _ in range(2):
            assert CliRunner().invoke(main, [*campaign, "--write"]).exit_code == 0
            assert CliRunner().invoke(main, first).exit_code == 0
        page = place.read_bytes()
        done = CliRunner().invoke(main, second)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"teralog: {place}: {message}")
        assert place.read_bytes() == page
        place.unlink()


def test_a_page_of_another_author_is_not_replaced_by_a_campaign_s(
    reported: Callable[..., Reported], tmp_path: Path
):
    """`report --html` does not replace a report.html that teralog did not write."""
    reported("", None)
    place = tmp_path / "results" / "stages" / "report.html"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine")
    command = ["report", str(tmp_path / "campaign.yaml"), "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(main, [*command, "--html"])
    assert done.exit_code == 1
    assert done.stderr == (
        f"teralog: {place}: exists, and teralog did not write it; move it elsewhere first\n"
    )
    assert [path.name for path in place.parent.iterdir()] == ["report.html"]


def test_without_plotly_the_command_shows_what_to_install(
    reported: Callable[..., Reported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without plotly, a message shows what to install, and the other reports are written."""
    reported("", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    command = ["report", str(tmp_path / "campaign.yaml"), "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(main, [*command, "--html"])
    assert done.exit_code == 1
    assert "pip install 'teralog[html]'" in done.stderr
    assert (tmp_path / "results" / "stages" / "report.md").exists()
