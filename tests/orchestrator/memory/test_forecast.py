"""The memory forecast: exact numbers of parameters per rank, and the effect of each setting."""

from dataclasses import replace
from typing import Any

import pytest
from fixture_types import RunOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.memory.forecast import GIB, MemoryForecast, forecast
from orchestrator.memory.placement import (
    Placement,
    ddp_placement,
    deepspeed_placement,
    megatron_placement,
)
from orchestrator.memory.states import rank_parameters
from orchestrator.run.model import Parallelism, Run
from orchestrator.run.presets import preset
from orchestrator.run.shape import ModelShape

FP16 = replace(deepspeed_placement("fp16", 0), recomputation="full", fused_attention=False)
MODEL = ModelShape(8, 512, 8, 4096, 512)

shapes = st.builds(
    ModelShape,
    num_layers=st.integers(1, 6),
    hidden_size=st.sampled_from([8, 16, 24]),
    num_attention_heads=st.just(4),
    vocab_size=st.integers(1, 99),
    seq_length=st.integers(1, 9),
    ffn_hidden_size=st.none() | st.integers(1, 99),
    num_key_value_heads=st.sampled_from([None, 1, 2]),
    gated_mlp=st.booleans(),
    untied_head=st.booleans(),
    position_table=st.booleans(),
    embedding_norm=st.booleans(),
    biases=st.sampled_from(["all", "qkv", "none"]),
    norm=st.sampled_from(["layernorm", "rmsnorm"]),
)


def made(run: Run, placement: Placement = FP16, **changed: Any) -> MemoryForecast:
    """Return the memory forecast of a run.

    placement: how the run's memory is divided over ranks. changed: fields of the placement that get
    other values.
    """
    memory = forecast(run, replace(placement, **changed))
    assert memory is not None
    return memory


def part(memory: MemoryForecast, name: str) -> tuple[float, float]:
    """Return the low and high end of one part of the forecast, in GiB.

    name: the part, e.g. "activations". If the forecast has no such part, both ends are zero.
    """
    ends = [(portion.low_gib, portion.high_gib) for portion in memory.parts if portion.name == name]
    return ends[0] if ends else (0.0, 0.0)


def test_a_shared_sequence_is_a_share_of_the_activations(split_run: RunOf):
    """If 4 ranks divide a sequence (context parallelism), each holds a quarter of the activations.

    Each rank holds all weights. ZeRO divides the optimizer's states over these ranks.
    """
    whole, shared = split_run(MODEL, 4), split_run(MODEL, 4)
    shared = replace(shared, parallelism=replace(shared.parallelism, context_parallel_size=4))
    placement = replace(FP16, zero_stage=1)
    for name, factor in (("weights", 1), ("optimizer", 1), ("activations", 4), ("one layer", 4)):
        low, high = part(made(whole, placement), name)
        assert part(made(shared, placement), name) == pytest.approx((low / factor, high / factor))


@given(model=shapes)
def test_one_rank_has_every_parameter(model: ModelShape):
    """A single rank has as many parameters as the formula for the model's size gives."""
    assert rank_parameters(model, 96, Parallelism(), 0) == model.parameters(96)


@given(model=shapes, pipeline=st.integers(1, 6))
def test_the_stages_of_a_pipeline_have_every_parameter_and_a_copy_of_the_tied_embedding(
    model: ModelShape, pipeline: int
):
    """Each parameter is on one stage of a pipeline, except a tied embedding, which is on two."""
    model = replace(model, num_layers=pipeline * model.num_layers)
    stages = range(pipeline)
    held = sum(rank_parameters(model, 96, Parallelism(1, pipeline), stage) for stage in stages)
    copied = 96 * model.hidden_size if pipeline > 1 and not model.untied_head else 0
    assert held == model.parameters(96) + copied


