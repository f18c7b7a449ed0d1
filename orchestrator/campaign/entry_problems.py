"""Check the entries of a campaign file, each against its own framework."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import cache

from orchestrator.campaign.expansion import Entry, model_shape
from orchestrator.campaign.file import KEYS_OF_FILE
from orchestrator.campaign.parameters import MODEL_SIZES, is_parameter, parameter_problems
from orchestrator.frameworks.table import FRAMEWORKS


def entry_problems(
    entries: Sequence[Entry],
    frameworks: Collection[str] = tuple(FRAMEWORKS),
    *,
    complete: bool = True,
) -> list[str]:
    """Return every problem that makes it impossible to build runs from these entries.

    A problem that several entries have is returned once. frameworks: the frameworks that the
    campaign file names. complete: whether the whole file could be read. If it is false, no value is
    reported as missing, because the unreadable part of the file may contain the value.
    """
    problems: dict[str, None] = {}
    # Entries share their values: each is checked once per framework. The file keeps the values
    # alive, so that an id belongs to one value.
    checked: dict[tuple[object, ...], tuple[str, ...]] = {}
    for entry in entries:
        framework = _framework(entry)
        wrong: set[str] = set()
        for name, value in entry.values.items():
            key = (framework, entry.where, name in entry.inherited, name, id(value))
            messages = checked.get(key)
            if messages is None:
                messages = tuple(_value_problems(entry, name, framework, frameworks))
                checked[key] = messages
            if messages:
                wrong.add(name)
                problems.update(dict.fromkeys(messages))
        if complete:
            problems.update(dict.fromkeys(_missing(entry, framework, wrong)))
    return list(problems)


def _framework(entry: Entry) -> str | None:
    name = entry.values.get("framework")
    return name if isinstance(name, str) and name in FRAMEWORKS else None


def _value_problems(
    entry: Entry, name: str, framework: str | None, frameworks: Collection[str]
) -> Iterator[str]:
    """Yield the problems of an entry's value for the parameter `name`.

    framework: the framework of the entry; None if it is not known. frameworks: the frameworks that
    the campaign file names.
    """
    place, given = entry.place(name), {name: entry.values[name]}
    if framework is None or not is_parameter(name, frameworks):
        yield from parameter_problems(place, given, frameworks, KEYS_OF_FILE)
    elif not is_parameter(name, [framework]):
        hint = (
            "; in defaults it applies to every run: write it only for runs whose framework has "
            "this parameter"
            if name in entry.inherited
            else ""
        )
        yield f"{entry.where}: framework {framework} has no parameter {name!r}{hint}"
    elif problems := list(parameter_problems(place, given, [framework])):
        differs = problems != list(parameter_problems(place, given, frameworks))
        suffix = f" (framework {framework})" if differs else ""
        yield from (f"{problem}{suffix}" for problem in problems)


def _missing(entry: Entry, framework: str | None, wrong: set[str]) -> Iterator[str]:
    """Yield a sentence for each value that an entry lacks.

    wrong: the parameters of this entry for which a problem was reported already. If they contain
    `model` or a size of the model, a missing or incomplete model is not reported again.
    """
    if framework is None:
        if "framework" not in wrong:
            yield f"{entry.where}: no framework given; choose one of {', '.join(FRAMEWORKS)}"
        return
    for name in _required(framework):
        if name not in entry.values:
            yield f"{entry.where}: framework {framework} needs the parameter {name!r}"
    if not wrong or wrong.isdisjoint(("model", *MODEL_SIZES)):
        model = model_shape(entry.values)
        if model is None and FRAMEWORKS[framework].model.needed:
            yield (
                f"{entry.where}: no model given; framework {framework} needs a model: give "
                "`model: PRESET`, or sizes"
            )
        elif isinstance(model, str):
            yield f"{entry.where}: {model}"


@cache
def _required(framework: str) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in fields(FRAMEWORKS[framework].options)
        if field.default is MISSING and field.default_factory is MISSING
    )
