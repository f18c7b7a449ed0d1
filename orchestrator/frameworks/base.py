"""Define the type `Framework`: one frozen value, made of plain data and functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orchestrator.common.tables import Column
from orchestrator.frameworks.options.checks import FurtherArguments
from orchestrator.hardware.gpus import Capability
from orchestrator.memory.placement import Placement
from orchestrator.run.model import Parallelism, Run
from parsers.records import Record
from parsers.scan.reader import AnyFormat

if TYPE_CHECKING:
    from orchestrator.measure.summary import Summary


@dataclass(frozen=True, slots=True)
class Logged:
    """A run with the records and the summary of its log.

    A framework computes its own columns of a report from this value.
    """

    run: Run
    records: Sequence[Record]
    summary: "Summary"


@dataclass(frozen=True, slots=True)
class Partner:
    """The partner with which a report compares a run, and the compared columns.

    The partner is a run of the same campaign. It has the same parameters, except that its
    parameter `option` has the value `base`. E.g. a run with `optimizer_placement: on` is compared
    with the run that has `optimizer_placement: off`.
    columns: a mapping from the name of each compared column to true or false. The cells of each
        column show the change in percent. With true, they also show the difference between the two
        runs.
    """

    option: str
    base: Any
    columns: Mapping[str, bool]


def framework_on_gpus(run: Run) -> str:
    """Return the setting that makes a run need GPUs: its framework, as text `framework NAME`.

    Frameworks that train only on GPUs use this function as their `Checks.needs_gpus`.
    """
    return f"framework {run.framework}"


@dataclass(frozen=True, slots=True)
class Checks:
    """Functions that check a run of a framework before it starts.

    problems: yield one sentence for each reason why the run is impossible.
    warnings: yield one sentence for each valid but unusual setting.
    unknown_keys: yield one sentence for each key in the run's DeepSpeed configuration that the
        recorded version of DeepSpeed does not know.
    needs_gpus: return the setting that makes the run need GPUs, as text; None if the run can train
        on CPUs.
    needs_capability: yield pairs: a setting that only newer GPUs support, as text, and the lowest
        compute capability of the GPUs that support it.
    """

    problems: Callable[[Run], Iterator[str]]
    warnings: Callable[[Run], Iterable[str]] = lambda run: ()
    unknown_keys: Callable[[Run], Iterable[str]] = lambda run: ()
    needs_gpus: Callable[[Run], str | None] = lambda run: None
    needs_capability: Callable[[Run], Iterable[tuple[str, Capability]]] = lambda run: ()


@dataclass(frozen=True, slots=True)
class Start:
    """How a framework's program is started.

    The functions `files` and `own_program` get a mapping: the absolute path of each of the user's
    files and folders, by option.

    template: the job script's Jinja file in `slurm_templates`.
    paths: options that name the user's files or folders, relative to the campaign file. Templates
        get the absolute paths in the variable `paths`.
    paths_or_names: options that name a file or folder if their value begins with `.`, `/`, `~` or
        `$`. Any other value is a name that the program looks up, e.g. the name of a data set.
    files: return the files that the program opens; a rehearsal checks them.
    config_files: return the files to write next to the job script: JSON objects by file name.
    without_gpus: return the content of one of these JSON files, changed for a cluster without GPUs.
    program: return the name of a file in `known_options`, without `.json`. The file records the
        options that the run's program accepts. None if the program is the user's own.
    own_program: return the script in the user's checkout that defines the program's options; None
        if there is no such script on this machine.
    further: return the further arguments of a run, to check them against the accepted options;
        None if they are not checked.
    imports: return the known top-level modules that the run's program imports. If the Python of the
        runs lacks one of them, `submit` starts nothing. Rehearsals look for these modules too.
    asks: return the name of the module in `orchestrator/workloads` that lets the run's program
        check the arguments of the run; None if there is no such module.
    steps_on_cpu: return whether the run's optimizer updates the weights on the CPU. The job script
        then gives the optimizer all cores of a rank.
    """

    template: str
    paths: tuple[str, ...] = ()
    paths_or_names: tuple[str, ...] = ()
    files: Callable[[Mapping[str, str]], Iterable[str]] = lambda paths: paths.values()
    config_files: Callable[[Run], Mapping[str, dict[str, Any]]] = lambda run: {}
    without_gpus: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: config
    program: Callable[[Run], str | None] = lambda run: None
    own_program: Callable[[Mapping[str, str]], str | None] = lambda paths: None
    further: Callable[[Run], FurtherArguments | None] = lambda run: None
    imports: Callable[[Run], Iterable[str]] = lambda run: ()
    asks: Callable[[Run], str | None] = lambda run: None
    steps_on_cpu: Callable[[Run], bool] = lambda run: False

    def files_on(self, run: Run, *, gpus: bool) -> Mapping[str, Mapping[str, Any]]:
        """Return the content of a run's configuration files by file name.

        gpus: whether the cluster has GPUs. If not, the content is changed so that the run trains on
        CPUs.
        """
        files = self.config_files(run)
        if gpus:
            return files
        return {name: self.without_gpus(config) for name, config in files.items()}


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """How a framework's log is read.

    formats: the descriptions of log lines by which teralog reads the log.
    reports_steps: whether the log contains step reports. If this is false for all frameworks of a
        campaign, the campaign's report has no columns of step times.
    """

    formats: tuple[AnyFormat, ...]
    reports_steps: bool = True


def only_gpt2(run: Run) -> Iterator[str]:
    """Yield a problem if a run's model differs from GPT-2 in more than its sizes.

    For programs that can build only GPT-2, of any size.
    """
    if run.model is not None and run.model.variants:
        yield (
            f"framework {run.framework} builds only GPT-2 layers, but this model differs in "
            f"{', '.join(run.model.variants)}; use framework megatron with version=core, which "
            "builds most models"
        )


def any_model(run: Run) -> Iterator[str]:
    """Yield no problem: a user's own program can build any model."""
    yield from ()


