"""Decide from a log how its run ended, and find the line that shows it.

Failures cause further failures: one rank runs out of memory, the others lose their connection, the
launcher kills the rest and Slurm cancels the step. So each message has a weight. A lower weight
wins over a higher one, wherever the lines are. Among lines of equal weight the first one wins.

A line that reports the end of training has the lowest weight. The run survived all failures before
this line. The lines after it belong to the cleaning up, until a line shows that another run starts
in the same log.
"""

import dataclasses
import math
import re
from collections.abc import Iterator
from functools import lru_cache

from parsers.fields import NUMBER
from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.records import Outcome, OutcomeKind, RunTotals, Step
from parsers.runs.launches import LAUNCH_ANCHORS, LaunchDetector, launch_signs
from parsers.runs.outcome_signs import (
    CANCELLED_AT,
    EXCEPTIONS,
    NO_SIGN,
    SIGNS,
    Sign,
    Weight,
)
from parsers.runs.tracebacks import (
    HEADER,
    INTRODUCTION_ANCHORS,
    Introduction,
    exception_line,
    introduction,
    message,
    split_label,
)
from parsers.scan.candidates import Pass
from parsers.scan.reader import decode
from parsers.scan.sources import LogPath, open_source
from parsers.scan.wanted import Candidate, Wanted
from parsers.scan.window import Bounds

_FINISHED_MARK = "[teralog] finished "
# MaxText prints its options, but not in each report how many steps it will do. It counts from 0.
_PLANNED_ANCHOR = b"Config param steps: "
_PLANNED = re.compile(r"\bConfig param steps: (?P<steps>[1-9][0-9]{0,17})\s*$")
_HEADER = HEADER.encode()
_INTRODUCTIONS = frozenset(INTRODUCTION_ANCHORS)
_TRACEBACK_LINES = 400

END_ANCHORS = {
    **dict.fromkeys((sign.anchor for sign in SIGNS), 0),
    **dict.fromkeys(INTRODUCTION_ANCHORS, 0),
    _FINISHED_MARK.encode(): 0,
    _PLANNED_ANCHOR: 0,
    _HEADER: _TRACEBACK_LINES,
}
"""What to search a log for to know how it ended, with the number of further lines to give."""

_REQUESTED = re.compile(
    r"(?:[Tt]ried to allocate|Unable to allocate|(?:memory|Attempting)(?: while trying)?(?: to)? "
    rf"allocat(?:e|ing)|Cannot allocate) (?P<size>{NUMBER}) ?(?P<unit>bytes|[KMGTPE](?:i?B)?\b)"
)
# PyTorch on Apple's GPUs, XLA and Paddle count in powers of 1024 too, although they print GB or G.
_POWERS = {unit: 1024.0**power for power, unit in enumerate("bKMGTPE")}
# After a failure, a dying program may still print the steps that it had kept back: 8 KiB of them.
# A program that reports more than that has survived the failure.
_STEPS_OF_A_SURVIVOR = 100
# Slurm may cancel a step first, and give the reason when it cancels the job.
_WITHOUT_REASON = re.compile(rf"{CANCELLED_AT} \*\*\*")
_WITH_REASON = re.compile(rf"{CANCELLED_AT} DUE TO ")
_OUT_OF_MEMORY = (OutcomeKind.GPU_OUT_OF_MEMORY, OutcomeKind.HOST_OUT_OF_MEMORY)


