"""The numbers of a row in a table of benchmarks, those that derive from others included."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeVar

from orchestrator.common.text import counted
from orchestrator.markdown.document.rows import cell_text
from orchestrator.markdown.meaning.cells import (
    NotUnderstoodError,
    Pace,
    is_blank,
    read_count,
    read_pace,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import Column, Meaning
from orchestrator.markdown.meaning.units import Quantity, Unit

Number = TypeVar("Number")

# How the GPUs that hold one copy of the model share it.
_SPLIT = (Meaning.TENSOR_PARALLEL_SIZE, Meaning.PIPELINE_PARALLEL_SIZE)
# How a sentence names what a table does not say.
_NAMES = {
    Meaning.PARAMETERS: "the size of the model",
    Meaning.WORLD_SIZE: "the number of GPUs",
    Meaning.GLOBAL_BATCH_SIZE: "the global batch size",
    Meaning.SEQ_LENGTH: "the sequence length",
    Meaning.PACE: "the time per iteration",
    Meaning.PADDED_VOCAB_SIZE: "the vocabulary size",
}


class NotInTableError(NotUnderstoodError):
    """A number that no column of the table gives, so that no row of it can be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkColumns:
    """The columns of a table, and the numbers that hold for all its rows where no column does."""

    columns: Mapping[Meaning, Sequence[Column]]
    constants: Mapping[Meaning, int]

    @classmethod
    def of(cls, columns: Sequence[Column], constants: Mapping[Meaning, int]) -> "BenchmarkColumns":
        """Return the columns by meaning.

        Columns of times come before those of rates, which are often derived from them; of a report
        of ours in the order of their ranks.
        """
        found: dict[Meaning, list[Column]] = {}
        for column in columns:
            if column.meaning:
                found.setdefault(column.meaning, []).append(column)
        found.get(Meaning.PACE, []).sort(key=lambda column: (column.rank, _is_rate(column)))
        return cls(columns=found, constants=constants)

    def has(self, meaning: Meaning) -> bool:
        """Return whether a column or a constant gives this number."""
        return meaning in self.columns or meaning in self.constants

    def column(self, meaning: Meaning) -> Column:
        """Return the column of a meaning. Raises NotInTableError for none, and for several."""
        columns = self.columns.get(meaning)
        if columns is None:
            raise _missing(meaning)
        if len(columns) > 1:
            titles = f"{columns[0].title!r} and {columns[1].title!r}"
            raise NotInTableError(f"two columns give {_name(meaning)}: {titles}")
        return columns[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRow:
    """The bytes of a row's cells, which may be fewer than the table has columns.

    Every method raises NotUnderstoodError where a cell does not hold what its column promises, and
    NotInTableError where no column promises it.
    """

    table: BenchmarkColumns
    raw_cells: Sequence[bytes]

    def text(self, column: Column) -> str:
        """Return the text of a cell, empty where the row ends before it."""
        raws = self.raw_cells
        return cell_text(raws[column.index]) if column.index < len(raws) else ""

    def count(self, meaning: Meaning) -> int:
        """Return a whole number of a column, or the one that holds for the whole table."""
        table = self.table
        if meaning in table.constants and meaning not in table.columns:
            return table.constants[meaning]
        return self._read(table.column(meaning), _counted)

    def parameters(self) -> int:
        """Return the number of parameters: the size as printed, or in the model's name."""
        table = self.table
        if Meaning.PARAMETERS not in table.columns:
            if Meaning.PARAMETERS in table.constants:
                return table.constants[Meaning.PARAMETERS]
            if Meaning.MODEL in table.columns:
                return self._read(table.column(Meaning.MODEL), _sized)
        return self._read(table.column(Meaning.PARAMETERS), _sized)

    def world_size(self) -> int:
        """Return the number of GPUs, else nodes by GPUs per node, else DP by TP by PP."""
        table = self.table
        if table.has(Meaning.WORLD_SIZE):
            return self.count(Meaning.WORLD_SIZE)
        if table.has(Meaning.NODES) and table.has(Meaning.GPUS_PER_NODE):
            return self.count(Meaning.NODES) * self.count(Meaning.GPUS_PER_NODE)
        if table.has(Meaning.DATA_PARALLEL_SIZE) and all(map(table.has, _SPLIT)):
            return self.count(Meaning.DATA_PARALLEL_SIZE) * self._ranks_per_replica()
        if Meaning.GPU in table.columns:
            return self._read(table.column(Meaning.GPU), _counted)
        if table.has(Meaning.NODES):
            raise NotInTableError("nodes are given, but no gpus_per_node")
        raise _missing(Meaning.WORLD_SIZE)

    def global_batch_size(self) -> int:
        """Return the global batch, else micro-batch by their number by data-parallel size."""
        table = self.table
        if table.has(Meaning.GLOBAL_BATCH_SIZE):
            return self.count(Meaning.GLOBAL_BATCH_SIZE)
        if not (table.has(Meaning.MICRO_BATCH_SIZE) and table.has(Meaning.NUM_MICROBATCHES)):
            raise _missing(Meaning.GLOBAL_BATCH_SIZE)
        micro_batches = self.count(Meaning.MICRO_BATCH_SIZE) * self.count(Meaning.NUM_MICROBATCHES)
        return micro_batches * self._data_parallel_size()

    def step_seconds(self) -> float:
        """Return the seconds of an iteration, from a time or from a rate."""
        pace = self._read(self.pace_column(), _paced)
        if pace.quantity is Quantity.STEP_SECONDS:
            return pace.value
        rate = pace.value * (self.world_size() if pace.per_gpu else 1)
        match pace.quantity:
            case Quantity.SAMPLES_PER_SECOND:
                return self.global_batch_size() / rate
            case Quantity.TOKENS_PER_SECOND:
                return self.global_batch_size() * self.count(Meaning.SEQ_LENGTH) / rate
        return 1 / rate

    def pace_column(self) -> Column:
        """Return the column that tells how fast this row's run was: the first that is filled."""
        columns = self.table.columns.get(Meaning.PACE, ())
        if len(columns) < 2:
            return self.table.column(Meaning.PACE)
        return next((one for one in columns if not is_blank(self.text(one))), columns[0])

    def _data_parallel_size(self) -> int:
        table = self.table
        if table.has(Meaning.DATA_PARALLEL_SIZE):
            return self.count(Meaning.DATA_PARALLEL_SIZE)
        if not all(map(table.has, _SPLIT)):
            raise NotInTableError("no column gives the global batch size, or the data-parallel")
        world_size, ranks = self.world_size(), self._ranks_per_replica()
        if world_size % ranks:
            raise NotUnderstoodError(
                f"{counted(world_size, 'GPU is', 'GPUs are')} no multiple of the {ranks} of a model"
            )
        return world_size // ranks

    def _ranks_per_replica(self) -> int:
        ranks = prod(map(self.count, _SPLIT))
        if self.table.has(Meaning.CONTEXT_PARALLEL_SIZE):
            ranks *= self.count(Meaning.CONTEXT_PARALLEL_SIZE)
        return ranks

    def _read(self, column: Column, reader: Callable[[bytes, Unit | None], Number]) -> Number:
        raws = self.raw_cells
        raw = raws[column.index] if column.index < len(raws) else b""
        try:
            return reader(raw, column.unit)
        except NotUnderstoodError as error:
            if is_blank(cell_text(raw)):
                raise NotUnderstoodError(f"{column.title} is blank") from None
            raise NotUnderstoodError(f"{column.title}: {error}") from None


# A page has the same sizes and counts in row after row; each row has its own time.
@lru_cache(maxsize=4096)
def _counted(raw: bytes, _unit: Unit | None) -> int:
    return read_count(cell_text(raw))


@lru_cache(maxsize=4096)
def _sized(raw: bytes, unit: Unit | None) -> int:
    return read_parameters(cell_text(raw), unit)


def _paced(raw: bytes, unit: Unit | None) -> Pace:
    return read_pace(cell_text(raw), unit)


def _is_rate(column: Column) -> bool:
    return column.unit is not None and column.unit.quantity is not Quantity.STEP_SECONDS


def _missing(meaning: Meaning) -> NotInTableError:
    if meaning is Meaning.PACE:
        return NotInTableError(f"no column gives {_name(meaning)}")
    return NotInTableError(
        f"no column gives {_name(meaning)}, and no <!-- teralog: {meaning}=... -->"
    )


def _name(meaning: Meaning) -> str:
    return _NAMES.get(meaning, meaning.value)
