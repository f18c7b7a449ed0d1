"""Combine the console log of a run with the metrics that its program wrote to other files.

Such a file is called a stream: JSON lines, or `trainer_state.json`. A stream belongs to a run in
a console log if both report the same values, e.g. losses and rates, for the same iterations. If
the console contains no iterations, both must report the same losses in the same order. The
combined run contains each step once, with the values of the console and of the stream.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from parsers.records import LossReport, Record, Step
from parsers.runs.outcome import common_outcome
from parsers.runs.run import LogRun, joined
from parsers.steps.blocks import Records

_STREAM = re.compile(r"(?:\.jsonl|(?:^|[/\\])trainer_state\.json)(?:\.(?:gz|zst|xz|bz2))?$")
# Consoles print four digits or more.
_ROUNDING = 2e-3
_FEWEST_ALIKE = 2
_COMPARED = ("loss", "grad_norm", "tokens_per_second_per_gpu", "tokens_per_second", "step_seconds")


def is_stream(name: str) -> bool:
    """Return whether the name of a file is that of a metrics stream."""
    return _STREAM.search(name) is not None


def with_stream(runs: Sequence[LogRun], streamed: Sequence[LogRun]) -> list[LogRun]:
    """Return the runs of a log, with the records of a stream added to the matching run.

    If no run matches the whole stream, each run of the stream is added to the run that it matches.
    A run of the stream that matches no run, or several, is added at the end.
    """
    launches = [launch for run in streamed for launch in _launches(run)]
    combined = {
        at: joined_run
        for at, run in enumerate(runs)
        if (joined_run := _with_launches(run, launches)) is not None
    }
    if len(combined) != 1 and len(streamed) > 1:
        for stream in streamed:
            runs = with_stream(runs, [stream])
        return [*runs]
    if len(combined) != 1:
        return [*runs, *streamed]
    ((same, run),) = combined.items()
    run = joined((run, *streamed), run.segments)
    return [run if at == same else other for at, other in enumerate(runs)]


def _launches(run: LogRun) -> list[LogRun]:
    return [replace(run, segments=(segment,)) for segment in run.segments]


def _with_launches(run: LogRun, streamed: Sequence[LogRun]) -> LogRun | None:
    """Return a run with the contents of a stream; None if the stream belongs to another run.

    streamed: the launches in the stream, each as a run. A restarted program may append to its
    stream or begin it again. So the stream contains either one launch, or all launches of the run.
    """
    if len(streamed) == 1:
        return _combined(run, streamed[0]) if _is_same(run, streamed[0]) else None
    pairs = [*zip(_launches(run), streamed, strict=False)]
    if len(run.segments) != len(streamed) or not all(_is_same(*pair) for pair in pairs):
        return None
    launches = [_combined(*pair).segments for pair in pairs]
    return replace(run, segments=tuple(launch for (launch,) in launches))


def _is_same(run: LogRun, stream: LogRun) -> bool:
    """Return whether a run in a console log and a run in a stream are the same run.

    They are if they report the same values, e.g. losses, for the iterations that both contain. If
    the console contains no iterations, the losses must be the same, in the same order.
    """
    # If a step was done twice, a stream may contain only the last report of it.
    steps = [*{step.iteration: step for step in run.steps if not step.covered}.values()]
    streamed = stream.steps
    if not steps:
        losses = [report.loss for report in run.reports if isinstance(report, LossReport)]
        pairs = [*zip(losses, (step.loss for step in streamed), strict=False)]
        return len(pairs) >= min(_FEWEST_ALIKE, len(streamed)) > 0 and all(
            _alike(a, b) for a, b in pairs
        )
    by_iteration = {step.iteration: step for step in streamed}
    common = [
        (step, by_iteration[step.iteration]) for step in steps if step.iteration in by_iteration
    ]
    compared = [(_values(step), _values(streamed_step)) for step, streamed_step in common]
    agreements = [
        all(_alike(a[name], b[name]) for name in both)
        for a, b in compared
        if (both := [name for name in _COMPARED if name in a and name in b])
    ]
    return all(agreements) and len(agreements) >= max(
        1, min(_FEWEST_ALIKE, len(steps), len(streamed))
    )


def _values(step: Step) -> dict[str, float]:
    values = ((name, getattr(step, name)) for name in _COMPARED)
    return {name: value for name, value in values if value is not None}


def _alike(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return False
    return repr(a) == repr(b) or math.isclose(a, b, rel_tol=_ROUNDING, abs_tol=1e-4)


def _combined(run: LogRun, stream: LogRun) -> LogRun:
    """Return a run with the records of its stream added to its launches.

    A step of the stream is added to the last launch whose first step has the same or a
    lower iteration. All other records are added to the first launch. The outcome of the
    last launch is decided from the messages of both logs.
    """
    (source,) = stream.segments
    left = [*source.records]
    segments = []
    for number, segment in reversed([*enumerate(run.segments)]):
        first = next(iter(segment.step_columns.column("iteration")), None)
        mine: list[Record] = []
        rest: list[Record] = []
        for record in left:
            later = isinstance(record, Step) and first is not None and record.iteration >= first
            (mine if later or number == 0 else rest).append(record)
        left = rest
        segments.append(replace(segment, records=Records([*segment.records.parts, *mine])))
    last, *earlier = segments
    outcome = common_outcome((run.path, last.ends), (stream.path, source.ends))
    last = replace(last, outcome=outcome or last.outcome)
    return replace(run, segments=(*reversed(earlier), last))
