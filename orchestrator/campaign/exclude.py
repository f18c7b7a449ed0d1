"""Read the rules of `exclude`, which leave out runs by their parameters."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.expressions import compile_expression


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `exclude`, which leaves out runs.

    where: the path of the rule in the campaign file. text: the rule as text, for messages.
    excludes: a function that returns whether the rule leaves out a run, given the run's parameters
    and sizes by name.
    """

    where: str
    text: str
    excludes: Callable[[Mapping[str, Any]], bool]


def make_rule(where: str, written: object, names: Collection[str]) -> Rule:
    """Return the rule of `exclude` that is written as an expression, or as parameters with values.

    Parameters with values, e.g. {zero_stage: 3}, exclude the runs that have all of these values. If
    a parameter has a list of values, a run must have one of these values. names: the parameters and
    sizes that a rule may contain. Raises UserError if the rule is not valid.
    """
    if isinstance(written, str):
        return Rule(where, written, compile_expression(written, names))
    if not isinstance(written, Mapping) or not written:
        raise UserError(
            f"{written!r} is not a rule; write an expression, or a mapping such as "
            "{zero_stage: 3}"
        )
    unknown = [name for name in written if name not in names]
    if unknown:
        raise UserError(
            *(f"there is no parameter {name!r}{did_you_mean(str(name), names)}" for name in unknown)
        )
    wanted = [
        (name, value if isinstance(value, list) else [value]) for name, value in written.items()
    ]
    text = ", ".join(f"{name}: {value}" for name, value in written.items())
    return Rule(
        where, text, lambda sizes: all(sizes.get(name) in accepted for name, accepted in wanted)
    )
