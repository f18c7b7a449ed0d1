"""Compare the forecast with the tensors that the forward pass of a real model keeps."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.memory.forecast import GIB, forecast
from orchestrator.run.model import Run, sizes
from orchestrator.workloads.settings import Settings

if TYPE_CHECKING:
    import torch

pytestmark = pytest.mark.train


def kept_bytes(run: Run) -> int:
    """Return the total size, in bytes, of the tensors that autograd keeps for the backward pass.

    The weights are left out.
    """
    torch = pytest.importorskip("torch")
    from orchestrator.workloads import gpt_model

    names = {field.name for field in fields(Settings)}
    chosen = {name: value for name, value in sizes(run).items() if name in names}
    settings = Settings(**chosen, device="cpu", deepspeed_config=None)
    model = gpt_model.GPT(settings)
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # Kept until all tensors are counted, because torch reuses freed addresses.
        loss = model(gpt_model.dummy_tokens(settings, 0, 0)[0])
        total = sum(kept.values())
    assert loss.isfinite()
    return total


def activations_bytes(run: Run) -> float:
    """Return the low end of the forecast for activations, in bytes."""
    memory = forecast(run, FRAMEWORKS["gpt"].model.placement(run))
    assert memory is not None
    (part,) = (part for part in memory.parts if part.name == "activations")
    return part.low_gib * GIB


CHANGES = [
    {},
    {"ffn_hidden_size": 100},
    {"seq_length": 128},
    {"micro_batch_size": 9},
    {"num_attention_heads": 8},
    {"hidden_size": 128},
]


@pytest.mark.parametrize("changed", CHANGES, ids=str)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_layer_keeps_the_low_end_of_the_forecast(
    run_of: RunOf, changed: dict[str, int], checkpointing: bool
):
    """A real layer keeps as many bytes as the forecast's low end, within 3 %.

    The difference is the statistics that norms and softmax keep.
    """
    two, six = (
        run_of(
            **{
                "num_layers": layers,
                "num_microbatches": 2,
                "micro_batch_size": 4,
                "activation_checkpointing": checkpointing,
                **changed,
            }
        )
        for layers in (2, 6)
    )
    kept = kept_bytes(six) - kept_bytes(two)
    assert activations_bytes(six) - activations_bytes(two) == pytest.approx(kept, rel=0.03)
