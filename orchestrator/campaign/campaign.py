"""Load a campaign: the runs of its file, each with its identity, label and problems."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.campaign.checks import run_problems, run_warnings
from orchestrator.campaign.entry_problems import entry_problems
from orchestrator.campaign.exclude import Rule
from orchestrator.campaign.expansion import Entry, difference, entries, make_run
from orchestrator.campaign.file import KEYS_OF_FILE, CampaignFile, Checked, read_campaign_file
from orchestrator.campaign.fit import capacity, core_problem, memory_problem, run_forecast
from orchestrator.campaign.labels import labels, with_repeat
from orchestrator.campaign.parameters import parameter_problems
from orchestrator.campaign.series import ParameterSeries, all_series
from orchestrator.campaign.user_paths import user_paths
from orchestrator.common.errors import UserError
from orchestrator.common.paths import absolute
from orchestrator.common.text import counted
from orchestrator.frameworks.accepted_options import argument_findings
from orchestrator.hardware.cluster import Cluster
from orchestrator.memory.forecast import MemoryForecast
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run, sizes
from parsers.summary.warmup import Warmup


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run with its identity, its label, and its problems.

    problems: why the run is impossible.
    warnings: sentences about valid but unusual settings.
    memory: the memory forecast of a rank; None if it is unknown.
    memory_problem: why the run will not fit into memory; `submit --force` starts the run
        nevertheless.
    core_problem: why this machine has too few cores; `submit --oversubscribe` starts the run
        nevertheless.
    unknown_arguments: sentences about options that the run's program does not accept, and about
        keys that DeepSpeed does not know.
    series: the series to which the run belongs; None if the campaign does not use `give_up`.
    """

    run: Run
    run_id: str
    label: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    memory: MemoryForecast | None = None
    memory_problem: str | None = None
    core_problem: str | None = None
    unknown_arguments: tuple[str, ...] = ()
    series: ParameterSeries | None = None

    @property
    def refusals(self) -> tuple[str, ...]:
        """All reasons why submit refuses the run."""
        return (
            *self.problems,
            *self.unknown_arguments,
            *filter(None, (self.memory_problem, self.core_problem)),
        )


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign file, read and expanded into runs.

    path: the file.
    notes: sentences on excluded runs, on runs that occurred twice, and on a `give_up` without
        effect.
    rehearsal: whether the runs are rehearsed instead of trained.
    order_seed: the seed of an interleaved order; None if runs start in the file's order.
    given_results: the results folder, if the user named one; otherwise None.
    """

    path: Path
    name: str
    cluster: Cluster
    warmup: Warmup
    runs: tuple[PlannedRun, ...]
    notes: tuple[str, ...]
    rehearsal: bool = False
    order_seed: int | None = None
    given_results: Path | None = None

    @property
    def arguments(self) -> str:
        """The arguments that name the campaign in a command, quoted for a shell.

        These are the path of the file and, if the user gave a results folder, `--results FOLDER`.
        """
        place = [] if self.given_results is None else ["--results", str(self.given_results)]
        return shlex.join([str(self.path), *place])


def load_campaign(path: Path) -> Campaign:
    """Read the campaign file at `path` and expand it into runs.

    The result contains impossible runs, too, with their problems. Raises UserError if the file
    itself has problems. The error contains one sentence per problem, which names the file and,
    if possible, the key, e.g. `defaults.nodes`.
    """
    checked = _with_configs(read_campaign_file(path), path.parent)
    try:
        cluster, all_entries = _checked_entries(checked)
        runs, notes = _runs(checked, cluster, all_entries, path.parent)
    except UserError as error:
        raise UserError(*(f"{path}: {problem}" for problem in error.problems)) from None
    file = checked.file
    seed = file.order_seed if file.order == "interleaved" else None
    everything = (path, file.name, cluster, checked.warmup, tuple(runs), tuple(notes))
    return Campaign(*everything, order_seed=seed)


def _with_configs(checked: Checked, folder: Path) -> Checked:
    """Return a campaign file with the content of each config.json in place of its path.

    These paths are under `model.config` in the file. If a config.json cannot be read, its path
    stays in the result, and the result contains a problem about it.

    checked: the campaign file with the paths. folder: the folder to which the paths are relative.
    """
    file, problems = checked.file, []

    def resolved(where: str, values: Mapping[str, Any]) -> dict[str, Any]:
        model = values.get("model")
        config = model.get("config") if isinstance(model, Mapping) else None
        if not isinstance(model, Mapping) or not isinstance(config, str):
            return dict(values)
        from orchestrator.model.config_json import read_model_config

        try:
            model_config = read_model_config(Path(absolute(config, folder)))
        except UserError as error:
            problems.append(f"{where}.model.config: {error}")
            return dict(values)
        return {**values, "model": {**model, "config": model_config}}

    models = file.matrix.get("model", [])
    matrix = {
        **file.matrix,
        "model": [resolved("matrix", {"model": model})["model"] for model in models],
    }
    made = replace(
        file,
        defaults=resolved("defaults", file.defaults),
        matrix=matrix if models else file.matrix,
        include=[resolved(f"include[{n}]", entry) for n, entry in enumerate(file.include)],
    )
    return replace(checked, file=made, problems=(*checked.problems, *problems))


def _checked_entries(checked: Checked) -> tuple[Cluster, tuple[Entry, ...]]:
    """Return the cluster that a campaign file names, and the entries of the file.

    An entry contains the values of one run. If the cluster has a time limit, it is added to entries
    without a time limit. Raises UserError with all problems of the file.
    """
    problems = list(checked.problems)
    try:
        all_entries = entries(checked.file)
    except UserError as error:
        raise UserError(*problems, *error.problems) from None
    problems += parameter_problems(
        "defaults", _unused(checked.file, all_entries), checked.frameworks, KEYS_OF_FILE
    )
    problems += entry_problems(all_entries, checked.frameworks, complete=checked.complete)
    if problems or checked.cluster is None:
        raise UserError(*dict.fromkeys(problems))
    cluster = checked.cluster
    return cluster, tuple(_with_time_limit(entry, cluster) for entry in all_entries)


def _unused(file: CampaignFile, all_entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the defaults that every entry overrides.

    No run has these values. They are returned so that the caller can check them too, and report a
    mistake in any default.
    """
    if not (file.matrix or file.include):
        return {}
    used = frozenset[str]().union(*(entry.inherited for entry in all_entries))
    return {name: value for name, value in file.defaults.items() if name not in used}


