"""Check limits that the programs of several frameworks share."""

import json
from collections.abc import Iterator, Mapping, Sequence

from orchestrator.run.model import Run, Training

_DEFAULT = Training()


def unsplit(run: Run) -> Iterator[str]:
    """Yield problems if a run splits layers or sequences.

    For programs that can split neither layers nor sequences.
    """
    tensor, pipeline = run.parallelism.tensor_parallel_size, run.parallelism.pipeline_parallel_size
    if tensor * pipeline > 1:
        yield (
            f"framework {run.framework} cannot split layers: tensor_parallel_size={tensor} and "
            f"pipeline_parallel_size={pipeline} must both be 1"
        )
    yield from whole_sequences(run)


def whole_sequences(run: Run) -> Iterator[str]:
    """Yield a problem if a run splits sequences, for a program that cannot split them."""
    if (context := run.parallelism.context_parallel_size) > 1:
        yield (
            f"framework {run.framework} cannot split sequences: context_parallel_size={context} "
            "must be 1"
        )


def unaccumulated(run: Run) -> Iterator[str]:
    """Yield a problem if a run has several micro-batches per step.

    For programs that update the weights after each micro-batch.
    """
    if (run.num_microbatches or 1) > 1:
        yield (
            f"framework {run.framework} cannot accumulate gradients: "
            f"global_batch_size={run.batch.global_batch_size} must be "
            f"micro_batch_size*world_size={run.batch.micro_batch_size * run.world_size}"
        )


def unheard(run: Run, *names: str) -> Iterator[str]:
    """Yield a problem for each parameter that the user changed, but that the program cannot set.

    names: the parameters of the run that the program cannot set.
    """
    for name in names:
        value = getattr(run.training, name)
        if value != getattr(_DEFAULT, name):
            written = f"{name}: {json.dumps(value)}"
            yield f"framework {run.framework} cannot set {name}; remove `{written}`"


def set_twice(
    parameter: str, arguments: Sequence[str], setters: Mapping[str, str]
) -> Iterator[str]:
    """Yield a problem for each further argument that sets the same value as a run's parameter.

    For example, `--lr` sets the same value as `learning_rate`. With such an argument, the table
    of the run would show another value than the program used.

    parameter: the name of the parameter that contains the further arguments, e.g. `extra_args`.
    arguments: the further arguments.
    setters: the run's parameter for each option, e.g. {"--lr": "learning_rate"}.
    """
    by_words = {_words(option): name for option, name in setters.items()}
    for option in dict.fromkeys(argument.partition("=")[0] for argument in arguments):
        if option.startswith("-") and (name := by_words.get(_words(option))):
            yield f"{parameter}: {option} is set by {name}; remove it"


def _words(option: str) -> str:
    # The parser of transformers accepts --max-steps in place of --max_steps.
    return option.replace("_", "-")
