"""Options, checks and columns that Megatron and the programs made from it share."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from orchestrator.frameworks import limits
from orchestrator.frameworks.arguments import Arguments, given, whole_number
from orchestrator.frameworks.options.checks import FurtherArguments
from orchestrator.run import run_columns
from orchestrator.run.model import Run
from orchestrator.run.presets import GPT2_VOCAB_SIZE

MegatronLauncher = Literal["torchrun", "launch", "srun"]

# The vocabulary is padded to a multiple of this number times the tensor-parallel size.
VOCAB_SIZE_MULTIPLE = 128
# Further arguments may contain this option instead of `data_path`: a weight before each prefix.
DATA_PATH = "--data-path"
PATHS = ("source", "data_path", "vocab_file", "merge_file", "options_record")
# In the order of the GPT2 experiments' tables.
COLUMNS = (
    run_columns.GPUS,
    run_columns.SIZE,
    run_columns.TENSOR,
    run_columns.DATA,
    run_columns.PIPELINE,
    run_columns.MICRO_BATCHES,
    run_columns.MICRO_BATCH,
    run_columns.GLOBAL_BATCH,
)

# Options of the programs that a run's parameters set.
_SET_BY_PARAMETERS = {
    "--tensor-model-parallel-size": "tensor_parallel_size",
    "--model-parallel-size": "tensor_parallel_size",
    "--pipeline-model-parallel-size": "pipeline_parallel_size",
    "--pipe-parallel-size": "pipeline_parallel_size",
    "--context-parallel-size": "context_parallel_size",
    "--num-layers": "num_layers",
    "--hidden-size": "hidden_size",
    "--ffn-hidden-size": "ffn_hidden_size",
    "--num-attention-heads": "num_attention_heads",
    "--seq-length": "seq_length",
    "--vocab-size": "vocab_size",
    "--micro-batch-size": "micro_batch_size",
    "--batch-size": "micro_batch_size",
    "--global-batch-size": "global_batch_size",
    "--gas": "num_microbatches",
    "--train-iters": "train_iters",
    "--train-samples": "train_iters",
    "--lr": "learning_rate",
    "--seed": "seed",
    "--fp16": "precision",
    "--bf16": "precision",
    "--checkpoint-activations": "activation_checkpointing",
    "--recompute-activations": "activation_checkpointing",
    "--recompute-granularity": "activation_checkpointing",
    DATA_PATH: "data_path",
    "--vocab-file": "vocab_file",
    "--merge-file": "merge_file",
    "--zero-stage": "zero_stage",
    "--deepspeed_config": "deepspeed",
}
# The same, for parameters that only some frameworks have.
_SET_BY_OPTIONS = {
    "--num-layers-per-virtual-pipeline-stage": "virtual_pipeline_parallel_size",
    "--num-virtual-stages-per-pipeline-rank": "virtual_pipeline_parallel_size",
    "--sequence-parallel": "sequence_parallel",
    "--use-distributed-optimizer": "use_distributed_optimizer",
    "--transformer-impl": "transformer_impl",
    "--checkpoint-num-layers": "checkpoint_num_layers",
    "--recompute-num-layers": "checkpoint_num_layers",
    "--partition-activations": "partition_activations",
    "--checkpoint-in-cpu": "checkpoint_in_cpu",
    "--synchronize-each-layer": "synchronize_each_layer",
    "--contigious-checkpointing": "contiguous_checkpointing",
    "--cpu-optimizer": "offload_optimizer",
    "--remote-device": "offload_param",
    "--scattered-embeddings": "scattered_embeddings",
    "--split-transformers": "split_transformers",
    "--memory-centric-tiled-linear": "memory_centric_tiled_linear",
    "--tile-factor": "tile_factor",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronOptions:
    """Parameters of every framework made from Megatron."""

    source: Annotated[str, Field(description="Folder of the program's checkout.", min_length=1)]
    data_path: Annotated[
        str | None,
        Field(description="Path of the token files without their endings .bin and .idx."),
    ] = None
    vocab_file: Annotated[
        str | None, Field(description="The tokenizer's vocabulary, gpt2-vocab.json.")
    ] = None
    merge_file: Annotated[
        str | None, Field(description="The tokenizer's merges, gpt2-merges.txt.")
    ] = None
    checkpoint_num_layers: Annotated[
        int, Field(description="Layers between two activation checkpoints.", ge=1)
    ] = 1
    launcher: Annotated[MegatronLauncher, Field(description="Program that starts the ranks.")] = (
        "torchrun"
    )
    extra_args: Annotated[
        Arguments, Field(description="Further arguments of the program, after all others.")
    ] = field(default_factory=list)
    options_record: Annotated[
        str | None,
        Field(
            description="File that `teralog record-options` wrote, with the program's options; "
            "for checks if `source` is not on this machine."
        ),
    ] = field(default=None, metadata={"identity": False})
    allow_unknown_arguments: Annotated[
        bool, Field(description="Do not check `extra_args` against the program's options.")
    ] = field(default=False, metadata={"identity": False})

    def gives(self, *options: str) -> bool:
        """Whether the further arguments contain any of these options."""
        return not given(self.extra_args).keys().isdisjoint(options)


def opened(program: str) -> Callable[[Mapping[str, str]], Iterable[str]]:
    """Return a function that yields the paths of the files that a run opens.

    program: a file of the program, by its path in the user's checkout.
    """

    def files(paths: Mapping[str, str]) -> Iterator[str]:
        yield f"{paths['source']}/{program}"
        yield from (paths[name] for name in ("vocab_file", "merge_file") if name in paths)
        if "data_path" in paths:
            yield from (f"{paths['data_path']}.{ending}" for ending in ("bin", "idx"))

    return files


def program_in(*names: str) -> Callable[[Mapping[str, str]], str | None]:
    """Return a function that finds the program in the user's checkout.

    names: the possible paths of the program in the checkout. The function returns the path of the
        first that exists; None if none of them exists.
    """

    def program(paths: Mapping[str, str]) -> str | None:
        files = (Path(paths["source"]) / name for name in names)
        return next((str(file) for file in files if file.is_file()), None)

    return program


def further_arguments(run: Run) -> FurtherArguments | None:
    """Return the further arguments of a run, to check that its program accepts them.

    Returns None if the user turned this check off.
    """
    options: MegatronOptions = run.options
    if options.allow_unknown_arguments:
        return None
    return FurtherArguments("extra_args", options.extra_args, "correct `source` or `version`")


def split_problems(run: Run) -> Iterator[str]:
    """Yield a problem for each size that tensor_parallel_size does not divide.

    The sizes are the number of attention heads and the width of the MLP.
    """
    if run.model is None:
        return
    ranks = run.parallelism.tensor_parallel_size
    for name, size in (
        ("num_attention_heads", run.model.num_attention_heads),
        ("ffn_hidden_size", run.model.ffn_width),
    ):
        if size % ranks:
            yield f"{name}={size} is not divisible by tensor_parallel_size={ranks}"


def checkpoint_problems(run: Run, layers: int, whose: str, fate: str) -> Iterator[str]:
    """Yield a problem if `checkpoint_num_layers` does not divide the number of layers.

    Megatron of 2021 runs `checkpoint_num_layers` layers after every activation checkpoint, even if
    fewer layers are left.

    layers: how many layers a rank runs at a time.
    whose: the owner of these layers, for the message, e.g. "a pipeline stage".
    fate: what the program would do wrong, for the message.
    """
    every: int = run.options.checkpoint_num_layers
    if run.training.activation_checkpointing and layers % every:
        yield (
            f"checkpoint_num_layers={every} does not divide the {layers} layers of {whose}: {fate}"
        )


def megatron_option_problems(run: Run, free: Collection[str] = ()) -> Iterator[str]:
    """Yield a problem for each wrong use of the options that all Megatron frameworks have.

    free: options that the further arguments may contain, although a parameter of the run sets the
        same value.
    """
    options: MegatronOptions = run.options
    if options.checkpoint_num_layers > 1 and not run.training.activation_checkpointing:
        yield (
            f"checkpoint_num_layers={options.checkpoint_num_layers} "
            "needs activation_checkpointing=true"
        )
    own = {option: name for option, name in _SET_BY_OPTIONS.items() if hasattr(options, name)}
    # `data_path` cannot express a blend of data sets.
    free = {*free, DATA_PATH} if options.data_path is None else free
    setters = {
        option: name for option, name in (_SET_BY_PARAMETERS | own).items() if option not in free
    }
    yield from limits.set_twice("extra_args", options.extra_args, setters)


def data_problems(run: Run) -> Iterator[str]:
    """Yield a problem if a run lacks the data or the tokenizer's files.

    For programs that cannot train on dummy data.
    """
    options: MegatronOptions = run.options
    names = ["vocab_file", "merge_file"]
    if not options.gives(DATA_PATH):
        names.insert(0, "data_path")
    if missing := [name for name in names if getattr(options, name) is None]:
        yield f"framework {run.framework} needs real data: give {', '.join(missing)}"


# Options that change the model in a way that sizes and FLOPs do not count.
_CHANGES_MODEL = (
    "--num-experts", "--expert-model-parallel-size", "--swiglu", "--group-query-attention",
    "--num-query-groups", "--untie-embeddings-and-output-weights", "--kv-channels",
    "--fp8-format", "--fp8-hybrid", "--fp4-format", "--normalization", "--position-embedding-type",
    "--disable-bias-linear", "--make-vocab-size-divisible-by", "--multi-latent-attention",
    "--mtp-num-layers", "--use-torch-fsdp2", "--use-megatron-fsdp", "--optimizer-cpu-offload",
    "--tokenizer-type",
)  # fmt: skip
_TOUCHES_DISK = ("--save", "--load")
_ENDS = ("--exit-interval", "--exit-duration-in-mins")


def unreckoned(run: Run) -> list[str]:
    """Return the further arguments whose effect on sizes or FLOPs teralog does not count."""
    described = run.model is not None and run.model.described is not None
    # The placement of a described model's experts is counted.
    counted = {"--expert-model-parallel-size"} if described else set()
    return [
        option
        for option in given(run.options.extra_args)
        if option in _CHANGES_MODEL and option not in counted
    ]


def _argument_warnings(run: Run) -> Iterator[str]:
    for option in unreckoned(run):
        yield f"extra_args: sizes, FLOPs and the memory forecast ignore {option}"
    for option in given(run.options.extra_args):
        if option in _TOUCHES_DISK:
            yield (
                f"extra_args: {option} makes runs share checkpoints, and step times would include "
                "the time for checkpoints; remove it"
            )
        elif option in _ENDS:
            yield (
                f"extra_args: {option} may end a run before its {run.training.train_iters} "
                "iterations"
            )
    interval = whole_number(given(run.options.extra_args), "--log-interval")
    if interval is not None and interval > run.training.train_iters:
        yield (
            f"extra_args: --log-interval {interval} exceeds "
            f"train_iters={run.training.train_iters}: no step would be reported"
        )


def option_warnings(run: Run, chunks: int = 1) -> Iterator[str]:
    """Yield warnings about valid but unusual settings.

    chunks: how many chunks of layers each pipeline stage has.

    One warning is about pipeline stages that wait more than half of the time. In the 1F1B schedule
    with p stages and m micro-batches, each stage waits during a part of every step. This part is
    (p - 1) / (m + p - 1) of the step (Narayanan et al. 2021, section 2.2). With v chunks per stage,
    it is (p - 1) / (v·m + p - 1).
    """
    yield from _argument_warnings(run)
    stages, count = run.parallelism.pipeline_parallel_size, run.num_microbatches
    if count is not None and 2 * (stages - 1) > chunks * count + stages - 1:
        share = (stages - 1) / (chunks * count + stages - 1)
        yield (
            f"pipeline_parallel_size={stages} with num_microbatches={count}: "
            f"stages wait {share:.0%} of the time"
        )
    model = run.model
    if run.options.vocab_file and model is not None and model.vocab_size != GPT2_VOCAB_SIZE:
        yield (
            f"vocab_size={model.vocab_size} is not passed to the program, which reads its "
            f"vocabulary from vocab_file; the vocabulary of GPT-2 has {GPT2_VOCAB_SIZE} tokens"
        )
