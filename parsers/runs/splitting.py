"""Split a log into runs: assign lines to runs, and recognize restarts.

A log may contain several launches, one after the other. A launch begins with certain lines (see
`launches`), or with iterations that start over. A launch that continues from a checkpoint of the
previous launch is a restart of the same run; any other launch is another run.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from parsers.fields import whole
from parsers.records import (
    LossReport,
    Outcome,
    OutcomeKind,
    Record,
    Setting,
    Step,
    Throughput,
    Usage,
    UsageSource,
)
from parsers.runs.launches import (
    LAUNCH_ANCHORS,
    LaunchDetector,
    LaunchKind,
    LaunchSign,
    launch_signs,
)
from parsers.runs.outcome import END_ANCHORS, EndDetector
from parsers.runs.outcome_signs import Weight
from parsers.runs.repeats import Reported, is_copy
from parsers.runs.run import LogRun, RunSegment, joined
from parsers.scan.reader import AnyFormat, LogFormat, ReadLine, decode
from parsers.scan.wanted import Candidate
from parsers.steps.blocks import Part, Records, StepBlock, step_column
from parsers.steps.merge import merge_settings
from parsers.steps.units import with_units

MARKS = dict.fromkeys(LAUNCH_ANCHORS, 0) | END_ANCHORS
"""What to search a log for, as well as for records: signs of the start and the end of a run."""

_MARKS = frozenset(MARKS)

# Sources that sample a device whether or not a program runs on it.
_SAMPLED_BESIDE = frozenset({UsageSource.NVIDIA_SMI, UsageSource.ONEFLOW})

# Megatron-Bridge prints seconds with two decimals, and Megatron milliseconds with one.
_COARSE_SECONDS = 0.0051

# If one of these differs, the times of two launches are not those of the same work on a rank.
_SIZES = ("world_size", "seq_length")

Readings = list[tuple[AnyFormat, Sequence[Record]]]


@dataclass(slots=True)
class _Launch:
    """One launch of a program, with the part of its content that was read so far.

    exited_early: whether a launcher has reported the exit of a process before the program started.
    """

    begin: int
    started: bool = False
    exited_early: bool = False
    ends: EndDetector = field(default_factory=EndDetector)
    parts: list[Part] = field(default_factory=list)
    counted_steps: list[Step | StepBlock] = field(default_factory=list)
    resumed_from: int | None = None
    lines: int = 0
    formats: dict[str, None] = field(default_factory=dict)
    not_understood: Counter[str] = field(default_factory=Counter)
    reported: defaultdict[str, Reported] = field(default_factory=lambda: defaultdict(Reported))
    losses: dict[float, LossReport] = field(default_factory=dict)


class RunSplitter:
    """Receives the lines of one log in order, and returns the log's runs."""

    def __init__(self, begin: int = 0) -> None:
        """Start at the byte `begin` of a log."""
        self._detector = LaunchDetector()
        self._launches = [_Launch(begin)]
        # The offset at which a script began to print after a launch: it may be the next launch's.
        self._echoed_from: int | None = None

    def read(self, line: ReadLine) -> None:
        """Process a line of the log.

        The caller must also search the log for the anchors MARKS. Lines with these anchors may show
        that a launch begins or ends.
        """
        candidate, readings = line
        if not _MARKS.isdisjoint(candidate.anchors):
            place = 0
            for sign, part in launch_signs(candidate):
                if sign and self._detector.begins_another(sign):
                    readings = self._read_before(candidate, place, readings)
                    self._begin(candidate.offset)
                self._read_marks(sign, part)
                place += len(part.line)
        if candidate.steps is None:
            self._read_records(candidate, readings)
        else:
            self._read_block(candidate, candidate.steps, readings[0][0])

    def runs(self, path: str, end: int, *, complete: bool, notes: Sequence[str]) -> list[LogRun]:
        """Return the runs of a log that ends at byte `end`.

        complete: whether no program writes the log any more; then a run without an end is
        TRUNCATED. notes: the problems of the log, e.g. "is empty".
        """
        runs: list[LogRun] = []
        ends = [*(launch.begin for launch in self._launches[1:]), end]
        for launch, stop in zip(self._launches, ends, strict=True):
            segment = _segment(launch, stop, complete=complete or stop is not ends[-1])
            run = LogRun(
                path=path,
                index=len(runs),
                segments=(segment,),
                lines=launch.lines,
                formats=tuple(launch.formats),
                not_understood=tuple(launch.not_understood.items()),
                notes=tuple(notes),
            )
            if runs and _goes_on(runs[-1].segments[-1], segment):
                runs[-1] = joined((runs[-1], run), (*runs[-1].segments, segment))
            else:
                runs.append(run)
        return runs

    def _begin(self, offset: int) -> None:
        """Begin another launch at the byte `offset` of the log.

        The script that starts the launch may have printed settings before this byte. These settings
        are moved from the previous launch to the new one. So is the last planned step.
        """
        before = self._launches[-1]
        launch = _Launch(offset, ends=EndDetector(before.ends.announced))
        if self._echoed_from is not None:
            launch.begin = self._echoed_from
            echoed = bisect_left(before.parts, launch.begin, key=lambda part: part.offset)
            launch.parts = before.parts[echoed:]
            del before.parts[echoed:]
        self._launches.append(launch)
        self._echoed_from = None

    def _read_marks(self, sign: LaunchSign | None, part: Candidate) -> None:
        launch = self._launches[-1]
        # A launcher starts any program: a network benchmark is not a training.
        launch.started |= sign is not None and not sign.kind.of_launcher
        if sign and sign.kind is LaunchKind.RESUMED:
            launch.resumed_from = sign.iteration
        self._detector.ended |= launch.ends.read(part)
        launch.exited_early |= not launch.started and Weight.EXIT in launch.ends.first
        self._detector.progress |= Weight.FINISHED in launch.ends.first

    def _read_before(self, candidate: Candidate, place: int, readings: Readings) -> Readings:
        """Process the part of a line before `place`, where another launch starts.

        readings: the records of the whole line, by format. Returns the records of the part from
        `place` on, by format.
        """
        if not place:
            return readings
        text = decode(candidate.line[:place])
        rest: Readings = []
        for log_format, records in readings:
            count = len(records)
            if isinstance(log_format, LogFormat):
                count = len(list(log_format.parse(candidate.offset, text)))
            self._read_records(candidate, [(log_format, records[:count])])
            rest.append((log_format, records[count:]))
        return rest

    def _read_records(self, candidate: Candidate, readings: Readings) -> None:
        if candidate.batch is None:
            self._launches[-1].lines += any(records for _, records in readings)
        line = -1
        for log_format, records in readings:
            if candidate.batch is not None and records[0].offset != line:
                line = records[0].offset
                self._launches[-1].lines += 1
            if not records and isinstance(log_format, LogFormat):
                if log_format.looks_like_report(decode(candidate.line)):
                    self._launches[-1].not_understood[log_format.name] += 1
                continue
            for record in records:
                self._read_record(log_format, record, candidate)
                launch = self._launches[-1]
                if isinstance(record, Step) and (record.covered or _is_counted(log_format)):
                    launch.counted_steps.append(record)
                else:
                    launch.parts.append(record)
                launch.formats[log_format.name] = None

    def _read_record(self, log_format: AnyFormat, record: Record, candidate: Candidate) -> None:
        if isinstance(record, Step):
            self._read_step(log_format, record, candidate)
        elif isinstance(record, LossReport):
            self._read_loss(record, candidate)
        elif isinstance(record, Throughput):
            self._read_throughput(log_format, record)
        elif isinstance(record, Setting):
            self._read_setting(record)
        elif not (isinstance(record, Usage) and record.source in _SAMPLED_BESIDE):
            self._launches[-1].started = True

    def _read_step(self, log_format: AnyFormat, step: Step, candidate: Candidate) -> None:
        if not step.covered and (not isinstance(log_format, LogFormat) or log_format.ordered):
            self._begin_if_anew(log_format, step)
        self._read_progress()
        self._launches[-1].ends.read_step(step, candidate)

    def _read_throughput(self, log_format: AnyFormat, report: Throughput) -> None:
        step = Step(
            iteration=report.iteration, samples_per_second=report.rate, offset=report.offset
        )
        self._begin_if_anew(log_format, step)
        self._read_progress()
        self._launches[-1].ends.read_sound_steps(1, with_loss=False)

    def _begin_if_anew(self, log_format: AnyFormat, step: Step) -> None:
        reported = self._launches[-1].reported
        if reported[log_format.name].begins_anew(step) or self._is_of_another_program(
            log_format, step.iteration
        ):
            self._begin(step.offset)
            self._detector.restart()
        self._launches[-1].reported[log_format.name].add(step)

    def _is_of_another_program(self, log_format: AnyFormat, iteration: int) -> bool:
        """Return whether a step report belongs to another program, after one that is done.

        Its format must be new. A late report of the program that is done is about a last iteration.
        """
        launch = self._launches[-1]
        return (
            Weight.FINISHED in launch.ends.first
            and log_format.name not in launch.formats
            and any(iteration < reported.highest for reported in launch.reported.values())
        )

    def _read_loss(self, report: LossReport, candidate: Candidate) -> None:
        losses = self._launches[-1].losses
        # Until all is done, the node that prints a report may lag behind another one.
        if Weight.FINISHED in self._launches[-1].ends.first and _trains_anew(report, losses):
            self._begin(candidate.offset)
            self._detector.restart()
            losses = self._launches[-1].losses
        losses.setdefault(report.epoch, report)
        self._read_progress()
        self._launches[-1].ends.read_loss(report.loss, candidate)

    def _read_block(self, candidate: Candidate, block: StepBlock, log_format: AnyFormat) -> None:
        """Add a block of step reports to the current launch.

        The reports are added one by one, unless it is certain that all belong to this launch.
        """
        launch = self._launches[-1]
        is_counted = _is_counted(log_format)
        iterations = block.columns["iteration"]
        belongs = not launch.ends.plans_to_end_by(iterations[-1]) and (
            is_counted
            or (
                not self._is_of_another_program(log_format, iterations[0])
                and launch.reported[log_format.name].add_block(block)
            )
        )
        if not belongs:
            for step in block.steps():
                self._read_records(candidate._replace(offset=step.offset), [(log_format, [step])])
            return
        launch.lines += len(block)
        launch.formats[log_format.name] = None
        (launch.counted_steps if is_counted else launch.parts).append(block)
        launch.ends.read_sound_steps(len(block), with_loss="loss" in block.columns)
        self._read_progress()

    def _read_progress(self) -> None:
        launch = self._launches[-1]
        # All processes of this program have started. So another program ended before, e.g. a check.
        if launch.exited_early:
            launch.ends.first.clear()
            launch.exited_early = False
        launch.started = self._detector.progress = True
        self._echoed_from = None

    def _read_setting(self, setting: Setting) -> None:
        self._launches[-1].started |= setting.source == "arguments"
        over = self._detector.progress or self._detector.ended
        if over and setting.source == "echo" and self._echoed_from is None:
            self._echoed_from = setting.offset


