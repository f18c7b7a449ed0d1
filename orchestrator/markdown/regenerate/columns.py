"""Compute columns of a benchmark table from its other columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType

from orchestrator.common.errors import UserError
from orchestrator.hardware.gpus import peak_tflops
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, NotInTableError
from orchestrator.markdown.meaning.cells import NotUnderstoodError
from orchestrator.markdown.meaning.columns import Meaning, TableColumn
from orchestrator.markdown.meaning.flops_per_token import (
    fits_way,
    group_of,
    rated_row,
    tokens_per_second_per_gpu,
)
from orchestrator.markdown.meaning.settings import Formula, PageSettings
from orchestrator.markdown.meaning.units import Quantity, Unit
from orchestrator.markdown.meaning.ways_to_count import (
    ADAPTERS,
    PACKED_ADAPTERS,
    Way,
    flops_per_token,
)
from orchestrator.markdown.regenerate.cells import Form
from orchestrator.run.flops import bigscience_flops, narayanan_flops, tflops_per_gpu

MODEL_FACTOR = 3
_SHAPE = (Meaning.NUM_LAYERS, Meaning.HIDDEN_SIZE, Meaning.PADDED_VOCAB_SIZE)
_IN_PERCENT = Form(decimals=1, scale=100, sign="%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A column that teralog computes.

    title: the title of a new column.
    form: the format of the column's numbers, if no cell shows it.
    value: computes the number of a row, or raises NotUnderstoodError.
    is_in: returns whether a column of a table already contains these numbers.
    is_share: whether the number is a fraction of one, shown in percent.
    """

    title: str
    form: Form
    value: Callable[[BenchmarkRow, PageSettings], float]
    is_in: Callable[[TableColumn], bool]
    is_share: bool = False


def _peak_tflops(settings: PageSettings) -> float:
    """Return the dense 16-bit peak of the page's GPU. Raises UserError if it is unknown."""
    if settings.gpu_peak_tflops is not None:
        return settings.gpu_peak_tflops
    if settings.gpu is None:
        raise UserError("MFU and HFU need the peak of the GPU; give --gpu or --gpu-peak-tflops")
    return _peak_of(settings.gpu)


@cache
def _peak_of(gpu: str) -> float:
    figure = peak_tflops(gpu, "fp16")
    if figure.value is None:
        raise UserError(figure.explanation)
    return figure.value


def _tflops(row: BenchmarkRow, settings: PageSettings, factor: int) -> float:
    try:
        flops = _flops(row, settings, factor)
        tflops = tflops_per_gpu(flops, row.step_seconds(), row.world_size())
    except NotUnderstoodError:
        _raise_all(row, settings)
        raise
    if tflops is None:
        raise NotUnderstoodError("the time per iteration is zero")
    return tflops


def _published_tflops(row: BenchmarkRow, settings: PageSettings) -> float | None:
    """Return the model TFLOPs of a row, from its speed and the description of its model.

    If the number in the row differs from these TFLOPs by at most 1 %, apart from rounding, the
    number in the row is returned: its TFLOPs and its speed may be means over different steps.
    Returns None if the row names no published model, or has no speed that gives tokens/s per
    GPU.
    """
    model, speed = row.model, tokens_per_second_per_gpu(row)
    length = row.numbers.get(Meaning.SEQ_LENGTH)
    if model is None or speed is None or length is None:
        return None
    group = group_of(row, length.whole)
    way = settings.ways.get(group, Way(settings.attention or "window")) if group else None
    if way is None:
        return None
    ways = [way]
    if row.trains_adapters:
        ways = [replace(way, differences=(each,)) for each in (ADAPTERS, PACKED_ADAPTERS)]
    printed = rated_row(row)
    if printed and any(fits_way(printed, each) for each in ways):
        return float(printed.tflops.printed.value)
    way = ways[0]
    _, tokens = speed
    return float(tokens.middle) * flops_per_token(model, length.whole, way) / 1e12


