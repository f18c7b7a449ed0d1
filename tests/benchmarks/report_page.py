"""Time the making of a report from 10,000 runs, and the opening of its page with 1,000 runs.

The logs are generated. Before a report is made, its campaign is planned and its logs are parsed;
the times of planning, parsing and making are printed separately. The browser's time is the shortest
of several rounds. The processor time is printed too, because it is more reliable on a busy machine.
"""

import argparse
import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from orchestrator.campaign.campaign import load_campaign
from orchestrator.collect.collected import collect_campaign
from orchestrator.report.html.write import report_html
from orchestrator.report.report import make_report, report_markdown
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.folders import write_ended
from orchestrator.store.records import Ended

CAMPAIGN = """\
name: bench
cluster: gpus.yaml
defaults: {{framework: gpt, model: s, precision: fp16, gpus_per_node: 4, train_iters: {iterations}}}
matrix:
  strategy: [zero1, zero2, zero3]
  nodes: [1, 2, 4, 8]
  micro_batch_size: [1, 2, 4, 8]
  num_microbatches: [1, 4]
  seed: {seeds}
"""
FAMILY = 3 * 4 * 4 * 2
STEP = (
    "[teralog] iteration {number}/{iterations} | step_seconds {seconds:.6f} "
    "| samples_per_second {rate:.2f} | loss {loss:.6f} | memory_allocated_gib 0.25 "
    "| max_memory_allocated_gib 0.5\n"
)
ROUNDS = 5


def generate(folder: Path, runs: int, iterations: int) -> CampaignStore:
    """Write a campaign of about this many runs, with scripts and logs."""
    seeds = list(range(1, max(runs // FAMILY, 1) + 1))
    (folder / "gpus.yaml").write_text("gpus_per_node: 4\ngpu: V100-SXM2-32GB\n")
    (folder / "campaign.yaml").write_text(CAMPAIGN.format(iterations=iterations, seeds=seeds))
    store = CampaignStore(folder / "results" / "bench")
    for place, planned in enumerate(load_campaign(folder / "campaign.yaml").runs):
        run = store.run(planned.run_id)
        attempt = run.attempt_folder(1)
        attempt.mkdir(parents=True)
        run.script.write_text(f"#!/bin/bash\n# {planned.label}\n" + "echo training\n" * 80)
        (run.path / "ds_config.json").write_text('{"zero_optimization": {"stage": 1}}\n' * 20)
        times = (0.5 + 0.001 * ((place * 31 + number * 17) % 97) for number in range(iterations))
        lines = (
            STEP.format(
                number=number,
                iterations=iterations,
                seconds=seconds,
                rate=8 / seconds,
                loss=9 / number**0.3,
            )
            for number, seconds in enumerate(times, start=1)
        )
        (attempt / "output.log").write_text("".join(lines))
        write_ended(attempt, Ended("COMPLETED", "2026-01-02T03:05:05+00:00", 61.5, 0))
    return store


@contextlib.contextmanager
def print_duration(what: str) -> Iterator[None]:
    """Print how long the code in the `with` block took."""
    begun, used = time.perf_counter(), time.process_time()
    yield
    wall, processor = time.perf_counter() - begun, time.process_time() - used
    print(f"  {what:22}{wall:7.2f} s{processor:9.2f} s of processor")


def build(folder: Path, store: CampaignStore) -> Path:
    """Write the report of a campaign as markdown and as an HTML page; return the HTML page's path.

    Prints how long it took to plan the campaign, to read its logs, and to make each file.
    """
    with print_duration("campaign planned"):
        campaign = load_campaign(folder / "campaign.yaml")
    with print_duration("logs read"):
        runs = collect_campaign(campaign, store)
    with print_duration("report.md made"):
        report = make_report(campaign, runs, "2026-01-02")
        store.write("report.md", report_markdown(campaign, report, runs, ()))
    with print_duration("page made"):
        text = report_html(campaign, store, report, runs, ())
    steps = sum(len(run.steps) for run in runs)
    print(f"  of {len(runs):,} runs, {steps:,} steps; the page has {len(text) / 1e6:.1f} MB")
    return store.write("report.html", text)


def renderers() -> float:
    """Return the processor time, in seconds, of the running browser processes that draw pages.

    Only browsers that this benchmark started are counted.
    """
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "--type=renderer" in process.cmdline():
                total += sum(process.cpu_times()[:2])
    return total


def loads(path: Path) -> Iterator[tuple[float, float]]:
    """Open a page several times; yield the wall time and the processor time of each opening.

    Both times are in seconds.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        for _ in range(ROUNDS):
            browser: Any = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(120_000)
            page.goto("about:blank")
            begun, used = time.perf_counter(), renderers()
            page.goto(path.as_uri())
            yield time.perf_counter() - begun, renderers() - used
            browser.close()


def main() -> None:
    """Generate the campaign, measure the report and print the times."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--opened", type=int, default=1_000)
    options.add_argument("--iterations", type=int, default=40)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, generate(folder, chosen.runs, chosen.iterations))
        print("  aims: report.md at most 2 s, the page at most 10 s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = build(folder, generate(folder, chosen.opened, chosen.iterations))
        if shutil.which("chromium") is None:
            print("  not opened: there is no chromium here")
            return
        walls, used = zip(*loads(page), strict=True)
        print(f"  page opened           {min(walls):7.2f} s{min(used):9.2f} s of processor")
        print("  aim: at most 1 s")


if __name__ == "__main__":
    main()
