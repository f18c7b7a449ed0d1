"""Read and check a campaign file; `CampaignFile` lists its keys."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.campaign.exclude import Rule, make_rule
from orchestrator.campaign.parameters import (
    COMMON,
    argument_names,
    is_parameter,
    option_names,
    parameter_problems,
)
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.validation import field_problems, field_types, mapping_problems
from orchestrator.common.yaml_files import read_yaml
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import LOCAL, Cluster, load_cluster
from orchestrator.run.model import size_names
from parsers.summary.warmup import Warmup

DEFAULT_WARMUP = "10%"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFile:
    """The keys of a campaign file."""

    name: Annotated[str, Field(description="Name of the campaign and of its folder of results.")]
    cluster: Annotated[
        str, Field(description="'local' for this machine, or the file of a cluster profile.")
    ] = LOCAL
    defaults: Annotated[
        dict[str, Any], Field(description="Parameters of all runs; a run may set another value.")
    ] = field(default_factory=dict)
    matrix: Annotated[
        dict[str, list[Any]],
        Field(description="Parameters with lists of values; every combination is a run."),
    ] = field(default_factory=dict)
    include: Annotated[
        list[dict[str, Any]],
        Field(
            description="Single runs in addition to the matrix; each has the defaults, with "
            "these changes."
        ),
    ] = field(default_factory=list)
    exclude: Annotated[
        list[Any],
        Field(
            description="Runs to leave out: a mapping of values, e.g. "
            "{precision: bf16}, or an expression, e.g. world_size > 64."
        ),
    ] = field(default_factory=list)
    repeats: Annotated[
        int, Field(description="Number of runs of each configuration.", ge=1, le=1000)
    ] = 1
    give_up: Annotated[
        str | None,
        Field(
            description=(
                "Name of a numeric parameter, e.g. micro_batch_size. If a run fails, runs that "
                "differ only in a larger value of this parameter do not start."
            )
        ),
    ] = None
    order: Annotated[
        Literal["file", "interleaved"],
        Field(
            description=(
                "Order of the runs: as in the file, or interleaved (A B B A), one run at a time."
            )
        ),
    ] = "file"
    order_seed: Annotated[
        int,
        Field(
            description="Seed for choosing at random which run is the first of each "
            "interleaved block."
        ),
    ] = 0
    warmup: Annotated[
        int | str,
        Field(
            description="First iterations of each launch, which the results leave out: a "
            "number (`5`), a percentage (`10%`), `first` (up to the first step report) or "
            "`auto` (before the steady state)."
        ),
    ] = DEFAULT_WARMUP


# For each key of the file itself: a hint for a user who wrote the key among the parameters.
KEYS_OF_FILE = {
    field.name: "write it at the top level of the file" for field in fields(CampaignFile)
}
_WITHOUT_PARAMETERS = KEYS_OF_FILE.keys() - {"defaults", "matrix", "include"}


@dataclass(frozen=True, slots=True)
class Checked:
    """The readable part of a campaign file, its cluster, and the problems of its keys.

    rules: the valid rules of `exclude`.
    cluster: None if the cluster profile has a problem.
    frameworks: the frameworks that the file names, or all frameworks if it names none.
    problems: the problems of the file's keys and of the cluster profile. Problems of the runs'
        parameters are not included, because `entry_problems` finds them later.
    complete: whether defaults, matrix and include could all be read.
    """

    file: CampaignFile
    rules: tuple[Rule, ...]
    warmup: Warmup
    cluster: Cluster | None
    frameworks: tuple[str, ...]
    problems: tuple[str, ...]
    complete: bool


def read_campaign_file(path: Path) -> Checked:
    """Read the campaign file at `path`, with all problems of its keys and of its cluster.

    Raises UserError if the file cannot be read, is not a mapping, or contains a value that
    `read_yaml` does not accept.
    """
    data = read_yaml(path, "a campaign file", arguments=argument_names())
    problems = [*mapping_problems("", CampaignFile, data, _belongs), *_empty_lists(data)]
    name = data.get("name")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        problems.append(_name_problem(name))
    problems += _give_up_problems(data)
    if data.get("give_up") is not None and data.get("order") == "interleaved":
        problems.append(
            "give_up: cannot be used with order: interleaved, which starts every run; remove one "
            "of them"
        )
    rules, rule_problems = _rules(data)
    warmup, warmup_problems = _warmup(data)
    cluster, cluster_problems = _cluster(data, path.parent)
    problems += [*rule_problems, *warmup_problems, *cluster_problems]
    file, complete = _readable(data)
    frameworks = frameworks_in_play(data)
    return Checked(file, rules, warmup, cluster, frameworks, tuple(problems), complete)


def _readable(data: Mapping[str, Any]) -> tuple[CampaignFile, bool]:
    """Return the valid keys of a file, and whether the parameters of all runs could be read."""
    values = {
        name: value
        for name, value in data.items()
        if name in field_types(CampaignFile)
        and not any(field_problems(name, CampaignFile, name, value))
    }
    matrix, include = data.get("matrix"), data.get("include")
    if isinstance(matrix, dict):
        values["matrix"] = {
            name: given
            for name, given in matrix.items()
            if isinstance(name, str) and isinstance(given, list) and given
        }
    if isinstance(include, list):
        # An invalid entry keeps its place, so that messages number the other entries correctly.
        values["include"] = [entry if _has_names(entry) else {} for entry in include]
    complete = all(
        name in values and value == values[name]
        for name, value in data.items()
        if name not in _WITHOUT_PARAMETERS
    )
    return CampaignFile(**{"name": "", **values}), complete


def _has_names(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _empty_lists(data: Mapping[str, Any]) -> Iterator[str]:
    matrix = data.get("matrix")
    for name, values in matrix.items() if isinstance(matrix, dict) else ():
        if values == []:
            yield f"matrix.{name}: has no values; give at least one, or remove {name}"


def frameworks_in_play(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the frameworks that a campaign file names; all if it names none that teralog knows."""
    defaults, matrix, include = (data.get(key) for key in ("defaults", "matrix", "include"))
    named: list[Any] = []
    if isinstance(defaults, dict):
        named.append(defaults.get("framework"))
    if isinstance(matrix, dict) and isinstance(matrix.get("framework"), list):
        named.extend(matrix["framework"])
    if isinstance(include, list):
        named.extend(entry.get("framework") for entry in include if isinstance(entry, dict))
    frameworks = tuple(name for name in FRAMEWORKS if name in named)
    return frameworks or tuple(FRAMEWORKS)


