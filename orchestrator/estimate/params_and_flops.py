"""Estimate parameters and FLOPs, with their derivations, as text and as JSON."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.common.fitted import fitted_text
from orchestrator.common.tables import EXACT, Column, Style, Table, make_table
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import printable
from orchestrator.estimate.case import Case, distinct, first_label
from orchestrator.estimate.size_labels import label_sentence, label_unit
from orchestrator.model.convention_names import Convention
from orchestrator.model.counting import (
    Flops,
    Term,
    active_parameters,
    count_flops,
    trained_parameters,
)
from orchestrator.model.description import Model
from orchestrator.model.parts import derivation, parts
from orchestrator.run.described import description
from orchestrator.run.flops import (
    FORMULA_CONVENTIONS,
    Iteration,
    flops_by,
    formula_by,
    tflops_per_gpu,
    utilization,
)
from orchestrator.run.formulas import substitute_numbers, symbols_used, value
from orchestrator.run.shape import GPT2_PARAMETERS

_WHOLE = Style(digits=15, exact=True)
_LETTERS = {
    "P": "parameters",
    "N": "parameters that multiply activations",
    "B": "global_batch_size",
    "l": "num_layers",
    "h": "hidden_size",
    "f": "ffn_hidden_size",
    "k": "width of keys",
    "V": "padded vocab_size",
    "s": "seq_length",
}


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    formula: str
    parameters: int


_PARTS: tuple[Column[_Part], ...] = (
    Column("part", "part", lambda part: part.name),
    Column("formula", "formula", lambda part: part.formula),
    Column("parameters", "parameters", lambda part: float(part.parameters), _WHOLE),
)
_SIZES: tuple[Column[Case], ...] = (
    Column("run", "label", lambda case: case.label),
    Column("size (B)", "billions", lambda case: case.parameters / 1e9, EXACT),
    Column("parameters", "parameters", lambda case: float(case.parameters), _WHOLE),
)


def parameters_table(cases: Sequence[Case]) -> Table:
    """Return a table with the number of parameters of the model in each case.

    Cases with equal models share a row. For a single case, the table has instead a row for each
    part of its model, e.g. the embedding.
    """
    if len(cases) == 1:
        return make_table(_PARTS, _parts(cases[0]))
    return make_table(_SIZES, distinct(cases, lambda case: (case.model, case.padded_vocab_size)))


def parameters_text(cases: Sequence[Case]) -> str:
    """Return the number of parameters of each case's model, and its derivation, as text."""
    table = [fitted_text(parameters_table(cases), terminal_width())] if len(cases) > 1 else []
    return "\n\n".join([*table, *_derivations(cases, _parameters_derived)])


def parameters_record(case: Case) -> dict[str, Any]:
    """Return a model's parameters as a JSON object, with their parts.

    `label_unit` is the unit of the size in the model's name: 10**9, or 2**30 in older names. It is
    `neither` if the size agrees with neither unit, and null if the name contains no size.
    """
    model = description(case.model, case.padded_vocab_size)
    return {
        "label": case.label,
        "parameters": case.parameters,
        "active_parameters": active_parameters(model),
        "trained_parameters": trained_parameters(model),
        "billions": case.parameters / 1e9,
        "label_unit": label_unit(case.label, case.parameters),
        "padded_vocab_size": case.padded_vocab_size,
        "parts": {part.name: part.parameters for part in _parts(case)},
        "formulas": {part.name: part.formula for part in _parts(case)},
    }


def _parts(case: Case) -> list[_Part]:
    """Return the parts of a case's model that have parameters, e.g. the embedding.

    The formula of a part is written in letters, e.g. with h for the hidden size. For a
    described model, it is a product of numbers.
    """
    if case.model.described is not None:
        return _described_parts(description(case.model, case.padded_vocab_size))
    symbols = case.model.symbols(case.padded_vocab_size)
    formulas = case.model.parameter_formulas().items()
    return [_Part(name, formula, value(formula, symbols)) for name, formula in formulas]


def _described_parts(model: Model) -> list[_Part]:
    stored = [part for part in parts(model) if part.stored]
    names = Counter(part.name for part in stored)
    numbers: Counter[str] = Counter()
    rows = []
    for part in stored:
        name = part.name if names[part.name] == 1 else f"{part.name} ({part.place})"
        numbers[name] += 1
        # Layers may differ in the sizes of a part, e.g. with several kinds of attention.
        name = name if numbers[name] == 1 else f"{name} {numbers[name]}"
        formula = derivation((*part.counted_factors, *part.stored))
        rows.append(_Part(name, formula, part.parameters))
    return rows


