"""Find contradictions in tables of benchmarks that people wrote; change nothing.

A printed number stands for the range of all numbers that round to it. Two numbers contradict each
other if their ranges have no number in common. A rule reports nothing if it lacks the facts to be
certain, because after one false alarm readers ignore the next finding.
"""

from collections.abc import Sequence

from orchestrator.hardware.gpus import Gpu, matching
from orchestrator.markdown.check.changes import relative_changes
from orchestrator.markdown.check.findings import TableFinding
from orchestrator.markdown.check.formulas import tflops_unlike_the_others
from orchestrator.markdown.check.model_flops import named_model_flops
from orchestrator.markdown.check.peaks import gpus_of_row, named_gpus, tflops_range
from orchestrator.markdown.check.products import global_batch_size, world_size
from orchestrator.markdown.check.rates import throughput
from orchestrator.markdown.check.sizes import model_size, tells_of_other_models
from orchestrator.markdown.check.utilization import utilizations
from orchestrator.markdown.meaning.benchmark_pages import BenchmarkPage


def check_page(page: BenchmarkPage, gpus: Sequence[Gpu] = ()) -> list[TableFinding]:
    """Return the contradictions in the tables of a page, in the order of its lines.

    gpus: the GPUs on which the page's runs were measured, if the user gives them. In this case,
    rows whose TFLOPs are unusually low are findings, too. Without `gpus`, TFLOPs are compared with
    the peaks of the GPUs that the page names.
    """
    gpt_only = not tells_of_other_models(page.data)
    named = named_gpus(page.data)
    findings: list[TableFinding] = []
    for table in page.tables:
        measured_on = gpus or (matching(table.gpu) if table.gpu else named)
        for row in table.rows:
            findings += global_batch_size(row)
            findings += world_size(row)
            findings += throughput(row)
            own = gpus or gpus_of_row(row) or measured_on
            findings += tflops_range(row, own, judge_tuning=bool(gpus))
            findings += model_size(row) if gpt_only else ()
        findings += utilizations(table, gpus)
    findings += relative_changes(page.tables)
    findings += named_model_flops(page.tables)
    findings += tflops_unlike_the_others(page.tables)
    return sorted(findings, key=lambda finding: finding.line)
