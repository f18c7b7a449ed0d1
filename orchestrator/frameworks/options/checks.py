"""Check further arguments against the record of what their program accepts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from orchestrator.frameworks.options.record import Record
from orchestrator.workloads.rehearsal import option_problems

# Many of the hundreds of options are similar: a misspelling differs by a letter or two.
_NEAR = 0.85


@dataclass(frozen=True, slots=True)
class FurtherArguments:
    """The arguments that a run passes to its program after all others.

    parameter: the name of the run's parameter that contains these arguments, e.g. `extra_args`.
    words: the arguments themselves.
    remedy: what the user can do if the runs use another release of the program than the recorded
        one. Messages end with this text.
    """

    parameter: str
    words: Sequence[str]
    remedy: str


def unaccepted(further: FurtherArguments, record: Record) -> Iterator[str]:
    """Yield a sentence for each further argument that the program would refuse.

    record: the options that the program accepts.
    """
    accepted = {option: {**takes, "required": False} for option, takes in record.options.items()}
    program = record.program if record.own else f"{record.program} (recorded)"
    remedy = None if record.own else further.remedy
    if record.own and not record.complete:
        remedy = "check the program itself, because teralog could not read all of its options"
    for problem in dict.fromkeys(option_problems(further.words, accepted)):
        before, unknown, words = problem.partition("unrecognized arguments: ")
        option, _, value = words.partition(" ")
        if before or not unknown or not option.startswith("-") or option in accepted:
            hint = f"; write two items: [{option}, {value}]" if option in accepted else ""
            sentence = f"{problem}{hint}, in {program}"
        else:
            hint = _near(option, accepted)
            sentence = f"{option} is not an option of {program}{hint}"
        end = "" if remedy is None else f"{' Else' if hint.endswith('?') else ';'} {remedy}"
        yield f"{further.parameter}: {sentence}{end}"


def lacking(options: Sequence[str], record: Record, remedy: str) -> Iterator[str]:
    """Yield a sentence if a program lacks options that a run's model needs.

    options: the options that build the model.
    remedy: what the user can do if the runs use another release than the recorded one.
    """
    unknown = [option for option in dict.fromkeys(options) if option not in record.options]
    if unknown:
        program = record.program if record.own else f"{record.program} (recorded)"
        end = "" if record.own else f"; if the runs use another release of the program, {remedy}"
        yield f"model: {program} lacks options that this model needs: {', '.join(unknown)}{end}"


def _near(option: str, accepted: Collection[str]) -> str:
    near = get_close_matches(option, accepted, n=1, cutoff=_NEAR)
    return f"; did you mean {near[0]!r}?" if near else ""
