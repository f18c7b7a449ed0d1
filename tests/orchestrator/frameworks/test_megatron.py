"""Megatron-LM of 2021 and of today: settings that it refuses, warnings, and its logs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.checks import run_problems, run_warnings
from orchestrator.collect.collected import collect_campaign
from orchestrator.common.tables import as_records
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.forecast import forecast
from orchestrator.memory.placement import megatron_placement
from orchestrator.report.report import make_report
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import Attempt
from parsers.summary.warmup import Warmup

MEGATRON = FRAMEWORKS["megatron"]
DATA = {"data_path": "tokens", "vocab_file": "vocab.json", "merge_file": "merges.txt"}


def core(**values: Any) -> dict[str, Any]:
    """Return parameters of a run of today's Megatron-LM, on dummy data."""
    return {"framework": "megatron", "source": "megatron", "model": "18B", **values}


def of_2021(**values: Any) -> dict[str, Any]:
    """Return parameters of a run of Megatron-LM 2."""
    return core(version="2", **{**DATA, **values})


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "today's, all well": (
        core(
            gpus_per_node=8,
            tensor_parallel_size=2,
            context_parallel_size=2,
            pipeline_parallel_size=2,
            virtual_pipeline_parallel_size=4,
            num_microbatches=4,
            precision="bf16",
            sequence_parallel=True,
            use_distributed_optimizer=True,
            extra_args=["--overlap-grad-reduce", "--recompute-modules", "mlp", "moe"],
        ),
        [],
    ),
    "2021's, all well": (of_2021(gpus_per_node=4, tensor_parallel_size=4), []),
    "layers by stages": (
        core(gpus_per_node=16, pipeline_parallel_size=16),
        ["num_layers=40 is not divisible by pipeline_parallel_size=16"],
    ),
    "heads by ranks": (
        core(gpus_per_node=3, tensor_parallel_size=3, num_attention_heads=32, hidden_size=6144),
        ["num_attention_heads=32 is not divisible by tensor_parallel_size=3"],
    ),
    "the MLP by ranks": (
        core(gpus_per_node=4, tensor_parallel_size=4, ffn_hidden_size=1002),
        ["ffn_hidden_size=1002 is not divisible by tensor_parallel_size=4"],
    ),
    "dummy data in 2021": (
        core(version="2"),
        ["framework megatron needs real data: give data_path, vocab_file, merge_file"],
    ),
    "today's features in 2021": (
        of_2021(
            gpus_per_node=4,
            tensor_parallel_size=2,
            context_parallel_size=2,
            sequence_parallel=True,
            use_distributed_optimizer=True,
        ),
        [
            "Megatron-LM 2 has no sequence_parallel; remove it, or use version=core",
            "Megatron-LM 2 has no use_distributed_optimizer; remove it, or use version=core",
            "Megatron-LM 2 has no context_parallel_size; remove it, or use version=core",
        ],
    ),
    "sequences that do not divide into pieces": (
        core(gpus_per_node=3, context_parallel_size=3, precision="bf16"),
        ["seq_length=1024 is not divisible by 2*context_parallel_size=6"],
    ),
    "sequences split in fp32": (
        core(gpus_per_node=2, context_parallel_size=2),
        ["context_parallel_size=2 needs precision=bf16 or fp16 for fused attention"],
    ),
    "sequences split in a backend that is not fused": (
        core(
            gpus_per_node=2,
            context_parallel_size=2,
            precision="bf16",
            extra_args=["--attention-backend", "unfused"],
        ),
        [
            (
                "context_parallel_size=2 does not work with --attention-backend unfused; choose "
                "another backend in extra_args"
            )
        ],
    ),
    "sequences that do not divide among tensor-parallel ranks": (
        core(
            gpus_per_node=4,
            tensor_parallel_size=4,
            sequence_parallel=True,
            seq_length=1022,
        ),
        [
            (
                "sequence_parallel=true: seq_length/context_parallel_size=1022 is not divisible "
                "by tensor_parallel_size=4"
            )
        ],
    ),
    "sequences split by Megatron's own layers": (
        core(gpus_per_node=2, context_parallel_size=2, transformer_impl="local"),
        ["context_parallel_size=2 needs transformer_impl=transformer_engine"],
    ),
    "half a tokenizer": (
        core(vocab_file="vocab.json"),
        ["vocab_file, merge_file: give both, or neither"],
    ),
    "chunks without a pipeline": (
        core(virtual_pipeline_parallel_size=2),
        [("virtual_pipeline_parallel_size=2 needs pipeline_parallel_size=2 or more (got 1)")],
    ),
    "chunks in a short pipeline of 2021": (
        of_2021(
            gpus_per_node=2,
            pipeline_parallel_size=2,
            virtual_pipeline_parallel_size=2,
            num_microbatches=2,
        ),
        [("virtual_pipeline_parallel_size=2 needs pipeline_parallel_size=3 or more (got 2)")],
    ),
    "chunks that layers and micro-batches do not divide into": (
        core(
            gpus_per_node=4,
            pipeline_parallel_size=4,
            virtual_pipeline_parallel_size=3,
            num_microbatches=6,
        ),
        [
            (
                "num_layers/pipeline_parallel_size=10 is not divisible by "
                "virtual_pipeline_parallel_size=3"
            ),
            (
                "virtual_pipeline_parallel_size=3: num_microbatches=6 is not divisible by "
                "pipeline_parallel_size=4"
            ),
        ],
    ),
    "checkpoints that are not made": (
        core(checkpoint_num_layers=2),
        ["checkpoint_num_layers=2 needs activation_checkpointing=true"],
    ),
    "checkpoints beyond the last layer of a stage": (
        of_2021(
            gpus_per_node=8,
            pipeline_parallel_size=8,
            activation_checkpointing=True,
            checkpoint_num_layers=2,
        ),
        [
            (
                "checkpoint_num_layers=2 does not divide the 5 layers of a pipeline stage: the "
                "program would crash at the last layers"
            )
        ],
    ),
    "checkpoints beyond the last layer of a chunk": (
        of_2021(
            gpus_per_node=4,
            pipeline_parallel_size=4,
            virtual_pipeline_parallel_size=2,
            num_microbatches=4,
            activation_checkpointing=True,
            checkpoint_num_layers=10,
        ),
        [
            (
                "checkpoint_num_layers=10 does not divide the 5 layers of a chunk of a pipeline "
                "stage: the program would crash at the last layers"
            )
        ],
    ),
    "checkpoints beyond the last layer of all": (
        of_2021(activation_checkpointing=True, checkpoint_num_layers=3),
        [
            (
                "checkpoint_num_layers=3 does not divide the 40 layers of the model: the program "
                "would crash at the last layers"
            )
        ],
    ),
    "checkpoints that divide the layers of a stage": (
        of_2021(
            gpus_per_node=8,
            pipeline_parallel_size=8,
            activation_checkpointing=True,
            checkpoint_num_layers=5,
        ),
        [],
    ),
    "checkpoints of today's, where the last may be smaller": (
        core(activation_checkpointing=True, checkpoint_num_layers=3),
        [],
    ),
    "arguments that options of the framework have said": (
        core(extra_args=["--use-distributed-optimizer", "--transformer-impl", "local"]),
        [
            (
                "extra_args: --use-distributed-optimizer is set by use_distributed_optimizer; "
                "remove it"
            ),
            "extra_args: --transformer-impl is set by transformer_impl; remove it",
        ],
    ),
    "arguments that parameters have said": (
        core(
            data_path="tokens",
            extra_args=[
                *("--micro-batch-size=2", "--bf16", "--data-path", "x", "--train-samples", "5"),
                *("--num-virtual-stages-per-pipeline-rank", "2"),
            ],
        ),
        [
            "extra_args: --micro-batch-size is set by micro_batch_size; remove it",
            "extra_args: --bf16 is set by precision; remove it",
            "extra_args: --data-path is set by data_path; remove it",
            "extra_args: --train-samples is set by train_iters; remove it",
            (
                "extra_args: --num-virtual-stages-per-pipeline-rank is set by "
                "virtual_pipeline_parallel_size; remove it"
            ),
        ],
    ),
}