def _belongs(name: str) -> str | None:
    """Return a sentence on where an unknown key at the top of a campaign file belongs.

    For `nodes`, for example, the sentence names `defaults`. Returns None for a key that is
    neither a parameter of runs nor a key of cluster profiles.
    """
    if is_parameter(name, FRAMEWORKS):
        return "it is a parameter of runs: write it under defaults"
    return "it belongs in the cluster profile" if name in field_types(Cluster) else None


def _cluster(data: Mapping[str, Any], folder: Path) -> tuple[Cluster | None, tuple[str, ...]]:
    """Return the cluster that a file names, and the problems of its profile.

    The cluster is None if there are problems. It is also None if the key `cluster` is not a text;
    another check reports that.
    """
    name = data.get("cluster", LOCAL)
    try:
        return (load_cluster(name, folder) if isinstance(name, str) else None), ()
    except UserError as error:
        return None, error.problems


def _name_problem(name: str) -> str:
    words = "-".join(re.findall(r"[A-Za-z0-9_]+", name)).lstrip("_-")[:64]
    hint = f"; try {words!r}" if words else ""
    return (
        f"name: {name!r} cannot name a folder: use up to 64 letters, digits, '.', '_' and '-'; "
        f"begin with a letter or a digit{hint}"
    )


def _give_up_problems(data: Mapping[str, Any]) -> Iterator[str]:
    name, frameworks = data.get("give_up"), frameworks_in_play(data)
    if isinstance(name, str) and not is_parameter(name, frameworks):
        names = COMMON.union(*(option_names(framework) for framework in frameworks))
        yield f"give_up: there is no parameter {name!r}{did_you_mean(name, names)}"


def _rules(data: Mapping[str, Any]) -> tuple[tuple[Rule, ...], list[str]]:
    written = data.get("exclude")
    if not isinstance(written, list):
        return (), []
    frameworks = frameworks_in_play(data)
    names = size_names().union(*(option_names(name) for name in frameworks))
    rules: list[Rule] = []
    problems: list[str] = []
    for index, rule in enumerate(written):
        where = f"exclude[{index}]"
        try:
            rules.append(make_rule(where, rule, names))
        except UserError as error:
            problems += [f"{where}: {problem}" for problem in error.problems]
        else:
            problems += _value_problems(where, rule, frameworks)
    return tuple(rules), problems


def _value_problems(where: str, rule: object, frameworks: tuple[str, ...]) -> Iterator[str]:
    """Yield a sentence for each value in a rule of `exclude` that no run can have.

    where: the path of the rule in the file. An unknown parameter in the rule is not reported here.
    """
    for name, value in rule.items() if isinstance(rule, dict) else ():
        for item in value if isinstance(value, list) else [value]:
            if is_parameter(name, frameworks):
                yield from parameter_problems(where, {name: item}, frameworks)


def _warmup(data: Mapping[str, Any]) -> tuple[Warmup, list[str]]:
    value = data.get("warmup", CampaignFile.__dataclass_fields__["warmup"].default)
    if not isinstance(value, int | str) or isinstance(value, bool):
        return Warmup(), []
    try:
        return Warmup.parse(value), []
    except ValueError as error:
        return Warmup(), [f"warmup: {error}"]
