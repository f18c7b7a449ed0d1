"""Read the settings for the tables of a page, from options and from the page itself.

A page sets them in a comment on a separate line, for all tables after it:

    <!-- teralog: seq_length=2048 factor=4 decimals=1 formula=bigscience -->
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TypeVar

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.markdown.document.tables import Document, Text
from orchestrator.markdown.meaning.cells import (
    NotUnderstoodError,
    read_count,
    read_length,
    read_parameters,
)
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.ways_to_count import COUNTED_KEYS, Group, Way
from orchestrator.model.counting import Keys

Choice = TypeVar("Choice")

FACTORS = (3, 4)
MOST_DECIMALS = 6


class Formula(StrEnum):
    """The formula for an iteration's FLOPs; the names are those in orchestrator.run.flops."""

    BIGSCIENCE = "bigscience"
    NARAYANAN = "narayanan"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """The settings for computing TFLOPs.

    factor: the cost of an iteration, in forward passes: 4 if activations are recomputed, else 3.
    decimals: the decimals of TFLOPs; None keeps the decimals of each cell.
    gpu, gpu_peak_tflops: the GPU and its peak, for MFU and HFU; the peak takes precedence over the
        GPU's name.
    constants: numbers for tables that have no column for them.
    columns: meanings of columns whose titles do not show the meaning; the keys are the `title_key`
        of the titles.
    attention: which attention keys are counted in published models: all keys, those in a window, or
        those that the causal mask leaves. None: the choice that agrees with most rows of the page.
    ways: for each published model on the page, the way to count FLOPs with which most of its rows
        agree.
    """

    formula: Formula = Formula.BIGSCIENCE
    factor: int = 4
    decimals: int | None = None
    gpu: str | None = None
    gpu_peak_tflops: float | None = None
    constants: Mapping[Meaning, int] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    attention: Keys | None = None
    ways: Mapping[Group, Way] = field(default_factory=dict)


# Numbers that a page may give once instead of in a column.
CONSTANTS = (
    Meaning.SEQ_LENGTH,
    Meaning.PARAMETERS,
    Meaning.WORLD_SIZE,
    Meaning.NODES,
    Meaning.GPUS_PER_NODE,
    Meaning.GLOBAL_BATCH_SIZE,
    Meaning.MICRO_BATCH_SIZE,
    Meaning.NUM_MICROBATCHES,
    Meaning.DATA_PARALLEL_SIZE,
    Meaning.TENSOR_PARALLEL_SIZE,
    Meaning.PIPELINE_PARALLEL_SIZE,
    Meaning.NUM_LAYERS,
    Meaning.HIDDEN_SIZE,
    Meaning.PADDED_VOCAB_SIZE,
)
KEYS = (
    "formula",
    "factor",
    "decimals",
    "gpu",
    "gpu_peak_tflops",
    "attention",
    *(meaning.value for meaning in CONSTANTS),
)

# How the value of a setting is read; all other settings are counts.
_READERS = {Meaning.PARAMETERS: read_parameters, Meaning.SEQ_LENGTH: read_length}
# Fields whose names are not settings in comments.
_NO_SETTINGS = ("constants", "columns", "ways")
_COMMENT = re.compile(r"<!--\s*teralog\s*:(?P<settings>.*?)(?:-->|\Z)", re.DOTALL)
_SETTING = re.compile(
    r"(?P<key>[^\s=]+)\s*=\s*(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>\S+))|(?P<other>\S+)"
)
_SEQ_LENGTH = re.compile(
    rb"\bseq(?:uence)?[ _-]?len(?:gth)?\b[`*_]*+[ \t]*+(?:is|=|:|of)[`*_ \t]*+"
    rb"(?P<length>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,10})(?:\.[0-9]{1,3})?(?:[ \t]?ki?)?)"
    rb"(?!\w|[.,][0-9]|[ \t]*(?:-|\xe2\x80[\x93\x94]|to\b)[ \t]*[0-9])",
    re.IGNORECASE,
)


def with_comment(settings: PageSettings, comment: Text, data: bytes) -> PageSettings:
    """Return the settings, changed by a comment of the page if it is a settings comment.

    Raises UserError with all problems of the comment. An invalid setting must not be ignored,
    because numbers would then be computed with another value.
    """
    text = data[comment.begin : comment.end].decode("utf-8", "replace")
    match = _COMMENT.match(text)
    if not match:
        return settings
    problems = []
    for setting in _SETTING.finditer(match["settings"]):
        if setting["other"]:
            problems.append(f"{setting['other']!r} is not a setting such as seq_length=2048")
            continue
        value = setting["plain"] if setting["quoted"] is None else setting["quoted"]
        try:
            settings = _with_setting(settings, setting["key"], value)
        except NotUnderstoodError as error:
            problems.append(f"{setting['key']}: {error}")
    if problems:
        raise UserError(*(f"{comment.line}: {problem}" for problem in problems))
    return settings


def overridden(options: PageSettings, page: PageSettings) -> Iterator[str]:
    """Yield the page's settings that replace options of the user, e.g. `factor=3`."""
    default, given, page_values = map(_values, (PageSettings(), options, page))
    for key, value in given.items():
        if value not in {default.get(key), page_values[key]}:
            yield f"{key}={page_values[key]}"


def _values(settings: PageSettings) -> dict[str, object]:
    names = (field.name for field in fields(settings) if field.name not in _NO_SETTINGS)
    constants = {str(meaning): number for meaning, number in settings.constants.items()}
    return {**{name: getattr(settings, name) for name in names}, **constants}


def stated_seq_length(document: Document, data: bytes) -> tuple[int, int] | None:
    """Return the sequence length that the page's prose states, and the first line that states it.

    Returns None if the prose states no length. Returns None, too, if the prose states several
    lengths, because it is not known which length applies to which table.
    """
    begins = [block.begin for block in document.blocks]
    lengths: dict[int, int] = {}
    for match in _SEQ_LENGTH.finditer(data):
        before = bisect_right(begins, match.start()) - 1
        if before < 0 or document.blocks[before].end <= match.start():
            try:
                length = read_length(match["length"].decode())
            except NotUnderstoodError:
                return None
            lengths.setdefault(length, match.start())
    match list(lengths.items()):
        case [(length, begin)]:
            return length, data.count(b"\n", 0, begin) + 1
    return None


def _with_setting(settings: PageSettings, key: str, value: str) -> PageSettings:
    match key:
        case "formula":
            return replace(
                settings, formula=_one_of(value, {formula.value: formula for formula in Formula})
            )
        case "factor":
            return replace(
                settings, factor=_one_of(value, {str(factor): factor for factor in FACTORS})
            )
        case "decimals":
            choices = {str(number): number for number in range(MOST_DECIMALS + 1)}
            return replace(settings, decimals=_one_of(value, choices))
        case "attention":
            return replace(
                settings, attention=_one_of(value, {keys: keys for keys in COUNTED_KEYS})
            )
        case "gpu":
            return replace(settings, gpu=value)
        case "gpu_peak_tflops":
            return replace(settings, gpu_peak_tflops=_positive(value))
    if key not in KEYS:
        raise NotUnderstoodError(f"is not a setting{did_you_mean(key, KEYS)}")
    meaning = Meaning(key)
    read = _READERS.get(meaning, read_count)
    return replace(settings, constants={**settings.constants, meaning: read(value)})


def _one_of(value: str, choices: Mapping[str, Choice]) -> Choice:
    if value not in choices:
        raise NotUnderstoodError(f"{value!r} is not one of {', '.join(choices)}")
    return choices[value]


def _positive(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise NotUnderstoodError(f"{value!r} is not a number above zero")
    return number