@pytest.mark.parametrize(("values", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_megatron_refuses_is_reported_before_the_run(
    run_of: RunOf, values: dict[str, Any], problems: list[str]
):
    """If Megatron would refuse a setting, a message reports that in the campaign file's terms."""
    assert list(MEGATRON.checks.problems(run_of(**values))) == problems


def test_a_split_of_more_ranks_than_there_are_is_a_contradiction(run_of: RunOf):
    """A run is impossible if tensor size * pipeline size exceeds its number of ranks.

    Megatron core has refused such a run since version 0.9.
    """
    run = run_of(**core(nodes=4, gpus_per_node=4, tensor_parallel_size=4, pipeline_parallel_size=8))
    assert list(run_problems(run, Cluster(name="any"), Warmup(1))) == [
        "world_size=16 is not divisible by tensor_parallel_size*pipeline_parallel_size=32"
    ]


def test_no_batch_is_reported_if_ranks_are_not_copies_of_the_model(run_of: RunOf):
    run = run_of(**core(nodes=3, gpus_per_node=4, tensor_parallel_size=8))
    assert (run.data_parallel_size, run.batch.global_batch_size) == (None, None)


WARNINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": (core(gpus_per_node=4, pipeline_parallel_size=4, num_microbatches=4), []),
    "few micro-batches for a long pipeline": (
        core(gpus_per_node=8, pipeline_parallel_size=8, num_microbatches=4),
        ["pipeline_parallel_size=8 with num_microbatches=4: stages wait 64% of the time"],
    ),
    "the interleaved schedule waits less": (
        core(
            gpus_per_node=8,
            pipeline_parallel_size=8,
            num_microbatches=8,
            virtual_pipeline_parallel_size=5,
        ),
        [],
    ),
    "a vocabulary that the program does not have": (
        of_2021(vocab_size=32000),
        [
            (
                "vocab_size=32000 is not passed to the program, which reads its vocabulary from "
                "vocab_file; the vocabulary of GPT-2 has 50257 tokens"
            )
        ],
    ),
    "arguments that make another model, or touch the disk": (
        core(
            extra_args=[
                *("--swiglu", "--use-megatron-fsdp", "--ckpt-format", "fsdp_dtensor"),
                *("--save", "/x", "--save-interval", "5"),
            ]
        ),
        [
            "extra_args: sizes, FLOPs and the memory forecast ignore --swiglu",
            "extra_args: sizes, FLOPs and the memory forecast ignore --use-megatron-fsdp",
            (
                "extra_args: --save makes runs share checkpoints, and step times would include "
                "the time for checkpoints; remove it"
            ),
        ],
    ),
    "a run that may end early": (
        core(train_iters=30, extra_args=["--exit-duration-in-mins", "5"]),
        ["extra_args: --exit-duration-in-mins may end a run before its 30 iterations"],
    ),
    "states of fewer bytes": (
        core(
            use_distributed_optimizer=True,
            extra_args=["--use-precision-aware-optimizer", "--optimizer-cpu-offload"],
        ),
        [
            ("extra_args: sizes, FLOPs and the memory forecast ignore --optimizer-cpu-offload"),
            "extra_args: the memory forecast ignores --use-precision-aware-optimizer",
        ],
    ),
    "no report": (
        core(extra_args=["--log-interval", "21"], train_iters=20),
        ["extra_args: --log-interval 21 exceeds train_iters=20: no step would be reported"],
    ),
    "tokens of another vocabulary": (
        core(extra_args=["--tokenizer-type", "HuggingFaceTokenizer"]),
        ["extra_args: sizes, FLOPs and the memory forecast ignore --tokenizer-type"],
    ),
    "experts of a described model on several ranks": (
        core(
            model={"name": "mixtral-8x7b", "num_layers": 2},
            gpus_per_node=4,
            extra_args=["--expert-model-parallel-size", "4"],
        ),
        [],
    ),
    "scores computed again": (
        core(extra_args=["--recompute-granularity", "selective"]),
        [
            (
                "extra_args: TFLOPs will be too low, because they do not count the recomputation "
                "that --recompute-granularity causes"
            )
        ],
    ),
    "the same in short": (
        core(extra_args=["--recompute-activations"]),
        [
            (
                "extra_args: TFLOPs will be too low, because they do not count the recomputation "
                "that --recompute-activations causes"
            )
        ],
    ),
    "sequences split among one": (
        core(sequence_parallel=True),
        [
            (
                "sequence_parallel=true with tensor_parallel_size=1 has no effect: the program "
                "turns it off"
            )
        ],
    ),
    "layers across nodes": (
        core(nodes=2, gpus_per_node=4, tensor_parallel_size=8),
        [
            (
                "tensor_parallel_size=8 does not divide gpus_per_node=4: each layer is divided "
                "over several nodes and waits for the network"
            )
        ],
    ),
}


@pytest.mark.parametrize(("values", "warnings"), WARNINGS.values(), ids=WARNINGS)
def test_unusual_settings_are_reported_as_warnings(
    run_of: RunOf, values: dict[str, Any], warnings: list[str]
):
    """Unusual settings get a warning, and the run stays possible."""
    run = run_of(**values)
    assert list(run_warnings(run, Cluster(name="far"), Path())) == warnings
    assert not list(MEGATRON.checks.problems(run))


@pytest.mark.parametrize(("tensor", "padded"), [(1, 50304), (2, 50432), (4, 50688)])
def test_the_vocabulary_is_padded_as_megatron_does_it(run_of: RunOf, tensor: int, padded: int):
    """Megatron pads the vocabulary to a multiple of 128 times the tensor-parallel size.

    E.g. it has 50304 tokens with size 1 and 50688 with size 4.
    """
    run = run_of(**core(gpus_per_node=4, tensor_parallel_size=tensor))
    assert run.padded_vocab_size == padded


def test_the_files_that_a_run_opens_follow_from_its_paths():
    """A `data_path`, e.g. /d/tokens, stands for two files that Megatron opens.

    These are /d/tokens.bin and /d/tokens.idx.
    """
    paths = {"source": "/m", "data_path": "/d/tokens", "vocab_file": "/v", "merge_file": "/e"}
    assert list(MEGATRON.start.files(paths)) == [
        "/m/pretrain_gpt.py",
        "/v",
        "/e",
        "/d/tokens.bin",
        "/d/tokens.idx",
    ]
    assert list(MEGATRON.start.files({"source": "/m"})) == ["/m/pretrain_gpt.py"]


def low(run: Run) -> float:
    """Return the low end of a run's memory forecast in GiB."""
    placement = MEGATRON.model.placement(run)
    assert placement is not None
    memory = forecast(run, placement)
    assert memory is not None
    return memory.low_gib


@pytest.mark.parametrize(
    "option",
    [
        {"use_distributed_optimizer": True},
        {"sequence_parallel": True},
        {"transformer_impl": "transformer_engine"},
        {"activation_checkpointing": True},
        {"extra_args": ["--recompute-activations"]},
    ],
    ids=str,
)
def test_an_option_that_saves_memory_lowers_the_forecast(run_of: RunOf, option: dict[str, Any]):
    """An option that saves memory lowers the memory forecast.

    Such an option divides states or activations among ranks, or keeps fewer activations.
    """
    usual = core(
        gpus_per_node=8,
        tensor_parallel_size=4,
        precision="fp16",
        micro_batch_size=8,
        transformer_impl="local",
    )
    assert low(run_of(**{**usual, **option})) < low(run_of(**usual))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--recompute-granularity", "selective"], "selective"),
        (["--recompute-activations"], "selective"),
        (["--recompute-activations", "--recompute-modules", "core_attn"], "selective"),
        (["--recompute-activations", "--recompute-modules", "core_attn", "mlp"], None),
        (["--recompute-modules", "mlp"], "none"),
    ],
    ids=str,
)
def test_the_forecast_accounts_for_recomputed_scores(
    run_of: RunOf, arguments: list[str], expected: str | None
):
    """If a run recomputes only attention's scores, its recomputation is "selective".

    If it recomputes other modules too, the recomputation is None, i.e. not known.
    """
    run = run_of(**core(extra_args=arguments))
    assert list(MEGATRON.checks.problems(run)) == []
    placement = MEGATRON.model.placement(run)
    assert placement is not None
    assert placement.recomputation == expected


