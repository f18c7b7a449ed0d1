"""Find the options that a run's program accepts, and check the run's further arguments."""

from collections.abc import Mapping
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
    """Return the options that a run's program accepts; None for the user's own script.

    They are read from the user's checkout if its source is on this machine. Otherwise they are read
    from the file that `options_record` names, or from the record of a release. paths: the user's
    absolute paths, by option. Raises UserError if the file cannot be read.
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
    """Return the problems and the warnings of a run's options and configuration keys.

    The options are its further arguments and those of its model. The keys are those of its
    configuration files. paths: the user's absolute paths, by option.

    An option that the program itself refuses is a problem. So is a key that the recorded DeepSpeed
    does not know, because DeepSpeed would silently ignore it. An option that a release's record
    lacks is a warning, because the user may run another release. It is also a warning if the user's
    source may define the option in a way that teralog cannot read.
    """
    framework = FRAMEWORKS[run.framework]
    keys = list(framework.checks.unknown_keys(run))
    further, model = framework.start.further(run), _model_options(run)
    if further is None or not (further.words or model):
        return keys, []
    record = accepted_options(run, paths)
    if record is None:
        return keys, []
    problems = [*lacking(model, record, further.remedy), *unaccepted(further, record)]
    return ([*keys, *problems], []) if record.own and record.complete else (keys, problems)


def _model_options(run: Run) -> list[str]:
    """Return the names of the options that build the run's model; empty if no option does."""
    try:
        groups = FRAMEWORKS[run.framework].model.arguments(run)
    except UserError:
        return []
    return [word for words in groups for word in words if word.startswith("--")]