def _is_counted(log_format: AnyFormat) -> bool:
    return isinstance(log_format, LogFormat) and log_format.counted


def _all_parts(launch: _Launch) -> Sequence[Part]:
    """Return the records of a launch, including the steps on lines without an iteration number.

    Steps on such lines are numbered from 1. If other lines of the launch have iteration numbers,
    such lines give only TFLOPs (see `_tflops_of_next_reports`) and means over several iterations
    (see `_covered_means`).
    """
    parts = with_units(launch.parts)
    if not launch.counted_steps:
        return parts
    steps: list[Step | StepBlock] = []
    if any(isinstance(part, Step | StepBlock) for part in parts):
        steps += _tflops_of_next_reports(launch.counted_steps, parts)
        steps += _covered_means(launch.counted_steps, parts)
        return sorted([*parts, *steps], key=lambda part: part.offset)
    count = 0
    for part in launch.counted_steps:
        steps.append(_numbered(part, count + 1))
        count += len(part) if isinstance(part, StepBlock) else 1
    return sorted([*parts, *steps], key=lambda part: part.offset)


def _tflops_of_next_reports(
    counted: Sequence[Step | StepBlock], parts: Sequence[Part]
) -> Iterator[Step]:
    """Yield the TFLOPs on lines without an iteration number, with the iteration of the next report.

    Megatron-Bridge prints such a line before Megatron's own report about the same iteration. The
    TFLOPs are used only if both lines have the same step time, except for rounding.
    """
    offsets, iterations, seconds = (
        step_column(parts, name) for name in ("offset", "iteration", "step_seconds")
    )
    names = ("offset", "step_seconds", "reported_tflops_per_gpu")
    lines = [*zip(*(step_column(counted, name) for name in names), strict=True)]
    ends = [*(offset for offset, _, _ in lines[1:]), math.inf]
    for (offset, coarse, tflops), end in zip(lines, ends, strict=True):
        at = bisect_left(offsets, offset)
        if tflops is None or coarse is None or at == len(offsets) or offsets[at] > end:
            continue
        if seconds[at] is not None and abs(seconds[at] - coarse) <= _COARSE_SECONDS:
            yield Step(iteration=iterations[at], reported_tflops_per_gpu=tflops, offset=offset)