def _flops(row: BenchmarkRow, settings: PageSettings, factor: int) -> int:
    seq_length, global_batch_size = row.count(Meaning.SEQ_LENGTH), row.global_batch_size()
    if settings.formula is Formula.BIGSCIENCE:
        return bigscience_flops(row.parameters(), seq_length, global_batch_size, factor)
    num_layers, hidden_size, padded_vocab_size = map(row.count, _SHAPE)
    return narayanan_flops(
        num_layers=num_layers,
        hidden_size=hidden_size,
        padded_vocab_size=padded_vocab_size,
        seq_length=seq_length,
        global_batch_size=global_batch_size,
        recomputed=factor > MODEL_FACTOR,
    )


def _raise_all(row: BenchmarkRow, settings: PageSettings) -> None:
    """Raise NotUnderstoodError with all problems of a row, not only the first one.

    If the table lacks a column for some numbers, or has several columns for one of them, raise
    NotInTableError with only these problems.
    """
    readers: list[Callable[[], float]] = [row.parameters]
    if settings.formula is Formula.NARAYANAN:
        readers = [partial(row.count, size) for size in _SHAPE]
    readers += [partial(row.count, Meaning.SEQ_LENGTH), row.global_batch_size]
    readers += [row.step_seconds, row.world_size]
    errors: list[NotUnderstoodError] = []
    for read in readers:
        try:
            read()
        except NotUnderstoodError as error:
            errors.append(error)
    if missing := [error for error in errors if isinstance(error, NotInTableError)]:
        raise NotInTableError("; ".join(dict.fromkeys(map(str, missing))))
    raise NotUnderstoodError("; ".join(dict.fromkeys(map(str, errors))))


def _model_tflops(row: BenchmarkRow, settings: PageSettings) -> float:
    published = _published_tflops(row, settings)
    if published is not None:
        return published
    if row.model_name and row.model is None and not _has_size(row):
        raise NotUnderstoodError(f"{row.model_name!r} is not a model that `teralog models` lists")
    return _tflops(row, settings, MODEL_FACTOR)


def _hardware_tflops(row: BenchmarkRow, settings: PageSettings) -> float:
    if any(number.per_gpu for _, number in row.paces) and not _has_size(row):
        published = _published_tflops(row, settings)
        if published is not None:
            return published
    return _tflops(row, settings, settings.factor)


def _has_size(row: BenchmarkRow) -> bool:
    return row.columns.has(Meaning.PARAMETERS)


def _mfu(row: BenchmarkRow, settings: PageSettings) -> float:
    return _model_tflops(row, settings) / _peak_tflops(settings)


def _hfu(row: BenchmarkRow, settings: PageSettings) -> float:
    return _tflops(row, settings, settings.factor) / _peak_tflops(settings)


def _samples_per_second(row: BenchmarkRow, settings: PageSettings) -> float:
    return row.global_batch_size() / row.step_seconds()


def _tokens_per_second(row: BenchmarkRow, settings: PageSettings) -> float:
    return _samples_per_second(row, settings) * row.count(Meaning.SEQ_LENGTH)


def _means(meaning: Meaning) -> Callable[[TableColumn], bool]:
    return lambda column: column.meaning is meaning


def _counts(quantity: Quantity) -> Callable[[TableColumn], bool]:
    return lambda column: column.unit == Unit(quantity, 1.0)


COMPUTED: Mapping[str, Computed] = MappingProxyType(
    {
        "tflops": Computed(
            title="TFLOPs",
            form=Form(decimals=1),
            value=_hardware_tflops,
            is_in=_means(Meaning.TFLOPS_PER_GPU),
        ),
        "model_tflops": Computed(
            title="Model TFLOPs",
            form=Form(decimals=1),
            value=_model_tflops,
            is_in=_means(Meaning.MODEL_TFLOPS_PER_GPU),
        ),
        "mfu": Computed(
            title="MFU", form=_IN_PERCENT, value=_mfu, is_in=_means(Meaning.MFU), is_share=True
        ),
        "hfu": Computed(
            title="HFU", form=_IN_PERCENT, value=_hfu, is_in=_means(Meaning.HFU), is_share=True
        ),
        "samples_per_second": Computed(
            title="Samples/s",
            form=Form(decimals=2),
            value=_samples_per_second,
            is_in=_counts(Quantity.SAMPLES_PER_SECOND),
        ),
        "tokens_per_second": Computed(
            title="Tokens/s",
            form=Form(decimals=0),
            value=_tokens_per_second,
            is_in=_counts(Quantity.TOKENS_PER_SECOND),
        ),
    }
)
