"""`hf_deepspeed`: train GPT-2 from scratch with Hugging Face's Trainer and DeepSpeed ZeRO."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.common.tables import Column
from orchestrator.frameworks.arguments import Arguments
from orchestrator.frameworks.base import Checks, Framework, ModelUse, OwnColumns, ProgramLog, Start
from orchestrator.frameworks.deepspeed import zero
from orchestrator.frameworks.deepspeed.config import (
    FILE_NAME,
    trainer_config,
    trainer_sizes,
    without_fused_adam,
)
from orchestrator.frameworks.deepspeed.known_keys import earlier_keys
from orchestrator.frameworks.limits import set_twice, unsplit
from orchestrator.frameworks.options.checks import FurtherArguments
from orchestrator.memory.placement import Placement, recomputation
from orchestrator.run import run_columns
from orchestrator.run.model import Run
from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.formats.hf_trainer import HF_TRAINER_METRICS, HF_TRAINER_REPORTS, HF_TRAINER_RESULT

# The vocabulary of the tokenizer that run_clm.py gets if the campaign names no tokenizer.
_GPT2_TOKENS = 50257
# Options of run_clm.py that a run's parameters set.
_SET_BY_PARAMETERS = {
    "--tokenizer_name": "tokenizer",
    "--dataset_name": "dataset",
    "--config_overrides": "model",
    "--config_name": "model",
    "--model_name_or_path": "model",
    "--model_type": "model",
    "--block_size": "seq_length",
    "--max_steps": "train_iters",
    "--per_device_train_batch_size": "micro_batch_size",
    "--gradient_accumulation_steps": "num_microbatches",
    "--learning_rate": "learning_rate",
    "--warmup_steps": "warmup_steps",
    "--seed": "seed",
    "--fp16": "precision",
    "--bf16": "precision",
    "--gradient_checkpointing": "activation_checkpointing",
    "--deepspeed": "deepspeed",
    "--output_dir": "the script",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HfDeepspeedOptions:
    """Parameters that only the hf_deepspeed framework has."""

    program: Annotated[
        Literal["hf_gpt", "run_clm"],
        Field(description="teralog's own program, or run_clm.py of transformers' examples."),
    ] = "hf_gpt"
    script: Annotated[
        str | None, Field(description="Path of run_clm.py, relative to the campaign file.")
    ] = None
    script_args: Annotated[
        Arguments, Field(description="Further arguments of run_clm.py, after all others.")
    ] = field(default_factory=list)
    dataset: Annotated[
        str | None,
        Field(
            description="Data set of run_clm.py: a name in Hugging Face's cache, or a folder "
            "(./texts)."
        ),
    ] = None
    tokenizer: Annotated[
        str,
        Field(
            description="Tokenizer of run_clm.py: a name in Hugging Face's cache, or a folder "
            "(./bpe)."
        ),
    ] = "gpt2"
    zero_stage: Annotated[int, Field(description="ZeRO stage, 0 to 3.", ge=0, le=3)] = 2
    offload_optimizer: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO's optimizer states.")
    ] = "none"
    offload_param: Annotated[
        zero.OffloadDevice, Field(description="Device that keeps ZeRO-3's parameters.")
    ] = "none"
    warmup_steps: Annotated[
        int, Field(description="Steps in which the learning rate rises.", ge=0)
    ] = 0
    launcher: Annotated[
        zero.DeepspeedLauncher, Field(description="Program that starts the ranks.")
    ] = "torchrun"
    deepspeed: Annotated[
        dict[str, Any],
        Field(description="Changes to the DeepSpeed configuration, section by section."),
    ] = field(default_factory=dict)


def config_files(run: Run) -> dict[str, dict[str, Any]]:
    """Return DeepSpeed's configuration by file name, with "auto" for the Trainer to fill in."""
    options: HfDeepspeedOptions = run.options
    return {
        FILE_NAME: trainer_config(
            run,
            offload_optimizer=options.offload_optimizer,
            offload_param=options.offload_param,
            extra=options.deepspeed,
        )
    }


def problems(run: Run) -> Iterator[str]:
    """Yield each reason why a hf_deepspeed run is impossible."""
    options: HfDeepspeedOptions = run.options
    yield from unsplit(run)
    given = {
        "script": options.script,
        "dataset": options.dataset,
        "script_args": options.script_args,
    }
    if options.program == "run_clm":
        for name in ("script", "dataset"):
            if not given[name]:
                yield f"program=run_clm needs the parameter {name!r}"
        yield from set_twice("script_args", options.script_args, _SET_BY_PARAMETERS)
        if run.model and run.model.vocab_size < _GPT2_TOKENS and options.tokenizer == "gpt2":
            yield (
                f"vocab_size={run.model.vocab_size} is less than the {_GPT2_TOKENS} tokens of "
                "tokenizer gpt2; give another tokenizer, or program=hf_gpt, which needs none"
            )
        if run.model and run.model.ffn_width != 4 * run.model.hidden_size:
            # GPT2Config.update_from_string cannot change a value that is None, e.g. n_inner.
            yield (
                f"ffn_hidden_size={run.model.ffn_width} cannot be set in run_clm.py; its "
                f"models have 4*hidden_size={4 * run.model.hidden_size}; use program=hf_gpt"
            )
    else:
        for name, value in given.items():
            if value:
                yield f"{name} needs program=run_clm, but this run has program=hf_gpt"
    yield from zero.config_problems(run, config_files(run), filled_in=True)


