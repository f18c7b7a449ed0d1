"""Group runs that are equal except for one size, e.g. for the lines of a plot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Sizes = Mapping[str, Any]

# Values that do not matter when runs are compared.
_NEVER = ("repeat", "time_limit_seconds", "gpu_hours")
# For each size, the values that always change with it.
_ALWAYS: Mapping[str, tuple[str, ...]] = {
    "world_size": ("nodes", "gpus_per_node", "data_parallel_size"),
    "parameters_billions": (
        *("parameters", "num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size"),
        *("num_key_value_heads", "vocab_size", "padded_vocab_size"),
    ),
}
# For each size, the values of which one may change with it, and a text that describes this.
_WAYS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "world_size": (
        ("global_batch_size", "the global batch grows with the GPUs (weak scaling)"),
        ("num_microbatches", "the global batch stays the same (strong scaling)"),
    ),
    "global_batch_size": (
        ("num_microbatches", "a larger global batch has more micro-batches"),
        ("micro_batch_size", "a larger global batch has larger micro-batches"),
    ),
    "parameters_billions": (("model", ""),),
    "micro_batch_size": (
        ("global_batch_size", "the global batch grows with the micro-batch"),
        ("num_microbatches", "the global batch stays the same"),
    ),
    "num_microbatches": (
        ("global_batch_size", "the global batch grows with the number of micro-batches"),
        ("micro_batch_size", "the global batch stays the same"),
    ),
}


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of runs for a plot over one size, e.g. over the number of GPUs.

    of: for each run, the index of its group; None if the run is in no group.
    way: how another value changes together with the size, in words, e.g. "the global batch
        grows with the GPUs (weak scaling)"; empty if unknown.
    """

    of: tuple[int | None, ...]
    way: str


def groups(runs: Sequence[Sizes], size: str) -> Groups:
    """Return groups of runs that are equal except for `size`, which varies within each group.

    Values that always change with `size` are ignored, e.g. the number of nodes for the number of
    GPUs. One other size may also vary within a group, e.g. the global batch. The function tries
    several choices of this other size. It returns the grouping that puts the most runs into groups.
    """
    varying = [name for name in runs[0] if len({repr(run.get(name)) for run in runs}) > 1]
    ways = [
        Groups(
            _grouped(runs, size, [name for name in varying if name not in without]),
            way if any(run.get(follower) is not None for run in runs) else "",
        )
        for follower, way in _WAYS[size]
        for without in [{size, follower, *_NEVER, *_ALWAYS.get(size, ())}]
    ]
    return max(
        ways, key=lambda groups_of_runs: sum(number is not None for number in groups_of_runs.of)
    )


def _grouped(runs: Sequence[Sizes], size: str, equal: Sequence[str]) -> tuple[int | None, ...]:
    keys = [tuple(repr(run.get(name)) for name in equal) for run in runs]
    values: dict[tuple[str, ...], set[Any]] = {}
    for key, run in zip(keys, runs, strict=True):
        if run.get(size) is not None:
            values.setdefault(key, set()).add(run[size])
    numbers = {key: number for number, key in enumerate(values) if len(values[key]) > 1}
    return tuple(
        numbers.get(key) if run.get(size) is not None else None
        for key, run in zip(keys, runs, strict=True)
    )


def efficiencies(
    runs: Sequence[Sizes], of: Sequence[int | None], tflops_per_gpu: Sequence[float | None]
) -> tuple[float | None, ...]:
    """Return the scaling efficiency of each run, in percent.

    The efficiency is the TFLOPs per GPU of a run, divided by the reference value of its group. This
    value is the median TFLOPs per GPU of those runs in the group that have the fewest GPUs. For
    example, the runs on 4 GPUs reach 100 TFLOPs per GPU, and a run on 16 GPUs reaches 90. Then its
    efficiency is 90 %. Runs without TFLOPs are ignored.

    of: for each run, the index of its group; None if the run is in no group.
    The efficiency is None for a run without a group or without TFLOPs. It is also None if
    all runs of the group have the same number of GPUs.
    """
    reached: dict[int, dict[int, list[float]]] = {}
    for run, group, tflops in zip(runs, of, tflops_per_gpu, strict=True):
        if group is not None and tflops:
            reached.setdefault(group, {}).setdefault(run["world_size"], []).append(tflops)
    base = {
        group: median(by_size[min(by_size)])
        for group, by_size in reached.items()
        if len(by_size) > 1
    }
    return tuple(
        100 * tflops / base[group] if tflops and group in base else None
        for group, tflops in zip(of, tflops_per_gpu, strict=True)
    )