def test_a_rank_has_as_many_parameters_as_megatron_deepspeed_logs():
    """A rank has as many parameters as Megatron-DeepSpeed logs.

    The test has the first, a middle and the last of 16 stages of 52B, with 4 tensor-parallel ranks.
    """
    counts = [
        rank_parameters(preset("52B"), 50688, Parallelism(4, 16), stage) for stage in (0, 7, 15)
    ]
    # The last stage logs 917,774,336: DeepSpeed ties the positions' table with the embedding.
    assert counts == [917_757_952, 805_560_320, 917_774_336 - 1024 * 8192]


def test_the_ends_are_the_sums_of_the_parts(split_run: RunOf):
    """The low end of a forecast is the sum of its parts' low ends.

    The same holds for the high end.
    """
    memory = made(split_run("18B", 16, tensor=4, pipeline=4, micro_batches=8))
    assert memory.low_gib == pytest.approx(sum(portion.low_gib for portion in memory.parts))
    assert memory.high_gib == pytest.approx(sum(portion.high_gib for portion in memory.parts))
    assert all(0 <= portion.low_gib <= portion.high_gib and portion.why for portion in memory.parts)
    assert memory.tensors.high_gib < memory.high_gib


def test_with_unknown_savings_only_the_high_end_is_known(split_run: RunOf):
    """If options save an unknown amount of memory, the low end is only the CUDA context."""
    run = split_run("18B", 16, tensor=4, pipeline=4, micro_batches=8)
    plain, saving = made(run), made(run, may_save=True)
    assert saving.high_gib == plain.high_gib
    assert saving.low_gib == part(saving, "context")[0] == part(plain, "context")[0]


def test_an_unknown_model_or_split_has_no_forecast(split_run: RunOf):
    """A run has no forecast if its model is unknown, or if its ranks hold a fraction of a copy.

    E.g. 3 ranks with tensor-parallel size 2 hold one copy and a half of the model.
    """
    assert forecast(split_run(None), FP16) is None
    assert forecast(split_run("s", 3, tensor=2), FP16) is None


BYTES = {
    "ddp": (ddp_placement("fp32"), 16),
    "no ZeRO": (deepspeed_placement("fp16", 0), 14),
    "ZeRO-1": (deepspeed_placement("fp16", 1), 2 + 12 / 8),
    "ZeRO-2": (deepspeed_placement("fp16", 2), 2 + 12 / 8),
    "ZeRO-3": (deepspeed_placement("fp16", 3), 14 / 8),
    "ZeRO-1 in fp32": (deepspeed_placement("fp32", 1), 4 + 12 / 8),
    "Megatron": (megatron_placement("fp16"), 18),
    "Megatron's distributed optimizer": (
        replace(megatron_placement("fp16"), zero_stage=1),
        6 + 12 / 8,
    ),
}


@pytest.mark.parametrize(("placement", "each"), BYTES.values(), ids=BYTES)
def test_the_states_that_stay_are_those_of_the_published_tables(
    split_run: RunOf, placement: Placement, each: float
):
    """Weights, gradient copies and optimizer states have the published bytes per parameter.

    Sources: ZeRO paper, section 3.1 and figure 1; Megatron's tables with 18 bytes, and with
    6 + 12 / DP bytes (DP: data-parallel size).
    """
    run = split_run(MODEL, 8)
    memory = made(run, placement)
    staying = ("weights", "gradient copies", "optimizer")
    total = sum(part(memory, name)[0] for name in staying)
    assert total * GIB == pytest.approx(each * (run.parameters or 0))


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_each_zero_stage_needs_less_than_the_one_before(split_run: RunOf, stage: int):
    """Each ZeRO stage lowers both ends of the forecast, if communication buffers are left out."""
    run = split_run("7.5B", 64, micro_batches=2)
    free = {"buckets": (0, 0), "live_elements": 0, "recomputation": "full"}
    before, after = (
        made(run, deepspeed_placement("fp16", at), **free) for at in (stage - 1, stage)
    )
    assert after.high_gib < before.high_gib
    assert after.low_gib < before.low_gib


