"""Recognize the columns of people's benchmark tables by the spellings of their titles."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from orchestrator.markdown.meaning.units import (
    Quantity,
    Unit,
    length_unit,
    pace_unit,
    size_unit,
)


class Meaning(StrEnum):
    """The meaning of a column.

    PACE: a time per iteration or a rate; the unit, in the title or in the cells, decides which.
    MODEL: a name that may contain the size, e.g. `GPT-2 XL (1.5B)`.
    GPU: the GPU's name, e.g. `V100`; people also write the number of GPUs in such columns.
    REPORTED_TFLOPS: TFLOPs that a program printed.
    STATISTIC: the spread of measurements, or the number of reports.
    MODEL_TFLOPS_PER_GPU: TFLOPs whose title states that recomputation is not counted.
    PRECISION: the number format of products, e.g. FP8.
    """

    PARAMETERS = "parameters"
    MODEL = "model"
    WORLD_SIZE = "world_size"
    NODES = "nodes"
    GPUS_PER_NODE = "gpus_per_node"
    DATA_PARALLEL_SIZE = "data_parallel_size"
    TENSOR_PARALLEL_SIZE = "tensor_parallel_size"
    PIPELINE_PARALLEL_SIZE = "pipeline_parallel_size"
    CONTEXT_PARALLEL_SIZE = "context_parallel_size"
    MICRO_BATCH_SIZE = "micro_batch_size"
    NUM_MICROBATCHES = "num_microbatches"
    GLOBAL_BATCH_SIZE = "global_batch_size"
    SEQ_LENGTH = "seq_length"
    NUM_LAYERS = "num_layers"
    HIDDEN_SIZE = "hidden_size"
    NUM_ATTENTION_HEADS = "num_attention_heads"
    PADDED_VOCAB_SIZE = "padded_vocab_size"
    ZERO_STAGE = "zero_stage"
    PACE = "pace"
    TFLOPS_PER_GPU = "tflops_per_gpu"
    MODEL_TFLOPS_PER_GPU = "model_tflops_per_gpu"
    REPORTED_TFLOPS = "reported_tflops"
    MFU = "mfu"
    HFU = "hfu"
    MEMORY = "memory"
    GPU = "gpu"
    PRECISION = "precision"
    ID = "id"
    OUTCOME = "outcome"
    NOTES = "notes"
    STATISTIC = "statistic"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its index, its title as text, its meaning, and the unit in its title.

    rank: if a run has several times or rates that are different averages, the column with the
    lowest rank is used.
    """

    index: int
    title: str
    meaning: Meaning | None
    unit: Unit | None
    rank: int = 0


# Names that a user may give a time or a rate whose title does not show the quantity.
_PACES = {
    str(quantity): quantity
    for quantity in (
        Quantity.STEP_SECONDS,
        Quantity.SAMPLES_PER_SECOND,
        Quantity.TOKENS_PER_SECOND,
        Quantity.ITERATIONS_PER_SECOND,
    )
}
COLUMN_NAMES = (*(str(meaning) for meaning in Meaning if meaning is not Meaning.PACE), *_PACES)

