"""Megatron with DeepSpeed, as in 2021: 3D parallelism in the branches `old` and `new`, and ZeRO."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.checks import run_warnings
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run

FAR = Cluster(name="far")

COMMON = {
    "source": "megatron",
    "data_path": "tokens",
    "vocab_file": "vocab.json",
    "merge_file": "merges.txt",
    "model": "52B",
    "precision": "fp16",
    "nodes": 16,
    "gpus_per_node": 4,
    "tensor_parallel_size": 4,
}


MODEL = {"hidden_size": 512, "num_attention_heads": 8, "vocab_size": 50257, "seq_length": 1024}


def three_d(**values: Any) -> dict[str, Any]:
    """Return parameters of a run with 3D parallelism: data, tensor and pipeline."""
    return {
        "framework": "megatron_deepspeed_3d",
        "pipeline_parallel_size": 16,
        "num_microbatches": 256,
        **COMMON,
        **values,
    }


def zero(**values: Any) -> dict[str, Any]:
    """Return parameters of a run with ZeRO."""
    return {"framework": "megatron_deepspeed_zero", **COMMON, **values}


REFUSED_BY_1 = [
    *("--num-unique-layers", "5", "--save", "/x", "--min-lr", "1"),
    *("--max-position-embeddings", "512"),
]
PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "new branch, all well": (three_d(), []),
    "old branch, all well": (
        three_d(
            branch="old",
            activation_checkpointing=True,
            partition_activations=True,
            synchronize_each_layer=True,
            contiguous_checkpointing=True,
        ),
        [],
    ),
    "Megatron alone, all well": (three_d(engine="megatron", precision="bf16"), []),
    "ZeRO, all well": (
        zero(
            offload_optimizer="cpu",
            offload_param="cpu",
            activation_checkpointing=True,
            checkpoint_in_cpu=True,
            checkpoint_num_layers=2,
            scattered_embeddings=True,
            split_transformers=True,
            memory_centric_tiled_linear=True,
            tile_factor=4,
        ),
        [],
    ),
    "an optimizer of stage 1 in host memory, which 2021's DeepSpeed has not": (
        zero(zero_stage=1, offload_optimizer="cpu"),
        [
            (
                "offload_optimizer=cpu needs zero_stage=2 or 3: DeepSpeed of 2021 keeps the "
                "optimizer states of stage 1 on the GPU"
            )
        ],
    ),
    "an optimizer of stage 2 in host memory": (zero(zero_stage=2, offload_optimizer="cpu"), []),
    "no data": (
        {key: value for key, value in three_d().items() if key not in ("data_path", "vocab_file")},
        ["framework megatron_deepspeed_3d needs real data: give data_path, vocab_file"],
    ),
    "stages that differ under DeepSpeed": (three_d(model="52B", num_layers=50), []),
    "stages that differ for Megatron alone": (
        three_d(engine="megatron", num_layers=50),
        ["num_layers=50 is not divisible by pipeline_parallel_size=16"],
    ),
    "stages without a layer": (
        three_d(branch="old", num_layers=10),
        ["num_layers=10 is less than pipeline_parallel_size=16"],
    ),
    "the old branch without DeepSpeed": (
        three_d(branch="old", engine="megatron"),
        ["branch=old needs engine=deepspeed"],
    ),
    "DeepSpeed's options for Megatron alone": (
        three_d(
            engine="megatron",
            activation_checkpointing=True,
            partition_activations=True,
            zero_stage=1,
            deepspeed={"steps_per_print": 5},
        ),
        [
            (
                "engine=megatron does not use DeepSpeed; remove partition_activations, zero_stage, "
                "deepspeed"
            )
        ],
    ),
    **{
        f"ZeRO-{stage} with a pipeline of {stages}": (
            three_d(zero_stage=stage, pipeline_parallel_size=stages),
            [
                (
                    f"zero_stage={stage} divides gradients, but DeepSpeed's pipeline needs "
                    "whole gradients, even with one pipeline stage; use zero_stage=0 or 1, or "
                    "framework megatron_deepspeed_zero"
                )
            ],
        )
        for stage in (2, 3)
        for stages in (1, 16)
    },
    "ZeRO-1 with a pipeline": (three_d(zero_stage=1), []),
    "an optimizer for DeepSpeed": (
        three_d(deepspeed={"optimizer": {"type": "Adam"}}),
        [
            (
                "deepspeed: the program ignores `optimizer` and uses its own optimizer; remove it, "
                "and set the program's optimizer in extra_args"
            )
        ],
    ),
    "chunks that do not divide a stage": (
        three_d(
            engine="megatron",
            num_layers=96,
            extra_args=["--num-layers-per-virtual-pipeline-stage", "4"],
        ),
        [
            (
                "extra_args: --num-layers-per-virtual-pipeline-stage=4 does not divide the 6 "
                "layers of a pipeline stage"
            )
        ],
    ),
    "chunks for too few micro-batches": (
        three_d(
            engine="megatron",
            num_layers=96,
            num_microbatches=24,
            extra_args=["--num-layers-per-virtual-pipeline-stage", "3"],
        ),
        [
            (
                "virtual_pipeline_parallel_size=2: num_microbatches=24 is not divisible by "
                "pipeline_parallel_size=16"
            )
        ],
    ),
    **{
        f"what Megatron 1.1.5 refuses, {which}": (
            values | {"learning_rate": 1e-3},
            [
                "extra_args: --num-unique-layers=5 does not divide num_layers=64",
                "extra_args: --min-lr=1 is above learning_rate=0.001; lower it",
                "extra_args: --max-position-embeddings=512 is less than seq_length=1024; raise it",
            ],
        )
        for which, values in {
            "3D": three_d(branch="old", num_layers=64, extra_args=REFUSED_BY_1),
            "ZeRO": zero(num_layers=64, extra_args=REFUSED_BY_1),
        }.items()
    },
    "3D in bf16": (
        three_d(precision="bf16"),
        ["DeepSpeed of 2021 has no bf16; use precision=fp16"],
    ),
    "the old branch in bf16": (
        three_d(branch="old", precision="bf16"),
        ["Megatron 1.1.5 has no bf16; use precision=fp16"],
    ),
    "ZeRO with a pipeline": (
        zero(pipeline_parallel_size=4),
        [
            (
                "framework megatron_deepspeed_zero has no pipeline: pipeline_parallel_size=4 must "
                "be 1; for a pipeline, use framework megatron_deepspeed_3d"
            )
        ],
    ),
    "ZeRO with accumulation": (
        zero(num_microbatches=4),
        [
            (
                "num_microbatches=4 must be 1, because the program takes a step after each "
                "micro-batch; remove num_microbatches and global_batch_size"
            )
        ],
    ),
    "ZeRO in fp32": (
        zero(precision="fp32"),
        ["zero_stage=3 needs precision=fp16 in DeepSpeed of 2021"],
    ),
    "ZeRO with split sequences": (
        zero(context_parallel_size=2),
        [
            (
                "framework megatron_deepspeed_zero cannot split sequences: context_parallel_size=2 "
                "must be 1"
            )
        ],
    ),
    "an MLP of another width": (
        zero(ffn_hidden_size=8192),
        [
            (
                "Megatron 1.1.5 cannot set ffn_hidden_size=8192: its MLP has 4*hidden_size=32768; "
                "remove ffn_hidden_size"
            )
        ],
    ),
    "parameters offloaded at stage 2": (
        zero(zero_stage=2, offload_param="cpu"),
        ["offload_param=cpu needs ZeRO stage 3"],
    ),
    "tiles at stage 2": (
        zero(zero_stage=2, memory_centric_tiled_linear=True, tile_factor=3),
        [
            "memory_centric_tiled_linear needs zero_stage=3",
            "hidden_size=8192 is not divisible by tile_factor=3",
        ],
    ),
    "a tile factor without tiles": (
        zero(tile_factor=2),
        ["tile_factor=2 needs memory_centric_tiled_linear=true"],
    ),
    "checkpoints that are not made": (
        zero(checkpoint_in_cpu=True, synchronize_each_layer=True),
        [("checkpoint_in_cpu and synchronize_each_layer need activation_checkpointing=true")],
    ),
    "checkpoints beyond the last layer, Megatron alone": (
        three_d(engine="megatron", activation_checkpointing=True, checkpoint_num_layers=3),
        [
            (
                "checkpoint_num_layers=3 does not divide the 4 layers of a pipeline stage: the "
                "program would crash at the last layers"
            )
        ],
    ),
    "checkpoints of DeepSpeed's pipeline, where the last may be smaller": (
        three_d(activation_checkpointing=True, checkpoint_num_layers=3),
        [],
    ),
    "checkpoints that begin again": (
        zero(activation_checkpointing=True, checkpoint_num_layers=5),
        [
            (
                "checkpoint_num_layers=5 does not divide the 64 layers of the model: after the "
                "last layer, the program would run the first layers again"
            )
        ],
    ),
    "checkpoints of half layers that begin again": (
        zero(activation_checkpointing=True, split_transformers=True, checkpoint_num_layers=5),
        [
            (
                "checkpoint_num_layers=5 does not divide the 128 layers of the model "
                "(split_transformers=true makes two of each): after the last layer, the program "
                "would run the first layers again"
            )
        ],
    ),
    "checkpoints of half layers that do not": (
        zero(
            model={**MODEL, "num_layers": 5},
            activation_checkpointing=True,
            split_transformers=True,
            checkpoint_num_layers=2,
        ),
        [],
    ),
    "checkpoints in one piece, each whole": (
        zero(activation_checkpointing=True, contiguous_checkpointing=True),
        ["contiguous_checkpointing needs partition_activations=true"],
    ),
    "the key that was misspelt in 2021": (
        zero(deepspeed={"zero_optimization": {"stage3_param_persitence_threshold": 81920}}),
        [
            (
                "DeepSpeed 0.19.8 has no key "
                "'zero_optimization.stage3_param_persitence_threshold'; did "
                "you mean 'stage3_param_persistence_threshold'?"
            )
        ],
    ),
    "a key that has another name since": (
        zero(deepspeed={"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": False}}),
        [],
    ),
    "the same under a pipeline's engine": (
        three_d(
            deepspeed={"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": False}}
        ),
        [],
    ),
    "offload by the key of 2020": (
        zero(zero_stage=2, deepspeed={"zero_optimization": {"cpu_offload": True}}),
        [
            (
                "deepspeed: zero_optimization.cpu_offload is set by the run's offload_optimizer; "
                "remove it"
            )
        ],
    ),
    "a configuration that says otherwise": (
        three_d(deepspeed={"gradient_accumulation_steps": 8}),
        [
            (
                "deepspeed: gradient_accumulation_steps=8 contradicts the run's num_microbatches; "
                "remove it"
            )
        ],
    ),
}


@pytest.mark.parametrize(("values", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_the_programs_refuse_is_reported_before_the_run(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    """A setting that Megatron or DeepSpeed would refuse gets a message before the run starts.

    The message uses the terms of the campaign file.
    """
    run = run_of(**values)
    checks = FRAMEWORKS[run.framework].checks
    assert [*checks.problems(run), *checks.unknown_keys(run)] == problems


def config(run: Run) -> dict[str, Any]:
    """Return the DeepSpeed configuration of a run."""
    files = FRAMEWORKS[run.framework].start.config_files(run)
    return dict(files["ds_config.json"])


def test_sizes_of_zero_3_follow_from_the_hidden_size(run_of: RunOf):
    """Bucket sizes and the persistence threshold of ZeRO stage 3 follow from the hidden size.

    The formulas are those of 2021. The configuration of 2021 had a misspelt key; teralog writes the
    right one.
    """
    assert config(run_of(**zero(micro_batch_size=48)))["zero_optimization"] == {
        "stage": 3,
        "contiguous_gradients": True,
        "reduce_bucket_size": 67_108_864,
        "stage3_max_live_parameters": 1_000_000_000,
        "stage3_max_reuse_distance": 1_000_000_000,
        "stage3_prefetch_bucket_size": 60_397_977,
        "stage3_param_persistence_threshold": 81_920,
    }


def test_lower_stages_have_no_sizes_of_stage_3(run_of: RunOf):
    """Below ZeRO stage 3, the configuration has no keys of stage 3.

    The optimizer can still be offloaded.
    """
    run = run_of(**zero(zero_stage=2, offload_optimizer="cpu"))
    assert config(run)["zero_optimization"] == {
        "stage": 2,
        "contiguous_gradients": True,
        "reduce_bucket_size": 67_108_864,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
    }


def test_a_3d_configuration_accumulates_the_micro_batches(run_of: RunOf):
    """In a 3D parallel run, the configuration contains the number of micro-batches.

    DeepSpeed's pipeline engine reads the number there.
    """
    assert config(run_of(**three_d(micro_batch_size=4))) == {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 256,
        "gradient_clipping": 1.0,
        "prescale_gradients": False,
        "zero_optimization": {"stage": 0},
        "fp16": {
            "enabled": True,
            "loss_scale": 0,
            "loss_scale_window": 500,
            "hysteresis": 2,
            "min_loss_scale": 1,
            "initial_scale_power": 12,
        },
        "steps_per_print": 1,
        "wall_clock_breakdown": False,
    }


def test_megatron_alone_has_no_configuration(run_of: RunOf):
    """A run of Megatron without DeepSpeed has no DeepSpeed configuration."""
    run = run_of(**three_d(engine="megatron"))
    assert FRAMEWORKS[run.framework].start.config_files(run) == {}


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "launch"])
def test_a_launcher_that_hands_on_no_local_rank_is_reported_as_a_warning(
    run_of: RunOf, launcher: str
):
    """A launcher that does not pass --local_rank gives a warning.

    DeepSpeed of 2021 needs this option; Megatron without DeepSpeed does not need it.
    """
    warnings = [
        (
            f"launcher={launcher} does not pass --local_rank, which DeepSpeed of 2021 (0.3) needs; "
            "use launcher=launch"
        )
    ]
    expected = [] if launcher == "launch" else warnings
    assert list(run_warnings(run_of(**zero(launcher=launcher)), FAR, Path())) == expected
    assert list(run_warnings(run_of(**three_d(launcher=launcher)), FAR, Path())) == expected
    assert not list(
        run_warnings(run_of(**three_d(launcher=launcher, engine="megatron")), FAR, Path())
    )


@pytest.mark.parametrize(
    ("values", "opened"),
    [
        (zero(), ["/m/pretrain_gpt2.py", "/v.json", "/t.bin", "/t.idx"]),
        (three_d(), ["/m/megatron/arguments.py", "/v.json", "/t.bin", "/t.idx"]),
    ],
    ids=["zero", "3d"],
)
def test_the_files_that_a_run_opens_follow_from_its_paths(
    values: dict[str, Any], opened: list[str]
):
    """A `data_path` stands for two files: the path with .bin and the path with .idx."""
    paths = {"source": "/m", "data_path": "/t", "vocab_file": "/v.json"}
    assert list(FRAMEWORKS[values["framework"]].start.files(paths)) == opened


def test_stages_that_differ_are_reported_as_a_warning(run_of: RunOf):
    """If the number of layers is not divisible by the pipeline stages, the run gets a warning.

    Some stages then have one more layer, and the others wait for them.
    """
    sentence = (
        "num_layers=50 is not divisible by pipeline_parallel_size=16: DeepSpeed gives some stages "
        "one more layer, and the other stages wait for them"
    )
    assert list(run_warnings(run_of(**three_d(num_layers=50)), FAR, Path())) == [sentence]
    assert list(run_warnings(run_of(**three_d(num_layers=48)), FAR, Path())) == []


@pytest.mark.train
def test_deepspeed_itself_distributes_layers_that_no_number_of_stages_divides():
    """DeepSpeed distributes 30 layers over 4 stages as evenly as possible: 7, 7, 8 and 8.

    The embedding and the loss do not count as layers.
    """
    utils = pytest.importorskip("deepspeed.runtime.utils", reason="needs the train extra")
    layers = [0, 0, *[1] * 30, 0, 0, 0]
    bounds = utils.partition_balanced(layers, 4)
    stages = [sum(layers[begin:end]) for begin, end in itertools.pairwise(bounds)]
    assert sorted(stages) == [7, 7, 8, 8]
