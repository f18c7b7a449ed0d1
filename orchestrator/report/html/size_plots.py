"""Build plots of results, e.g. TFLOPs, against sizes, e.g. the number of GPUs.

A size gets plots only if it differs between the runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from orchestrator.report.html.groups import Groups, Sizes, efficiencies, groups

# The name of the column of TFLOPs per GPU.
TFLOPS = "tflops_per_gpu"
_MFU = "mfu_percent"
# In percent. A higher scaling efficiency is not explained by rounding and noise.
_ABOVE_IDEAL = 105.0
_SIZES = (
    ("world_size", "GPUs"),
    ("global_batch_size", "global batch"),
    ("num_microbatches", "micro-batches"),
)
_MODEL_SIZE = ("parameters_billions", "size (B)")
_MICRO_BATCH = ("micro_batch_size", "micro-batch")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot of points, one per run, each with `x`, `y` and a group.

    x, y: the numbers of each run; None if the run lacks the number.
    group: for each run, the index of its group; lines join the runs of a group.
    note: a text below the plot, e.g. on what the runs of a group have in common.
    ideal: the points of a dotted line, e.g. for a GPU's peak.
    failed: for each run, whether it ran out of memory. The plot marks such a run at its `x`. The
        tuple is empty if the plot has no such marks.
    missing: if the plot is empty, the reason.
    """

    title: str
    x_title: str
    y_title: str
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    group: tuple[int | None, ...]
    note: str
    ideal: tuple[Point, ...] = ()
    failed: tuple[bool, ...] = ()
    missing: str = ""


def size_plots(
    rows: Sequence[Sizes],
    reached: Mapping[str, tuple[str, Sequence[float | None]]],
    nouns: str,
    crowded: Sequence[bool] = (),
) -> Iterator[Plot]:
    """Yield plots of each result against each size that varies, and plots of scaling over GPUs.

    rows: the sizes of each run, by name.
    reached: the results by name: for each result, the title of its column and one number per run.
    nouns: the word for several rows, e.g. `runs`.
    crowded: for each run, whether other work shared its machine; such runs are left out of the
        scaling efficiency.
    """
    for size, title in (*_SIZES, _MODEL_SIZE):
        x = tuple(row.get(size) for row in rows)
        if len({*x} - {None}) < 2:
            continue
        grouping = groups(rows, size)
        joined = any(number is not None for number in grouping.of)
        way = f"; {grouping.way}" if grouping.way else ""
        note = f"Lines join {nouns} that are equal in everything else{way}." if joined else ""
        for name, (y_title, y) in reached.items():
            of_peak = name == _MFU and size == _MODEL_SIZE[0]
            yield Plot(
                title=f"{y_title} against {title}",
                x_title=title,
                y_title=y_title,
                x=x,
                y=tuple(y),
                group=grouping.of,
                note=f"{note} Dotted: the GPU's peak.".strip() if of_peak else note,
                ideal=_level(x, 100.0) if of_peak else (),
            )
        # The batch decides whether the scaling is weak or strong.
        if size == "world_size" and joined and way and TFLOPS in reached:
            alone = [
                None if is_crowded else number
                for number, is_crowded in zip_longest(reached[TFLOPS][1], crowded, fillvalue=False)
            ]
            yield from _scaling(rows, x, grouping, alone, nouns, any_crowded=any(crowded))


def micro_batch_plot(
    rows: Sequence[Sizes],
    samples_per_second: Sequence[float | None],
    failed: Sequence[bool],
) -> Iterator[Plot]:
    """Yield the plot of samples/s against the micro-batch size, if this size varies.

    failed: for each run, whether it ran out of memory.
    """
    size, title = _MICRO_BATCH
    x = tuple(row.get(size) for row in rows)
    if len({*x} - {None}) < 2 or not (any(failed) or any(samples_per_second)):
        return
    grouping = groups(rows, size)
    way = f" {grouping.way[0].upper()}{grouping.way[1:]}." if grouping.way else ""
    note = f"Lines join runs that are equal in everything else.{way}"
    yield Plot(
        title="Throughput against micro-batch",
        x_title=title,
        y_title="samples/s",
        x=x,
        y=tuple(samples_per_second),
        group=grouping.of,
        note=note + (" Crosses: runs that ran out of memory." if any(failed) else ""),
        failed=tuple(failed) if any(failed) else (),
    )


def _scaling(
    rows: Sequence[Sizes],
    x: tuple[float | None, ...],
    grouping: Groups,
    tflops: Sequence[float | None],
    nouns: str,
    *,
    any_crowded: bool,
) -> Iterator[Plot]:
    """Yield a plot of the scaling efficiency; for a constant global batch, also of the speed-up.

    x: the number of GPUs of each run. grouping: the runs that are compared with each other. nouns:
    the word for several rows, e.g. `runs`. any_crowded: whether runs are left out, because other
    work shared their machine.
    """
    percent = efficiencies(rows, grouping.of, tflops)
    left_out = (
        " Crowded runs are left out: runs with more ranks than cores, or at the same time as other "
        "runs."
        if any_crowded
        else ""
    )
    missing = f"No two {nouns} with numbers differ only in the number of GPUs.{left_out}"
    above = max((efficiency for efficiency in percent if efficiency is not None), default=0.0)
    warning = (
        f" The highest efficiency is {above:.0f} %. More GPUs cannot make each GPU faster, so the "
        f"{nouns} with the fewest GPUs were slowed down, or differ in other ways."
        if above > _ABOVE_IDEAL
        else ""
    )
    yield Plot(
        title="Scaling efficiency",
        x_title="GPUs",
        y_title="TFLOPs/GPU, in % of those with the fewest GPUs",
        x=x,
        y=percent,
        group=grouping.of,
        note=f"100 %: the TFLOPs/GPU of the {nouns} with the fewest GPUs. Only {nouns} that are "
        f"equal in everything else are compared; {grouping.way}.{left_out}{warning}",
        ideal=_level(x, 100.0),
        missing=missing,
    )
    if "strong" not in grouping.way or not any(efficiency is not None for efficiency in percent):
        return
    base: dict[int, float] = {}
    for group, size, efficiency in zip(grouping.of, x, percent, strict=True):
        if group is not None and size is not None and efficiency is not None:
            base[group] = min(size, base.get(group, size))
    speedups = tuple(
        None
        if efficiency is None or size is None or group is None
        else efficiency / 100 * size / base[group]
        for group, size, efficiency in zip(grouping.of, x, percent, strict=True)
    )
    sizes = [size for size in x if size is not None]
    yield Plot(
        title="Strong-scaling speed-up",
        x_title="GPUs",
        y_title="speed-up compared with the fewest GPUs",
        x=x,
        y=speedups,
        group=grouping.of,
        note=f"The same global batch on more GPUs. Dotted: ideal speed-up.{left_out}",
        ideal=((min(sizes), 1.0), (max(sizes), max(sizes) / min(sizes))),
    )


def _level(x: Sequence[float | None], y: float) -> tuple[Point, ...]:
    """Return the ends of a horizontal line at height `y`, from the lowest to the highest `x`."""
    values = [value for value in x if value is not None]
    return ((min(values), y), (max(values), y))
