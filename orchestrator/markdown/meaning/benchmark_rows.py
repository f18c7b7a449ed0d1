"""Read a row of a benchmark table: the meaning of its cells.

There are two ways to read a row:

- the properties `numbers` and `paces` (times and rates) contain all printed numbers. Each number
  has its precision: the value of 1 in its last digit, e.g. 0.01 for `3.28`. Cells that cannot be
  parsed are left out;
- methods such as `world_size` return one number, perhaps derived from other numbers. They raise an
  error with the reason if no number can be returned.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TypeVar

from orchestrator.common.text import counted, printable
from orchestrator.markdown.document.tables import Row, Table, cell_text
from orchestrator.markdown.meaning.cells import (
    NUMERAL,
    NotUnderstoodError,
    Pace,
    is_blank,
    read_count,
    read_length,
    read_pace,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import (
    Meaning,
    TableColumn,
    read_columns,
    without_markup,
)
from orchestrator.markdown.meaning.model_names import model_called
from orchestrator.markdown.meaning.notes import SIZES, Note
from orchestrator.markdown.meaning.printed_numbers import Printed, exact_count, printed_number
from orchestrator.markdown.meaning.units import Quantity, Unit
from orchestrator.model.named import NamedModel

_Read = TypeVar("_Read")

# How the GPUs that hold one copy of the model share it.
_SPLIT = (Meaning.TENSOR_PARALLEL_SIZE, Meaning.PIPELINE_PARALLEL_SIZE)
# Names of sizes in a sentence about sizes that a table does not contain.
_NAMES = {
    Meaning.PARAMETERS: "the size of the model",
    Meaning.WORLD_SIZE: "the number of GPUs",
    Meaning.GLOBAL_BATCH_SIZE: "the global batch size",
    Meaning.SEQ_LENGTH: "the sequence length",
    Meaning.PACE: "the time per iteration",
    Meaning.PADDED_VOCAB_SIZE: "the vocabulary size",
}
# How many cells of a row a message contains, and how many characters of each.
_NAMING_CELLS, _NAMING_LENGTH = 2, 24
# A larger MFU or HFU is in percent, even without a percent sign.
_MOST = 2
_DIGIT = re.compile(rb"[0-9]")
_SHARES = (Meaning.MFU, Meaning.HFU)
_COMPUTED = (Meaning.TFLOPS_PER_GPU, Meaning.MODEL_TFLOPS_PER_GPU)
_TFLOPS = re.compile(
    rf"(?:{NUMERAL})(?:e[+-]?\d\d?)?\s*(?:t(?:era)?flops?(?:/s)?)?\s*(?:\(.*\))?", re.IGNORECASE
)
_SHARE = re.compile(rf"(?:{NUMERAL})\s*(?P<percent>%)?")
_LETTER = re.compile(r"[A-Za-z]")
_BARE_SIZE = re.compile(r"\d+(?:\.\d+)?\s?[BM]", re.IGNORECASE)
_MODEL_HEADING = re.compile(r"^\s*model\s*:\s*(?P<name>.+)", re.IGNORECASE)
_SYSTEM_HEADING = re.compile(r"\b(?:system|hardware|gpu)\s*:\s*(?P<name>[^,;]+)", re.IGNORECASE)
_PRECISION_HEADING = re.compile(r"\bprecision\s*:\s*(?P<name>[^,;]+)", re.IGNORECASE)
_ADAPTERS = re.compile(r"(?<![A-Za-z])(?:q?lora|peft)(?![A-Za-z])", re.IGNORECASE)
# A number that is marked as inexact contradicts nothing.
_VAGUE = re.compile(r"[~≈≃±<>≤≥]|\+/?-|\b(?:about|approx|ca|circa)\b", re.IGNORECASE)


class NotInTableError(NotUnderstoodError):
    """Raised if a table has no column for the requested number, or several columns for it."""


@dataclass(frozen=True, kw_only=True)
class BenchmarkColumns:
    """The columns of a table, and the numbers that apply to all its rows.

    Columns with the same meaning are in the order in which they are preferred. For speed, times
    come before rates, because rates are often derived from times. In a teralog report, the column
    with the lowest `TableColumn.rank` comes first.
    """

    in_order: Sequence[TableColumn]
    by_meaning: Mapping[Meaning, Sequence[TableColumn]]
    notes: Mapping[Meaning, Note]
    headings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        table: Table,
        notes: Mapping[Meaning, Note],
        given: Mapping[str, str] | None = None,
        headings: tuple[str, ...] = (),
    ) -> "BenchmarkColumns":
        """Return the columns of a table.

        notes: the sizes that apply to all rows.
        given: the meanings that the user gives to columns, by the `title_key` of their titles.
        headings: the headings above the table, from the highest level to the nearest.
        """
        in_order = read_columns([cell.text for cell in table.header.cells], given)
        by_meaning: dict[Meaning, list[TableColumn]] = {}
        for column in in_order:
            if column.meaning:
                by_meaning.setdefault(column.meaning, []).append(column)
        by_meaning.get(Meaning.PACE, []).sort(key=lambda column: (column.rank, _is_rate(column)))
        return cls(in_order=in_order, by_meaning=by_meaning, notes=notes, headings=headings)

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """The titles of the columns without markup."""
        return tuple(plain(column.title) for column in self.in_order)

    def has(self, meaning: Meaning) -> bool:
        """Return whether a column or a note of the table gives the number with this meaning."""
        return meaning in self.by_meaning or meaning in self.notes

    def column(self, meaning: Meaning) -> TableColumn:
        """Return the column with a meaning. Raises NotInTableError if there is not exactly one."""
        columns = self.by_meaning.get(meaning)
        if columns is None:
            raise _missing(meaning)
        if len(columns) > 1:
            titles = f"{columns[0].title!r} and {columns[1].title!r}"
            raise NotInTableError(f"two columns contain {_name(meaning)}: {titles}")
        return columns[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNumber:
    """A number of a row: the title of its column, its cell, and the printed number.

    line: the line of the note that contains the number; None if the number is not from a note.
    per_gpu: whether the number is a rate of one GPU.
    """

    title: str
    text: str
    printed: Printed
    line: int | None = None
    per_gpu: bool = False

    @property
    def whole(self) -> int:
        """The number as an integer; for counts, e.g. of GPUs."""
        return int(self.printed.value)

    @property
    def shown(self) -> str:
        """The title and the cell; also the line of the note, if the number is in a note."""
        place = "" if self.line is None else f" (line {self.line})"
        return f"{self.title} {self.text}{place}"


@dataclass(frozen=True, kw_only=True)
class BenchmarkRow:
    """A row of a benchmark table that is not blank, and the columns of this table.

    source: the row in the document.
    raw_cells: the bytes of the cells; there may be fewer cells than columns, or more.
    ordinal: the row's number in the table, from 1.

    Every method that returns a number raises NotUnderstoodError if a cell does not contain what
    its column's title states. It raises NotInTableError if no column has the number.
    """

    columns: BenchmarkColumns
    source: Row
    raw_cells: Sequence[bytes]
    ordinal: int

    @property
    def line(self) -> int:
        """The number of the row's line on the page."""
        return self.source.line

    @property
    def has_extra_cells(self) -> bool:
        """Whether the row has more cells than columns, so that cells do not match columns."""
        return len(self.raw_cells) > len(self.columns.in_order)

    @property
    def name(self) -> str:
        """The row's name in messages: its number and its first cells."""
        if self.has_extra_cells:
            return f"row {self.ordinal}"
        filled = [text for text in map(cell_text, self.raw_cells) if not is_blank(text)]
        named = ", ".join(plain(text)[:_NAMING_LENGTH] for text in filled[:_NAMING_CELLS])
        return f"row {self.ordinal} ({named})"

    def text(self, column: TableColumn) -> str:
        """Return the text of a cell; empty if the row ends before that cell."""
        raws = self.raw_cells
        return cell_text(raws[column.index]) if column.index < len(raws) else ""

    @property
    def model_name(self) -> str | None:
        """The model's name from the row's cell for models, or else from the nearest heading.

        Headings without the name of a model are ignored. If a cell contains only a size, e.g. `7b`,
        the rest of the name is taken from a heading.
        """
        name = self._named(
            Meaning.MODEL, _MODEL_HEADING, lambda text: model_called(text) is not None
        )
        size = self._bare_size(name)
        return (size and self._sized_by_heading(size)) or name

    def _bare_size(self, name: str | None) -> str | None:
        if name is not None:
            return name if _BARE_SIZE.fullmatch(name) else None
        columns = self.columns.by_meaning.get(Meaning.PARAMETERS, ())
        text = plain(self.text(columns[0])) if len(columns) == 1 else ""
        return text if _BARE_SIZE.fullmatch(text) else None

    def _sized_by_heading(self, size: str) -> str | None:
        headings = map(without_markup, reversed(self.columns.headings))
        names = (printable(f"{heading} {size}") for heading in headings)
        return next((name for name in names if model_called(name) is not None), None)

    @property
    def model(self) -> NamedModel | None:
        """The published model that the row is about, or None."""
        name = self.model_name
        return model_called(name) if name is not None else None

    @property
    def gpu_name(self) -> str | None:
        """The GPU's name from the row's cell for GPUs, or else from a heading.

        The heading has the form `System: NAME`, `Hardware: NAME` or `GPU: NAME`. If several
        headings have such a form, the nearest one above the table is used. The result is None if no
        GPU is named, or if several cells of the row name one.
        """
        return self._named(Meaning.GPU, _SYSTEM_HEADING, lambda _: False)

    @property
    def precision(self) -> str | None:
        """The number format from the row's cell for it, or else from a heading.

        The heading has the form `Precision: NAME`. If several headings have this form, the nearest
        one above the table is used. The result is None if no number format is named, or if several
        cells of the row name one.
        """
        return self._named(Meaning.PRECISION, _PRECISION_HEADING, lambda _: False)

    @cached_property
    def trains_adapters(self) -> bool:
        """Whether a cell or a heading names LoRA or PEFT, so that only adapters are trained."""
        texts = (*self.columns.headings, *map(cell_text, self.raw_cells))
        return any(map(_ADAPTERS.search, texts))

    def _named(
        self, meaning: Meaning, pattern: "re.Pattern[str]", is_name: Callable[[str], bool]
    ) -> str | None:
        columns = self.columns.by_meaning.get(meaning, ())
        texts = [plain(self.text(column)) for column in columns]
        cells = [text for text in texts if not is_blank(text) and _LETTER.search(text)]
        if cells or len(columns) > 1:
            return cells[0] if len(cells) == 1 else None
        for heading in reversed(self.columns.headings):
            text = without_markup(heading)
            if match := pattern.search(text):
                return printable(match["name"].strip())
            if is_name(text):
                return printable(text)
        return None

    def count(self, meaning: Meaning) -> int:
        """Return the integer with this meaning, from the row's cell or a note about all rows."""
        columns = self.columns
        if meaning in columns.notes and meaning not in columns.by_meaning:
            value = columns.notes[meaning].value
            return self.count(value) if isinstance(value, Meaning) else value
        return self._read(columns.column(meaning), _reader(meaning))

    def parameters(self) -> int:
        """Return the number of parameters: the printed size, or the size in the model's name."""
        columns = self.columns
        if Meaning.PARAMETERS not in columns.by_meaning:
            if Meaning.PARAMETERS in columns.notes:
                return self.count(Meaning.PARAMETERS)
            if Meaning.MODEL in columns.by_meaning:
                return self._read(columns.column(Meaning.MODEL), _sized)
        return self._read(columns.column(Meaning.PARAMETERS), _sized)

    def world_size(self) -> int:
        """Return the number of GPUs, as printed or as a product.

        The product is nodes · GPUs per node, or else DP · TP · PP (and · CP, if the table has this
        size). Without these sizes, the number is read from the cell for GPUs, e.g. `64 V100`.
        """
        columns = self.columns
        if columns.has(Meaning.WORLD_SIZE):
            return self.count(Meaning.WORLD_SIZE)
        if columns.has(Meaning.NODES) and columns.has(Meaning.GPUS_PER_NODE):
            return self.count(Meaning.NODES) * self.count(Meaning.GPUS_PER_NODE)
        if columns.has(Meaning.DATA_PARALLEL_SIZE) and all(map(columns.has, _SPLIT)):
            return self.count(Meaning.DATA_PARALLEL_SIZE) * self._ranks_per_replica()
        if Meaning.GPU in columns.by_meaning:
            return self._read(columns.column(Meaning.GPU), _counted)
        if columns.has(Meaning.NODES):
            raise NotInTableError(
                "a column contains the number of nodes, but no column contains gpus_per_node"
            )
        raise _missing(Meaning.WORLD_SIZE)

    def global_batch_size(self) -> int:
        """Return the global batch size, as printed or as micro-batch size · micro-batches · DP."""
        columns = self.columns
        if columns.has(Meaning.GLOBAL_BATCH_SIZE):
            return self.count(Meaning.GLOBAL_BATCH_SIZE)
        if not (columns.has(Meaning.MICRO_BATCH_SIZE) and columns.has(Meaning.NUM_MICROBATCHES)):
            raise _missing(Meaning.GLOBAL_BATCH_SIZE)
        micro_batches = self.count(Meaning.MICRO_BATCH_SIZE) * self.count(Meaning.NUM_MICROBATCHES)
        return micro_batches * self._data_parallel_size()

    def step_seconds(self) -> float:
        """Return the seconds of an iteration, from a time or from a rate."""
        pace = self._read(self._pace_column(), _paced)
        if pace.quantity is Quantity.STEP_SECONDS:
            return pace.value
        rate = pace.value * (self.world_size() if pace.per_gpu else 1)
        match pace.quantity:
            case Quantity.SAMPLES_PER_SECOND:
                return self.global_batch_size() / rate
            case Quantity.TOKENS_PER_SECOND:
                return self.global_batch_size() * self.count(Meaning.SEQ_LENGTH) / rate
        return 1 / rate

    @cached_property
    def numbers(self) -> Mapping[Meaning, RowNumber]:
        """The sizes and TFLOPs of the row, by meaning.

        A number comes from a cell, or else from a note about all rows. If two columns have the same
        meaning, both are left out, because neither can be preferred.
        """
        if self.has_extra_cells:
            return {}
        printed = {
            meaning: number
            for meaning, columns in self.columns.by_meaning.items()
            # If two columns have one meaning, neither can be chosen.
            if len(columns) == 1 and (number := self._number(columns[0])) is not None
        }
        return {**dict(self._noted(printed)), **printed}

    @cached_property
    def paces(self) -> tuple[tuple[Quantity, RowNumber], ...]:
        """The times per iteration and the rates of the row, each with its quantity.

        In a teralog report, several columns contain different averages of a run's speed. Only
        those with the lowest `TableColumn.rank` are used. If two of these columns contain the
        same quantity, both are left out, because neither can be preferred.
        """
        if self.has_extra_cells:
            return ()
        ranked = [
            (column.rank, *pace)
            for column in self.columns.in_order
            if column.meaning is Meaning.PACE and (pace := self._printed_pace(column)) is not None
        ]
        first = min((rank for rank, _, _ in ranked), default=0)
        paces = [(quantity, number) for rank, quantity, number in ranked if rank == first]
        kinds = Counter((quantity, number.per_gpu) for quantity, number in paces)
        return tuple(pace for pace in paces if kinds[pace[0], pace[1].per_gpu] == 1)

    def _number(self, column: TableColumn) -> RowNumber | None:
        """Return the number in the row's cell of a column.

        Returns None if the cell has no exact number (e.g. `~5`), if the number is 0, or if no check
        uses numbers of this kind of column.
        """
        text, meaning = self.text(column), column.meaning
        printed: Printed | None = None
        try:
            if meaning in SIZES:
                printed = exact_count(self._read(column, _reader(meaning)))
            elif _VAGUE.search(text):
                return None
            elif meaning is Meaning.PARAMETERS:
                printed = printed_number(text, self._read(column, _sized))
            elif meaning in _SHARES:
                printed = _share_in(text, column.title)
            elif meaning in _COMPUTED and _TFLOPS.fullmatch(plain(text)):
                printed = printed_number(text)
        except NotUnderstoodError:
            return None
        if printed is None or not printed.value:
            return None
        return RowNumber(title=plain(column.title), text=plain(text), printed=printed)

    def _noted(self, printed: Mapping[Meaning, RowNumber]) -> Iterator[tuple[Meaning, RowNumber]]:
        """Yield the numbers that the page's notes give for this row, each with its meaning.

        Numbers for which the table has a column are left out. A note may also say that a size is
        equal to the number in another column. Then this number is taken from `printed`.

        printed: the numbers in the row's cells, by meaning.
        """
        for meaning, note in self.columns.notes.items():
            value = note.value
            if isinstance(value, Meaning):
                value = printed[value].whole if value in printed else 0
            if meaning not in self.columns.by_meaning and value:
                yield (
                    meaning,
                    RowNumber(
                        title=note.name,
                        text=str(value),
                        printed=exact_count(value),
                        line=note.line,
                    ),
                )

    def _printed_pace(self, column: TableColumn) -> tuple[Quantity, RowNumber] | None:
        text = self.text(column)
        if _VAGUE.search(text):
            return None
        try:
            pace = self._read(column, _paced)
        except NotUnderstoodError:
            return None
        printed = printed_number(text, pace.value)
        if printed is None:
            return None
        return pace.quantity, RowNumber(
            title=plain(column.title), text=plain(text), printed=printed, per_gpu=pace.per_gpu
        )

    def _pace_column(self) -> TableColumn:
        """Return the first column of times or rates whose cell is not blank in this row.

        If all these cells are blank, return the first column of times or rates. Raises
        NotInTableError if the table has no such column.
        """
        columns = self.columns.by_meaning.get(Meaning.PACE, ())
        if len(columns) < 2:
            return self.columns.column(Meaning.PACE)
        return next((column for column in columns if not is_blank(self.text(column))), columns[0])

    def _data_parallel_size(self) -> int:
        columns = self.columns
        if columns.has(Meaning.DATA_PARALLEL_SIZE):
            return self.count(Meaning.DATA_PARALLEL_SIZE)
        if not all(map(columns.has, _SPLIT)):
            raise NotInTableError(
                "no column contains the global batch size or the data-parallel size"
            )
        world_size, ranks = self.world_size(), self._ranks_per_replica()
        if world_size % ranks:
            raise NotUnderstoodError(
                f"{counted(world_size, 'GPU is', 'GPUs are')} not a multiple of the {ranks} GPUs "
                "of a model copy"
            )
        return world_size // ranks

    def _ranks_per_replica(self) -> int:
        ranks = prod(map(self.count, _SPLIT))
        if self.columns.has(Meaning.CONTEXT_PARALLEL_SIZE):
            ranks *= self.count(Meaning.CONTEXT_PARALLEL_SIZE)
        return ranks

    def _read(self, column: TableColumn, reader: Callable[[bytes, Unit | None], _Read]) -> _Read:
        raws = self.raw_cells
        raw = raws[column.index] if column.index < len(raws) else b""
        try:
            return reader(raw, column.unit)
        except NotUnderstoodError as error:
            if is_blank(cell_text(raw)):
                raise NotUnderstoodError(f"{column.title} is blank") from None
            raise NotUnderstoodError(f"{column.title}: {error}") from None


