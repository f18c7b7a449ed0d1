"""What several programs cannot do, or are not told, as sentences."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from orchestrator.frameworks.arguments import known_program
from orchestrator.run.model import Run, Training
from orchestrator.workloads.rehearsal import option_problems

_DEFAULT = Training()
# Of hundreds of options many are alike: one that is meant differs by a letter or two.
_NEAR = 0.85


def unsplit(run: Run) -> Iterator[str]:
    """Yield that a program gives each rank the whole of the model, where a run wants it split."""
    tensor, pipeline = run.parallelism.tensor_parallel_size, run.parallelism.pipeline_parallel_size
    if tensor * pipeline > 1:
        yield (
            f"framework {run.framework} splits no layers: tensor_parallel_size={tensor} and "
            f"pipeline_parallel_size={pipeline} must both be 1"
        )
    yield from whole_sequences(run)


def whole_sequences(run: Run) -> Iterator[str]:
    """Yield that a program splits no sequences, where a run wants it to."""
    if (context := run.parallelism.context_parallel_size) > 1:
        yield (
            f"framework {run.framework} splits no sequences: "
            f"context_parallel_size={context} must be 1"
        )


def unaccumulated(run: Run) -> Iterator[str]:
    """Yield that a program steps after each micro-batch, where a run wants several."""
    if (run.num_microbatches or 1) > 1:
        yield (
            f"framework {run.framework} accumulates no gradients: "
            f"global_batch_size={run.batch.global_batch_size} must be "
            f"micro_batch_size*world_size={run.batch.micro_batch_size * run.world_size}"
        )


def unheard(run: Run, *names: str) -> Iterator[str]:
    """Yield which parameters of the training a run has changed that its program never hears of."""
    for name in names:
        value = getattr(run.training, name)
        if value != getattr(_DEFAULT, name):
            yield f"framework {run.framework} hands no {name} to its program; take {value} out"


def argument_problems(
    parameter: str, arguments: Sequence[str], program: str, said: Mapping[str, str]
) -> Iterator[str]:
    """Yield what is wrong with further arguments of a program, which a parameter gives.

    program: the record of what it accepts. said: which of its options other parameters say, by the
    option; were they given twice, the table would tell of another run.
    """
    by_words = {_words(option): name for option, name in said.items()}
    for option in dict.fromkeys(argument.partition("=")[0] for argument in arguments):
        if option.startswith("-") and (name := by_words.get(_words(option))):
            yield f"{parameter}: {option} is what {name} says; take it out"
    accepted = {
        option: {**takes, "required": False}
        for option, takes in known_program(program)["options"].items()
    }
    for problem in dict.fromkeys(option_problems(arguments, accepted)):
        yield f"{parameter}: {problem}{_meant(problem, accepted)}"


def _meant(problem: str, accepted: Collection[str]) -> str:
    """Return what was meant by an option that its program does not know; empty where not known."""
    before, unknown, text = problem.partition("unrecognized arguments: ")
    option, _, value = text.partition(" ")
    if before or not unknown:
        return ""
    if value and option in accepted:
        return f"; write it as two: [{option}, {value}]"
    near = get_close_matches(option, accepted, n=1, cutoff=_NEAR)
    return f"; did you mean {near[0]!r}?" if near else ""


def _words(option: str) -> str:
    # The parser of transformers takes --max-steps for --max_steps.
    return option.replace("_", "-")