class EndDetector:
    """Collects the messages that show how one run ended, and decides its outcome.

    The message with the lowest weight wins, wherever it is in the log.

    announced: the last planned step, if a line has stated it since the last report.
    """

    def __init__(self, last_planned: int | None = None) -> None:
        """Start without any messages; `last_planned` is the last planned step, if it is known."""
        self.first: dict[Weight, Outcome] = {}
        self.announced: int | None = None
        self._steps_since = 0
        self._last_planned = last_planned  # for programs that do not report it in each step
        self._diverged: Candidate | None = None  # the line of the last loss, if it is nan or inf
        self._introduced: tuple[int, Introduction] | None = None  # where such a line ends

    def read(self, candidate: Candidate) -> bool:
        """Process a line of the log; return whether the line shows that the run has ended.

        Only a line with one of END_ANCHORS can show an end. An exception that ended only a thread
        does not count as an end, because the run may continue.
        """
        is_end = False
        for weight, outcome in self._evidence(candidate):
            self.first.setdefault(weight, outcome)
            if self._is_reason(outcome):
                self.first[Weight.END] = outcome
            self._steps_since = 0
            is_end |= weight is not Weight.THREAD
        return is_end

    def _is_reason(self, outcome: Outcome) -> bool:
        """Return whether `outcome` contains the reason for a cancellation that was read before.

        E.g. `CANCELLED AT … DUE TO TIME LIMIT` contains the reason for `CANCELLED AT … ***`.
        """
        cancelled = self.first.get(Weight.END)
        return (
            cancelled is not None
            and _WITHOUT_REASON.search(cancelled.text or "") is not None
            and _WITH_REASON.search(outcome.text or "") is not None
        )

    def read_step(self, step: Step, candidate: Candidate) -> None:
        """Process a step report and the line that contains it.

        If the report is about the last planned step, the run is complete.
        """
        self.read_loss(step.loss if step.has_finite_loss else math.nan, candidate)
        last = self._last_planned if step.iterations is None else step.iterations
        if last is not None and step.iteration >= last:
            line = decode(candidate.line).rpartition("\r")[2]
            outcome = _outcome(OutcomeKind.COMPLETED, candidate, line)
            if candidate.steps is not None or candidate.batch is not None:  # many lines, no text
                outcome = Outcome(kind=OutcomeKind.COMPLETED, offset=step.offset)
            self.first.setdefault(Weight.FINISHED, outcome)

    def plans_to_end_by(self, step: int) -> bool:
        """Return whether a line of the log has shown that the run ends at this step or earlier."""
        return self._last_planned is not None and step >= self._last_planned

    def read_loss(self, loss: float | None, candidate: Candidate) -> None:
        """Process the loss of a report, and the line that contains it.

        A report shows that the run continues. So one report removes the message about an
        exception in a thread, and more than 100 reports after the last message remove all
        messages.
        loss: None if the report does not contain a loss.
        """
        self._goes_on(1)
        if loss is not None:
            self._diverged = None if math.isfinite(loss) else candidate

    def read_sound_steps(self, count: int, *, with_loss: bool) -> None:
        """Process `count` step reports after which the run continues.

        No report is about the last planned step, and no loss is nan or inf.
        with_loss: whether the reports contain losses.
        """
        self._goes_on(count)
        if with_loss:
            self._diverged = None

    def _goes_on(self, reports: int) -> None:
        self.announced = None
        self._steps_since += reports
        self.first.pop(Weight.THREAD, None)
        if self.first and self._steps_since > _STEPS_OF_A_SURVIVOR:
            self.first.clear()

    def outcome(self) -> Outcome | None:
        """Return the outcome of the run; None if no line shows an end.

        The message with the lowest weight decides. If it reports that the run completed, or if
        no message exists, a last loss of nan or inf decides instead.
        """
        return common_outcome((None, self))

    def diverged(self) -> Outcome | None:
        """Return the outcome NAN_LOSS if the last loss is nan or inf, otherwise None."""
        if not (candidate := self._diverged):
            return None
        return _outcome(OutcomeKind.NAN_LOSS, candidate, decode(candidate.line))

    def _evidence(self, candidate: Candidate) -> Iterator[tuple[Weight, Outcome]]:
        if END_ANCHORS.keys().isdisjoint(candidate.anchors):
            return
        text = decode(candidate.line)
        if _PLANNED_ANCHOR in candidate.anchors and (planned := _PLANNED.search(text)):
            self._last_planned = self.announced = int(planned["steps"]) - 1
        if _FINISHED_MARK in text:
            yield from self._own_mark(candidate, text)
        if HEADER in text and (ended := self._traceback(candidate)):
            yield ended
        anchored = _anchored(candidate.anchors)
        may_introduce = not _INTRODUCTIONS.isdisjoint(candidate.anchors)
        for part in text.split("\r"):
            line = split_label(part)[1].rstrip()
            if may_introduce and (kind := introduction(line)):
                self._introduced = candidate.offset + len(candidate.line), kind
            sign = next((sign for sign in anchored if sign.pattern.search(line)), None)
            if sign and not NO_SIGN.search(line):
                explained = any(weight in self.first for weight in sign.explained_by)
                weight = Weight.AFTERMATH if explained else sign.weight
                yield weight, _outcome(sign.kind, candidate, message(part))

    def _own_mark(self, candidate: Candidate, text: str) -> Iterator[tuple[Weight, Outcome]]:
        for record in GPT_WORKLOAD.parse(candidate.offset, text):
            if isinstance(record, RunTotals) and record.final_loss is not None:
                sound = math.isfinite(record.final_loss)
                kind = OutcomeKind.COMPLETED if sound else OutcomeKind.NAN_LOSS
                _, mark, rest = text.rpartition(_FINISHED_MARK)
                yield Weight.FINISHED, _outcome(kind, candidate, (mark + rest).partition("\r")[0])

    def _traceback(self, candidate: Candidate) -> tuple[Weight, Outcome] | None:
        """Return the outcome that a traceback beginning on this line shows, and its weight.

        Returns None if no traceback begins on this line, or if the line before marks it as
        harmless.
        """
        introduced = None
        # A line end of one or two bytes is between the two lines.
        if self._introduced and candidate.offset - self._introduced[0] <= 2:
            introduced = self._introduced[1]
        if introduced is Introduction.HARMLESS:
            return None
        if not (exception := exception_line(candidate.line + candidate.following)):
            return None
        offset, line_number, line = exception
        kind, weight = next((k, w) for pattern, k, w in EXCEPTIONS if pattern.search(line))
        if introduced is Introduction.THREAD:
            weight = Weight.THREAD
        outcome = _outcome(kind, candidate, line)
        number = None if candidate.number is None else candidate.number + line_number
        return weight, dataclasses.replace(outcome, offset=candidate.offset + offset, line=number)


