"""The commands that compute estimates before anything runs."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from orchestrator.cli.shared.formats import format_option, print_table
from orchestrator.cli.shared.options import Command, Positive, options
from orchestrator.cli.shared.terminal import complain
from orchestrator.run.choices import Biases, Norm
from orchestrator.workloads.precision import PRECISIONS

if TYPE_CHECKING:
    from orchestrator.estimate.case import Case

_SIZE = click.IntRange(min=1)
_POSITIVE = Positive()


_COUNT = re.compile(
    r"(?P<number>[0-9]+(\.[0-9]+)?(e\+?[0-9]{1,2})?)(?P<unit>[kmbt]?)", re.IGNORECASE
)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


class _Count(click.ParamType[int]):
    """The type of options whose value is an integer of at least 1, e.g. 300e9 or 300B."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert the user's text, e.g. 300B, to an integer."""
        match = _COUNT.fullmatch(str(value).replace(",", ""))
        number = Decimal(match["number"]) * _UNITS[match["unit"].lower()] if match else Decimal(0)
        if number < 1 or number % 1:
            self.fail(
                f"{value} is not a whole number above 0; write e.g. 300B or 300e9", param, ctx
            )
        return int(number)


def _preset(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the value of `--model` unchanged.

    Prints a note if another preset has other sizes, but the same name apart from upper and lower
    case.
    """
    from orchestrator.run.presets import is_preset, other_preset_note

    note = value and is_preset(value) and other_preset_note(value)
    if note:
        click.echo(f"--model: {note}", err=True)
    return value


def _option(name: str, help_text: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(name, help=help_text, **settings)


_campaign = click.argument(
    "campaign", required=False, type=click.Path(dir_okay=False, path_type=Path)
)
model_options = options(
    _option(
        "--model",
        "Preset, e.g. 52B, whose sizes other options may change; or a name that `teralog "
        "models` lists, e.g. llama3-8b.",
        callback=_preset,
    ),
    _option(
        "--config",
        "config.json of a Hugging Face model, or its folder.",
        type=click.Path(path_type=Path),
    ),
    _option(
        "--megatron-arguments",
        "File with arguments for Megatron core, written as in a shell script. Arguments that "
        "do not describe the model are ignored.",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
    ),
    _option("--num-layers", "Transformer layers.", type=_SIZE),
    _option("--hidden-size", "Width of the model.", type=_SIZE),
    _option("--num-attention-heads", "Attention heads per layer.", type=_SIZE),
    _option("--vocab-size", "Tokens of the vocabulary, before padding.", type=_SIZE),
    _option("--seq-length", "Tokens in a sequence.", type=_SIZE),
    _option("--ffn-hidden-size", "Width of the MLP.  [default: 4 * hidden size]", type=_SIZE),
    _option(
        "--num-key-value-heads",
        "Heads of keys and values, if attention heads share them.",
        type=_SIZE,
    ),
    _option("--gated-mlp", "The MLP has a third matrix (SwiGLU).", is_flag=True, default=None),
    _option(
        "--untied-head",
        "The output head does not share the embedding's weights.",
        is_flag=True,
        default=None,
    ),
    _option(
        "--position-table/--no-position-table",
        "Whether the model learns a table of positions. Without a table, positions are rotary or "
        "ALiBi.  [default: with a table]",
        default=None,
    ),
    _option("--embedding-norm", "A norm follows the embedding.", is_flag=True, default=None),
    _option("--biases", "Which matrices have a bias.", type=click.Choice(get_args(Biases))),
    _option("--norm", "Type of norm in the layers.", type=click.Choice(get_args(Norm))),
    _option(
        "--vocab-size-multiple",
        "Pad the vocabulary of each tensor-parallel rank to a multiple of this number.",
        type=_SIZE,
    ),
    _option("--tensor-parallel-size", "Ranks that share each layer.", type=_SIZE),
)
_adapters = options(
    _option(
        "--lora-rank", "Train only LoRA adapters of this rank; the model is frozen.", type=_SIZE
    ),
    _option(
        "--lora-target",
        "A part with adapters, e.g. 'MLP up'; may be repeated.  [default: query, value]",
        multiple=True,
        default=None,
    ),
)
_recomputed = _option(
    "--activation-checkpointing",
    "Layers run forward twice, to save memory.",
    is_flag=True,
    default=None,
)
_world_size = _option("--world-size", "Number of GPUs.", type=_SIZE)
_step_seconds = _option("--step-seconds", "Seconds per iteration.", type=_POSITIVE)


@click.group()
def estimate() -> None:
    """Compute parameters, FLOPs, memory or training time of a model, or of a campaign's runs."""


@estimate.command()
@_campaign
@model_options
@_adapters
@format_option
def params(campaign: Path | None, layout: str, **options: Any) -> None:
    """Count the parameters of a model, or of every run of CAMPAIGN."""
    from orchestrator.estimate.params_and_flops import (
        parameters_record,
        parameters_table,
        parameters_text,
    )

    cases = _cases(campaign, options)
    records = [parameters_record(case) for case in cases]
    print_table(
        layout,
        lambda: parameters_table(cases),
        lambda: records,
        whole=records[0] if campaign is None else None,
        text=lambda: parameters_text(cases),
    )


@estimate.command()
@_campaign
@model_options
@_adapters
@_option(
    "--global-batch-size",
    "Sequences per iteration.  [default: 1; no default with --step-seconds]",
    type=_SIZE,
)
@_recomputed
@_world_size
@_step_seconds
@_option("--gpu", "GPU model, for MFU and HFU.")
@_option(
    "--precision", "Precision of the GPU's peak.  [default: fp16]", type=click.Choice(PRECISIONS)
)
@_option(
    "--gpu-peak-tflops",
    "Dense peak in TFLOP/s of a GPU that teralog does not know.",
    type=_POSITIVE,
)
@_option(
    "--conventions",
    "Show the FLOPs that Megatron core, Megatron-Bridge, torchtitan, nanotron and others count, "
    "and why they differ.",
    is_flag=True,
)
@format_option
def flops(
    campaign: Path | None,
    layout: str,
    step_seconds: float | None,
    conventions: bool,
    **options: Any,
) -> None:
    """Count the FLOPs of an iteration by every convention, for a model or CAMPAIGN's runs.

    With --world-size and --step-seconds, the command also computes TFLOP/s per GPU; if --gpu is
    given too, also MFU and HFU.
    """
    from orchestrator.estimate.params_and_flops import flops_records, flops_table, flops_text

    if campaign is None and step_seconds is None and options["global_batch_size"] is None:
        options["global_batch_size"] = 1
        complain(
            "these are the FLOPs of one sequence; for more sequences, give --global-batch-size"
        )
    cases = _cases(campaign, options)
    timed = step_seconds is not None and cases[0].world_size is not None
    if campaign is None and not timed and (step_seconds is not None or cases[0].peak is not None):
        complain("TFLOP/s per GPU, MFU and HFU need both --world-size and --step-seconds")
    if conventions:
        from orchestrator.estimate.conventions import (
            convention_records,
            conventions_table,
            conventions_text,
        )

        print_table(
            layout,
            lambda: conventions_table(cases, step_seconds),
            lambda: convention_records(cases, step_seconds),
            text=lambda: conventions_text(cases, step_seconds),
        )
        return
    print_table(
        layout,
        lambda: flops_table(cases, step_seconds),
        lambda: flops_records(cases, step_seconds),
        text=lambda: flops_text(cases, step_seconds),
    )


@estimate.command()
@_campaign
@model_options
@_option("--pipeline-parallel-size", "Pipeline stages.", type=_SIZE)
@_option("--expert-parallel-size", "Ranks that share the experts of a layer.", type=_SIZE)
@_option(
    "--zero-stage",
    "ZeRO stage of DeepSpeed. Without this option, the forecast is for Megatron.",
    type=click.IntRange(0, 3),
)
@_world_size
@_option(
    "--micro-batch-size", "Sequences that a rank processes at a time.  [default: 1]", type=_SIZE
)
@_option("--num-microbatches", "Micro-batches per iteration.  [default: 1]", type=_SIZE)
@_option(
    "--precision", "Precision of the training.  [default: fp16]", type=click.Choice(PRECISIONS)
)
@_recomputed
@_option(
    "--offload-optimizer",
    "Keep the optimizer's states in the host's memory.",
    is_flag=True,
    default=None,
)
@_option(
    "--offload-parameters",
    "Keep ZeRO-3's parameters in the host's memory.",
    is_flag=True,
    default=None,
)
@_option("--gpu", "GPU model; shows whether the training fits into its memory.")
@_option(
    "--gpu-memory",
    "Memory of the GPU in GiB; replaces that of --gpu.",
    type=_POSITIVE,
    metavar="GIB",
)
@format_option
def memory(campaign: Path | None, layout: str, **options: Any) -> None:
    """Forecast the memory that a rank needs, part by part, for a model or CAMPAIGN's runs."""
    from orchestrator.campaign.campaign import load_campaign
    from orchestrator.estimate.memory import (
        campaign_estimates,
        estimate_record,
        estimates_table,
        estimates_text,
        memory_estimate,
    )

    if campaign is None:
        estimates = [memory_estimate(options)]
    else:
        _refuse_model(options)
        estimates = campaign_estimates(load_campaign(campaign))
    print_table(
        layout,
        lambda: estimates_table(estimates),
        lambda: [estimate_record(estimate) for estimate in estimates],
        text=lambda: estimates_text(estimates),
    )


@estimate.command()
@_campaign
@model_options
@_option("--parameters", "Number of parameters, instead of a model, e.g. 52B.", type=_Count())
@_recomputed
@_world_size
@_option("--tokens", "Tokens to train on, e.g. 300B.", type=_Count())
@_option("--tflops-per-gpu", "TFLOP/s per GPU, by BigScience's convention.", type=_POSITIVE)
@_option("--train-iters", "Number of iterations.", type=_SIZE)
@_step_seconds
@format_option
def time(
    campaign: Path | None,
    layout: str,
    tokens: int | None,
    tflops_per_gpu: float | None,
    step_seconds: float | None,
    **options: Any,
) -> None:
    """Compute how long a training takes, from --tokens and a speed, or from --step-seconds."""
    from orchestrator.estimate.time import (
        case_training,
        derivations,
        duration_record,
        durations,
        durations_table,
        option_training,
    )

    if campaign is None:
        trainings = [option_training(options)]
    else:
        trainings = [case_training(case) for case in _cases(campaign, options)]
    results = durations(
        trainings, tokens=tokens, tflops_per_gpu=tflops_per_gpu, step_seconds=step_seconds
    )
    print_table(
        layout,
        lambda: durations_table(results),
        lambda: [duration_record(duration) for duration in results],
        sentences=derivations(results),
    )


def _cases(campaign: Path | None, options: dict[str, Any]) -> "list[Case]":
    """Return what to estimate: the runs of a campaign, or the model that the options describe.

    Raises UserError with the problems of the campaign file or of the options. Raises UsageError if
    the user gives both a campaign and a model.
    """
    from orchestrator.campaign.campaign import load_campaign
    from orchestrator.estimate.case import campaign_cases, option_case

    if campaign is None:
        return [option_case(options)]
    _refuse_model(options)
    return campaign_cases(load_campaign(campaign))


def _refuse_model(options: dict[str, Any]) -> None:
    """Raise UsageError if the user gave a campaign together with options that describe a model.

    The campaign file already contains the values of these options, e.g. the sizes of a model.
    options: the values of these options; None or () for each option that the user did not give.
    """
    given = [name for name, value in options.items() if value not in (None, ())]
    if given:
        name = given[0].replace("_", "-")
        raise click.UsageError(
            f"--{name}: cannot be used with a campaign, which has its own value; remove the "
            "option or the campaign"
        )


@click.command()
@click.argument("model", required=False)
@click.option("--seq-length", type=click.IntRange(min=1), help="Tokens in a sequence of MODEL.")
@format_option
def models(model: str | None, seq_length: int | None, layout: str) -> None:
    """List the models that have a name, or show the parameters and FLOPs of MODEL part by part.

    MODEL is such a name, or the path of a config.json.
    """
    from orchestrator.common.tables import as_records
    from orchestrator.estimate.models import model_sentences, models_table, parts_table, read_model

    if model is None and seq_length is not None:
        raise click.UsageError("--seq-length: give a MODEL too")
    described = None if model is None else read_model(model, seq_length)
    table = models_table() if described is None else parts_table(described)
    sentences = [] if described is None else model_sentences(described)
    print_table(
        layout, lambda: table, lambda: as_records(table), values=lambda: table, sentences=sentences
    )