def benchmark_rows(table: Table, columns: BenchmarkColumns) -> Iterator[BenchmarkRow]:
    """Yield the rows of a table that are not blank."""
    ordinal = 0
    for row in table.rows:
        raws = row.raw_cells
        if not _is_blank(row.content, raws):
            ordinal += 1
            yield BenchmarkRow(columns=columns, source=row, raw_cells=raws, ordinal=ordinal)


def _is_blank(content: bytes, raw_cells: Sequence[bytes]) -> bool:
    # Most rows have a digit, or nothing but pipes: then no cell needs to be read.
    if _DIGIT.search(content):
        return False
    return not content.strip(b" |") or all(is_blank(cell_text(raw)) for raw in raw_cells)


def plain(text: str) -> str:
    """Return the text of a cell without markup, for use in a message."""
    return printable(without_markup(text))


# Sizes and counts are cached, because many rows of a page have the same ones. Times differ.
@lru_cache(maxsize=4096)
def _counted(raw: bytes, _unit: Unit | None) -> int:
    return read_count(cell_text(raw))


@lru_cache(maxsize=4096)
def _long(raw: bytes, unit: Unit | None) -> int:
    return read_length(cell_text(raw), unit)


def _reader(meaning: Meaning | None) -> Callable[[bytes, Unit | None], int]:
    return _long if meaning is Meaning.SEQ_LENGTH else _counted