def _described_sentences(case: Case) -> Iterator[str]:
    """Yield sentences with the numbers of all, active and trained parameters of a described model.

    Active parameters are those that a token uses. The sentence about active parameters is left
    out if all parameters are active. The sentence about trained parameters is left out if all
    are trained.
    """
    model = description(case.model, case.padded_vocab_size)
    yield f"{case.parameters:,} parameters = {case.parameters / 1e9:.4g} * 10**9"
    active, trained = active_parameters(model), trained_parameters(model)
    if active != case.parameters:
        yield f"{active:,} of them for each token = {active / 1e9:.4g} * 10**9"
    if trained != case.parameters:
        yield f"{trained:,} of them are trained; the others are frozen"


def _parameters_derived(case: Case) -> str:
    if case.model.described is not None:
        table = fitted_text(make_table(_PARTS, _parts(case)), terminal_width())
        return "\n".join((table, "", *_described_sentences(case)))
    symbols = case.model.symbols(case.padded_vocab_size)
    formula = " + ".join(case.model.parameter_formulas().values())
    sentence = label_sentence(case.label, case.parameters)
    lines = (
        fitted_text(make_table(_PARTS, _parts(case)), terminal_width()),
        "",
        f"P = {formula}",
        *([f"  = {GPT2_PARAMETERS}"] if case.model.is_gpt2 else []),
        f"  = {substitute_numbers(formula, symbols)}",
        f"  = {case.parameters:,} = {case.parameters / 1e9:.4g} * 10**9",
        f"with {_letters(formula, symbols)}",
        *([printable(sentence)] if sentence else []),
    )
    return "\n".join(lines)


def _derivations(cases: Sequence[Case], derived: Callable[[Case], str]) -> Iterator[str]:
    """Yield the text that the function `derived` returns for each case; equal texts only once.

    If there are several texts, a line above each text names the runs to which the text applies.
    """
    labels: dict[str, list[str]] = {}
    for case in cases:
        labels.setdefault(derived(case), []).append(case.label)
    for text, of in labels.items():
        yield f"{printable(first_label(of))}:\n\n{text}" if len(labels) > 1 else text


