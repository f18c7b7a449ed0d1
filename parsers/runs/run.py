"""Define `LogRun`: the content of a log about one run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from parsers.records import Outcome, Record, RunTotals, SkippedStep, Step, Usage, UsageSource
from parsers.runs.outcome import EndDetector
from parsers.steps.blocks import Part, Records, StepBlock
from parsers.steps.merge import merge_settings, merge_skipped, merge_totals, merged_steps


@dataclass(frozen=True, kw_only=True)
class RunSegment:
    """One launch of a run: the bytes from `begin` to `end` of its log, and their content.

    resumed_from: the iteration of the checkpoint from which the launch continued, if the log shows
    it.
    outcome: how the launch ended; None if a program still writes the log and no line shows an end.
    ends: all messages about the end of the launch in this log. If the run has a second log, the
    outcome is decided from the messages of both logs.
    """

    begin: int
    end: int
    records: Records
    resumed_from: int | None = None
    outcome: Outcome | None = None
    ends: EndDetector = field(default_factory=EndDetector, compare=False, repr=False)

    @property
    def steps(self) -> list[Step]:
        """One Step per iteration, in order, and the means over iterations that these cover."""
        return self.step_columns.steps()

    @cached_property
    def step_columns(self) -> StepBlock:
        """The same steps as `steps`, but as columns, which are much faster to make."""
        return merged_steps(self.records, resumed_from=self.resumed_from)

    @property
    def skipped_steps(self) -> list[SkippedStep]:
        """The steps that were skipped because of an overflow, each once.

        The list is empty if the program reports only the number of skipped steps.
        """
        return merge_skipped(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRun:
    """One run in a log.

    path: the path of the log.
    index: the number of the run in the log, from 0.
    segments: its launches; those after the first are restarts.
    lines: how many lines contained a record.
    formats: the names of these records' formats.
    not_understood: how many lines looked like a report but could not be parsed, by the name of the
    format.
    notes: the problems of the log, e.g. "is empty". With the path in front, each is a sentence.
    """

    path: str
    index: int
    segments: tuple[RunSegment, ...]
    lines: int = 0
    formats: tuple[str, ...] = ()
    not_understood: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def begin(self) -> int:
        """The byte of the log at which the run begins."""
        return self.segments[0].begin

    @property
    def end(self) -> int:
        """The byte of the log after the last byte of the run."""
        return self.segments[-1].end

    @property
    def records(self) -> list[Record]:
        """All records of the run, in the order of the log."""
        return [record for segment in self.segments for record in segment.records]

    @property
    def reports(self) -> list[Part]:
        """All records except settings: most step reports as columns, others one by one."""
        return [part for segment in self.segments for part in segment.records.reports]

    @property
    def steps(self) -> list[Step]:
        """One Step per iteration of each launch.

        An iteration that was trained twice occurs twice.
        """
        return [step for segment in self.segments for step in segment.steps]

    @property
    def skipped_steps(self) -> list[SkippedStep]:
        """The steps that the launches skipped because of an overflow, each once."""
        return [step for segment in self.segments for step in segment.skipped_steps]

    @property
    def totals(self) -> list[RunTotals]:
        """The totals that the run's lines report, e.g. the seconds of its training.

        If several nodes print the same result, the list contains it once.
        """
        return [total for segment in self.segments for total in merge_totals(segment.records)]

    @property
    def memory_reports(self) -> list[Usage]:
        """The reports of memory by programs, i.e. all except the samples of nvidia-smi."""
        usages = [record for record in self.reports if isinstance(record, Usage)]
        return [usage for usage in usages if usage.source is not UsageSource.NVIDIA_SMI]

    @property
    def config(self) -> dict[str, str]:
        """The configuration of the run, with one value per name."""
        return merge_settings(
            [setting for part in self.segments for setting in part.records.settings]
        )

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the last launch.

        None if the log is still being written and shows no end.
        """
        return self.segments[-1].outcome


def joined(runs: Sequence[LogRun], segments: Sequence[RunSegment]) -> LogRun:
    """Return the first run with the launches `segments`, and with what the lines of all runs gave.

    segments: the launches of all runs.
    """
    not_understood: Counter[str] = Counter()
    for run in runs:
        not_understood.update(dict(run.not_understood))
    return replace(
        runs[0],
        segments=tuple(segments),
        lines=sum(run.lines for run in runs),
        formats=tuple(dict.fromkeys(name for run in runs for name in run.formats)),
        not_understood=tuple(not_understood.items()),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )
