"""What teralog must know of a framework: one frozen value, made of plain data and functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.model import Run
from orchestrator.placement import Placement
from orchestrator.tables import Column
from parsers.scan import LogFormat


@dataclass(frozen=True, slots=True)
class Framework:
    """A training program: what it accepts, refuses, is started by, and prints.

    options: frozen dataclass of the parameters that only this framework has. Each field is
        annotated with its type and a pydantic `Field(description=…)`, which is all that checks a
        campaign file and writes its JSON schema.
    template: the job script's Jinja file in `slurm_templates`.
    log_formats: what its log is read with.
    problems: yields one sentence for each thing that makes a run impossible.
    warnings: yields one sentence for each thing that is possible and seldom meant.
    config_files: what to write beside the job script: file name to content, JSON objects.
    columns: the framework's own columns of a report.
    vocab_size_multiple: what the vocabulary is padded to, per tensor-parallel rank.
    needs_model: whether a run without a model shape makes sense.
    paths: the options that name files or folders of the user's, relative to the campaign file;
        templates find them, absolute, in `paths`.
    files: from those, what the program opens, so that a rehearsal misses what is not there.
    program: the record in `known_options` of what the run's program accepts on its command line;
        None where it is the user's own.
    placement: where it keeps states and activations, for the memory forecast; None where it does
        not say.
    """

    name: str
    options: type
    template: str
    log_formats: tuple[LogFormat, ...]
    problems: Callable[[Run], Iterator[str]]
    warnings: Callable[[Run], Iterable[str]] = lambda run: ()
    config_files: Callable[[Run], Mapping[str, dict[str, Any]]] = lambda run: {}
    columns: tuple[Column[Run], ...] = ()
    vocab_size_multiple: int = 1
    needs_model: bool = True
    paths: tuple[str, ...] = ()
    files: Callable[[Mapping[str, str]], Iterable[str]] = lambda paths: paths.values()
    program: Callable[[Run], str | None] = lambda run: None
    placement: Callable[[Run], Placement | None] = lambda run: None
