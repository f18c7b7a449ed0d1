"""Check how Megatron divides layers among pipeline stages and chunks."""

from collections.abc import Iterator
from dataclasses import replace

from orchestrator.frameworks.arguments import given
from orchestrator.frameworks.megatron import shared
from orchestrator.run.model import Parallelism, Run

_LAYOUT = "--pipeline-model-parallel-layout"
_ENDS = ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers")
_COUNTED = (
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split",
)
_GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"
# With this option, Megatron core can interleave only three stages or more, like Megatron 2.
NO_OVERLAP = "--no-overlap-p2p-communication"
# With these options of Megatron core, stages may have different numbers of layers.
UNEVEN = (_LAYOUT, *_ENDS, *_COUNTED)


def least_split(given: Parallelism, world_size: int) -> Parallelism:
    """Return the parallel sizes of a run, after Megatron has lowered those that are too large.

    Megatron's parser sets the tensor-parallel size to t = min(tensor, world size), and the
    pipeline-parallel size to min(pipeline, world size // t). Source: parse_args in
    megatron/arguments.py of Megatron 2.0 to 2.6, and of Megatron core up to 0.8.
    """
    tensor = min(given.tensor_parallel_size, world_size)
    stages = min(given.pipeline_parallel_size, world_size // tensor)
    return replace(given, tensor_parallel_size=tensor, pipeline_parallel_size=stages)


def split_warnings(run: Run) -> Iterator[str]:
    """Yield a warning for each parallel size that Megatron lowers because of too few ranks."""
    split, given = run.parallelism, run.parallelism.given
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        asked, taken = getattr(given, name), getattr(split, name)
        if asked != taken:
            beside = (
                ""
                if name == "tensor_parallel_size"
                else f" and tensor_parallel_size={split.tensor_parallel_size}"
            )
            yield (
                f"{name}={asked} is too large for world_size={run.world_size}{beside}: this "
                f"version of Megatron trains with {name}={taken} instead"
            )


def even_problems(run: Run, chunks: int = 1) -> Iterator[str]:
    """Yield a problem if the layers cannot be divided evenly over pipeline stages and their chunks.

    chunks: how many chunks of layers each pipeline stage has.
    """
    if run.model is None:
        return
    layers, stages = run.model.num_layers, run.parallelism.pipeline_parallel_size
    if layers % stages:
        yield f"num_layers={layers} is not divisible by pipeline_parallel_size={stages}"
    elif layers // stages % chunks:
        yield (
            f"num_layers/pipeline_parallel_size={layers // stages} is not divisible by "
            f"virtual_pipeline_parallel_size={chunks}"
        )


def checkpoint_problems_of_2(run: Run, chunks: int = 1) -> Iterator[str]:
    """Yield a problem if `checkpoint_num_layers` does not divide the layers of a stage or chunk.

    This is a rule of Megatron 2.
    chunks: how many chunks of layers each pipeline stage has.
    """
    if run.model is None:
        return
    stages = run.parallelism.pipeline_parallel_size
    layers, rest = divmod(run.model.num_layers, stages * chunks)
    whose = "the model" if stages == 1 else "a pipeline stage"
    if not rest:
        yield from shared.checkpoint_problems(
            run,
            layers,
            whose if chunks == 1 else f"a chunk of {whose}",
            "the program would crash at the last layers",
        )


def core_stage_problems(run: Run, chunks: int) -> Iterator[str]:
    """Yield a problem if Megatron core cannot divide the layers evenly over stages and chunks.

    Yields nothing if further arguments divide the layers unevenly.
    """
    if not run.options.gives(*UNEVEN):
        yield from even_problems(run, chunks)


def interleaving_problems(run: Run, chunks: int, least_stages: int) -> Iterator[str]:
    """Yield each reason why the interleaved schedule is impossible for a run.

    chunks: how many chunks of layers each pipeline stage has. The schedule needs several.
    least_stages: the smallest number of stages that the program can interleave.

    Each stage computes one chunk for a group of micro-batches, and then the next chunk for the
    same group. A group has as many micro-batches as there are stages. So the number of stages
    must divide the number of micro-batches. In Megatron core, a further argument can set another
    size of the groups. If a run has this argument, the number of micro-batches is not checked.
    """
    stages, count = run.parallelism.pipeline_parallel_size, run.num_microbatches
    if chunks == 1:
        return
    if stages < least_stages:
        beside = f" with {NO_OVERLAP}" if run.options.gives(NO_OVERLAP) else ""
        yield (
            f"virtual_pipeline_parallel_size={chunks}{beside} needs "
            f"pipeline_parallel_size={least_stages} or more (got {stages})"
        )
    if count is None:
        return
    if count % stages and not run.options.gives(_GROUP):
        yield (
            f"virtual_pipeline_parallel_size={chunks}: num_microbatches={count} is not "
            f"divisible by pipeline_parallel_size={stages}"
        )


def forecast_warnings(run: Run) -> Iterator[str]:
    """Yield a warning for each argument that sets the number of layers of single pipeline stages.

    The memory forecast assumes that the layers are divided as evenly as possible.
    """
    options = given(run.options.extra_args)
    for option in (_LAYOUT, *_ENDS):
        if option in options:
            yield (
                "extra_args: the memory forecast assumes equal pipeline stages and ignores "
                f"{option}"
            )
