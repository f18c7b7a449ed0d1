"""Hugging Face's Trainer with DeepSpeed: options, files, and a published page of 2021."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf
from record_scripts import RECORDS, recorded

from orchestrator.campaign.campaign import load_campaign
from orchestrator.campaign.checks import run_problems
from orchestrator.campaign.plan import plan_records
from orchestrator.collect.collected import Collected
from orchestrator.common.tables import as_records
from orchestrator.frameworks.deepspeed.config import FILE_NAME
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.forecast import forecast
from orchestrator.report.report import Report
from orchestrator.run.model import Run
from orchestrator.store.records import COMPLETED
from parsers.summary.warmup import Warmup

Reported = Callable[..., tuple[Any, list[Collected], Report]]

HF = FRAMEWORKS["hf_deepspeed"]
ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "results" / "published" / "gpt2-experiments"


def trainer(**values: Any) -> dict[str, Any]:
    """Return parameters of a run with the Trainer."""
    return {"framework": "hf_deepspeed", **values}


def run_clm(**values: Any) -> dict[str, Any]:
    """Return parameters of a run of run_clm.py."""
    given = {"script": "run_clm.py", "dataset": "wikitext", "model": "s", **values}
    return trainer(program="run_clm", **given)


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all well": (trainer(zero_stage=3, offload_param="cpu", offload_optimizer="cpu"), []),
    "run_clm, all well": (run_clm(), []),
    "no ZeRO": (trainer(zero_stage=0), []),
    "split over ranks": (
        trainer(gpus_per_node=4, tensor_parallel_size=2, pipeline_parallel_size=2),
        [
            (
                "framework hf_deepspeed cannot split layers: tensor_parallel_size=2 and "
                "pipeline_parallel_size=2 must both be 1"
            )
        ],
    ),
    "parameters offloaded at stage 2": (
        trainer(zero_stage=2, offload_param="cpu"),
        ["offload_param=cpu needs ZeRO stage 3"],
    ),
    "optimizer offloaded without ZeRO": (
        trainer(zero_stage=0, offload_optimizer="cpu"),
        ["offload_optimizer=cpu needs ZeRO stage 1, 2 or 3"],
    ),
    "two names of one key": (
        trainer(
            zero_stage=3,
            deepspeed={
                "zero_optimization": {
                    "stage3_gather_fp16_weights_on_model_save": True,
                    "stage3_gather_16bit_weights_on_model_save": True,
                }
            },
        ),
        [
            (
                "deepspeed: zero_optimization.stage3_gather_fp16_weights_on_model_save and "
                "stage3_gather_16bit_weights_on_model_save are two names of one key; remove "
                "stage3_gather_fp16_weights_on_model_save"
            )
        ],
    ),
    "run_clm without what it needs": (
        trainer(program="run_clm", model="s"),
        [
            "program=run_clm needs the parameter 'script'",
            "program=run_clm needs the parameter 'dataset'",
        ],
    ),
    "hf_gpt with what it does not take": (
        trainer(script="run_clm.py", dataset="wikitext", script_args=["--streaming"]),
        [
            "script needs program=run_clm, but this run has program=hf_gpt",
            "dataset needs program=run_clm, but this run has program=hf_gpt",
            "script_args needs program=run_clm, but this run has program=hf_gpt",
        ],
    ),
    "arguments that parameters have said": (
        run_clm(script_args=["--streaming", "--max_steps", "5", "--bf16=true"]),
        [
            "script_args: --max_steps is set by train_iters; remove it",
            "script_args: --bf16 is set by precision; remove it",
        ],
    ),
    "another model than the one it makes": (
        run_clm(script_args=["--model_name_or_path", "gpt2", "--config_name=gpt2"]),
        [
            "script_args: --model_name_or_path is set by model; remove it",
            "script_args: --config_name is set by model; remove it",
        ],
    ),
    "run_clm, said in its other spelling": (
        run_clm(script_args=["--max-steps", "5", "--output-dir=/elsewhere", "--output_dir", "/x"]),
        [
            "script_args: --max-steps is set by train_iters; remove it",
            "script_args: --output-dir is set by the script; remove it",
            "script_args: --output_dir is set by the script; remove it",
        ],
    ),
    "a vocabulary too small for its tokenizer": (
        run_clm(vocab_size=512),
        [
            (
                "vocab_size=512 is less than the 50257 tokens of tokenizer gpt2; give another "
                "tokenizer, or program=hf_gpt, which needs none"
            )
        ],
    ),
    "a width that run_clm has no option for": (
        run_clm(ffn_hidden_size=1000),
        [
            (
                "ffn_hidden_size=1000 cannot be set in run_clm.py; its models have "
                "4*hidden_size=3072; use program=hf_gpt"
            )
        ],
    ),
    "any width for hf_gpt": (trainer(ffn_hidden_size=100), []),
    "what the Trainer would fill in, filled in otherwise": (
        trainer(micro_batch_size=4, deepspeed={"train_micro_batch_size_per_gpu": 8}),
        [
            (
                "deepspeed: train_micro_batch_size_per_gpu=8 contradicts the run's "
                "micro_batch_size; remove it"
            )
        ],
    ),
    "another precision, left to the Trainer": (
        trainer(precision="bf16", deepspeed={"fp16": {"enabled": "auto", "loss_scale": 0}}),
        [
            (
                "deepspeed: section fp16 is for precision=fp16, but this run has precision=bf16; "
                "remove the section"
            )
        ],
    ),
    "a misspelt key": (
        trainer(deepspeed={"zero_optimization": {"overlap_com": True}}),
        [
            (
                "DeepSpeed 0.19.8 has no key 'zero_optimization.overlap_com'; did you mean "
                "'overlap_comm'?"
            )
        ],
    ),
}


@pytest.mark.parametrize(("values", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_makes_a_run_impossible_is_reported(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    run = run_of(**values)
    assert [*HF.checks.problems(run), *HF.checks.unknown_keys(run)] == problems


def test_fp16_needs_a_gpu(run_of: RunOf):
    cluster = Cluster(name="here", scheduler="local", gpus_per_node=0)
    [problem] = run_problems(run_of(**trainer(precision="fp16")), cluster, Warmup(iterations=1))
    assert problem.startswith("precision=fp16 needs a GPU")


def test_a_batch_that_does_not_divide_is_refused(run_of: RunOf):
    cluster = Cluster(name="here", scheduler="local", gpus_per_node=0)
    run = run_of(**trainer(gpus_per_node=2, micro_batch_size=4, global_batch_size=12))
    [problem] = run_problems(run, cluster, Warmup(iterations=1))
    assert "micro_batch_size*data_parallel_size=8" in problem


def config(run: Run) -> dict[str, Any]:
    """Return the DeepSpeed configuration of a run."""
    return dict(HF.start.config_files(run)[FILE_NAME])


def test_what_the_trainer_knows_is_left_to_it(run_of: RunOf):
    """Values of the DeepSpeed configuration that the Trainer computes itself are "auto".

    The Trainer refuses a value that differs from its own.
    """
    values = trainer(zero_stage=3, offload_optimizer="cpu", offload_param="cpu", precision="fp16")
    assert config(run_of(**values)) == {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
        },
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
            "offload_param": {"device": "cpu", "pin_memory": True},
            "overlap_comm": True,
            "contiguous_gradients": True,
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            "stage3_gather_16bit_weights_on_model_save": False,
        },
        "fp16": {"enabled": "auto"},
    }


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_stage_gets_no_settings_of_a_higher_one(run_of: RunOf, stage: int):
    section = config(run_of(**trainer(zero_stage=stage)))["zero_optimization"]
    assert not [key for key in section if key.startswith("stage3")]
    assert ("reduce_bucket_size" in section) == (stage > 0)


def test_the_forecast_knows_what_the_trainer_fills_in(run_of: RunOf):
    """The memory forecast uses the bucket size that the Trainer computes from the hidden size.

    A bucket size that the user gives takes precedence.
    """
    given = {"zero_optimization": {"reduce_bucket_size": 1000}}
    for overlay, elements in (({}, 1600**2), (given, 1000)):
        placed = HF.model.placement(run_of(**trainer(zero_stage=2, model="xl", deepspeed=overlay)))
        assert placed is not None
        assert placed.bucket_elements == elements


def published(name: str) -> list[dict[str, str]]:
    """Return the rows of a published table, given the name of its CSV file."""
    with (PUBLISHED / name).open() as file:
        return list(csv.DictReader(file))


def test_the_campaign_of_the_largest_models_plans_the_pages_rows():
    """examples/hf-zero3-largest.yaml plans one run per row of the published table.

    The runs are in the table's order. Each has the GPUs, model size and batch sizes of its row.
    """
    names = ("world_size", "parameters", "micro_batch_size", "global_batch_size")
    page = [[row[name] for name in names] for row in published("hf-zero3-offload-largest.csv")]
    planned = plan_records(load_campaign(ROOT / "examples" / "hf-zero3-largest.yaml"), {})
    names = ("world_size", "model", "micro_batch_size", "global_batch_size")
    assert [[str(run[name]) for name in names] for run in planned] == page
    for run in planned:
        devices = (run["zero_stage"], run["offload_optimizer"], run["offload_param"])
        assert devices == (3, "cpu", "cpu")
    assert not [problem for run in planned for problem in run["problems"]]


def test_the_campaign_of_performance_plans_the_pages_rows():
    """The runs that fit by the forecast are the published runs that did not run out of memory.

    The forecasts are for the runs of examples/hf-zero-performance.yaml. Rows with equal settings on
    the published page count once.
    """
    rows = [row for row in published("hf-zero.csv") if row["outcome"] != "OOM"]
    names = ("zero_stage", "offload_optimizer", "offload_param", "micro_batch_size")
    page = {
        (int(row["world_size"]), *(row[name] for name in names), int(row["global_batch_size"]))
        for row in rows
    }
    campaign = load_campaign(ROOT / "examples" / "hf-zero-performance.yaml")
    columns = {column.title: column for column in HF.report.chosen}
    titles = ("Zero", "Opt Offl", "Par Offl", "Mic-BS")
    assert {
        (
            planned.run.world_size,
            *(str(columns[title].value(planned.run)) for title in titles),
            columns["Glob-BS"].value(planned.run),
        )
        for planned in campaign.runs
        if not planned.memory_problem
    } == page
    assert not [problem for planned in campaign.runs for problem in planned.problems]


def test_the_run_of_the_page_that_failed_is_planned_as_one_that_does_not_fit():
    """By the forecast, all runs of the published page fit, except the run that failed on the page.

    The failed run is the last of examples/hf-zero-performance.yaml, with ZeRO stage 2.
    """
    *others, last = load_campaign(ROOT / "examples" / "hf-zero-performance.yaml").runs
    assert not any(planned.memory_problem for planned in others)
    assert "32" in (last.memory_problem or "")
    assert last.run.zero_stage == 2


def test_the_run_that_failed_on_the_page_does_not_fit(run_of: RunOf):
    """For the 52B run with ZeRO stage 2 that failed on the page, the forecast exceeds 32 GiB.

    With stage 2, each GPU has all weights.
    """
    run = run_of(
        **trainer(zero_stage=2, offload_optimizer="cpu", model="52B", nodes=16, gpus_per_node=4),
        precision="fp16",
        activation_checkpointing=True,
    )
    placed = HF.model.placement(run)
    assert placed is not None
    needed = forecast(run, placed)
    assert needed is not None
    assert needed.low_gib > 32


@pytest.mark.train
def test_transformers_makes_the_model_that_run_clm_gets():
    """From the script's sizes, transformers makes a model with the planned number of parameters.

    The test creates only the shapes of the weights, because there are 25 billion weights.
    """
    pytest.importorskip("transformers", reason="needs the hf extra")
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config

    [*_, planned] = load_campaign(RECORDS / "hf_deepspeed-run-clm.yaml").runs
    script = recorded("hf_deepspeed-run-clm-launcher-torchrun-nodes16")
    match = re.search(r'--config_overrides "(.*)"', script)
    assert match
    config = GPT2Config()
    config.update_from_string(match[1])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(weight.numel() for weight in model.parameters()) == planned.run.parameters
    assert config.n_positions == planned.run.model.seq_length


# Output of run_clm.py: the time of all steps, and not of each.
RUN_CLM_LOG = """\
{'loss': '9.871', 'grad_norm': '2.25', 'learning_rate': '0.00015', 'epoch': '0.25'}
{'train_runtime': '40', 'train_samples_per_second': '1.6', 'train_steps_per_second': '0.2', \
'train_loss': '9.5', 'epoch': '1'}
***** train metrics *****
  epoch                    =        1.0
  train_loss               =     9.5004
  train_runtime            = 0:00:40.00
  train_samples_per_second =        1.6
  train_steps_per_second   =        0.2