@lru_cache(maxsize=1024)
def _anchored(anchors: tuple[bytes, ...]) -> tuple[Sign, ...]:
    """Return the signs that a line with these anchors may contain."""
    return tuple(sign for sign in SIGNS if sign.anchor in anchors)


def common_outcome(*logs: tuple[str | None, EndDetector]) -> Outcome | None:
    """Return the outcome of one run whose output is in several logs.

    logs: the name of each log, and the detector that has collected the messages in this log. Among
    the messages of all logs, the one with the lowest weight decides. If it reports that the run
    completed, or if no message exists, a last loss of nan or inf decides instead. Returns None if
    no log shows that the run ended.
    """
    weighted = [
        (weight, dataclasses.replace(outcome, source=name))
        for name, ends in logs
        for weight, outcome in ends.first.items()
    ]
    best = min(weighted, key=lambda weighed: weighed[0])[1] if weighted else None
    if best is None or best.kind is OutcomeKind.COMPLETED:
        for name, ends in logs:
            if diverged := ends.diverged():
                return dataclasses.replace(diverged, source=name)
    return best


def _outcome(kind: OutcomeKind, candidate: Candidate, line: str) -> Outcome:
    size = _REQUESTED.search(line) if kind in _OUT_OF_MEMORY else None
    return Outcome(
        kind=kind,
        line=candidate.number,
        offset=candidate.offset,
        text=line.strip(),
        requested_gib=float(size["size"]) * _POWERS[size["unit"][0]] / 2**30 if size else None,
    )


def read_outcome(
    log: LogPath, *, complete: bool = True, count_lines: bool = False
) -> Outcome | None:
    """Return the outcome of the run in a log; of the last run, if the log contains several.

    While a program still writes the log, pass `complete=False`. A half-written last line is then
    not read, and None means that no line shows an end yet. A complete log without an end is
    TRUNCATED. count_lines: whether the outcome contains the number of its line. Raises OSError.
    """
    outcome = _last_ends(log, Bounds(complete=complete), count_lines).outcome()
    return outcome or (Outcome(kind=OutcomeKind.TRUNCATED) if complete else None)


def _last_ends(log: LogPath, bounds: Bounds, count_lines: bool) -> EndDetector:
    """Read a whole log; return the detector with the messages about the end of its last run."""
    detector, launches = EndDetector(), LaunchDetector()
    wanted = Wanted(dict.fromkeys(LAUNCH_ANCHORS, 0) | END_ANCHORS)
    with open_source(log) as source:
        for candidate in Pass(source, wanted, bounds, count_lines=count_lines):
            for sign, part in launch_signs(candidate):
                if sign and launches.begins_another(sign):
                    detector = EndDetector()
                launches.ended |= detector.read(part)
                launches.progress |= Weight.FINISHED in detector.first
    return detector
