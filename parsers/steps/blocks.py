"""Store many step reports as columns, and make a Step only if the caller needs one.

To make a record takes some microseconds. To make one number of a column takes a tenth of a
microsecond.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, compress, count, repeat
from operator import attrgetter, ge, not_
from typing import Any, overload

from parsers.records import Record, Setting, Step, has_finite_loss

STEP_FIELDS = tuple(field.name for field in fields(Step))
_NO_STEPS: Mapping[str, Sequence[Any]] = {"iteration": (), "offset": ()}
# In reports without a loss, these fields may show that it is nan.
_SIGNS_OF_NAN = ("nan_iterations", "skipped_iterations", "grad_norm")
_values = attrgetter(*STEP_FIELDS)


@dataclass(frozen=True, slots=True)
class StepBlock:
    """Step reports as columns, in the order of their log.

    columns: the values of each field of Step that at least one report has. The columns `iteration`
    and `offset` always exist. All columns are equally long.
    """

    columns: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> "StepBlock":
        """Return these step reports as columns."""
        columns = dict(zip(STEP_FIELDS, zip(*map(_values, steps), strict=True), strict=bool(steps)))
        partial = {
            name: column for name, column in columns.items() if column.count(None) < len(column)
        }
        return cls(partial or _NO_STEPS)

    def __len__(self) -> int:
        return len(self.columns["iteration"])

    @property
    def offset(self) -> int:
        """The byte at which the line of the first report starts."""
        return int(self.columns["offset"][0])

    @property
    def falls(self) -> list[int]:
        """The indices of reports whose iteration is not higher than that of the report before.

        Such a report is from another run, or a copy of an earlier report.
        """
        iterations = self.columns["iteration"]
        return [*compress(count(1), map(ge, iterations, iterations[1:]))]

    @property
    def possible_ends(self) -> list[int]:
        """The indices of reports at which the run may end, in any order.

        These are reports whose loss is nan or inf, and reports about the last planned iteration.
        """
        iterations, totals = self.columns["iteration"], self.columns.get("iterations")
        ends = [*compress(count(), map(ge, iterations, totals))] if totals else []
        if losses := self.columns.get("loss"):
            ends += compress(count(), map(not_, map(math.isfinite, losses)))
        elif not self.columns.keys().isdisjoint(_SIGNS_OF_NAN):
            signs = map(self.column, _SIGNS_OF_NAN)
            ends += compress(count(), map(not_, map(has_finite_loss, repeat(None), *signs)))
        return ends

    def column(self, name: str) -> Sequence[Any]:
        """Return the values of one field, one per report; None for reports without the field."""
        return self.columns.get(name) or [None] * len(self)

    def part(self, begin: int, end: int) -> "StepBlock":
        """Return the reports with indices from `begin` to `end`, without the report at `end`."""
        if end - begin == len(self):
            return self
        return StepBlock({name: column[begin:end] for name, column in self.columns.items()})

    def at(self, places: Sequence[int]) -> "StepBlock":
        """Return the reports with these indices, in the order of the indices."""
        return StepBlock(
            {name: [*map(column.__getitem__, places)] for name, column in self.columns.items()}
        )

    def only(self, kept: Iterable[bool]) -> "StepBlock":
        """Return the reports whose value in `kept` is true; `kept` has one bool per report."""
        which = list(kept)
        return StepBlock(
            {name: [*compress(column, which)] for name, column in self.columns.items()}
        )

    def step(self, at: int) -> Step:
        """Return the report with this index."""
        return Step(**{name: column[at] for name, column in self.columns.items()})

    def steps(self) -> list[Step]:
        """Return the reports as a list of Step."""
        rows = zip(*self.columns.values(), strict=True)
        return [Step(**dict(zip(self.columns, row, strict=True))) for row in rows]


Part = Record | StepBlock


class Records(Sequence[Record]):
    """The records of a launch, in order.

    parts: how the records are stored: step reports as columns (`StepBlock`), all others one by one.
    A step report in columns becomes a record of its own (`Step`) only when a caller needs it.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        """Store columns of step reports and single records, in the order of the log."""
        self.parts = tuple(parts)
        self._records: tuple[Record, ...] | None = None

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings among the records."""
        return [part for part in self.parts if isinstance(part, Setting)]

    @cached_property
    def reports(self) -> list[Part]:
        """All records except settings: columns of step reports, and single records."""
        return [part for part in self.parts if not isinstance(part, Setting)]

    def _all(self) -> tuple[Record, ...]:
        if self._records is None:
            self._records = tuple(_expanded(self.parts))
        return self._records

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Record, ...]: ...
    def __getitem__(self, index: int | slice) -> Record | tuple[Record, ...]:
        return self._all()[index]

    def __len__(self) -> int:
        return sum(len(part) if isinstance(part, StepBlock) else 1 for part in self.parts)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[type["Records"], tuple[tuple[Part, ...]]]:
        return Records, (self.parts,)


def stored_records(records: Iterable[Part]) -> Records:
    """Return some records as `Records`, without a copy if they are that already."""
    return records if isinstance(records, Records) else Records(records)


def step_column(parts: Iterable[Part], name: str) -> list[Any]:
    """Return the values of one field, one per step report among some records."""
    values: list[Any] = []
    for part in parts:
        if isinstance(part, Step):
            values.append(getattr(part, name))
        elif isinstance(part, StepBlock):
            values += part.column(name)
    return values


def joined_steps(parts: Iterable[Part]) -> StepBlock:
    """Return all step reports among some records as columns."""
    blocks = list(_blocks(parts))
    if len(blocks) == 1:
        return blocks[0]
    names = dict.fromkeys(name for block in blocks for name in block.columns)
    return StepBlock(
        {name: [*chain.from_iterable(block.column(name) for block in blocks)] for name in names}
        or _NO_STEPS
    )


def _blocks(parts: Iterable[Part]) -> Iterator[StepBlock]:
    """Yield the step reports among some records as columns, in their order."""
    steps: list[Step] = []
    for part in parts:
        if isinstance(part, Step):
            steps.append(part)
        elif isinstance(part, StepBlock):
            if steps:
                yield StepBlock.of(steps)
                steps = []
            yield part
    if steps:
        yield StepBlock.of(steps)


def _expanded(parts: Iterable[Part]) -> Iterator[Record]:
    for part in parts:
        if isinstance(part, StepBlock):
            yield from part.steps()
        else:
            yield part
