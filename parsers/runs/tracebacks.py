"""Parse Python's tracebacks in a log: the exception, and the label before each line.

The ranks of a job write into one log. Each line may have a label such as `[rank1]: `, and lines of
several ranks may be mixed.
"""

import io
import re
from enum import Enum

from parsers.fields import alike
from parsers.labels import COLLECTOR_TIME, CONTAINER, TIME
from parsers.scan.reader import decode

HEADER = "Traceback (most recent call last)"

# `[rank1]: ` torch, `[default7]:` torchrun, `  0: ` srun --label, `node2: ` pdsh, which DeepSpeed
# starts nodes with, also with an address, `[1,3]<stderr>:` mpirun; or several of them.
_LABEL = (
    r"(?: {0,4}[0-9]{1,6}: ?(?![0-9]{2}:[0-9]{2})|\[(?:rank|default)[0-9]{1,6}\]: ?"
    r"|[a-z][\w.-]{0,60}[0-9](?:\.[a-z][a-z0-9-]{0,60}){0,4}: |(?:[0-9]{1,3}\.){3}[0-9]{1,3}: "
    r"|\[[0-9]{1,6},[\w:,.-]{1,60}\]<std(?:out|err)>: ?)"
)
_LABELS = re.compile(rf"(?:{TIME}|{CONTAINER}|{_LABEL})*")
_TIME = re.compile(TIME)
_OF_COLLECTORS = re.compile(rf"(?:{COLLECTOR_TIME}|{CONTAINER}|{_LABEL})*")

# ValueError: text, torch.cuda.OutOfMemoryError: text, socket.gaierror: text, KeyboardInterrupt
_EXCEPTION = re.compile(
    r"(?:(?:\w+\.)*_?[A-Z]\w*|(?:\w+\.)+(?:error|gaierror|timeout)):(?: .*)?"
    r"|(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Iteration)"
)
_FRAME = b'File "'
_LOGGER = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|Traceback\b[^:]*):")
# How rich and the programs that use it draw the first line of a traceback, and its last one.
_BOX = re.compile(r"╭─+ Traceback \(most recent call last\) ─+╮")
_BOX_SIDE, _BOX_END = "│", "╰"


class Introduction(Enum):
    """What a line directly before a traceback shows: how serious the exception is."""

    HARMLESS = "only reported: raised by a destructor, a logging call, or when the process exits"
    THREAD = "ended a thread of the process"


_INTRODUCTIONS = {
    "Exception ignored ": Introduction.HARMLESS,
    "--- Logging error ---": Introduction.HARMLESS,
    "Error in atexit._run_exitfuncs": Introduction.HARMLESS,
    "Exception in thread ": Introduction.THREAD,
}
INTRODUCTION_ANCHORS = tuple(text.encode() for text in _INTRODUCTIONS)


def split_label(text: str) -> tuple[str, str]:
    """Split a line into its label, which names the rank, node or process, and the text after it.

    The label, e.g. `[rank1]:`, is "" if the line has none. It does not contain the time at which a
    collector of logs received the line.
    """
    labels = _LABELS.match(text)
    end = labels.end() if labels else 0
    return _TIME.sub("", text[:end]).strip(), text[end:]


def message(text: str) -> str:
    """Return a line without its label, but with the time that a program's logger wrote."""
    labels = _OF_COLLECTORS.match(text)
    return text[labels.end() if labels else 0 :]


def exception_line(block: bytes) -> tuple[int, int, str] | None:
    """Find the line with the exception of the traceback at the start of `block`.

    Returns the line's offset in the block, how many lines it is below the first, and its text
    without label. Lines of other ranks and of loggers within the traceback are skipped. If
    exceptions are chained, the line of the first exception, the cause, is returned. If the block
    ends before the exception, the traceback's first line is returned.

    Returns None if the block does not begin with a traceback: if its first line has further text at
    its end, or if other text follows instead of frames.
    """
    lines = io.BytesIO(block)  # gives a line at a time: the first ones are often enough
    header_line = decode(lines.readline()).rstrip().rpartition("\r")[2]
    label, header = split_label(header_line)
    in_box = _BOX.fullmatch(header) is not None
    if not (in_box or header.endswith(HEADER + ":")):
        return None
    # The first line may have a label that `split_label` does not know.
    known = in_box or header == HEADER + ":"
    pattern = None if known else re.compile(alike(header_line[: -len(HEADER) - 1]))
    frames = others = False
    # Without frames no exception can follow, and a few lines show whether something else does.
    ever_frames = in_box or _FRAME in block
    offset = lines.tell()
    for number, raw in enumerate(lines, start=1):
        if others and not ever_frames:
            return None
        line = decode(raw).rstrip()
        if pattern and (begin := pattern.match(line)):
            line_label, text = label, line[begin.end() :]
        else:
            line_label, text = split_label(line)
        if line_label == label and text:
            if text.startswith(" "):
                frames = frames or text.lstrip().startswith('File "')
            elif in_box and text.startswith((_BOX_SIDE, _BOX_END)):
                frames = frames or text.startswith(_BOX_END)
            elif frames and _names_exception(text):
                return offset, number, text
            others = True
        offset += len(raw)
    return (0, 0, HEADER + ":") if frames or not others else None


def _names_exception(text: str) -> bool:
    return _EXCEPTION.fullmatch(text) is not None and _LOGGER.match(text) is None


def introduction(line: str) -> Introduction | None:
    """Return what a line shows about a traceback directly below it; None if it shows nothing.

    line: the text of the line, without a label such as `[rank0]: `.
    """
    return next((kind for text, kind in _INTRODUCTIONS.items() if line.startswith(text)), None)