# Only letters and digits of a title count, in lower case: "Glob-BS" and "GLOB_BS" are equal.
_SPELLINGS = {
    Meaning.PARAMETERS: """size modelsize msize params parameters nparams numparams
        numparameters numberofparameters modelparams modelparameters""",
    Meaning.MODEL: "model modelname models modelid llm network architecture",
    Meaning.WORLD_SIZE: """gpus ngpus ngpu numgpus totalgpus gpucount numberofgpus worldsize
        devices ndevices numdevices ranks numranks chips nchips numchips numberofchips accelerators
        numofgpus nofgpus""",
    Meaning.NODES: "nodes node nnodes numnodes numberofnodes",
    Meaning.GPUS_PER_NODE: "gpuspernode gpusnode gpupernode gpunode ngpuspernode",
    Meaning.DATA_PARALLEL_SIZE: "dp dpsize dataparallel dataparallelsize dpdegree",
    Meaning.TENSOR_PARALLEL_SIZE: """tp tpsize tensorparallel tensorparallelsize tpdegree mp mpsize
        modelparallel modelparallelsize""",
    Meaning.PIPELINE_PARALLEL_SIZE: """pp ppsize pipelineparallel pipelineparallelsize ppdegree
        pipelinestages ppstages""",
    Meaning.CONTEXT_PARALLEL_SIZE: "cp cpsize contextparallel contextparallelsize",
    Meaning.MICRO_BATCH_SIZE: "micbs mbs microbs microbatch microbatchsize ubs",
    Meaning.NUM_MICROBATCHES: """ppchunks chunks gas gradacc gradaccum gradaccumulation
        gradientaccumulation gradientaccumulationsteps gradaccsteps accumulationsteps microbatches
        nummicrobatches""",
    Meaning.GLOBAL_BATCH_SIZE: """globbs gbs globalbs globalbatch globalbatchsize globbatch
        trainbatchsize totalbatchsize""",
    Meaning.SEQ_LENGTH: """seq seqlen seqlength sequencelength sequencelen context contextlength ctx
        packedsequencelength packedseqlength maxseqlen maxseqlength maxsequencelength""",
    Meaning.NUM_LAYERS: "layers nlayers numlayers numberoflayers",
    Meaning.HIDDEN_SIZE: "hidden nhidden hiddensize dmodel hiddendim",
    Meaning.NUM_ATTENTION_HEADS: "heads nheads numheads attentionheads numattentionheads",
    Meaning.PADDED_VOCAB_SIZE: "vocab vocabsize paddedvocab paddedvocabsize",
    Meaning.ZERO_STAGE: "zero zerostage stage",
    Meaning.PACE: """throughput speed time steptime timeperstep timestep iterationtime itertime
        timeperiteration timeperiter timeiter timeit througput throuthput timeperglobalstep
        globalsteptime throughputpergpu""",
    Meaning.MFU: "mfu modelflopsutilization modelflopsutilisation",
    Meaning.HFU: "hfu hardwareflopsutilization hardwareflopsutilisation",
    Meaning.MEMORY: "mem memory gpumem gpumemory peakmem peakmemory maxmem",
    Meaning.GPU: """gpu gputype gpumodel gpuname accelerator acceleratortype system hardware chip
        chiptype device""",
    Meaning.PRECISION: "precision dtype datatype numberformat numerics computeprecision",
    Meaning.ID: "id no nr run runid job jobid date",
    Meaning.OUTCOME: "outcome ended status",
    Meaning.NOTES: "notes note comment comments remark remarks",
}
_MEANINGS = {
    word: meaning for meaning, spellings in _SPELLINGS.items() for word in spellings.split()
}

_MARKUP = re.compile(
    r"<[^<>]*>|!?\[(?P<text>[^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])|\[\^[^\[\]]*\]"
    r"|[*`~†‡]|(?<!\w)_|_(?!\w)"
)
_UNIT = re.compile(
    r"(?P<name>.*?)[\s,]*(?:\((?P<round>[^()]*)\)|\[(?P<square>[^\[\]]*)\])\s*"
    r"|(?P<name_before_comma>[^,]*),\s*(?P<comma>[^,]*)"
)
_NUMBER_OF = re.compile(r"^(?:#|\u2116)\s*")
_LONGEST = 100
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_TFLOPS = re.compile(r"t(?:era)?flop(?:s(?!ec))?")
# Words that may be next to TFLOPs in the title of a column with computed TFLOPs.
_PLAIN = re.compile(
    r"(?:per|ps|s|sec|second|a|gpus?|device|card|rank|chip|achieved|computed|calculated)*"
)
_MODEL = re.compile(rf"model(?P<rest>{_PLAIN.pattern})")
_REPORTED = re.compile(r"report|log|print|measured|megatron|deepspeed")
_MEMORY_UNIT = re.compile(r"[kmgt]i?b", re.IGNORECASE)
# A table with all these titles is a report of teralog. In other tables, e.g. n may mean anything.
_OURS = frozenset({"step mean (s)", "median (s)", "spread (s)", "n"})
# The times and rates of a teralog report, the best first: TFLOPs are computed from the median, or
# from the mean if no step was logged.
_OUR_PACES = (
    "median (s)",
    "step mean (s)",
    "samples/s (avg)",
    "throughput (samples/s)",
    "samples/s (last)",
)
_SECONDS = Unit(Quantity.STEP_SECONDS, 1.0)