"""
RUN_CLM = """\
include:
  - {framework: hf_deepspeed, program: run_clm, script: a.py, dataset: b, vocab_size: 50257}
"""


def test_a_run_with_only_a_total_time_has_a_step_time_and_tflops(reported: Reported):
    """If a log has only the rate of the whole run, the step time is the global batch / the rate.

    This step time includes the first steps, and a note in the report explains that.
    """
    _, [run], report = reported(RUN_CLM, {"log": RUN_CLM_LOG, "state": COMPLETED})
    summary = run.summary
    assert (summary.step_seconds_mean, summary.step_seconds_median) == (8 / 1.6, None)
    assert (summary.reports, summary.step_seconds_spread) == (0, None)
    assert summary.tflops_per_gpu
    assert summary.tflops_per_gpu == summary.model_tflops_per_gpu
    assert summary.running_samples_per_second == pytest.approx(1.6)
    assert "the program measures only the time of the whole run" in report.provenance
    [cells] = as_records(report.table)
    assert cells["zero_stage"] == 2
    assert (cells["micro_batch_size"], cells["global_batch_size"]) == (4, 8)


OUR_LOG = """\
[teralog] iteration 1/4 | step_seconds 9.000000 | samples_per_second 0.89 | loss 6.100000 | \
memory_allocated_gib 0.400 | max_memory_allocated_gib 0.500
[teralog] iteration 2/4 | step_seconds 2.000000 | samples_per_second 4.00 | loss 6.000000 | \
memory_allocated_gib 0.400 | max_memory_allocated_gib 0.500
{'train_runtime': '40', 'train_samples_per_second': '1.6', 'train_steps_per_second': '0.2', \
'train_loss': '9.5', 'epoch': '1'}
"""


def test_step_times_count_before_the_time_of_the_whole_run(reported: Reported):
    """If a log has times of single steps, the time of the whole run is not used."""
    _, [run], report = reported(
        "include: [{framework: hf_deepspeed}]\n", {"log": OUR_LOG, "state": COMPLETED}
    )
    assert (run.summary.step_seconds_median, run.summary.reports) == (2.0, 1)
    assert run.summary.max_memory_allocated_gib == 0.5
    assert "as a whole" not in report.provenance


def test_a_table_has_each_size_in_one_column(reported: Reported):
    """A report of one framework has that framework's column titles, e.g. "Mic-BS".

    A report of several frameworks has the common titles, e.g. "micro-batch". No report has two
    columns for the same size.
    """
    rows = "include:\n  - {framework: hf_deepspeed}\n  - {micro_batch_size: 2, framework: "
    alone = reported(rows + "hf_deepspeed}\n", None, None)[2]
    mixed = reported(rows + "gpt}\n", None, None)[2]
    assert "Mic-BS" in alone.table.titles
    assert "micro-batch" not in alone.table.titles
    assert "Mic-BS" not in mixed.table.titles
    assert "micro-batch" in mixed.table.titles
    for report in (alone, mixed):
        assert len(set(report.table.names)) == len(report.table.names)


def test_both_precisions_may_be_left_to_the_trainer(run_of: RunOf) -> None:
    both = {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}
    run = run_of(**trainer(precision="fp16", deepspeed=both))
    assert not list(FRAMEWORKS["hf_deepspeed"].checks.problems(run))
