"""ColossalAI's benchmarks of GPT and of OPT: their limits, and the numbers in their output."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.collect.collected import Collected, collect_campaign
from orchestrator.common.tables import as_records
from orchestrator.frameworks.colossalai.shared import ColossalaiStrategy, experience_batch_size
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.report.json_report import report_json
from orchestrator.report.report import make_report
from orchestrator.run import presets
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from orchestrator.submit.scripts import job_script

ROOT = Path(__file__).parents[3]
LOGS = ROOT / "tests" / "data" / "logs"
EXAMPLES = ROOT / "examples"


def gpt(run_of: RunOf, **values: Any) -> Run:
    """Return a run of the benchmark that trains GPTs."""
    given = {"framework": "colossalai_gpt", "source": "ColossalAI", "model": "s", **values}
    return run_of(**given)


def opt(run_of: RunOf, **values: Any) -> Run:
    """Return a run of the benchmark that trains OPTs."""
    return gpt(run_of, framework="colossalai_opt_lora", **{"model": "opt-125m", **values})


def problems(run: Run) -> list[str]:
    """Return the reasons why a run is impossible."""
    return list(FRAMEWORKS[run.framework].checks.problems(run))


@pytest.mark.parametrize("key", presets.GPT)
def test_every_gpt_of_the_benchmark_can_be_run(run_of: RunOf, key: str):
    assert problems(gpt(run_of, model=key)) == []


@pytest.mark.parametrize("key", presets.OPT)
def test_every_opt_of_the_benchmark_can_be_run(run_of: RunOf, key: str):
    assert problems(opt(run_of, model=key)) == []


@pytest.mark.parametrize("name", ["colossalai_gpt", "colossalai_opt_lora"])
def test_every_strategy_can_be_run_on_one_gpu_and_on_several_nodes(run_of: RunOf, name: str):
    model = "opt-125m" if name == "colossalai_opt_lora" else "s"
    for strategy in get_args(ColossalaiStrategy):
        for nodes, gpus in ((1, 1), (1, 4), (4, 8), (16, 8)):
            run = gpt(
                run_of,
                framework=name,
                model=model,
                strategy=strategy,
                nodes=nodes,
                gpus_per_node=gpus,
            )
            assert problems(run) == []


@pytest.mark.parametrize(
    ("values", "begins"),
    [
        ({"model": "opt-125m"}, "framework colossalai_gpt has no model 'opt-125m'; choose one of"),
        ({"model": {"preset": "xl", "seq_length": 512}}, "framework colossalai_gpt has its own s"),
        ({"tensor_parallel_size": 2, "gpus_per_node": 2}, "framework colossalai_gpt cannot split"),
        (
            {"num_microbatches": 2},
            "framework colossalai_gpt cannot accumulate gradients: global_batc",
        ),
        ({"precision": "bf16"}, "strategy ddp trains in fp32, not in precision=bf16"),
        (
            {"strategy": "colossalai_zero2", "precision": "fp32"},
            "strategy colossalai_zero2 trains in fp16, not in precision=fp32",
        ),
        (
            {"train_iters": 50},
            "framework colossalai_gpt cannot set train_iters; remove `train_iters: 50`",
        ),
        ({"activation_checkpointing": True}, "framework colossalai_gpt cannot set activation_ch"),
        (
            {"num_episodes": 1},
            (
                "num_episodes=1: the first episode is not measured, so there would be no results; "
                "give at least"
            ),
        ),
        (
            {"update_timesteps": 30},
            "update_timesteps=30 is too large: no learning happens after the first episode",
        ),
        (
            {"micro_batch_size": 64, "experience_batch_size": 4},
            "experience_batch_size*update_timesteps=32 is less than micro_batch_size=",
        ),
    ],
)
def test_what_the_benchmark_cannot_do_is_reported(
    run_of: RunOf, values: dict[str, Any], begins: str
):
    (sentences,) = problems(gpt(run_of, **values))
    assert sentences.startswith(begins)


def test_the_key_that_two_tables_have_is_gpts(run_of: RunOf):
    """The model name `10b` means a GPT; the OPT of that size must be written `opt-10b`."""
    (sentences,) = problems(opt(run_of, model="10b"))
    assert "has its own sizes for model '10b'" in sentences
    assert sentences.endswith("; write `model: opt-10b`, without sizes")


def test_the_rank_of_lora_is_at_most_the_width_of_the_model(run_of: RunOf):
    assert problems(opt(run_of, lora_rank=768)) == []
    assert problems(opt(run_of, lora_rank=769)) == ["lora_rank=769 is more than hidden_size=768"]


def test_precision_is_the_strategys_and_batches_are_per_gpu(run_of: RunOf):
    """The precision follows from the strategy, and batch sizes are per GPU.

    The micro-batch is the batch of the learning phase. The batch for generating experience has the
    same size by default.
    """
    run = gpt(run_of, strategy="colossalai_gemini", micro_batch_size=8, gpus_per_node=4, nodes=2)
    assert run.training.precision == "fp16"
    assert gpt(run_of).training.precision == "fp32"
    assert run.batch.global_batch_size == 64
    assert experience_batch_size(run) == 8
    assert experience_batch_size(gpt(run_of, experience_batch_size=2)) == 2


def campaign_with(path: Path, tmp_path: Path, attempt_in: Callable[..., Attempt]) -> Any:
    """Return a campaign, its collected runs and its report.

    Every run of the campaign has completed with the log at `path`.
    """
    framework = path.stem
    model = "opt-350m" if framework == "colossalai_opt_lora" else "xl"
    file = tmp_path / "campaign.yaml"
    file.write_text(
        f"name: a\ncluster: {EXAMPLES}/clusters/a100.yaml\n"
        f"defaults: {{framework: {framework}, source: C, model: {model}, gpus_per_node: 4}}\n"
        "matrix: {strategy: [ddp, colossalai_zero2]}\n"
    )
    campaign = load_campaign(file)
    store = CampaignStore(tmp_path / "results")
    for planned in campaign.runs:
        attempt_in(store.run(planned.run_id), log=path.read_text(), state="COMPLETED")
    runs: list[Collected] = collect_campaign(campaign, store)
    return campaign, runs, make_report(campaign, runs, "2026-01-02")


def test_the_report_shows_what_the_benchmark_prints_per_gpu(
    tmp_path: Path, attempt_in: Callable[..., Attempt]
):
    """The report has the rates and TFLOPs per GPU that the benchmark prints.

    It has no step times and no TFLOPs computed by teralog, because RLHF is not pre-training.
    """
    campaign, runs, report = campaign_with(LOGS / "colossalai_gpt.log", tmp_path, attempt_in)
    assert as_records(report.table)[1] == {
        "strategy": "colossalai_zero2",
        "experience_batch": 1,
        "make_experience_samples_per_second_per_gpu": 0.912,
        "make_experience_tflops_per_gpu": 11.347,
        "learn_samples_per_second_per_gpu": 5.18,
        "learn_tflops_per_gpu": 48.022,
        "max_memory_allocated_gib": 61.47,
        "outcome": "completed",
    }
    assert "as ColossalAI's benchmark prints them" in report.provenance
    assert "Narayanan" not in report.provenance
    row = report_json(campaign, report, runs)["runs"][0]
    assert (row["model_tflops_per_gpu"], row["mfu"]) == (None, None)


def test_a_throughput_of_all_gpus_is_divided_by_their_number(
    tmp_path: Path, attempt_in: Callable[..., Attempt]
):
    """Since ColossalAI 0.3.0, the printed throughput is that of all GPUs, so teralog divides it.

    The printed TFLOPS are always those of one GPU.
    """
    _, _, report = campaign_with(LOGS / "colossalai_opt_lora.log", tmp_path, attempt_in)
    row = as_records(report.table)[0]
    assert row["lora_rank"] == 4
    assert row["make_experience_samples_per_second_per_gpu"] == 18.64 / 4
    assert row["learn_samples_per_second_per_gpu"] == 61.20 / 4
    assert row["learn_tflops_per_gpu"] == 30.77


@pytest.fixture(scope="module")
def sweep() -> Campaign:
    """Return the campaign examples/colossalai-gpt-sweep.yaml."""
    return load_campaign(EXAMPLES / "colossalai-gpt-sweep.yaml")


def test_the_sweep_has_all_of_gpus_strategies_models_and_batches(sweep: Campaign):
    """The sweep has 4 numbers of GPUs, 5 strategies, 9 models and 9 batches; all runs are possible.

    Runs that differ only in the batch form one of 180 series. A series ends at its first failure.
    """
    assert len(sweep.runs) == 4 * 5 * 9 * 9 == 1620
    assert not any(planned.refusals for planned in sweep.runs)
    series = {planned.series for planned in sweep.runs}
    assert len(series) == 180
    for run_series in series:
        assert run_series is not None
        assert run_series.values == (1, 2, 4, 8, 16, 32, 64, 128, 256)


def test_the_script_starts_the_command_of_the_benchmarks_page(sweep: Campaign):
    """The job script starts the benchmark with torchrun and the options on the benchmark's page."""
    planned = next(run for run in sweep.runs if run.label.endswith("gpus2 colossalai_zero2 l mb16"))
    local = replace(sweep, cluster=replace(sweep.cluster, scheduler="local"))
    words = " ".join(job_script(planned, local, Path("/results/run")).split())
    assert (
        "args=( --model l --strategy colossalai_zero2 --experience_batch_size 16 "
        "--train_batch_size 16 --num_episodes 3 --max_timesteps 8 --update_timesteps 8 "
        "--max_epochs 3 )" in words
    )
    assert "-m torch.distributed.run --standalone --nproc_per_node=2" in words
    assert "/ColossalAI/applications/Chat/benchmarks/benchmark_gpt_dummy.py)" in words


def test_the_campaign_of_opt_has_every_model_with_and_without_lora():
    campaign = load_campaign(EXAMPLES / "colossalai-opt-lora.yaml")
    assert not any(planned.refusals for planned in campaign.runs)
    models_and_ranks = {(run.run.model_name, run.run.options.lora_rank) for run in campaign.runs}
    assert models_and_ranks == {(key, rank) for key in presets.OPT for rank in (0, 4)}