def _letters(formula: str, symbols: Mapping[str, int]) -> str:
    used = symbols_used(formula, symbols)
    return ", ".join(f"{letter} = {_LETTERS[letter]} = {number}" for letter, number in used.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    """The FLOPs of an iteration by one convention, and the speed and utilization from these FLOPs.

    Unknown numbers are None. mfu and hfu are fractions, e.g. 0.45 for 45 %. If the convention
    counts recomputation, only hfu has a value; otherwise only mfu has a value.
    """

    case: Case
    convention: Convention
    formula: str | None
    flops: int | None
    tflops_per_gpu: float | None
    mfu: float | None
    hfu: float | None


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


_COUNTS: tuple[Column[_Count], ...] = (
    Column("convention", "convention", lambda count: count.convention.name),
    Column(
        "counts",
        "counts_recomputation",
        lambda count: "hardware" if count.convention.counts_recomputation else "model",
    ),
    Column(
        "10**12 FLOPs (per iteration)",
        "flops",
        lambda count: None if count.flops is None else count.flops / 1e12,
        Style(digits=6),
    ),
)
_SPEEDS: tuple[Column[_Count], ...] = (
    Column("TFLOP/s (per GPU)", "tflops_per_gpu", lambda count: count.tflops_per_gpu),
    Column("MFU %", "mfu", lambda count: _percent(count.mfu), Style(digits=3)),
    Column("HFU %", "hfu", lambda count: _percent(count.hfu), Style(digits=3)),
)
_RUN: Column[_Count] = Column("run", "label", lambda count: count.case.label)


def flops_table(cases: Sequence[Case], step_seconds: float | None) -> Table:
    """Return a table of the FLOPs of an iteration, with a row for each case and convention.

    Equal cases share their rows. If `step_seconds` is given, the table also has TFLOP/s per
    GPU, MFU and HFU, if they are known. Raises UserError if no case has a known global batch.
    """
    counts = _counts(distinct(cases, lambda case: replace(case, label="")), step_seconds)
    speeds = [column for column in _SPEEDS if any(map(column.value, counts))]
    return make_table((*([_RUN] if len(cases) > 1 else []), *_COUNTS, *speeds), counts)


def flops_text(cases: Sequence[Case], step_seconds: float | None) -> str:
    """Return the table of FLOPs as text, the peaks of the GPUs, and how each number is computed."""
    table = flops_table(cases, step_seconds)
    shown = {column.name for column in _SPEEDS} & {*table.names}
    peaks = dict.fromkeys(_peak_sentence(case) for case in cases) if shown else ()
    parts = (
        "\n".join((fitted_text(table, terminal_width()), *filter(None, peaks))),
        *_derivations(cases, _flops_derived),
    )
    return "\n\n".join(parts)


def flops_records(cases: Sequence[Case], step_seconds: float | None) -> list[dict[str, Any]]:
    """Return the FLOPs of an iteration as JSON: one object per case and convention."""
    return [
        {
            "label": count.case.label,
            "convention": count.convention.name,
            "title": count.convention.title,
            "counts_recomputation": count.convention.counts_recomputation,
            "flops": count.flops,
            "formula": count.formula,
            "assumes": count.convention.assumes or None,
            "symbols": _symbols(count.case),
            "tflops_per_gpu": count.tflops_per_gpu,
            "mfu": count.mfu,
            "hfu": count.hfu,
            "peak_tflops": count.case.peak and count.case.peak.value,
            "peak": count.case.peak and count.case.peak.explanation,
        }
        for count in _counts(cases, step_seconds)
    ]


def _symbols(case: Case) -> dict[str, int] | None:
    described = case.iteration is None or case.model.described is not None
    return None if described or case.iteration is None else case.iteration.symbols


def _counts(cases: Sequence[Case], step_seconds: float | None) -> list[_Count]:
    if all(case.iteration is None for case in cases):
        raise UserError("the global batch is not known; give --global-batch-size")
    conventions = FORMULA_CONVENTIONS
    return [_count(case, convention, step_seconds) for case in cases for convention in conventions]


def _count(case: Case, convention: Convention, step_seconds: float | None) -> _Count:
    iteration, described = case.iteration, case.model.described is not None
    flops = flops_by(convention, iteration) if iteration else None
    speed = None
    if case.world_size is not None:
        speed = tflops_per_gpu(flops, step_seconds, case.world_size)
    part = utilization(speed, case.peak.value if case.peak else None)
    hardware = convention.counts_recomputation
    return _Count(
        case=case,
        convention=convention,
        formula=None if iteration is None or described else formula_by(convention, iteration),
        flops=flops,
        tflops_per_gpu=speed,
        mfu=None if hardware else part,
        hfu=part if hardware else None,
    )


def _flops_derived(case: Case) -> str:
    iteration = case.iteration
    if iteration is None:
        return "the global batch is not known"
    if case.model.described is not None:
        return _terms_derived(case)
    formulas = (formula_by(convention, iteration) for convention in FORMULA_CONVENTIONS)
    blocks = (_counted(convention, iteration) for convention in FORMULA_CONVENTIONS)
    used = " + ".join(filter(None, formulas))
    return "\n\n".join((*blocks, f"with {_letters(used, iteration.symbols)}"))


_TERMS: tuple[Column[Term], ...] = (
    Column("part", "part", lambda term: term.part.name),
    Column("forward", "forward", lambda term: float(term.forward), _WHOLE),
    Column("backward", "backward", lambda term: float(term.backward), _WHOLE),
    Column("recomputed", "recomputed", lambda term: float(term.recomputed), _WHOLE),
    Column("forward is", "derivation", lambda term: term.derivation),
)


def described_flops(case: Case) -> Flops | None:
    """Return the exact FLOPs of one iteration of a case, part by part.

    Returns None if the global batch is not known.
    """
    if case.global_batch_size is None:
        return None
    model = description(case.model, case.padded_vocab_size)
    return count_flops(model, sequences=case.global_batch_size, recomputed=case.recomputed)


def _terms_derived(case: Case) -> str:
    flops = described_flops(case)
    if flops is None:
        return "the global batch is not known"
    columns = [column for column in _TERMS if column.name != "recomputed" or case.recomputed]
    lines = (
        fitted_text(make_table(columns, flops.terms), terminal_width()),
        "",
        f"model FLOPs: {flops.forward:,} forward + {flops.backward:,} backward = {flops.model:,}",
        f"model FLOPs per token: {flops.model_per_token / 1e9:,.4g} * 10**9",
        *(
            [f"hardware FLOPs: {flops.recomputed:,} more than model FLOPs, for recomputation"]
            if case.recomputed
            else []
        ),
    )
    return "\n".join(lines)


def _counted(convention: Convention, iteration: Iteration) -> str:
    title = f"{convention.name}: {convention.title}"
    formula = formula_by(convention, iteration)
    if formula is None:
        return f"{title}\n  does not apply to this model: it assumes {convention.assumes}"
    lines = (
        title,
        f"  {formula}",
        f"  = {substitute_numbers(formula, iteration.symbols)}",
        f"  = {value(formula, iteration.symbols):,}",
    )
    return "\n".join(lines)


def _peak_sentence(case: Case) -> str | None:
    if case.peak is None:
        return None
    if case.peak.value is None:
        return f"MFU and HFU are unknown: {printable(case.peak.explanation)}"
    return f"MFU and HFU are relative to {printable(case.peak.explanation)}"
