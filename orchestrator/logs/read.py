"""Read logs without a campaign, and report which of them contain no training output."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.common.text import counted
from orchestrator.logs.find import Log
from orchestrator.logs.recorded import recorded_reading
from parsers.fields import whole
from parsers.formats.declared.json_lines import MAXTEXT_METRICS
from parsers.formats.declared.maxtext import MAXTEXT, UNTIMED_STEPS
from parsers.runs.many import LogPaths, read_each
from parsers.runs.run import LogRun
from parsers.scan.sources import STANDARD_INPUT, LogSlice
from parsers.summary.launches import NOTHING_CONFIGURED, Configured
from parsers.summary.run import RunSummary, summarise
from parsers.summary.warmup import Warmup

# The first report of any program holds compilation, allocation and the set-up of communication.
_DEFAULT_WARMUP = Warmup(rule="first")
_MAXTEXT = frozenset({MAXTEXT.name, MAXTEXT_METRICS.name})
# A log without a line about the checkpoint may also begin with these steps.
_ASYNCHRONOUS = Warmup(rule="first", iterations=UNTIMED_STEPS)

# Of empty or binary files in a folder, how many a message names each.
_NAMED = 3

LogContent = list[RunSummary] | OSError
"""The content of a log, run by run, or why the log cannot be read."""


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """The summaries of all runs in logs, and a sentence for each problem.

    silent: how many logs from folders and archives are texts without a run.
    """

    summaries: tuple[RunSummary, ...]
    problems: tuple[str, ...]
    silent: int = 0


def read_logs(
    logs: Sequence[Log],
    warmup: Warmup | None,
    *,
    keep_skipped: bool = False,
    configured: Configured = NOTHING_CONFIGURED,
    tell: Callable[[int], None] = lambda count: None,
) -> ReadLogs:
    """Return the summaries of the runs in logs, and the problems of the logs.

    warmup: the warm-up for all logs. If it is None, a log in a campaign's results folder is read
        with the campaign's warm-up. All other logs get a default warm-up, which usually ends with
        the first step report.
    keep_skipped: whether reports with skipped updates count in the results.
    configured: values that are used for logs that do not contain them.
    tell: called after each read with the number of bytes that were read.
    """
    contents = summaries_of(
        logs, warmup, keep_skipped=keep_skipped, configured=configured, tell=tell
    )
    return gather_logs(logs, contents)


def summaries_of(
    logs: Sequence[Log],
    warmup: Warmup | None,
    *,
    keep_skipped: bool,
    configured: Configured = NOTHING_CONFIGURED,
    processes: int | None = None,
    tell: Callable[[int], None] = lambda count: None,
) -> Iterator[LogContent]:
    """Yield the content of each log: the summaries of its runs, or the error that reading raised.

    warmup: the warm-up for all logs; None for the warm-up of each log's campaign, or a default.
    keep_skipped: whether reports with skipped updates count in the results.
    configured: values that are used for logs that do not contain them.
    processes: how many processes read the logs; None for one per processor.
    tell: called after each read with the number of bytes that were read.
    """
    digest = partial(_summaries, warmup=warmup, keep_skipped=keep_skipped, configured=configured)
    for _, content in read_each(map(_to_read, logs), digest, processes=processes, tell=tell):
        yield content


def gather_logs(logs: Sequence[Log], contents: Iterable[LogContent]) -> ReadLogs:
    """Return the runs of all logs, in the order of the logs, and the problems of the logs.

    contents: the content of each log, or the error that reading it raised.

    These are problems, among others:

    - a log cannot be read;
    - a log that the user named contains no run;
    - a log is empty, or may not be text; of many such logs in folders, only some are named;
    - a log contains lines that look like step reports, and none of them could be parsed.

    Folders and archives may also contain files that are not logs of trainings. So a file in them
    may lack both a run and lines that look like step reports. Such files are a problem only if no
    log contains a run.
    """
    summaries: list[RunSummary] = []
    problems: list[str] = []
    odd: dict[str, list[Log]] = {}
    silent = 0
    for log, runs in zip(logs, contents, strict=True):
        if isinstance(runs, OSError):
            problems.append(f"{log.path}: cannot be read: {runs.strerror or runs}")
            continue
        speaking = [run for run in runs if not run.says_nothing]
        summaries += speaking
        notes = dict.fromkeys(note for run in runs for note in run.notes)
        problems += (f"{log.path}: {note}" for note in notes if speaking or log.named)
        puzzling = sum(run.not_understood for run in runs)
        if not speaking and not log.named:
            for note in notes:
                odd.setdefault(note, []).append(log)
        if puzzling and not any(
            run.reports or run.loss_reports or run.launch_totals for run in runs
        ):
            reports = counted(puzzling, "possible step report")
            problems.append(f"{log.path}: could not parse {reports}; `--unparsed` prints them")
        elif speaking:
            continue
        elif not log.named:
            silent += not notes
        elif not notes:
            problems.append(f"{log.path}: contains no training output")
    for note, logs_with_note in odd.items():
        problems += (f"{log.path}: {note}" for log in logs_with_note[:_NAMED])
        if (more := len(logs_with_note) - _NAMED) > 0:
            problems.append(f"{counted(more, 'other log')} with the same problem: {note}")
    if silent and not summaries:
        problems.append(f"no training output in {counted(silent, 'log')} found in folders")
    return ReadLogs(tuple(summaries), tuple(problems), silent)


def _to_read(log: Log) -> LogPaths:
    return log.files if len(log.files) > 1 else log_source(log.path)


def log_source(path: Path | LogSlice) -> Path | LogSlice | str:
    """Return what to read for a path: the path itself, or the text `-` for standard input.

    The text is returned if the path is `-`.
    """
    return STANDARD_INPUT if str(path) == STANDARD_INPUT else path


def _summaries(
    runs: list[LogRun], *, warmup: Warmup | None, keep_skipped: bool, configured: Configured
) -> list[RunSummary]:
    return [_summary(run, warmup, configured, keep_skipped=keep_skipped) for run in runs]


def _summary(
    run: LogRun, warmup: Warmup | None, configured: Configured, *, keep_skipped: bool
) -> RunSummary:
    try:
        record = recorded_reading(run.path)
    except UserError as error:
        note = f"was read without the warm-up and the settings of its campaign: {error}"
        run, record = replace(run, notes=(*run.notes, note)), None
    if record is None:
        default = _DEFAULT_WARMUP if _MAXTEXT.isdisjoint(run.formats) else _ASYNCHRONOUS
        warmup = warmup or default
        without_batch = replace(configured, global_batch_size=None)
        result = summarise(run, warmup, keep_skipped=keep_skipped, configured=without_batch)
        if result.global_batch_size is None and configured.global_batch_size is not None:
            return summarise(run, warmup, keep_skipped=keep_skipped, configured=configured)
        return result
    summary = summarise(
        run,
        warmup or record.warmup,
        keep_skipped=keep_skipped,
        configured=record.configured,
        warmup_source=None if warmup else f"campaign {record.campaign}",
    )
    return replace(
        summary,
        config={**record.config, **summary.config},
        world_size=summary.world_size or whole(record.config.get("world_size")),
    )
