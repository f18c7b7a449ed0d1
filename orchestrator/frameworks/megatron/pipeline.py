"""Check how Megatron divides layers among pipeline stages and chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.frameworks.arguments import Given, given, whole_number
from orchestrator.frameworks.megatron import shared
from orchestrator.run.model import Run

_LAYOUT = "--pipeline-model-parallel-layout"
_ENDS = ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers")
_COUNTED = (
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split",
)
_GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"
# Without overlap Megatron core, too, interleaves no fewer than three stages.
NO_OVERLAP = "--no-overlap-p2p-communication"
# Options of Megatron core by which stages need not have the same number of layers.
UNEVEN = (_LAYOUT, *_ENDS, *_COUNTED)


@dataclass(frozen=True, slots=True)
class _Part:
    """Layers that some stages share out evenly, and what sentences call both."""

    layers: int
    layers_name: str
    stages: int
    stages_name: str


def even_problems(run: Run, chunks: int = 1) -> Iterator[str]:
    """Yield where stages of `chunks` chunks each cannot have the same number of layers."""
    if run.model is not None:
        stages = run.parallelism.pipeline_parallel_size
        whole = _Part(run.model.num_layers, "num_layers", stages, "pipeline_parallel_size")
        yield from _part_problems((whole,), chunks)


def checkpoint_problems_of_2(run: Run, chunks: int = 1) -> Iterator[str]:
    """Yield where activation checkpoints of Megatron 2 do not divide the layers run at a time."""
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
            "the program would look for one after the last, and die",
        )


def core_stage_problems(run: Run, chunks: int) -> Iterator[str]:
    """Yield likewise where Megatron core cannot, whose stages may differ at the ends.

    The embedding and the loss may count as a layer each, the first and the last stage may have
    numbers of their own, or a layout says all, which is taken as it is.
    """
    options = given(run.options.extra_args)
    ways = [
        next(option for option in way if option in options)
        for way in ((_LAYOUT,), _ENDS, _COUNTED)
        if not options.keys().isdisjoint(way)
    ]
    if len(ways) > 1:
        yield (
            f"extra_args: {', '.join(ways[:-1])} and {ways[-1]} each say how layers are split "
            "over stages; keep one of them"
        )
    elif ways == [_LAYOUT]:
        if chunks > 1:
            yield (
                f"extra_args: {_LAYOUT} says the chunks, too; take "
                f"virtual_pipeline_parallel_size={chunks} out"
            )
    elif ends := _ends(options):
        yield from _end_problems(run, ends, chunks)
    elif run.model is not None and (more := sum(option in options for option in _COUNTED)):
        layers, stages = run.model.num_layers + more, run.parallelism.pipeline_parallel_size
        counted = _Part(layers, f"(num_layers+{more})", stages, "pipeline_parallel_size")
        yield from _part_problems((counted,), chunks)
    else:
        yield from even_problems(run, chunks)


def _ends(options: Given) -> dict[str, int]:
    """Return the layers of the first and the last stage, where they have numbers of their own."""
    return {
        option: layers for option in _ENDS if (layers := whole_number(options, option)) is not None
    }


def _end_problems(run: Run, ends: dict[str, int], chunks: int) -> Iterator[str]:
    for end, count in ends.items():
        if count < 1:
            yield f"extra_args: {end}={count} must be 1 or more"
    if run.model is None or min(ends.values()) < 1:
        return
    layers = run.model.num_layers - sum(ends.values())
    stages = run.parallelism.pipeline_parallel_size - len(ends)
    if (layers, stages) == (0, 0):
        between = []
    elif layers > 0 and stages > 0:
        name = f"(num_layers-{'-'.join(map(str, ends.values()))})"
        between = [_Part(layers, name, stages, f"(pipeline_parallel_size-{len(ends)})")]
    else:
        said = " and ".join(f"{end}={count}" for end, count in ends.items())
        yield (
            f"extra_args: {said} do not go with num_layers={run.model.num_layers} and "
            f"pipeline_parallel_size={stages + len(ends)}"
        )
        return
    yield from _part_problems((*between, *(_Part(ends[end], end, 1, "") for end in ends)), chunks)


def _part_problems(parts: Sequence[_Part], chunks: int) -> Iterator[str]:
    for part in parts:
        layers, stages = part.layers, part.stages
        if layers % stages:
            yield f"{part.layers_name}={layers} is not divisible by {part.stages_name}={stages}"
        elif layers // stages % chunks:
            over = f"/{part.stages_name}" if part.stages_name else ""
            yield (
                f"{part.layers_name}{over}={layers // stages} is not divisible by "
                f"virtual_pipeline_parallel_size={chunks}"
            )


def interleaving_problems(run: Run, chunks: int, least_stages: int) -> Iterator[str]:
    """Yield why stages of several chunks cannot take turns, as in the interleaved schedule.

    Each stage runs a group of micro-batches through a chunk before the next one: as many as there
    are stages, or in Megatron core as many as are asked for. No group, the last one neither, may be
    too small to fill the pipeline.
    """
    stages, count = run.parallelism.pipeline_parallel_size, run.num_microbatches
    if chunks == 1:
        return
    if stages < least_stages:
        beside = f" with {NO_OVERLAP}" if run.options.gives(NO_OVERLAP) else ""
        yield (
            f"virtual_pipeline_parallel_size={chunks}{beside} needs a pipeline of "
            f"{least_stages} stages or more, not pipeline_parallel_size={stages}"
        )
    if count is None:
        return
    group = whole_number(given(run.options.extra_args), _GROUP)
    if group is None:
        if count % stages:
            yield (
                f"virtual_pipeline_parallel_size={chunks}: num_microbatches={count} is not "
                f"divisible by pipeline_parallel_size={stages}"
            )
    elif not stages <= group <= count:
        yield (
            f"extra_args: {_GROUP}={group} must be from pipeline_parallel_size={stages} to "
            f"num_microbatches={count}"
        )
    elif 0 < (last := count % group) < stages:
        yield (
            f"extra_args: {_GROUP}={group} leaves a last group of {last} of "
            f"num_microbatches={count}, fewer than pipeline_parallel_size={stages}"
        )


def forecast_warnings(run: Run) -> Iterator[str]:
    """Yield which arguments give a stage more layers than the forecast of memory takes it for."""
    options = given(run.options.extra_args)
    for option in (_LAYOUT, *_ENDS):
        if option in options:
            yield f"extra_args: the forecast takes stages as alike, and knows nothing of {option}"
