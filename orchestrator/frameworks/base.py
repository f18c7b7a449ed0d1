"""What teralog must know of a framework: one frozen value, made of plain data and functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.common.tables import Column
from orchestrator.hardware.gpus import Capability
from orchestrator.memory.placement import Placement
from orchestrator.run.model import Run
from parsers.records import Record
from parsers.scan.reader import AnyFormat

if TYPE_CHECKING:
    from orchestrator.measure.summary import Summary


@dataclass(frozen=True, slots=True)
class Logged:
    """A run as its log tells it: what a framework's own measures are taken from."""

    run: Run
    records: Sequence[Record]
    summary: "Summary"


@dataclass(frozen=True, slots=True)
class Partner:
    """With which other run of a campaign a run's cells are compared, and which.

    The other has `base` for `option` and is the same in all else. columns: by name, and whether the
    difference is shown beside the percentage.
    """

    option: str
    base: Any
    columns: Mapping[str, bool]


def framework_on_gpus(run: Run) -> str:
    """Return what of a run trains on GPUs alone, of a program that does nothing else."""
    return f"framework {run.framework}"


@dataclass(frozen=True, slots=True)
class Framework:
    """A training program: what it accepts, refuses, is started by, and prints.

    options: frozen dataclass of the parameters that only this framework has. Each field is
        annotated with its type and a pydantic `Field(description=…)`, which is all that checks a
        campaign file and writes its JSON schema. One, or a property, is `launcher`: what starts
        its ranks, by the parts that `launch.sh.j2` has.
    template: the job script's Jinja file in `slurm_templates`.
    log_formats: what its log is read with.
    problems: yields one sentence for each thing that makes a run impossible.
    warnings: yields one sentence for each thing that is possible and seldom meant.
    config_files: what to write beside the job script: file name to content, JSON objects.
    implied: from a run's values, parameters that follow from them where they are not given.
    columns: the framework's own columns of a report, of what was chosen.
    measures: its own columns of what was measured; one with the name of a common column stands in
        place of that.
    measured_by: how those came about, for the line under the table.
    reports_steps: whether its log tells of steps; the columns of their times are left out where no
        framework's does.
    partner: what to compare cells with.
    vocab_size_multiple: what the vocabulary is padded to, per tensor-parallel rank.
    needs_model: whether a run without a model shape makes sense.
    needs_gpus: what of a run trains on GPUs alone, as `framework_on_gpus`; None where nothing does.
    needs_capability: what of a run needs a GPU of which compute capability, or a later one.
    paths: the options that name files or folders of the user's, relative to the campaign file;
        templates find them, absolute, in `paths`.
    paths_or_names: options that name such a file or folder where they begin with `.`, `/`, `~` or
        `$`, and else something that the program itself finds by its name.
    files: from those, what the program opens, so that a rehearsal misses what is not there.
    program: the record in `known_options` of what the run's program accepts on its command line;
        None where it is the user's own.
    imports: which modules of others its program imports, where that is one of teralog's own.
    unreckoned: which further arguments of a run change what sizes and TFLOPs are reckoned from,
        which are not told of them; for the line under the table.
    steps_on_cpu: whether a run's optimizer steps on the CPU, which then takes all cores of a rank.
    placement: where it keeps states and activations, for the memory forecast; None where it does
        not say.
    """

    name: str
    options: type
    template: str
    log_formats: tuple[AnyFormat, ...]
    problems: Callable[[Run], Iterator[str]]
    warnings: Callable[[Run], Iterable[str]] = lambda run: ()
    config_files: Callable[[Run], Mapping[str, dict[str, Any]]] = lambda run: {}
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda values: {}
    columns: tuple[Column[Run], ...] = ()
    measures: tuple[Column[Logged], ...] = ()
    measured_by: str = ""
    reports_steps: bool = True
    partner: Partner | None = None
    vocab_size_multiple: int = 1
    needs_model: bool = True
    needs_gpus: Callable[[Run], str | None] = lambda run: None
    needs_capability: Callable[[Run], Iterable[tuple[str, Capability]]] = lambda run: ()
    paths: tuple[str, ...] = ()
    paths_or_names: tuple[str, ...] = ()
    files: Callable[[Mapping[str, str]], Iterable[str]] = lambda paths: paths.values()
    program: Callable[[Run], str | None] = lambda run: None
    imports: Callable[[Run], Iterable[str]] = lambda run: ()
    unreckoned: Callable[[Run], Iterable[str]] = lambda run: ()
    steps_on_cpu: Callable[[Run], bool] = lambda run: False
    placement: Callable[[Run], Placement | None] = lambda run: None
