"""Check the arguments of Megatron core's FSDP and of its checkpoint formats."""

from collections.abc import Iterator

from orchestrator.frameworks.arguments import Given, given, whole_number
from orchestrator.run.model import Run

TORCH, MEGATRON = "--use-torch-fsdp2", "--use-megatron-fsdp"
_EXPERTS, _LEGACY = "--expert-model-parallel-size", "--use-legacy-models"
_FORMAT, _DEFAULT_FORMAT = "--ckpt-format", "torch_dist"


def problems(run: Run) -> Iterator[str]:
    """Yield which of the rules of validate_args a run breaks by its further arguments."""
    options = given(run.options.extra_args)
    if TORCH in options:
        yield from _torch_problems(run, options)
    for option, formats in (
        (_LEGACY, ("torch",)),
        (MEGATRON, ("fsdp_dtensor",)),
        (TORCH, (_DEFAULT_FORMAT, "torch_dcp")),
    ):
        if option in options and _format(options) not in formats:
            yield f"extra_args: {option} needs {_FORMAT} {' or '.join(formats)}"
    for name, option in (("fsdp_dtensor", MEGATRON), ("torch_dcp", TORCH)):
        if _format(options) == name and option not in options:
            yield f"extra_args: {_FORMAT} {name} needs {option}"


def _format(options: Given) -> str:
    return " ".join(options.get(_FORMAT, (_DEFAULT_FORMAT,)))


def _torch_problems(run: Run, options: Given) -> Iterator[str]:
    for needed in ("--no-gradient-accumulation-fusion", "--untie-embeddings-and-output-weights"):
        if needed not in options:
            yield f"extra_args: {TORCH} needs {needed}"
    stages = run.parallelism.pipeline_parallel_size
    experts = whole_number(options, _EXPERTS) or 1
    for broken, what in (
        (stages > 1, f"pipeline_parallel_size={stages}"),
        (experts > 1, f"{_EXPERTS}={experts}"),
        (run.options.use_distributed_optimizer, "use_distributed_optimizer=true"),
        (run.training.precision == "fp16", "precision=fp16; try bf16"),
    ):
        if broken:
            yield f"extra_args: {TORCH} does not go with {what}"
