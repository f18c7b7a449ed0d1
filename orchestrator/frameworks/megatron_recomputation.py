"""Selective recomputation, which Megatron core is asked for by its own arguments."""

from collections.abc import Iterator

from orchestrator.frameworks.arguments import given
from orchestrator.model import Run
from orchestrator.placement import Recomputation, recomputation

_GRANULARITY, _ACTIVATIONS = "--recompute-granularity", "--recompute-activations"
_METHOD, _MODULES = "--recompute-method", "--recompute-modules"
# What it makes anew unless told otherwise: the scores of attention, as the placement has it.
_SCORES = ["core_attn"]


def selective(run: Run) -> list[str]:
    """Return the arguments that ask for it; none where whole layers are recomputed."""
    options = given(run.options.extra_args)
    asked = _ACTIVATIONS in options or list(options.get(_GRANULARITY, ())) == ["selective"]
    if run.training.activation_checkpointing or not asked:
        return []
    return [option for option in (_ACTIVATIONS, _GRANULARITY) if option in options]


def problems(run: Run) -> Iterator[str]:
    """Yield what does not go with it, as validate_args has it."""
    if selective(run) and run.options.gives(_METHOD):
        yield f"extra_args: {_METHOD} is for whole layers, and not for selective recomputation"


def mode(run: Run) -> Recomputation | None:
    """Return what a run of Megatron core recomputes; None where it is not scores alone."""
    if not selective(run):
        return recomputation(run.training.activation_checkpointing)
    modules = given(run.options.extra_args).get(_MODULES, _SCORES)
    return "selective" if list(modules) == _SCORES else None
