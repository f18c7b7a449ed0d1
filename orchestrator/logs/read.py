"""Read logs without a campaign, and report those that contain no training."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from orchestrator.common.text import counted
from orchestrator.logs.find import Log
from orchestrator.logs.recorded import recorded_reading
from parsers.runs.many import LogPaths, read_each
from parsers.runs.run import LogRun
from parsers.scan.sources import STANDARD_INPUT
from parsers.summary.run import RunSummary, summarise
from parsers.summary.warmup import Warmup

# The first report of any program holds compilation, allocation and the set-up of communication.
_DEFAULT_WARMUP = Warmup(rule="first")

Found = list[RunSummary] | OSError
"""What a log says, run by run, or why it cannot be read."""


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """What logs say, run by run, and a sentence for each thing that is wrong with one.

    `silent`: how many logs found in a folder say nothing of a run.
    """

    summaries: tuple[RunSummary, ...]
    problems: tuple[str, ...]
    silent: int = 0


def read_logs(
    logs: Sequence[Log],
    warmup: Warmup | None,
    *,
    keep_skipped: bool = False,
    tell: Callable[[Log], None] = lambda log: None,
) -> ReadLogs:
    """Return what logs say; `tell` is called with each that has been read.

    warmup: if there is none, that of the campaign in whose folder of results a log is, else
    `first`.
    """
    found = []
    read = summaries_of(logs, warmup, keep_skipped=keep_skipped)
    for log, one in zip(logs, read, strict=True):
        found.append(one)
        tell(log)
    return gather_logs(logs, found)


def summaries_of(
    logs: Sequence[Log], warmup: Warmup | None, *, keep_skipped: bool, processes: int | None = None
) -> Iterator[Found]:
    """Yield what each log says; so many `processes` share them, by default one a processor."""
    digest = partial(_summaries, warmup=warmup, keep_skipped=keep_skipped)
    for _, found in read_each(map(_to_read, logs), digest, processes=processes):
        yield found


def gather_logs(logs: Sequence[Log], found: Iterable[Found]) -> ReadLogs:
    """Return what logs say, from what each of them does, in their order.

    A log that cannot be read, is empty, or says nothing of a run is a problem. So is not one in a
    folder that says nothing, for it may be something else, unless no log says anything.
    """
    summaries: list[RunSummary] = []
    problems: list[str] = []
    silent = 0
    for log, runs in zip(logs, found, strict=True):
        if isinstance(runs, OSError):
            problems.append(f"{log.path}: cannot be read: {runs.strerror or runs}")
            continue
        speaking = [one for one in runs if not one.says_nothing]
        summaries += speaking
        notes = dict.fromkeys(note for one in runs for note in one.notes)
        problems += (f"{log.path}: {note}" for note in notes if speaking or log.named)
        puzzling = sum(one.not_understood for one in runs)
        if speaking:
            continue
        if puzzling:
            lines = counted(puzzling, "line")
            problems.append(f"{log.path}: has {lines} like a report, none of them understood")
        elif not log.named:
            silent += 1
        elif not notes:
            problems.append(f"{log.path}: nothing in it is of a training run")
    if silent and not summaries:
        logs_found = counted(silent, "log")
        problems.append(f"{logs_found} in folders: nothing in them is of a training run")
    return ReadLogs(tuple(summaries), tuple(problems), silent)


def _to_read(log: Log) -> LogPaths:
    if log.errors:
        return log.path, log.errors
    # A path by this name is a file; only the word is standard input.
    return STANDARD_INPUT if str(log.path) == STANDARD_INPUT else log.path


def _summaries(
    runs: list[LogRun], *, warmup: Warmup | None, keep_skipped: bool
) -> list[RunSummary]:
    return [_summary(run, warmup, keep_skipped=keep_skipped) for run in runs]


def _summary(run: LogRun, warmup: Warmup | None, *, keep_skipped: bool) -> RunSummary:
    record = recorded_reading(run.path)
    if record is None:
        return summarise(run, warmup or _DEFAULT_WARMUP, keep_skipped=keep_skipped)
    return summarise(
        run,
        warmup or record.warmup,
        keep_skipped=keep_skipped,
        configured=record.configured,
        warmup_source=None if warmup else f"campaign {record.campaign}",
    )


def closing_lines(read: ReadLogs, *, keep_skipped: bool) -> Iterator[str]:
    """Yield how the numbers were made, and what was not understood."""
    skipped = sum(one.skipped for one in read.summaries)
    yield (
        f"step times: {', '.join(_warmups(read.summaries))}; "
        + (
            "reports with skipped updates kept"
            if keep_skipped
            else f"{counted(skipped, 'report')} with skipped updates left out"
        )
    )
    lines = sum(one.lines for one in read.summaries)
    puzzling = sum(one.not_understood for one in read.summaries)
    yield (
        f"{counted(lines, 'line')} understood; of those that look like a report, "
        f"{counted(puzzling, 'line')} not understood"
    )
    for one in read.summaries:
        if not one.steady:
            yield (
                f"{log_name(one)}: no steady state, the step time still changes in the second "
                "half of the log; half of the reports are left out"
            )
        if one.skipped and not one.step_seconds.n:
            yield (
                f"{log_name(one)}: every report after the warm-up holds a skipped update; "
                "--skipped keep counts them"
            )
    if read.silent:
        say = "says" if read.silent == 1 else "say"
        yield f"{counted(read.silent, 'file')} in folders {say} nothing of a run"


def _warmups(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield each warm-up, with who chose it if that was not the user, and what it leaves out."""
    alike: dict[tuple[str, bool], list[RunSummary]] = {}
    for one in summaries:
        by_campaign = one.warmup_source is not None
        alike.setdefault((str(one.warmup.written or "none"), by_campaign), []).append(one)
    for (written, by_campaign), these in alike.items():
        dropped = f"{counted(sum(one.dropped for one in these), 'report')} left out"
        if by_campaign:
            sources = {str(one.warmup_source) for one in these}
            source = min(sources) if len(sources) == 1 else counted(len(sources), "campaign")
            dropped = f"by {source}; {dropped}"
        yield f"warm-up {written} ({dropped})"


def log_name(summary: RunSummary) -> str:
    """Return what to call a run: its log, and the how manieth run of it where that is not 0."""
    return f"{summary.path} #{summary.run}" if summary.run else summary.path
