"""Decide whether a run fits a rank's memory; `plan` and `submit` refuse a run that does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from fixture_types import CampaignOf, RunOf

from orchestrator.campaign.campaign import load_campaign
from orchestrator.campaign.fit import Capacity, capacity, fits, gib, memory_problem, run_forecast
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.machine import host_memory_gib
from orchestrator.memory.forecast import MemoryForecast, Part

SCRIPTS = Path(__file__).parents[2] / "scripts"

FORECAST = MemoryForecast(
    (
        Part("weights", 96.8, 96.8, ""),
        Part("one layer", 1.25, 8.0, ""),
        Part("logits", 0.0, 9.0, ""),
        Part("context", 0.4, 2.0, ""),
        Part("optimizer", 9.07, 9.07, ""),
    ),
    107.52,
    124.87,
)
CAPACITIES: dict[str, tuple[Cluster, float | None]] = {
    "a known GPU": (Cluster(name="a", gpu="V100-SXM2-32GB"), 32),
    "what the profile says goes first": (
        Cluster(name="a", gpu="V100-SXM2-32GB", gpu_memory_gib=31.7),
        31.7,
    ),
    "a GPU the table does not have": (Cluster(name="a", gpu="Z9000", gpu_memory_gib=7), 7),
    "an unknown GPU": (Cluster(name="a", gpu="Z9000"), None),
    "no GPU named": (Cluster(name="a", gpus_per_node=4), None),
    "other machines without GPUs": (Cluster(name="a", gpus_per_node=0), None),
    "this machine": (
        Cluster(name="a", scheduler="local", gpus_per_node=0),
        host_memory_gib() / 2,
    ),
}


@pytest.mark.parametrize(("cluster", "gib"), CAPACITIES.values(), ids=CAPACITIES)
def test_a_rank_can_have_its_gpu_or_its_share_of_this_machine(
    run_of: RunOf, cluster: Cluster, gib: float | None
):
    """A rank can use its GPU's memory, or without GPUs an equal part of this machine's memory.

    The result is None if the GPU is unknown, or if the ranks use the CPUs of other machines.
    """
    room = capacity(run_of(gpus_per_node=2), cluster)
    assert (room and room.gib) == gib


@pytest.mark.parametrize(
    ("gib", "verdict"), [(124.87, "yes"), (124.8, "maybe"), (107.6, "maybe"), (107.5, "no")]
)
def test_only_an_interval_wholly_above_the_memory_does_not_fit(gib: float, verdict: str):
    """The verdict is `no` only if the whole interval of the forecast is above the memory."""
    room = Capacity(gib, "a GPU")
    assert fits(FORECAST, room) == verdict
    assert (memory_problem(FORECAST, room) is not None) == (verdict == "no")


def test_without_forecast_or_capacity_there_is_no_verdict():
    """Without a forecast or a known memory, the verdict is None, and no problem is reported."""
    assert fits(None, Capacity(1, "a GPU")) is None
    assert fits(FORECAST, None) is None
    assert memory_problem(FORECAST, None) is None


def test_one_sentence_explains_why_a_run_does_not_fit():
    """The sentence about a run that does not fit names the largest parts of its forecast.

    It also names the option that starts the run anyway.
    """
    assert memory_problem(FORECAST, Capacity(32, "V100-SXM2-32GB")) == (
        "a rank needs at least 108 GiB of memory (weights 96.8, optimizer 9.07, one layer "
        "1.25), but V100-SXM2-32GB has 32; to start the run anyway, use submit --force"
    )


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_that_places_a_run_gives_a_forecast(name: str):
    """A run has a forecast if it has a model, and if its framework describes the run's placement.

    Otherwise it has none. The test uses the campaign {framework}-v100.yaml in tests/scripts.
    """
    campaign = load_campaign(SCRIPTS / f"{name}-v100.yaml")
    for planned in campaign.runs:
        placed = FRAMEWORKS[name].model.placement(planned.run) is not None
        has_model = planned.run.model is not None
        assert (run_forecast(planned.run, campaign.cluster) is not None) == (placed and has_model)


def test_a_script_without_a_model_has_no_forecast(campaign_of: CampaignOf):
    """A run of a user's script has no forecast, because the size of its model is unknown."""
    campaign = campaign_of("name: a\ndefaults: {framework: deepspeed, script: a.py}\n")
    assert [planned.memory for planned in campaign.runs] == [None]


ZERO: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "DeepSpeed's defaults": ({}, {"bucket_elements": 500_000_000, "buckets": (1.0, 2.0)}),
    "a smaller bucket": ({"reduce_bucket_size": 1e6}, {"bucket_elements": 1_000_000}),
    "no overlap": ({"overlap_comm": False}, {"buckets": (1.0, 1.0)}),
    "no contiguous gradients": ({"contiguous_gradients": False}, {"buckets": (0.0, 0.0)}),
    "fewer live parameters": (
        {"stage3_max_live_parameters": 10, "stage3_prefetch_bucket_size": 5},
        {"live_elements": 15},
    ),
    "what the program fills in": ({"reduce_bucket_size": "auto"}, {"bucket_elements": 500_000_000}),
    "nonsense": ({"reduce_bucket_size": float("inf")}, {"bucket_elements": 500_000_000}),
}


