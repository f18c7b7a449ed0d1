"""For a run that needs too much memory, find settings with which it would fit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_types import CampaignOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.fit import capacity, fits, run_forecast
from orchestrator.estimate.fitting_settings import (
    nearest_fitting,
    suggestion_lines,
    with_settings,
)

Planned = Callable[[str, str], Campaign]
V100 = "V100-SXM2-32GB"
A100 = "A100-SXM4-80GB"
MEGATRON = "framework: megatron, source: /x, precision: bf16, gpus_per_node: 8"


@pytest.fixture
def planned(campaign_of: CampaignOf, tmp_path: Path) -> Planned:
    """Return a function that loads a campaign of one run on nodes with 8 GPUs.

    The function takes the name of the GPU ("" if it is unknown), and the text of the campaign's
    `defaults`.
    """

    def load(gpu: str, defaults: str) -> Campaign:
        profile = f"scheduler: slurm\ngpus_per_node: 8\n{gpu and f'gpu: {gpu}'}\n"
        (tmp_path / "cluster.yaml").write_text(profile)
        return campaign_of(f"name: fits\ncluster: cluster.yaml\ndefaults: {{{defaults}}}\n")

    return load


@pytest.mark.parametrize(
    ("gpu", "defaults", "expected"),
    [
        # The largest micro-batch that fits, with more accumulation.
        (
            V100,
            "framework: gpt, model: s, gpus_per_node: 4, micro_batch_size: 64",
            [{"micro_batch_size": 16, "num_microbatches": 4}],
        ),
        (
            V100,
            "framework: gpt, model: s, micro_batch_size: 64, global_batch_size: 128",
            [{"micro_batch_size": 16, "num_microbatches": 8}],
        ),
        # A single sequence: it cannot be smaller.
        (
            A100,
            "framework: gpt, model: l, micro_batch_size: 1, seq_length: 32768, gpus_per_node: 8",
            [{"activation_checkpointing": True}],
        ),
        # The states are too large: a ZeRO stage, by the framework's own parameter.
        (
            A100,
            "framework: gpt, model: 4b, micro_batch_size: 1, precision: bf16, gpus_per_node: 8",
            [{"strategy": "zero1"}],
        ),
        (
            A100,
            "framework: deepspeed, script: /x.py, model: 4b, precision: bf16, gpus_per_node: 8",
            [{"zero_stage": 1}, {"tensor_parallel_size": 2, "num_microbatches": 2}],
        ),
        # No single change fits; two together do.
        (
            A100,
            f"{MEGATRON}, model: opt-13b, micro_batch_size: 8, num_microbatches: 4",
            [
                {"micro_batch_size": 4, "tensor_parallel_size": 8, "num_microbatches": 64},
                {
                    "activation_checkpointing": True,
                    "tensor_parallel_size": 8,
                    "num_microbatches": 32,
                },
            ],
        ),
        (A100, f"{MEGATRON}, model: 175b", []),
    ],
)
def test_the_fewest_changes_that_fit_are_suggested(
    planned: Planned, gpu: str, defaults: str, expected: list[dict[str, object]]
) -> None:
    """For a run that does not fit, teralog suggests the fewest changes of settings to make it fit.

    Every suggestion has the verdict `yes` and keeps the global batch.
    """
    campaign = planned(gpu, defaults)
    run, cluster = campaign.runs[0].run, campaign.cluster
    room = capacity(run, cluster)
    assert room is not None
    suggestions = nearest_fitting(run, cluster, campaign.warmup, room)
    assert [dict(suggestion.settings) for suggestion in suggestions] == expected
    for suggestion in suggestions:
        changed = with_settings(run, suggestion.settings)
        assert fits(run_forecast(changed, cluster), room) == "yes"
        assert changed.batch.global_batch_size == run.batch.global_batch_size


def test_a_changed_number_of_micro_batches_is_not_a_change_of_its_own(planned: Planned) -> None:
    """A smaller micro-batch counts as one change, although num_microbatches changes with it.

    So it is suggested next to a higher ZeRO stage. All suggestions have the verdict `maybe`.
    """
    campaign = planned(
        V100,
        "framework: deepspeed, script: /x.py, model: l, seq_length: 8192, gpus_per_node: 8, "
        "micro_batch_size: 2, num_microbatches: 4",
    )
    run, cluster = campaign.runs[0].run, campaign.cluster
    room = capacity(run, cluster)
    assert room is not None
    suggestions = nearest_fitting(run, cluster, campaign.warmup, room)
    assert [(suggestion.fits, dict(suggestion.settings)) for suggestion in suggestions] == [
        ("maybe", {"micro_batch_size": 1, "num_microbatches": 8}),
        ("maybe", {"zero_stage": 1}),
        ("maybe", {"tensor_parallel_size": 2, "num_microbatches": 8}),
    ]


@pytest.mark.parametrize(
    ("gpu", "defaults", "expected"),
    [
        (
            V100,
            "framework: gpt, model: s, gpus_per_node: 4, micro_batch_size: 64",
            (
                "forecast 75.1 to 108 GiB, and V100-SXM2-32GB has 32; settings of the campaign "
                "file that would fit:\n  micro_batch_size: 16, num_microbatches: 4  "
                "(20.9 to 30.8 GiB)"
            ),
        ),
        (
            V100,
            "framework: gpt, model: s",
            (
                "GiB, and V100-SXM2-32GB has 32: the run should fit; check whether "
                "another program used"
            ),
        ),
        (
            "",
            "framework: gpt, model: s",
            "the memory that a rank has is not known; see `teralog plan`",
        ),
        (V100, "framework: deepspeed, script: /x.py", "the memory that the run needs is not known"),
        (
            A100,
            f"{MEGATRON}, model: 175b",
            (
                "has 80: none of the settings that teralog tried would fit; use more ranks or a "
                "smaller model"
            ),
        ),
    ],
)
def test_the_forecast_is_shown_next_to_the_memory_of_the_device(
    planned: Planned, gpu: str, defaults: str, expected: str
) -> None:
    campaign = planned(gpu, defaults)
    lines = suggestion_lines(campaign.runs[0].run, campaign.cluster, campaign.warmup)
    assert expected in "\n".join(lines)