LESS: dict[str, dict[str, Any]] = {
    "offload of the optimizer": {"offload_optimizer": True},
    "offload of the weights": {"offload_parameters": True, "live_elements": 0},
    "checkpoints in the host": {"checkpoints_in_cpu": True},
    "partitioned checkpoints": {"partition_activations": True},
    "sequence parallelism": {"sequence_parallel": True},
    "fused attention": {"fused_attention": True},
    "no buckets": {"buckets": (0, 0)},
    "fewer gathered weights": {"live_elements": 0},
    "lower stage": {"zero_stage": 3},
}


@pytest.mark.parametrize("changed", LESS.values(), ids=LESS)
def test_what_saves_memory_lowers_the_forecast(split_run: RunOf, changed: dict[str, Any]):
    """Each option that saves memory lowers the forecast's high end and never raises its low end."""
    # With a larger vocabulary the logits would exceed the memory of a layer.
    model = replace(preset("7.5B"), vocab_size=512)
    run = split_run(model, 8, tensor=2, micro_batch=2, micro_batches=4)
    # Otherwise the optimizer's step could need more memory than the activations.
    usual = replace(FP16, zero_stage=2, step_bytes=(0, 0), bucket_elements=10**6, buckets=(1, 1))
    if "live_elements" in changed:
        usual = replace(usual, zero_stage=3, live_elements=10**9)
    assert made(run, usual, **changed).high_gib < made(run, usual).high_gib
    assert made(run, usual, **changed).low_gib <= made(run, usual).low_gib


def test_full_recomputation_needs_less_than_selective_and_that_less_than_none(
    split_run: RunOf,
):
    """Full recomputation needs less memory than selective, and selective less than none.

    If it is unknown what is recomputed, the interval of the forecast covers all three.
    """
    run = split_run("18B", 16, tensor=4, pipeline=4, micro_batch=4, micro_batches=16)
    full, selective, none = (
        made(run, recomputation=mode) for mode in ("full", "selective", "none")
    )
    unknown = made(run, recomputation=None)
    assert full.high_gib < selective.high_gib < none.high_gib
    assert full.low_gib < selective.low_gib < none.low_gib
    assert unknown.low_gib <= full.low_gib
    assert unknown.high_gib >= none.high_gib


@pytest.mark.parametrize(
    ("mode", "sequence_parallel", "each"),
    [
        # 52B, t = 4: sbh = 8,388,608 bytes an element-byte; 5as/h = 20.
        ("none", False, 10 + 24 / 4 + 20 / 4),
        ("none", True, (34 + 20) / 4),
        ("selective", False, 10 + 24 / 4),
        ("selective", True, 34 / 4),
        ("full", False, 2),
        ("full", True, 2 / 4),
    ],
)
def test_activations_are_those_of_korthikanti_table_2(
    split_run: RunOf, mode: str, sequence_parallel: bool, each: float
):
    """The high end of the activations is the number of bytes in table 2 of Korthikanti et al.

    The table has the bytes per layer and hidden element, for fp16 with dropout masks.
    """
    run = split_run("52B", 4, tensor=4)
    memory = made(run, recomputation=mode, sequence_parallel=sequence_parallel)
    assert part(memory, "activations")[1] * GIB == pytest.approx(each * 1024 * 8192 * 64)


@pytest.mark.parametrize(
    ("pipeline", "micro_batches", "flight"),
    [
        (1, 1, (1, 1)),
        (1, 8, (1, 1)),
        (4, 1, (1, 1)),
        (4, 2, (1, 2)),
        (4, 4, (3, 4)),
        (4, 9, (4, 4)),
    ],
)
def test_the_first_stage_keeps_as_many_micro_batches_as_the_warm_up_is_long(
    split_run: RunOf, pipeline: int, micro_batches: int, flight: tuple[int, int]
):
    """The first pipeline stage keeps the activations of one or more micro-batches at its peak.

    High end of the forecast: as many as there are stages, or all micro-batches of the step if they
    are fewer. Low end: the same; but one less, and at least one, if the step has no more
    micro-batches than stages.
    """
    run = split_run(MODEL, pipeline, pipeline=pipeline, micro_batches=micro_batches)
    low, high = part(made(run), "activations")
    hidden = 512 * 512 * 2
    layers, outputs = 8 // pipeline, int(pipeline > 1)
    # Without accumulation the low end of gradients is their memory beyond that of activations.
    assert low * GIB == pytest.approx(flight[0] * layers * hidden)
    assert high * GIB == pytest.approx(flight[1] * (layers + outputs) * hidden)


