"""How a log says that its run ended, with the line that says so.

Failures come in heaps: one rank runs out of memory, the others lose their connection, the launcher
kills what is left and Slurm cancels the step. So each line has a weight, a lower weight wins over
a higher one wherever it stands, and among lines of equal weight the first one counts.

A line that says the training is finished ends a run: what came before it was survived, and what
comes after it is clearing up, until a line says that another run starts in the same log.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from parsers.fields import NUMBER
from parsers.gpt_workload import GPT_WORKLOAD
from parsers.records import Outcome, OutcomeKind, RunTotals
from parsers.scan import Candidate, decode, read_candidates
from parsers.tracebacks import HEADER, exception_line, is_harmless, split_label


class _Weight(IntEnum):
    FINISHED = 0
    CAUSE = 1  # explains itself and much of what surrounds it
    END = 2  # ends a run; a consequence if something of this weight came before
    CONSEQUENCE = 3  # happens because another process ended
    LAUNCHER = 4  # the launcher saw nothing go wrong


@dataclass(frozen=True, slots=True)
class _Sign:
    kind: OutcomeKind
    weight: _Weight
    anchor: bytes
    pattern: re.Pattern[str]


def _sign(kind: OutcomeKind, weight: _Weight, anchor: bytes, pattern: str) -> _Sign:
    return _Sign(kind, weight, anchor, re.compile(pattern))


_GPU, _HOST = OutcomeKind.OUT_OF_MEMORY_GPU, OutcomeKind.OUT_OF_MEMORY_HOST
_FAILED, _KILLED = OutcomeKind.FAILED, OutcomeKind.KILLED
_CAUSE, _END = _Weight.CAUSE, _Weight.END
_CANCELLED_AT = r"\*\*\* (?:JOB|STEP) .*CANCELLED AT \S+"
_DEVICE = "(?:CUDA|HIP|XPU)"
_TASKS = r"\btasks? [0-9,\[\]-]+: "

# The first sign that matches a line counts. Wordings of PyTorch's allocators, of slurmstepd, srun
# and salloc, of torchrun's agent, DeepSpeed's launcher, NCCL and Megatron-LM, old and new.
_SIGNS = (
    _sign(_GPU, _CAUSE, b"out of memory", rf"Error: {_DEVICE} out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", rf"\b{_DEVICE} out of memory\. Tried to allocate"),
    _sign(_GPU, _CAUSE, b"out of memory", rf"\b{_DEVICE} error: out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", r"cuda runtime error \(2\) ?: out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", r"Cuda failure (?:2 )?'out of memory'"),
    _sign(_GPU, _CAUSE, b"MemoryError", r"^torch\.(?:cuda\.)?OutOfMemoryError: \S"),
    _sign(_GPU, _CAUSE, b"ALLOC_FAILED", r"CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    _sign(_HOST, _CAUSE, b"DefaultCPUAllocator", r"DefaultCPUAllocator: (?:can't|not enough)"),
    _sign(_HOST, _CAUSE, b"MemoryError", r"^(?:\w+\.)*_?(?:Array)?MemoryError(?::|$)"),
    _sign(_HOST, _CAUSE, b"oom-kill", r"\b[Dd]etected [0-9]+ oom-kill event"),
    _sign(_HOST, _CAUSE, b"oom_kill", r"\b[Dd]etected [0-9]+ oom_kill event"),
    _sign(_HOST, _CAUSE, b"Out Of Memory", rf"{_TASKS}Out Of Memory"),
    _sign(OutcomeKind.NAN_LOSS, _CAUSE, b"found NaN in", r"\bfound NaN in (?:local|the) "),
    _sign(OutcomeKind.TIME_LIMIT, _END, b"CANCELLED", rf"{_CANCELLED_AT} DUE TO TIME LIMIT"),
    _sign(OutcomeKind.TIME_LIMIT, _END, b"time limit", r"\bJob \S+ has exceeded its time limit"),
    _sign(OutcomeKind.PREEMPTED, _END, b"CANCELLED", rf"{_CANCELLED_AT} DUE TO PREEMPTION"),
    _sign(OutcomeKind.NODE_FAILURE, _END, b"CANCELLED", rf"{_CANCELLED_AT} DUE TO NODE FAILURE"),
    _sign(OutcomeKind.NODE_FAILURE, _END, b"Node failure on", r"srun: error: Node failure on"),
    _sign(OutcomeKind.CANCELLED, _END, b"CANCELLED", _CANCELLED_AT),
    _sign(_KILLED, _END, b"exitcode", r"\(exitcode: -9\)|^\s*exitcode\s*: -9 \(pid"),
    _sign(_KILLED, _END, b"return code", r"exits with return code = -9(?![0-9])"),
    _sign(_KILLED, _END, b"Killed", rf"{_TASKS}Killed|: line [0-9]+: +[0-9]+ Killed\b"),
    _sign(_FAILED, _END, b"exitcode", r"\(exitcode: -?[1-9]|^\s*exitcode\s*: -?[1-9][0-9]* \(pid"),
    _sign(_FAILED, _END, b"return code", r"exits with return code = -?[1-9]"),
    _sign(_FAILED, _END, b"Exited with exit code", rf"{_TASKS}Exited with exit code [1-9]"),
    _sign(_FAILED, _END, b"Segmentation fault", r"(?:^|: )Segmentation fault"),
    _sign(_FAILED, _END, b"Bus error", r"(?:^|: )Bus error"),
    _sign(OutcomeKind.COMPLETED, _Weight.LAUNCHER, b"exits success", r"Process [0-9]+ exits succ"),
)
_MARKS = (b"[teralog] start ", b"[teralog] finished ")
_ANCHORS = tuple(dict.fromkeys((*(sign.anchor for sign in _SIGNS), *_MARKS, HEADER.encode())))

_FALSE_FRIEND = re.compile(r"\bNCCL INFO\b")
_REQUESTED = re.compile(
    rf"(?:[Tt]ried to|Unable to) allocate (?P<size>{NUMBER}) (?P<unit>bytes|[KMGTPE]iB)"
)
_UNITS = {
    unit: 1024.0**power
    for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
}
# Exceptions of a process that lost another one, or was told to stop.
_CONSEQUENCE = re.compile(
    r"ChildFailedError|CalledProcessError|SignalException|DistBackendError|NCCL error"
    r"|remote process exited|Connection (?:closed by|reset)|Broken pipe"
)
_TRACEBACK_BYTES = 2**16
_LINE_BEFORE_BYTES = 2**9


def read_outcome(path: Path, *, complete: bool = True) -> Outcome | None:
    """Return how the run whose log is `path` ended; the last one, if the log holds several.

    While the log is still being written pass `complete=False`: a half-written last line is then
    not read, and None says that no end has been seen. A complete log without an end is TRUNCATED.
    Raises OSError.
    """
    first: dict[_Weight, Outcome] = {}
    for candidate in read_candidates(path, _ANCHORS, complete=complete):
        for found in _evidence(path, candidate, complete):
            if found is None:
                first.clear()
                continue
            weight, outcome = found
            first.setdefault(weight, outcome)
    if first:
        return first[min(first)]
    return Outcome(kind=OutcomeKind.TRUNCATED) if complete else None


def _evidence(
    path: Path, candidate: Candidate, complete: bool
) -> Iterator[tuple[_Weight, Outcome] | None]:
    """Yield what a line says about an end, and None where it says that a run starts."""
    text = decode(candidate.line)
    if any(mark in candidate.anchors for mark in _MARKS):
        yield from _own_marks(candidate.offset, text)
    if HEADER.encode() in candidate.anchors and (ended := _traceback(path, candidate, complete)):
        yield ended
    signs = [sign for sign in _SIGNS if sign.anchor in candidate.anchors]
    for part in text.split("\r") if signs else ():
        line = split_label(part)[1].rstrip()
        sign = next((sign for sign in signs if sign.pattern.search(line)), None)
        if sign and not _FALSE_FRIEND.search(line):
            yield sign.weight, _outcome(sign.kind, candidate.offset, line)


def _own_marks(offset: int, text: str) -> Iterator[tuple[_Weight, Outcome] | None]:
    for record in GPT_WORKLOAD.parse(offset, text):
        if isinstance(record, RunTotals) and record.strategy is not None:
            yield None
        if isinstance(record, RunTotals) and record.final_loss is not None:
            sound = math.isfinite(record.final_loss)
            kind = OutcomeKind.COMPLETED if sound else OutcomeKind.NAN_LOSS
            _, mark, rest = text.rpartition(_MARKS[1].decode())
            yield _Weight.FINISHED, _outcome(kind, offset, (mark + rest).partition("\r")[0])


def _traceback(path: Path, candidate: Candidate, complete: bool) -> tuple[_Weight, Outcome] | None:
    """Return what a line with the header of a traceback says, reading on to its exception."""
    # The header may stand behind a long progress bar.
    wanted = len(candidate.line) + _TRACEBACK_BYTES
    with path.open("rb") as log:
        log.seek(max(0, candidate.offset - _LINE_BEFORE_BYTES))
        before = log.read(min(candidate.offset, _LINE_BEFORE_BYTES))
        block = log.read(wanted)
    if not complete or len(block) == wanted:
        block = block[: block.rfind(b"\n")]
    if is_harmless(before) or not (found := exception_line(block)):
        return None
    offset, line = found
    weight = _Weight.CONSEQUENCE if _CONSEQUENCE.search(line) else _END
    return weight, _outcome(OutcomeKind.TRACEBACK, candidate.offset + offset, line)


def _outcome(kind: OutcomeKind, offset: int, line: str) -> Outcome:
    size = _REQUESTED.search(line) if kind in (_GPU, _HOST) else None
    return Outcome(
        kind=kind,
        line=line.strip(),
        offset=offset,
        requested_gib=float(size["size"]) * _UNITS[size["unit"]] / 2**30 if size else None,
    )
