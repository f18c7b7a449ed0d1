"""Check products of sizes in a row: batch sizes, and parallel sizes."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.printed_numbers import exact_count

_TIMES = "\N{MULTIPLICATION SIGN}"
# Other kinds of parallelism: with one, there may be more GPUs than tensor · pipeline · data.
_OTHER_PARALLELISM = re.compile(
    r"(?:cp|ep|sp|etp|vpp|context|expert|sequence)[ _-]*(?:parallel\w*|size|degree)*"
    r"(?:[ _-]*(?:size|degree))?",
    re.IGNORECASE,
)


def global_batch_size(row: BenchmarkRow) -> Iterator[TableFinding]:
    """Find a global batch that is not micro-batch size · micro-batches · data-parallel size."""
    data_parallel = row.numbers.get(Meaning.DATA_PARALLEL_SIZE) or _data_parallel_size(row)
    factors = (
        row.numbers.get(Meaning.MICRO_BATCH_SIZE),
        row.numbers.get(Meaning.NUM_MICROBATCHES),
        data_parallel,
    )
    yield from _product(row, FindingKind.GLOBAL_BATCH_SIZE, Meaning.GLOBAL_BATCH_SIZE, factors)


def world_size(row: BenchmarkRow) -> Iterator[TableFinding]:
    """Find numbers of GPUs that contradict the other sizes in the same row.

    The number of GPUs should be tensor · pipeline · data-parallel size, and also nodes · GPUs per
    node.
    """
    factors = [
        row.numbers.get(Meaning.TENSOR_PARALLEL_SIZE),
        row.numbers.get(Meaning.PIPELINE_PARALLEL_SIZE),
        row.numbers.get(Meaning.DATA_PARALLEL_SIZE),
    ]
    if _is_parted_further(row.columns.titles):
        factors.append(None)
    nodes, per_node = (
        row.numbers.get(meaning) for meaning in (Meaning.NODES, Meaning.GPUS_PER_NODE)
    )
    world = row.numbers.get(Meaning.WORLD_SIZE)
    per_row = math.prod(factor.whole for factor in factors if factor)
    # If a table has a column of nodes, its column "GPUs" may be the GPUs of one node.
    if not (nodes and world and nodes.whole * world.whole == per_row):
        yield from _product(
            row,
            FindingKind.WORLD_SIZE,
            Meaning.WORLD_SIZE,
            factors,
            _lowered_stages(world, *factors),
        )
    if nodes and per_node:
        yield from _product(row, FindingKind.WORLD_SIZE, Meaning.WORLD_SIZE, (nodes, per_node))


def _product(
    row: BenchmarkRow,
    kind: FindingKind,
    whole: Meaning,
    factors: Sequence[RowNumber | None],
    explanation: str = "",
) -> Iterator[TableFinding]:
    """Yield a finding if the product of the known factors contradicts the printed total.

    If all factors are known, the product must be equal to the total. If some are unknown, the
    total must be a multiple of the product.

    whole: the meaning of the column with the total. explanation: a text that is added to the
    finding's message.
    """
    total = row.numbers.get(whole)
    given_factors = [factor for factor in factors if factor]
    product = math.prod(factor.whole for factor in given_factors)
    if total is None or not given_factors or total.whole == product:
        return
    complete = len(given_factors) == len(factors)
    if not complete and total.whole % product == 0:
        return
    shown = f" {_TIMES} ".join(factor.shown for factor in given_factors)
    equation = f"{shown} = {product}" if len(given_factors) > 1 else shown
    instead = [f"{total.title} {product}"] if complete else []
    for factor in given_factors:
        rest, remainder = divmod(total.whole * factor.whole, product)
        if complete and rest and not remainder:
            instead.append(f"{factor.title} {rest}")
    what = "" if complete else f" does not divide {total.text}"
    hint = f"; {' or '.join(instead)} would fit" if instead else ""
    yield finding(row, kind, f"{total.shown}, but {equation}{what}{hint}{explanation}")


def _lowered_stages(world: RowNumber | None, *factors: RowNumber | None) -> str:
    """Return a sentence on how Megatron-LM 2 reduces a pipeline size that is too large.

    Megatron-LM 2 runs with min(pipeline size, world size // tensor size) pipeline stages. Later
    versions refuse a pipeline size that is too large. Returns "" if this reduction does not
    explain the sizes in the row.

    world: the number of GPUs. factors: the tensor, pipeline and data-parallel size, and a fourth
    item if the table has other kinds of parallelism.
    """
    tensor, pipeline, data_parallel, *others = factors
    if world is None or tensor is None or pipeline is None or others:
        return ""
    stages, rest = divmod(world.whole, tensor.whole)
    copies = data_parallel.whole if data_parallel else 1
    if rest or copies != 1 or not 0 < stages < pipeline.whole:
        return ""
    return (
        f"; Megatron-LM 2 runs this row with {pipeline.title} {stages}, because it lowers "
        f"{pipeline.title} to {world.title} / {tensor.title}"
    )


def _data_parallel_size(row: BenchmarkRow) -> RowNumber | None:
    """Compute the data-parallel size of a row: GPUs / (tensor size · pipeline size).

    Returns None if one of these numbers is unknown, if the result is not an integer, or if the
    table has other kinds of parallelism. Returns None, too, if the row gives the number of nodes,
    because its number of GPUs may then be that of one node.
    """
    world, tensor, pipeline = (
        row.numbers.get(meaning)
        for meaning in (
            Meaning.WORLD_SIZE,
            Meaning.TENSOR_PARALLEL_SIZE,
            Meaning.PIPELINE_PARALLEL_SIZE,
        )
    )
    if _is_parted_further(row.columns.titles) or Meaning.NODES in row.numbers:
        return None
    if world is None or tensor is None or pipeline is None:
        return None
    size, rest = divmod(world.whole, tensor.whole * pipeline.whole)
    if rest or not size:
        return None
    return RowNumber(
        title=f"{world.title} / {tensor.title} / {pipeline.title}",
        text=str(size),
        printed=exact_count(size),
    )


@lru_cache
def _is_parted_further(titles: tuple[str, ...]) -> bool:
    """Return whether a table has a column for another kind of parallelism, e.g. expert or context.

    The usual kinds are tensor, pipeline and data parallelism.
    """
    return any(map(_OTHER_PARALLELISM.fullmatch, titles))
