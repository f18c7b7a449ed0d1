"""Build the tables of `teralog models`: of all named models, and of the parts of one model."""

from pathlib import Path

from orchestrator.common.tables import EXACT, Column, Style, Table, make_table
from orchestrator.model.config_json import read_model_config
from orchestrator.model.counting import active_parameters, count_flops, parameters, repetitions
from orchestrator.model.description import Model
from orchestrator.model.huggingface import model_of_config
from orchestrator.model.named import NamedModel, named_model, named_models
from orchestrator.model.parts import ModelPart, derivation, parts

_WHOLE = Style(digits=15, exact=True)


def read_model(name_or_path: str, seq_length: int | None) -> Model:
    """Return the model that a name or a path describes.

    name_or_path: a name that teralog knows, a `config.json`, or the folder that contains it.
    seq_length: the tokens of a sequence; None for the model's usual number.
    Raises UserError if no such name or file exists, or if the file cannot be read.
    """
    path = Path(name_or_path)
    if path.is_dir() or path.is_file() or path.suffix == ".json":
        return model_of_config(read_model_config(path), seq_length)
    return named_model(name_or_path).model(seq_length)


def models_table() -> Table:
    """Return a table with a row for each model that teralog knows by name.

    A row contains the model's parameters, its active parameters (which a token uses), its
    sequence length, its model FLOPs per token, and its source. Parameters and FLOPs are in
    10**9.
    """
    columns: tuple[Column[NamedModel], ...] = (
        Column("name", "name", lambda row: row.name),
        Column("size (B)", "parameters_billions", lambda row: parameters(row.model()) / 1e9, EXACT),
        Column(
            "active (B)", "active_billions", lambda row: active_parameters(row.model()) / 1e9, EXACT
        ),
        Column("seq", "seq_length", lambda row: row.seq_length),
        Column(
            "GFLOPs (per token)",
            "model_gflops_per_token",
            lambda row: count_flops(row.model(), sequences=1).model_per_token / 1e9,
            EXACT,
        ),
        Column("source", "source", lambda row: row.source),
    )
    return make_table(columns, list(named_models().values()))


def parts_table(model: Model) -> Table:
    """Return a table with a row for each part of a model, e.g. for its query matrices.

    A row contains the part's parameters, and its forward and backward FLOPs for one sequence.
    The last column shows how the forward FLOPs are computed. For a part without FLOPs, it shows
    how the parameters are computed.
    """
    terms = {term.part: term for term in count_flops(model, sequences=1).terms}

    def derived(part: ModelPart) -> str:
        factors = (*part.counted_factors, *(part.multiplied or part.stored))
        if not part.multiplied:
            return derivation(factors)
        times = repetitions(part, model.seq_length, "window")
        per = "pairs" if part.pairs else "tokens"
        return derivation((("", 2), (per, times), *factors))

    columns: tuple[Column[ModelPart], ...] = (
        Column("part", "part", lambda part: part.name),
        Column("in", "place", lambda part: part.place),
        Column("parameters", "parameters", lambda part: float(part.parameters), _WHOLE),
        Column("active", "active", lambda part: float(part.active_parameters), _WHOLE),
        Column(
            "forward",
            "forward_flops",
            lambda part: float(terms[part].forward) if part in terms else None,
            _WHOLE,
        ),
        Column(
            "backward",
            "backward_flops",
            lambda part: float(terms[part].backward) if part in terms else None,
            _WHOLE,
        ),
        Column("derivation", "derivation", derived),
    )
    return make_table(columns, parts(model))


def model_sentences(model: Model) -> list[str]:
    """Return the lines below the table of a model: an empty line, and then sentences.

    The sentences give the model's parameters and its FLOPs per sequence.
    """
    flops = count_flops(model, sequences=1)
    of_tokens = f"{model.seq_length} tokens ({flops.model_per_token / 1e9:,.4g} * 10**9 per token)"
    passes = f"{flops.forward:,} forward, {flops.backward:,} backward"
    return [
        "",
        f"{parameters(model):,} parameters, {active_parameters(model):,} of them for each token",
        f"{flops.model:,} model FLOPs for a sequence of {of_tokens}: {passes}",
    ]