def test_a_report_shows_that_recomputed_scores_are_not_counted(run_of: RunOf):
    run = run_of(**core(extra_args=["--recompute-activations"]))
    assert list(MEGATRON.report.unreckoned(run)) == ["--recompute-activations"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            core(activation_checkpointing=True, extra_args=["--recompute-activations"]),
            "--recompute-activations is set by activation_checkpointing; remove it",
        ),
        (
            core(extra_args=["--recompute-granularity", "full"]),
            "--recompute-granularity is set by activation_checkpointing; remove it",
        ),
    ],
)
def test_whole_layers_are_recomputed_by_the_parameter(
    run_of: RunOf, values: dict[str, Any], problem: str
):
    assert list(MEGATRON.checks.problems(run_of(**values))) == [f"extra_args: {problem}"]


def test_a_run_of_2021_is_forecast_as_those_that_logged_their_peaks(run_of: RunOf):
    """The forecast for Megatron-LM 2 assumes full recomputation and no fused attention.

    docs/background/memory-accuracy.md compares forecasts with this assumption to logged peaks.
    """
    run = run_of(**of_2021(precision="fp16", activation_checkpointing=True))
    assert MEGATRON.model.placement(run) == replace(
        megatron_placement("fp16"), recomputation="full", fused_attention=False
    )


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"precision": "fp16", "train_iters": 20}, True),
        ({"precision": "fp16", "train_iters": 40}, False),
        ({"precision": "bf16", "train_iters": 20}, False),
        ({"precision": "fp16", "extra_args": ["--initial-loss-scale=4096"]}, False),
        ({"precision": "fp16", "extra_args": ["--loss-scale", "12"]}, False),
    ],
)
def test_a_run_that_skips_nearly_all_its_updates_gives_a_warning(
    run_of: RunOf, options: dict[str, Any], *, warned: bool
):
    """A run with fp16 gets a warning if it is so short that nearly all its updates are skipped.

    The loss scale starts at 2**32. At each overflow, Megatron-LM skips the update and halves the
    loss scale.
    """
    sentences = [
        warning
        for warning in MEGATRON.checks.warnings(run_of(**of_2021(**options)))
        if "loss scale" in warning
    ]
    assert len(sentences) == warned