@dataclass(frozen=True, slots=True)
class ModelUse:
    """How a framework uses the model of a run.

    needed: whether every run must give the sizes of a model.
    vocab_size_multiple: the program pads the vocabulary to a multiple of this number times the
        tensor-parallel size.
    placement: return how the program places states and activations on the ranks, for the memory
        forecast; None if that is not known.
    problems: yield each reason why the program cannot build the model.
    arguments: return the arguments that make the program build the model, each option with its
        values; empty if the template of the job script contains these arguments.
    """

    needed: bool = True
    problems: Callable[[Run], Iterator[str]] = only_gpt2
    arguments: Callable[[Run], Sequence[Sequence[str]]] = lambda run: ()
    vocab_size_multiple: int = 1
    placement: Callable[[Run], Placement | None] = lambda run: None


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """The columns and facts that a framework adds to a campaign's report.

    chosen: columns that show the run's options.
    measures: columns that are computed from the log. If such a column has the same name as a column
        of all frameworks, it replaces that column.
    measured_by: a phrase that says how `measures` are measured, for the line under the table.
    partner: the run of the campaign with which the report compares a run, and the compared columns;
        None if the report compares no runs.
    unreckoned: return the further arguments of a run that change sizes or FLOPs, but whose effect
        teralog does not count.
    """

    chosen: tuple[Column[Run], ...] = ()
    measures: tuple[Column[Logged], ...] = ()
    measured_by: str = ""
    partner: Partner | None = None
    unreckoned: Callable[[Run], Iterable[str]] = lambda run: ()


@dataclass(frozen=True, slots=True)
class Framework:
    """A training program that campaign files can name.

    description: one sentence for the documents, in markdown.
    options: a frozen dataclass of the parameters that only this framework has. Each field has a
        type and a pydantic `Field(description=…)`. Types and descriptions serve to check
        campaign files and to write the JSON schema and the documents. A field or property
        `launcher` names one of `LAUNCHERS`.
    implied: return parameters that the campaign file may omit, because its other parameters
        determine them. E.g. `strategy` determines `precision` in ColossalAI's benchmarks.
    split: return how the program really divides the model, given the requested split, the world
        size and the options.
    labelled_by: options that a run's label shows by their values alone, e.g. `zero3` for the
        option `strategy`.
    """

    name: str
    description: str
    options: type
    checks: Checks
    start: Start
    log: ProgramLog
    model: ModelUse = ModelUse()
    report: OwnColumns = OwnColumns()
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    split: Callable[[Parallelism, int, Any], Parallelism] = lambda given, world_size, options: given
    labelled_by: tuple[str, ...] = ()

    def divided(self, given: Parallelism, world_size: int, options: Any) -> Parallelism:
        """Return how the program really divides the model.

        If the program changes the requested parallel sizes, the field `asked` of the result
        contains the requested ones.
        given: the requested parallel sizes.
        """
        split = self.split(given, world_size, options)
        return split if split == given else replace(split, asked=given)