def _covered_means(counted: Sequence[Step | StepBlock], parts: Sequence[Part]) -> Iterator[Step]:
    """Yield means on lines without an iteration number, with the iteration of the report before.

    Other lines report the same iterations.
    """
    offsets, iterations = (step_column(parts, name) for name in ("offset", "iteration"))
    for step in counted:
        if isinstance(step, Step) and step.covered:
            at = bisect_left(offsets, step.offset)
            if at:
                yield replace(step, iteration=iterations[at - 1])


def _numbered(part: Step | StepBlock, first: int) -> Step | StepBlock:
    """Return steps with new iteration numbers, from `first` on."""
    if isinstance(part, Step):
        return replace(part, iteration=first, covered=None, unnumbered=True)
    numbers = range(first, first + len(part))
    return StepBlock({**part.columns, "iteration": numbers, "unnumbered": [True] * len(part)})


def _segment(launch: _Launch, end: int, *, complete: bool) -> RunSegment:
    outcome = launch.ends.outcome()
    if outcome is None and complete:
        kind = OutcomeKind.TRUNCATED if launch.started else OutcomeKind.UNKNOWN
        outcome = Outcome(kind=kind)
    return RunSegment(
        begin=launch.begin,
        end=end,
        records=Records(_all_parts(launch)),
        resumed_from=launch.resumed_from,
        outcome=outcome,
        ends=launch.ends,
    )