def program(run: Run) -> str:
    """Return the name of the record that contains the options of the run's program."""
    return {"hf_gpt": "hf-gpt", "run_clm": "hf-run-clm"}[run.options.program]


def further_arguments(run: Run) -> FurtherArguments | None:
    """Return the further arguments of run_clm.py, to check that the program accepts them.

    Returns None if the run's program is hf_gpt.py; its arguments are not checked here.
    """
    if run.options.program != "run_clm":
        return None
    return FurtherArguments(
        "script_args",
        run.options.script_args,
        "your version of transformers may have other options",
    )


def needs_gpus(run: Run) -> str | None:
    """Return the setting that makes a run need GPUs, as text; None if the run can train on CPUs.

    A run needs GPUs if run_clm.py uses ZeRO 3. With ZeRO 3, transformers makes the model before the
    ranks are connected. On CPUs, DeepSpeed then assumes that there is only one rank, and refuses
    the batch size.
    """
    if run.options.program == "run_clm" and run.zero_stage == 3:
        return "zero_stage=3 with program=run_clm"
    return None


def imports(run: Run) -> tuple[str, ...]:
    """Return the modules that a run imports.

    For hf_gpt.py they include `teralog`, the package that contains this program.
    """
    own = ("teralog",) if run.options.program == "hf_gpt" else ()
    return (*own, "torch", "deepspeed", "transformers", "accelerate")


def placement(run: Run) -> Placement:
    """Return the placement of a run's states and activations.

    "auto" sizes in the ZeRO section are replaced by the sizes that the Trainer fills in. hf_gpt.py
    uses torch's fused attention. The attention of run_clm.py depends on the version of
    transformers.
    """
    config = config_files(run)[FILE_NAME]
    section = config["zero_optimization"]
    if run.model is not None and isinstance(section, Mapping):
        sizes = trainer_sizes(run.model.hidden_size)
        filled = {
            key: sizes.get(key) if value == "auto" else value for key, value in section.items()
        }
        config = {**config, "zero_optimization": filled}
    return replace(
        zero.config_placement(run, run.options.zero_stage, config),
        recomputation=recomputation(run.training.activation_checkpointing),
        fused_attention=True if run.options.program == "hf_gpt" else None,
    )


def _yes(device: str) -> str:
    return "N" if device == "none" else "Y"


HF_DEEPSPEED = Framework(
    name="hf_deepspeed",
    description=(
        "Hugging Face's Trainer with ZeRO and offload: `run_clm.py` of transformers' "
        "examples, or `orchestrator/workloads/hf_gpt.py`, which needs no data"
    ),
    options=HfDeepspeedOptions,
    labelled_by=("script",),
    checks=Checks(
        problems=problems,
        warnings=lambda run: earlier_keys(run.options.deepspeed),
        unknown_keys=lambda run: zero.unknown_config_keys(config_files(run)),
        needs_gpus=needs_gpus,
    ),
    start=Start(
        template="hf_deepspeed.sh.j2",
        config_files=config_files,
        without_gpus=without_fused_adam,
        steps_on_cpu=zero.steps_on_cpu,
        paths=("script",),
        paths_or_names=("dataset", "tokenizer"),
        program=program,
        further=further_arguments,
        imports=imports,
        asks=lambda run: "ask_hf",
    ),
    log=ProgramLog(
        formats=(GPT_WORKLOAD, HF_TRAINER_RESULT, HF_TRAINER_METRICS, HF_TRAINER_REPORTS)
    ),
    model=ModelUse(placement=placement),
    report=OwnColumns(
        chosen=(
            run_columns.GPUS,
            run_columns.SIZE,
            Column("Zero", "zero_stage", lambda run: run.zero_stage),
            Column(
                "Opt Offl", "offload_optimizer", lambda run: _yes(run.options.offload_optimizer)
            ),
            Column("Par Offl", "offload_param", lambda run: _yes(run.options.offload_param)),
            Column("Mic-BS", "micro_batch_size", lambda run: run.batch.micro_batch_size),
            Column("Glob-BS", "global_batch_size", lambda run: run.batch.global_batch_size),
        ),
    ),
)