def test_a_report_has_the_columns_of_the_page(
    campaign_of: Callable[[str], Campaign], attempt_in: Callable[..., Attempt], tmp_path: Path
):
    """The first columns of a report are those of the published page, in the same order.

    The parallel sizes, e.g. `tensor_parallel_size`, precede the batch sizes. The test also checks
    the step time, the TFLOPs and the memory, which the report computes from a log.
    """
    campaign = campaign_of(
        "name: page\ndefaults: {framework: megatron, source: m, model: 18B, gpus_per_node: 16, "
        "tensor_parallel_size: 4, pipeline_parallel_size: 4, num_microbatches: 4, train_iters: 8, "
        "activation_checkpointing: true}\nwarmup: 1\n"
    )
    store = CampaignStore(tmp_path / "results")
    log = (Path(__file__).parents[2] / "data" / "logs" / "megatron.log").read_text()
    attempt_in(store.run(campaign.runs[0].run_id), log=log, state="COMPLETED")
    runs = collect_campaign(campaign, store)
    (row,) = as_records(make_report(campaign, runs, "2026-01-02").table)
    assert [*row][:8] == [
        "world_size",
        "parameters_billions",
        "tensor_parallel_size",
        "data_parallel_size",
        "pipeline_parallel_size",
        "num_microbatches",
        "micro_batch_size",
        "global_batch_size",
    ]
    # Of the seven after the warm-up one skipped its update.
    assert row["reports"] == 6
    assert row["step_seconds_median"] == pytest.approx(1.31, abs=0.01)
    # 18.4 billion parameters, 4 sequences of 1024: 8·P·tokens and attention, over 16 GPUs.
    assert row["tflops_per_gpu"] == pytest.approx(30, rel=0.1)
    assert row["max_memory_allocated_gib"] == pytest.approx(24832.25 / 1024)