def _trains_anew(report: LossReport, reported: dict[float, LossReport]) -> bool:
    """Return whether a loss report begins a new training, because epochs start over.

    A copy of an earlier report, e.g. by another rank, does not begin one. reported: the earlier
    reports, by epoch.
    """
    earlier = reported.get(report.epoch)
    if earlier is None:
        return bool(reported) and report.epoch < max(reported)
    return not is_copy(report, earlier)


def _goes_on(before: RunSegment, segment: RunSegment) -> bool:
    """Return whether the launch `segment` continues the run of the launch `before`."""
    if before.outcome is None or before.outcome.kind is OutcomeKind.COMPLETED:
        return False
    steps, steps_before = segment.step_columns, before.step_columns
    if not len(steps):
        return bool(segment.resumed_from)
    first = steps.step(0)
    if len(steps_before):
        last = steps_before.step(-1)
        if (
            _differ(first.iterations, last.iterations)
            or first.iteration <= steps_before.step(0).iteration
        ):
            return False
        if _differ(first.global_batch_size, last.global_batch_size):
            return False
    if any(_differ(*(_stated(launch, name) for launch in (before, segment))) for name in _SIZES):
        return False
    if segment.resumed_from is not None:
        return segment.resumed_from > 0
    # A launch without a checkpoint reports at the end of its first interval at the latest.
    interval = [*dict.fromkeys((steps if len(steps) > 1 else steps_before).column("iteration"))][:2]
    return len(interval) == 2 and first.iteration > interval[1] - interval[0]


def _stated(segment: RunSegment, name: str) -> int | None:
    """Return a count in the configuration that the program of a launch prints, not its script."""
    settings = [
        setting
        for setting in segment.records.settings
        if setting.name == name and setting.source != "echo"
    ]
    return whole(merge_settings(settings).get(name))


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b
