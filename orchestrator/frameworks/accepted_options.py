"""Find the options that a run's program accepts, and check the run's further arguments."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.frameworks.options.checks import lacking, unaccepted
from orchestrator.frameworks.options.record import (
    Record,
    record_of_file,
    record_of_source,
    recorded,
)
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run


def accepted_options(run: Run, paths: Mapping[str, str]) -> Record | None:
    """Return the options that a run's program accepts; None if they are not known.

    The options are read from the program's source in the user's checkout, if possible. Otherwise
    they are read from the file of the parameter `options_record`, or from teralog's own record of
    a release. teralog has no records of users' own scripts.

    paths: the absolute paths of the user's files and folders, by parameter, e.g. `source`.
    Raises UserError if the file of `options_record` cannot be read.
    """
    start = FRAMEWORKS[run.framework].start
    program = start.own_program(paths)
    if program is not None and (own := record_of_source(Path(program))):
        return own
    if "options_record" in paths:
        return record_of_file(Path(paths["options_record"]))
    name = start.program(run)
    return None if name is None else recorded(name)


def argument_findings(run: Run, paths: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return two lists of sentences on a run's options and DeepSpeed keys: problems and warnings.

    The checked options are the run's further arguments and the options that build its model. The
    checked keys are the keys of the run's DeepSpeed configuration.

    An option is a problem if the program would refuse it. A key is a problem if the recorded
    version of DeepSpeed does not know it, because DeepSpeed silently ignores unknown keys.

    In two cases, a refused option is a warning instead. First: the options were recorded from a
    release of the program, and the user may run another release. Second: teralog cannot read all
    options from the user's source.

    paths: the absolute paths of the user's files and folders, by parameter, e.g. `source`.
    """
    framework = FRAMEWORKS[run.framework]
    keys = list(framework.checks.unknown_keys(run))
    further, model = framework.start.further(run), _model_options(run)
    if further is None or not (further.words or model):
        return keys, []
    record = accepted_options(run, paths)
    if record is None:
        return keys, []
    if "source" in paths and not record.own:
        remedy = (
            "correct `source` or give `options_record`, because this machine has no program in "
            f"{paths['source']}"
        )
        further = replace(further, remedy=remedy)
    problems = [*lacking(model, record, further.remedy), *unaccepted(further, record)]
    return ([*keys, *problems], []) if record.own and record.complete else (keys, problems)


def _model_options(run: Run) -> list[str]:
    """Return the names of the options that build the run's model.

    The list is empty if no option builds the model, or if the program cannot build the model.
    """
    try:
        groups = FRAMEWORKS[run.framework].model.arguments(run)
    except UserError:
        return []
    return [word for words in groups for word in words if word.startswith("--")]