@pytest.mark.parametrize(("section", "expected"), ZERO.values(), ids=ZERO)
def test_the_placement_is_that_of_deepspeed_s_configuration(
    run_of: RunOf, section: dict[str, Any], expected: dict[str, Any]
):
    """Each key of `zero_optimization` changes the matching field of the run's placement.

    Invalid values are not tested here, because other checks refuse them.
    """
    run = run_of(strategy="zero3", deepspeed={"zero_optimization": section})
    placed = FRAMEWORKS["gpt"].model.placement(run)
    assert {name: getattr(placed, name) for name in expected} == expected


LARGE = """\
name: large
cluster: v100.yaml
defaults: {framework: gpt, model: 52B, nodes: 16, gpus_per_node: 4, precision: fp16,
  activation_checkpointing: true}
matrix: {strategy: [zero2, zero3]}
"""


def test_a_plan_refuses_runs_that_do_not_fit_and_separates_impossible_ones(
    campaign_of: CampaignOf, tmp_path: Any
):
    """A run that does not fit is refused because of its memory, not as an impossible run.

    E.g. ZeRO-2 of the 52B model on 64 V100 GPUs.
    """
    (tmp_path / "v100.yaml").write_text("{gpus_per_node: 4, gpu: V100-SXM2-32GB}")
    zero2, zero3 = campaign_of(LARGE).runs
    assert zero2.problems == zero3.problems == zero3.refusals == ()
    assert zero2.memory_problem
    assert zero2.refusals == (zero2.memory_problem,)


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ([], True),
        (["--use-flash-attn"], True),
        (["--use-megatron-fsdp", "--ckpt-format", "fsdp_dtensor"], False),
        (["--grad-reduce-in-bf16"], False),
    ],
    ids=str,
)
def test_a_forecast_refuses_nothing_that_may_need_less(
    campaign_of: CampaignOf, tmp_path: Path, arguments: list[str], *, refused: bool
):
    """A run is not refused if one of its options may save an unknown amount of memory."""
    (tmp_path / "a100.yaml").write_text("{gpus_per_node: 4, gpu: A100-SXM4-80GB}")
    run = {"framework": "megatron", "source": "m", "model": "18B", "precision": "bf16"}
    run |= {"gpus_per_node": 4, "extra_args": arguments}
    (planned,) = campaign_of(f"name: a\ncluster: a100.yaml\ninclude: [{run}]\n").runs
    assert planned.problems == ()
    assert (planned.memory_problem is not None) == refused


def test_submit_refuses_what_does_not_fit_unless_it_is_forced(playground: Any) -> None:
    """`submit` refuses a run that does not fit, unless --force is given: a forecast may be wrong.

    An impossible run is refused even with --force.
    """
    playground.write_campaign("true", matrix="model: [s, 206B]", gpus_per_node=1)
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "a rank needs at least" in refused.stderr
    assert "--force" in refused.stderr
    assert playground.states() == ["NOT_STARTED"] * 2
    assert playground.teralog("submit", "campaign.yaml", "--skip-impossible").returncode == 0
    assert playground.states() == ["COMPLETED", "NOT_STARTED"]
    assert playground.teralog("submit", "campaign.yaml", "--force").returncode == 0
    assert playground.states() == ["COMPLETED"] * 2
    playground.write_campaign("true", matrix="num_attention_heads: [7]")
    assert playground.teralog("submit", "campaign.yaml", "--force").returncode == 1


def test_a_plan_shows_how_many_finished_runs_calibrate_it(playground: Any) -> None:
    """A plan shows how many finished runs correct its memory forecasts.

    Only runs that completed and logged a peak count.
    """
    peak = (
        "[teralog] finished | iterations 20 | train_seconds 1.5 | final_loss 6.2"
        " | max_memory_allocated_gib 3.0"
    )
    playground.write_campaign(f"echo '{peak}'", matrix="seed: [1, 2, 3, 4]")
    before = json.loads(playground.teralog("plan", "campaign.yaml", "--json").stdout)
    assert {run["memory"]["calibrated_on"] for run in before} == {None}
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    after = json.loads(playground.teralog("plan", "campaign.yaml", "--json").stdout)
    assert {run["memory"]["calibrated_on"] for run in after} == {4}
    assert after[0]["memory"]["low_gib"] == pytest.approx(3 * 0.95)
    assert after[0]["memory"]["high_gib"] == pytest.approx(3 * 1.05)
    assert "corrected by 4 finished runs" in playground.teralog("plan", "campaign.yaml").stdout


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.02534, "0.0253"), (17.83, "17.8"), (99.96, "100"), (112.4, "112"), (1433.0, "1433")],
)
def test_gib_are_shown_without_an_exponent(number: float, shown: str) -> None:
    """Large numbers of GiB are shown without an exponent."""
    assert gib(number) == shown
