"""Make the plots over sizes: what rows reached against each size that varies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from orchestrator.report.html.groups import Sizes, efficiencies, groups

# The name of the column of TFLOPs per GPU.
TFLOPS = "tflops_per_gpu"
_SIZES = (
    ("world_size", "GPUs"),
    ("global_batch_size", "global batch"),
    ("num_microbatches", "micro-batches"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Points, one a run: its place by `x` and `y`, if it has both, and the group it belongs to.

    Lines join the runs of a group; `note` says what they have in common.
    """

    title: str
    x_title: str
    y_title: str
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    group: tuple[int | None, ...]
    note: str


def size_plots(
    rows: Sequence[Sizes],
    reached: Mapping[str, tuple[str, Sequence[float | None]]],
    nouns: str,
    crowded: Sequence[bool] = (),
) -> Iterator[Plot]:
    """Yield what is reached over each size that varies, and what is left of it as GPUs grow.

    `rows` have the sizes of every row, `reached` the title and the numbers of a column by its name,
    `nouns` what rows are called. Scaling efficiency leaves out the rows that are `crowded`.
    """
    for size, title in _SIZES:
        x = tuple(row[size] for row in rows)
        if len({*x} - {None}) < 2:
            continue
        found = groups(rows, size)
        joined = any(number is not None for number in found.of)
        way = f"; {found.way}" if found.way else ""
        note = f"Lines join {nouns} that are equal in all else{way}." if joined else ""
        for y_title, y in reached.values():
            yield Plot(
                title=f"{y_title} against {title}",
                x_title=title,
                y_title=y_title,
                x=x,
                y=tuple(y),
                group=found.of,
                note=note,
            )
        # Whether it is weak or strong scaling, the batch tells.
        if size == "world_size" and joined and way and TFLOPS in reached:
            alone = [
                None if is_crowded else number
                for number, is_crowded in zip_longest(reached[TFLOPS][1], crowded, fillvalue=False)
            ]
            left_out = (
                f" {nouns.capitalize()} that are crowded are left out." if any(crowded) else ""
            )
            yield Plot(
                title="Scaling efficiency",
                x_title=title,
                y_title="% of the fewest GPUs' TFLOPs/GPU",
                x=x,
                y=efficiencies(rows, found.of, alone),
                group=found.of,
                note=f"100 %: the TFLOPs/GPU of the fewest GPUs among {nouns} equal in all else"
                f"{way}.{left_out}",
            )
