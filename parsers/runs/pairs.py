"""Read a run whose output and errors are two logs: `slurm-123.out` and `slurm-123.err`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from parsers.formats.table import ALL_FORMATS
from parsers.records import OutcomeKind
from parsers.runs.outcome import common_outcome
from parsers.runs.reading import EMPTY, read
from parsers.runs.run import LogRun, joined
from parsers.scan.reader import AnyFormat
from parsers.scan.sources import LogPath, name_of
from parsers.steps.blocks import Records

# Endings of logs of errors, and of the logs of output to each: slurm-1.err, 1_0_log.err.gz,
# train.e123, and torchrun's 0/stderr.log.
_ENDINGS = (
    (re.compile("stderr"), "stdout"),
    (re.compile(r"\.err(?=(?:\.(?:gz|zst|xz|bz2))?$)"), ".out"),
    (re.compile(r"\.e(?=[0-9]+(?:\.(?:gz|zst|xz|bz2))?$)"), ".o"),
)


def output_of(errors: Path) -> Path | None:
    """Return the path of the output log that belongs to an error log, e.g. `a.out` for `a.err`.

    Returns None if `errors` does not have an error log's name.
    """
    for pattern, ending in _ENDINGS:
        if pattern.search(errors.name):
            return errors.with_name(pattern.sub(ending, errors.name))
    return None


def read_pair(
    output: LogPath,
    errors: LogPath,
    formats: Sequence[AnyFormat] = ALL_FORMATS,
    *,
    complete: bool = True,
    count_lines: bool = True,
    processes: int | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> list[LogRun]:
    """Return the runs of an output log and an error log that belong together.

    If each of the two logs contains exactly one launch, both show the same launch. The result is
    then one run with the records of both logs, and its outcome contains the name of the log that
    shows it. Otherwise the launches cannot be matched. The result is then the runs of the output
    log, and after them those of the error log. The other arguments are those of
    `parsers.runs.reading.read`. Raises OSError.
    """
    runs = [
        read(
            log, formats, complete=complete, count_lines=count_lines, processes=processes, tell=tell
        )
        for log in (output, errors)
    ]
    launches = [[launch for run in part for launch in run.segments] for part in runs]
    if any(len(part) != 1 for part in launches):
        return [run for part in runs for run in part]
    (combined,), (complained,) = runs
    ((launch,), (errors_launch,)) = launches
    outcome = common_outcome((name_of(output), launch.ends), (name_of(errors), errors_launch.ends))
    silent = launch.outcome is not None and launch.outcome.kind is OutcomeKind.UNKNOWN
    merged = replace(
        launch,
        records=Records([*launch.records.parts, *errors_launch.records.parts]),
        outcome=outcome or (errors_launch if silent else launch).outcome,
    )
    name = Path(name_of(errors)).name
    # Most logs of errors are empty, which is not a problem of the run.
    problems = (
        f"has a log of errors, {name}, that {note}" for note in complained.notes if note != EMPTY
    )
    notes = (*combined.notes, *problems)
    return [replace(joined((combined, complained), (merged,)), notes=notes)]
