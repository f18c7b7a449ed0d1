"""Check which arguments of Megatron core need or exclude other arguments.

The rules are those of validate_args, and of the OptimizerConfig and TransformerConfig behind it. An
argument is written as `--option` or `--option=value`, a parameter of the run as `name=value`, or as
`name>1` if any larger number counts.
"""

from collections.abc import Iterator
from typing import Any

from orchestrator.frameworks.arguments import Given, given
from orchestrator.frameworks.megatron import fsdp
from orchestrator.run.model import Run

_FSDP2, _FSDP = fsdp.TORCH, fsdp.MEGATRON
_DISTRIBUTED, _RECOMPUTED = "use_distributed_optimizer=true", "activation_checkpointing=true"
_MUON, _GATHER, _LEGACY = "--optimizer=muon", "--overlap-param-gather", "--use-legacy-models"
_ENGINE, _POSITIONS = "transformer_impl=transformer_engine", "--position-embedding-type"
_TURNED = (f"{_POSITIONS}=rope", "--use-rotary-position-embeddings")
_TENSOR, _PIPELINE = "tensor_parallel_size>1", "pipeline_parallel_size>1"
_GRAPHS = (
    "--cuda-graph-impl=local", "--cuda-graph-impl=transformer_engine", "--enable-cuda-graph",
    "--external-cuda-graph",
)  # fmt: skip

# An argument, and what it needs one of.
_NEEDS_SINCE_2 = (
    ("--fp16-lm-cross-entropy", ("precision=fp16",)),
    ("--fp32-residual-connection", ("precision=fp16", "precision=bf16")),
    ("--distribute-checkpointed-activations", (_RECOMPUTED,)),
    ("--distribute-checkpointed-activations", (_TENSOR,)),
)
_NEEDS_OF_CORE = (
    (_GATHER, (_DISTRIBUTED, _FSDP)),
    (_GATHER, ("--overlap-grad-reduce",)),
    ("--overlap-param-gather-with-optimizer-step", (_GATHER,)),
    ("--tp-comm-overlap", ("sequence_parallel=true",)),
    ("--moe-grouped-gemm", ("precision=bf16",)),
    ("--optimizer-cpu-offload", ("--use-precision-aware-optimizer",)),
    ("--use-precision-aware-optimizer", (_DISTRIBUTED, _FSDP)),
    (_MUON, ("--ckpt-format=torch",)),
    ("--fp8-param-gather", (_DISTRIBUTED, _FSDP2, _FSDP)),
    ("--fp4-param-gather", ("--fp4-format",)),
    ("--mtp-num-layers", (*_TURNED, f"{_POSITIONS}=none")),
    ("--no-position-embedding", _TURNED),
    (f"{_POSITIONS}=relative", (_ENGINE,)),
    (f"{_POSITIONS}=mrope", ("--mrope-section",)),
    ("--delay-wgrad-compute", (_ENGINE,)),
    ("--attention-backend=local", ("--spec=local",)),
    ("--squared-relu", ("--no-bias-gelu-fusion", "--disable-bias-linear")),
    ("--distribute-saved-activations", (_RECOMPUTED,)),
    ("--distribute-saved-activations", (_TENSOR,)),
    ("--load-main-params-from-ckpt", ("--no-load-optim",)),
)
# An argument, and what it does not go with.
_EXCLUDES = (
    ("--fp8-format", ("--fp4-format",)),
    ("--squared-relu", ("--swiglu",)),
    ("--quick-geglu", ("--swiglu",)),
    (_MUON, (_DISTRIBUTED, _FSDP2, _FSDP)),
    *((graphs, (_RECOMPUTED,)) for graphs in _GRAPHS),
    ("--ckpt-format=torch_dcp", (_TENSOR, _PIPELINE)),
    (_LEGACY, ("context_parallel_size>1", _GATHER, "--mtp-num-layers", "--decoupled-lr")),
    ("--per-split-data-args-path", ("--train-data-path", "--valid-data-path", "--test-data-path")),
)


def common_pair_problems(run: Run) -> Iterator[str]:
    """Yield which combinations every Megatron since 2 refuses."""
    yield from _missing(run, given(run.options.extra_args), _NEEDS_SINCE_2)


def core_pair_problems(run: Run) -> Iterator[str]:
    """Yield which combinations Megatron core refuses beside those that all refuse."""
    options = given(run.options.extra_args)
    yield from _missing(run, options, _NEEDS_OF_CORE)
    for argument, others in _EXCLUDES:
        if _holds(run, options, argument):
            for other in (other for other in others if _holds(run, options, other)):
                yield f"extra_args: {_written(argument)} does not go with {_found(run, other)}"


def _missing(
    run: Run, options: Given, needs: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[str]:
    for argument, ways in needs:
        if _holds(run, options, argument) and not any(_holds(run, options, way) for way in ways):
            wanted = " or ".join(map(_written, ways))
            yield f"extra_args: {_written(argument)} needs {wanted}"


def _holds(run: Run, options: Given, said: str) -> bool:
    name, equals, value = said.partition("=")
    if name.startswith("--"):
        values = options.get(name)
        # What is none by its number is not asked for.
        return values is not None and (
            " ".join(values) == value if equals else list(values) != ["0"]
        )
    if name.endswith(">1"):
        return bool(_parameter(run, name.removesuffix(">1")) > 1)
    return str(_parameter(run, name)).lower() == value


def _parameter(run: Run, name: str) -> Any:
    for part in (run.options, run.parallelism, run.training):
        if hasattr(part, name):
            return getattr(part, name)
    raise AttributeError(name)


def _written(said: str) -> str:
    if said.endswith(">1"):
        return f"{said.removesuffix('>1')} of 2 or more"
    return said.replace("=", " ") if said.startswith("--") else said


def _found(run: Run, said: str) -> str:
    name = said.removesuffix(">1")
    return f"{name}={_parameter(run, name)}" if name != said else _written(said)