def _excluding_rule(rules: Iterable[Rule], values: Mapping[str, Any]) -> Rule | None:
    for rule in rules:
        try:
            if rule.excludes(values):
                return rule
        except UserError as error:
            raise UserError(f"{rule.where}: {error}") from None
    return None


def _with_time_limit(entry: Entry, cluster: Cluster) -> Entry:
    if cluster.time_limit is None:
        return entry
    return replace(entry, values={"time_limit": cluster.time_limit, **entry.values})


def _runs(
    checked: Checked, cluster: Cluster, all_entries: Sequence[Entry], folder: Path
) -> tuple[list[PlannedRun], list[str]]:
    file = checked.file
    planned: dict[str, PlannedRun] = {}
    left_out: Counter[str] = Counter()
    doublets: list[Run] = []
    others: list[tuple[str, str, Any]] = []
    for entry, label in zip(all_entries, labels(file, all_entries), strict=True):
        first = make_run(entry, cluster.name)
        of_entry: PlannedRun | None = None
        for repeat in range(1, file.repeats + 1):
            run = first if repeat == 1 else replace(first, repeat=repeat)
            rule = _excluding_rule(checked.rules, sizes(run)) if checked.rules else None
            identity = run_id(run)
            if rule is not None:
                left_out[rule.text] += 1
            elif identity in planned:
                doublets.append(run)
            else:
                # The problems and the memory of a run do not depend on the repeat.
                of_entry = of_entry or _planned_run(run, cluster, checked.warmup, folder)
                title = with_repeat(label, repeat) if file.repeats > 1 else label
                planned[identity] = replace(of_entry, run=run, run_id=identity, label=title)
                if file.give_up is not None:
                    others.append((identity, *difference(entry, file.give_up, repeat)))
    if not planned:
        raise UserError(f"exclude: removes all {counted(sum(left_out.values()), 'run')}")
    notes = [f"{counted(count, 'run')} excluded by {text!r}" for text, count in left_out.items()]
    notes += _of_doublets(doublets, planned)
    runs = _in_series(planned, file.give_up, others)
    if file.give_up is not None and all(len(run.series.run_ids) == 1 for run in runs if run.series):
        notes.append(
            f"give_up: no two runs differ only in {file.give_up}; choose a parameter that has "
            f"several values under `matrix`, or remove give_up"
        )
    return runs, notes


def _planned_run(run: Run, cluster: Cluster, warmup: Warmup, folder: Path) -> PlannedRun:
    """Return a run with its problems, warnings and memory forecast.

    `run_id` and `label` of the result are empty texts. The caller sets them for each repeat.
    """
    memory = run_forecast(run, cluster)
    unknown, doubtful = argument_findings(run, user_paths(run, folder))
    return PlannedRun(
        run,
        run_id="",
        label="",
        problems=tuple(run_problems(run, cluster, warmup)),
        unknown_arguments=tuple(unknown),
        warnings=(*doubtful, *run_warnings(run, cluster, folder)),
        memory=memory,
        memory_problem=memory_problem(memory, capacity(run, cluster)),
        core_problem=core_problem(run, cluster),
    )


def _of_doublets(doublets: Sequence[Run], planned: Mapping[str, PlannedRun]) -> Iterator[str]:
    if not doublets:
        return
    note = f"{counted(len(doublets), 'duplicate run is', 'duplicate runs are')} left out"
    limits = ((run, planned[run_id(run)].run) for run in doublets)
    differ = any(
        run.resources.time_limit_seconds != first.resources.time_limit_seconds
        for run, first in limits
    )
    yield f"{note}; the time_limit of the first occurrence applies" if differ else note


def _in_series(
    planned: Mapping[str, PlannedRun], parameter: str | None, others: list[tuple[str, str, Any]]
) -> list[PlannedRun]:
    if parameter is None:
        return list(planned.values())
    if any(isinstance(value, bool) or not isinstance(value, int | float) for *_, value in others):
        raise UserError(
            f"give_up: {parameter} has values that are not numbers, so their order is unknown; "
            "remove give_up, or choose another parameter"
        )
    series = all_series(parameter, others)
    return [replace(run, series=series[run.run_id]) for run in planned.values()]