@pytest.mark.parametrize(
    ("pipeline", "virtual", "micro_batches", "flight"),
    [
        # 2(p - 1) + (v - 1)p + 1 passes of a v-th of the layers.
        (4, 2, 16, (11 / 2, 11 / 2)),
        (2, 4, 16, (9 / 4, 9 / 4)),
        (4, 2, 4, (3, 4)),
    ],
)
def test_an_interleaved_schedule_keeps_more_micro_batches(
    split_run: RunOf, pipeline: int, virtual: int, micro_batches: int, flight: tuple[float, float]
):
    """An interleaved schedule keeps the activations of more micro-batches.

    Virtual stages make the start-up of the pipeline longer, so more activations wait for their
    backward pass.
    """
    run = split_run(MODEL, pipeline, pipeline=pipeline, micro_batches=micro_batches)
    low, high = part(made(run, virtual_stages=virtual), "activations")
    hidden, layers = 512 * 512 * 2, 8 // pipeline
    assert low * GIB == pytest.approx(flight[0] * layers * hidden)
    assert high * GIB == pytest.approx(flight[1] * (layers + virtual) * hidden)


def test_the_heavier_end_of_a_pipeline_counts(split_run: RunOf):
    """The forecast is that of the pipeline stage that needs the most memory.

    With many micro-batches this is the first stage. With a large vocabulary it is the last stage.
    """
    deep = made(split_run(MODEL, 8, pipeline=8, micro_batches=64, micro_batch=16))
    wide = made(split_run(replace(MODEL, vocab_size=400_000), 8, pipeline=8, micro_batch=2))
    assert part(deep, "logits") == (0.0, 0.0)
    assert part(wide, "logits")[1] > 0


def test_without_a_gpu_offloaded_states_stay_in_host_memory(split_run: RunOf):
    """Without a GPU, offloaded states count, because host memory is the only memory.

    A communication bucket counts with at most as many elements as the model has parameters.
    """
    run = split_run(MODEL, 2)
    offloaded = replace(
        deepspeed_placement("fp32", 3), offload_optimizer=True, offload_parameters=True
    )
    host, gpu = forecast(run, offloaded, gpu=False), forecast(run, offloaded)
    assert host is not None
    assert gpu is not None
    assert part(host, "optimizer")[0] > 0 == part(gpu, "optimizer")[0]
    assert part(host, "buckets")[1] < 0.5 < part(gpu, "buckets")[1]


SIZES = [
    {"model": replace(MODEL, num_layers=16)},
    {"model": replace(MODEL, hidden_size=1024)},
    {"model": replace(MODEL, ffn_hidden_size=4096)},
    {"model": replace(MODEL, vocab_size=99_999)},
    {"model": replace(MODEL, seq_length=1024)},
    {"model": replace(MODEL, num_attention_heads=16)},
    {"model": replace(MODEL, gated_mlp=True)},
    {"micro_batch": 2},
    {"micro_batches": 2},
]


@pytest.mark.parametrize("changed", SIZES, ids=lambda changed: str(next(iter(changed.items()))))
def test_every_size_that_is_larger_needs_more(split_run: RunOf, changed: dict[str, Any]):
    """A larger size of the model or of the micro-batch raises the high end of the forecast."""
    usual = {"model": MODEL, "gpus": 2, "pipeline": 2}
    larger = made(split_run(**{**usual, **changed}), recomputation="none")
    assert larger.high_gib > made(split_run(**usual), recomputation="none").high_gib