def without_markup(text: str) -> str:
    """Return the text of a cell without bold, links, code and footnotes."""
    return _MARKUP.sub(lambda match: match["text"] or "", text).strip()


def title_key(title: str) -> str:
    """Return a title as a key: its letters and digits in lower case, e.g. `micbs` for `Mic-BS`.

    A `#` or `№` at the beginning becomes `n`, e.g. `ngpus` for `#GPUs`.
    """
    return _NO_LETTER.sub("", _NUMBER_OF.sub("n", without_markup(title)).lower())


def read_columns(
    titles: Sequence[str], given: Mapping[str, str] | None = None
) -> list[TableColumn]:
    """Return the columns of a table, recognized by the texts of their titles.

    given: the meanings that the user gives to columns. A key is the `title_key` of a column's
    title, and its value is a name in COLUMN_NAMES. These meanings take precedence over those that
    teralog recognizes by the titles.
    """
    columns = [_column(index, title) for index, title in enumerate(titles)]
    if is_ours(titles):
        columns = [_of_ours(column) for column in columns]
    return [_as_given(column, (given or {}).get(title_key(column.title))) for column in columns]


def _as_given(column: TableColumn, name: str | None) -> TableColumn:
    """Return a column with the meaning that the user gives it; unchanged if the user gives none."""
    if name is None:
        return column
    if name in _PACES:
        match = _UNIT.fullmatch(without_markup(column.title))
        text = (match and (match["round"] or match["square"] or match["comma"])) or ""
        unit = pace_unit(text)
        if unit is None or unit.quantity != name:
            unit = Unit(_PACES[name], 1.0)
        return replace(column, meaning=Meaning.PACE, unit=unit)
    meaning = Meaning(name)
    return column if column.meaning is meaning else replace(column, meaning=meaning, unit=None)


def is_ours(titles: Sequence[str]) -> bool:
    """Return whether these titles show that `teralog report` wrote the table."""
    return {title.strip() for title in titles} >= _OURS


def _of_ours(column: TableColumn) -> TableColumn:
    title = column.title.strip()
    if title in _OUR_PACES:
        unit = column.unit or _SECONDS
        rank = _OUR_PACES.index(title)
        return replace(column, meaning=Meaning.PACE, unit=unit, rank=rank)
    return replace(column, meaning=Meaning.STATISTIC) if title in _OURS else column


@cache
def _column(index: int, title: str) -> TableColumn:
    if len(title) > _LONGEST:
        return TableColumn(index, title, None, None)
    text = _NUMBER_OF.sub("n", without_markup(title))
    whole = _NO_LETTER.sub("", text.lower())
    if (flops := _TFLOPS.search(whole)) is not None:
        rest = whole[: flops.start()] + whole[flops.end() :]
        return TableColumn(index, title, _meaning_of_tflops(rest), None)
    name, unit_text = text, ""
    if match := _UNIT.fullmatch(text):
        name = match["name"] or match["name_before_comma"] or ""
        unit_text = match["round"] or match["square"] or match["comma"] or ""
    meaning = _MEANINGS.get(_NO_LETTER.sub("", name.lower()))
    if meaning is Meaning.PARAMETERS:
        return TableColumn(index, title, meaning, size_unit(unit_text))
    if meaning is Meaning.SEQ_LENGTH:
        return TableColumn(index, title, meaning, length_unit(unit_text))
    if meaning is Meaning.PACE:
        # A time without a unit is in seconds; a throughput without a unit may be anything.
        unit = _SECONDS if "time" in name.lower() and not unit_text else None
        return TableColumn(index, title, meaning, pace_unit(unit_text) or unit)
    if meaning is None and (unit := pace_unit(name)):
        return TableColumn(index, title, Meaning.PACE, unit)
    if name.lower() == "peak" and _MEMORY_UNIT.fullmatch(unit_text):
        meaning = Meaning.MEMORY
    return TableColumn(index, title, meaning, None)


def _meaning_of_tflops(rest: str) -> Meaning | None:
    if _PLAIN.fullmatch(rest):
        return Meaning.TFLOPS_PER_GPU
    if _MODEL.fullmatch(rest):
        return Meaning.MODEL_TFLOPS_PER_GPU
    return Meaning.REPORTED_TFLOPS if _REPORTED.search(rest) else None