@lru_cache(maxsize=4096)
def _sized(raw: bytes, unit: Unit | None) -> int:
    return read_parameters(cell_text(raw), unit)


def _paced(raw: bytes, unit: Unit | None) -> Pace:
    return read_pace(cell_text(raw), unit)


def _share_in(text: str, title: str) -> Printed | None:
    """Return a cell's MFU or HFU as a fraction: 0.41 for `0.41`, 0.412 for `41.2 %` or `41.2`.

    A number is taken as percent if the cell has a percent sign, if the column's title says percent,
    or if the number is above 2. Returns None if the cell contains no such number.
    """
    match = _SHARE.fullmatch(plain(text))
    printed = printed_number(text) if match else None
    if match is None or printed is None:
        return None
    if match["percent"] or "%" in title or "percent" in title.lower() or printed.value > _MOST:
        return Printed(printed.value / 100, printed.unit / 100)
    return printed


def _is_rate(column: TableColumn) -> bool:
    return column.unit is not None and column.unit.quantity is not Quantity.STEP_SECONDS


def _missing(meaning: Meaning) -> NotInTableError:
    if meaning is Meaning.PACE:
        return NotInTableError(f"no column contains {_name(meaning)}")
    return NotInTableError(
        f"no column contains {_name(meaning)}; add one, or a comment "
        f"<!-- teralog: {meaning}=... -->"
    )


def _name(meaning: Meaning) -> str:
    return _NAMES.get(meaning, meaning.value)
