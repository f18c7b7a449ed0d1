"""OneFlow's GPT-2: its limits, its command, and its report.

The report compares runs with and without OneFlow's optimizer placement.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st
from record_scripts import recorded

from orchestrator.campaign.campaign import load_campaign
from orchestrator.campaign.fit import run_forecast
from orchestrator.collect.collected import collect_campaign
from orchestrator.common.tables import as_csv, as_records
from orchestrator.frameworks.oneflow_gpt import arrangement
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.markdown.check.changes import misfits, plain_number, read_change
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.report.changes import change
from orchestrator.report.json_report import report_json
from orchestrator.report.report import make_report, report_markdown
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from orchestrator.submit.scripts import job_script

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "oneflow-optimizer-placement.yaml"
# The page's rows: nodes, batch per GPU, memory in MB and samples/s without placement and with it.
PAGE = (
    (1, 1, (5603, 104), (3849, 89)),
    (1, 4, (11301, 239), (9547, 235)),
    (2, 4, (11087, 412), (9160, 395)),
    (4, 4, (11089, 717), (9082, 742)),
)


def oneflow(run_of: RunOf, **values: Any) -> Run:
    """Return a run of OneFlow's GPT-2."""
    given = {"framework": "oneflow_gpt", "source": "o", "dataset": "d", "model": "small", **values}
    return run_of(**given)


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        ({"tensor_parallel_size": 2, "gpus_per_node": 2}, "framework oneflow_gpt cannot split lay"),
        (
            {"num_microbatches": 2},
            "framework oneflow_gpt cannot accumulate gradients: global_batch_s",
        ),
        ({"activation_checkpointing": True}, "framework oneflow_gpt cannot set activation_check"),
        ({"precision": "bf16"}, "framework oneflow_gpt has no precision=bf16; use fp16 or fp32"),
        ({"ffn_hidden_size": 1024}, "framework oneflow_gpt has an MLP of 4*hidden_size=3072, not"),
        ({"train_iters": 5}, "train_iters=5 is too small: the program first reports after 10"),
    ],
)
def test_what_the_program_cannot_do_is_reported(run_of: RunOf, values: dict[str, Any], begins: str):
    (problem,) = FRAMEWORKS["oneflow_gpt"].checks.problems(oneflow(run_of, **values))
    assert problem.startswith(begins)


@pytest.mark.parametrize(
    ("vocab_size", "dataset", "padded", "warned"),
    [
        (50304, "texts", 50304, False),
        (50257, "texts", 50304, False),
        (512, "texts", 512, True),
        (500, "tokens.npz", 512, False),
    ],
)
def test_the_vocabulary_is_padded_and_holds_the_tokens_of_texts(
    run_of: RunOf, vocab_size: int, dataset: str, padded: int, *, warned: bool
):
    """The vocabulary is padded; if it is too small for a dataset of texts, the run gets a warning.

    For a dataset of texts, the program needs all 50257 tokens of GPT-2.
    """
    run = oneflow(run_of, vocab_size=vocab_size, dataset=dataset)
    assert run.padded_vocab_size == padded
    warnings = list(FRAMEWORKS["oneflow_gpt"].checks.warnings(run))
    assert len(warnings) == warned
    assert all(
        "vocab_size=512 is less than the 50257 tokens of GPT-2" in warning for warning in warnings
    )


def test_the_campaign_has_the_rows_of_the_page_in_its_order():
    campaign = load_campaign(EXAMPLE)
    assert not any(planned.refusals for planned in campaign.runs)
    assert [
        (arrangement(planned.run), planned.run.options.optimizer_placement)
        for planned in campaign.runs
    ] == [(f"{nodes}n_8g_dp_{batch}bs", on) for nodes, batch, *_ in PAGE for on in ("off", "on")]


def test_the_forecast_is_the_one_that_was_compared_with_the_page():
    """Each memory peak on the published page is within the interval of the run's forecast."""
    campaign = load_campaign(EXAMPLE)
    peaks = [memory / 1024 for _, _, *both in PAGE for memory, _ in both]
    for planned, peak in zip(campaign.runs, peaks, strict=True):
        forecast = run_forecast(planned.run, campaign.cluster)
        assert forecast is not None
        assert forecast.low_gib <= peak <= forecast.high_gib


STAND_INS = {
    "scontrol": "printf 'n1\\nn2\\nn3\\n'",
    # Each node resolves its own name to a loopback address, as in images of Debian.
    "getent": """\
[ "$2" = "$ON_NODE" ] && address=127.0.1.1 || address=10.0.0.${2#n}
echo "$address STREAM $2"; echo "$address DGRAM"
""",
    "srun": """\
for word; do case $word in --nodelist=*) ON_NODE=${word#*=};; esac; done
while [ "${1#--}" != "$1" ]; do shift; done
export ON_NODE; exec "$@"
""",
}


@pytest.mark.parametrize("on_node", ["n1", "n2", "n3", "login"])
def test_addresses_are_those_that_other_nodes_use(tmp_path: Path, on_node: str):
    """On every node, the script gets the addresses of all nodes, in the order of the nodes.

    A node's own name may have a loopback address, which other nodes cannot use.
    """
    text = recorded("oneflow_gpt-v100-nodes4-gpus8-optimizer_placement-on")
    begin, end = text.index("address_of()"), text.index("program=(")
    for name, body in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'{text[begin:end]}echo "$node_ips"'],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "SLURM_JOB_NODELIST": "n[1-3]",
            "ON_NODE": on_node,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "10.0.0.1,10.0.0.2,10.0.0.3\n"


def test_the_command_is_that_of_the_page():
    campaign = load_campaign(EXAMPLE)
    script = job_script(campaign.runs[1], campaign, Path("/results/run"))
    for option in (
        "--non_distributed_optimizer=on", "--num_nodes=1", "--gpu_num_per_node=8",
        "--batch_size_per_device=1", "--use_fp16=True", "--seq_len=1024", "--n_ctx=1024",
        "--n_vocab=50304", "--n_embd=768", "--n_head=12", "--n_layer=12", "--iter_num=1000",
        "--optimizer=adamw", "--log_dir=oneflow",
    ):  # fmt: skip
        assert f"  {option}\n" in script
    assert "node_ips" not in script
    assert "# One process per node, which uses all GPUs of the node." in script


def log(memory: int, throughput: float) -> str:
    """Return the output of a run, mixed with nvidia-smi's lines about utilization and memory.

    memory: the highest memory use of a GPU in MiB. throughput: samples per second after step 100.
    """
    header = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
    idle = "2026/01/02 03:04:05.000, 0, 0 %, 3 MiB\n"
    lines = [
        f"step: {step}, loss: 9.5, throughput: {throughput if step > 100 else 1.5} 1607414400.5\n"
        f"2026/01/02 03:04:05.000, 0, 90 %, {memory - 7} MiB\n"
        f"2026/01/02 03:04:05.000, 1, 95 %, {memory} MiB\n"
        for step in range(10, 1001, 10)
    ]
    return header + idle + "".join(lines)


def test_the_report_compares_runs_with_those_without_placement(
    tmp_path: Path, attempt_in: Callable[..., Attempt]
):
    """The row of a run with optimizer placement shows changes from the run without placement.

    The two runs are equal in all other settings. If the runs have the published page's memory and
    speed, the report has the page's cells, with three wrong cells corrected.
    """
    campaign, store = load_campaign(EXAMPLE), CampaignStore(tmp_path)
    measured = [pair for _, _, *both in PAGE for pair in both]
    for planned, (memory, rate) in zip(campaign.runs, measured, strict=True):
        attempt_in(store.run(planned.run_id), log=log(memory, rate), state="COMPLETED")
    runs = collect_campaign(campaign, store)
    report = make_report(campaign, runs, "2026-01-02")
    page = report_markdown(campaign, report, runs, [])
    for cell in (
        " 5603 |", "3849(-1754,↓31.3%)", "89.00(↓14.4%)",
        "9547(-1754,↓15.5%)", "235.0(↓1.7%)",
        "9160(-1927,↓17.4%)", "395.0(↓4.1%)",
        "9082(-2007,↓18.1%)", "742.0(↑3.5%)",
    ):  # fmt: skip
        assert cell in page
    assert check_page(read_page(page.encode())) == []
    (_, row, *_) = as_records(report.table)
    assert row["test_desc"] == "on_optimization"
    assert row["arrangement"] == "1n_8g_dp_1bs"
    assert (row["gpu_memory_mib"], row["gpu_utilization_percent"]) == (3849, 92.5)
    assert row["running_samples_per_second"] == pytest.approx(89)
    assert row["tflops_per_gpu"] is not None
    assert report_json(campaign, report, runs)["runs"][1]["gpu_memory_mib"] == 3849
    assert "↓" not in as_csv(report.table)


def test_a_run_without_a_completed_partner_is_not_compared(
    tmp_path: Path, attempt_in: Callable[..., Attempt]
):
    campaign, store = load_campaign(EXAMPLE), CampaignStore(tmp_path)
    attempt_in(store.run(campaign.runs[0].run_id), log="", state="FAILED")
    attempt_in(store.run(campaign.runs[1].run_id), log=log(3849, 89), state="COMPLETED")
    runs = collect_campaign(campaign, store)
    assert make_report(campaign, runs, "2026-01-02").table.changes == {}
    assert make_report(campaign, runs[1:], "2026-01-02").table.changes == {}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("3849", "5603"), "(-1754,↓31.3%)"),
        (("12,345", "10,000"), "(+2345,↑23.4%)"),
        (("89.10", "104.2"), "(-15.10,↓14.5%)"),
        (("5", "5"), "(+0,↑0.0%)"),
        (("—", "5"), None),
        (("5", "—"), None),
        (("5", "0"), None),
        (("nan", "5"), None),
        (("5", "inf"), None),
    ],
)
def test_a_change_is_computed_from_the_numbers_shown(cells: tuple[str, str], expected: str | None):
    assert change(*cells, difference=True) == expected


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.booleans())
def test_the_checker_of_tables_finds_nothing_in_a_change(new: int, old: int, difference: bool):
    """`check-tables` accepts the changes that a report shows with arrows, e.g. 89.00(↓14.4%)."""
    cell = f"{new}{change(str(new), str(old), difference=difference)}"
    read, other = read_change(cell), plain_number(str(old))
    assert other is not None
    # The checker does not read a change of 0.0 %.
    assert misfits(read, other) == [] if read else cell.endswith("0.0%)")
