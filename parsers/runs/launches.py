"""Find the lines that announce a program's start, and whether a new launch begins.

Many lines announce one launch: the launcher on each node, each node's first process, the first
process of all. Nodes are not equally fast, so that such lines may still come when another node has
gone further. Another launch it is

* when training has got on, or is done, before: training begins only after all ranks are there and
  have loaded their checkpoint;
* when a line that is printed once a launch comes again;
* when a launcher's line comes after an end and after the set-up of a program. An end alone does
  not do: one node may fail before another one has started.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from parsers.scan.reader import decode
from parsers.scan.wanted import Candidate


class LaunchKind(Enum):
    """Who prints a line, and when."""

    ONCE = "once a launch"
    LAUNCHER = "by the launcher of each node"
    START = "by each node when its training starts"
    SET_UP = "by some processes while they set themselves up"
    RESUMED = "when a checkpoint has been loaded"


@dataclass(frozen=True, slots=True)
class LaunchSign:
    """What a line says of a launch; `iteration`: that of the checkpoint, for RESUMED."""

    kind: LaunchKind
    anchor: bytes
    iteration: int | None = None


_SIGNS = (
    (b"[teralog] start ", LaunchKind.ONCE, r"\[teralog\] start \| "),
    # -------------------- arguments --------------------             Megatron and its kin
    (b"-- arguments --", LaunchKind.ONCE, r"-{8,} arguments -{8,}"),
    # [INFO] [runner.py:568:main] cmd = /usr/bin/python -u -m deepspeed.launcher.launch …
    (b"[runner.py:", LaunchKind.ONCE, r"\[runner\.py:[0-9]+:main\] cmd = "),
    # Actor: 118.68 M                                         ColossalAI Chat's benchmark
    (b"Actor: ", LaunchKind.ONCE, r"(?<!\w)Actor: [0-9.]+ [KMB](?!\w)"),
    # torchrun and torch.distributed.launch, where the variable is not set
    (b"Setting OMP_NUM_THREADS", LaunchKind.LAUNCHER, r"Setting OMP_NUM_THREADS environment v"),
    (b"***** Running training", LaunchKind.START, r"\*{5} Running training \*{5}"),
    (b"using world size: ", LaunchKind.SET_UP, r"using world size: [0-9]+"),
    (b"DeepSpeed info: version=", LaunchKind.SET_UP, r"DeepSpeed info: version=\S"),
    (b"Initializing torch distributed", LaunchKind.SET_UP, r"Initializing torch distributed w"),
    (
        b"successfully loaded checkpoint",
        LaunchKind.RESUMED,
        r"successfully loaded checkpoint .*\bat iteration (?P<iteration>[0-9]{1,18})",
    ),
    (
        b"Continuing training from ",
        LaunchKind.RESUMED,
        r"Continuing training from global step (?P<iteration>[0-9]{1,18})",
    ),
)
_PATTERNS = {anchor: (kind, re.compile(pattern)) for anchor, kind, pattern in _SIGNS}

LAUNCH_ANCHORS = tuple(_PATTERNS)


def launch_signs(candidate: Candidate) -> Iterator[tuple[LaunchSign | None, Candidate]]:
    """Yield what a line says of a launch, each sign with the line from there to the next sign.

    Without newlines between them, a run's last words and another's first ones are on one line; so
    what stands before the first sign is given first, with None. A line without sign is given whole.
    """
    places = []
    for anchor in candidate.anchors:
        if anchor in _PATTERNS:
            kind, pattern = _PATTERNS[anchor]
            if match := pattern.search(decode(candidate.line)):
                iteration = match.groupdict().get("iteration")
                count = None if iteration is None else int(iteration)
                places.append((candidate.line.find(anchor), LaunchSign(kind, anchor, count)))
    begin, sign = 0, None
    for end, following in sorted(places, key=lambda place: place[0]):
        yield sign, candidate._replace(line=candidate.line[begin:end], following=b"")
        begin, sign = end, following
    yield sign, candidate._replace(line=candidate.line[begin:]) if begin else candidate


class LaunchDetector:
    """Tells the launches of one log apart.

    progress: training has got on since the launch began; ended: something has said that it ended.
    """

    def __init__(self) -> None:
        """Begin at the beginning of a log."""
        self.progress = self.ended = False
        self._set_up = False
        self._once: set[bytes] = set()

    def begins_another(self, sign: LaunchSign) -> bool:
        """Take a sign; return whether it begins another launch, and if so, begin anew with it."""
        another = self._is_another(sign)
        if another:
            self.restart()
        if sign.kind is LaunchKind.ONCE:
            self._once.add(sign.anchor)
        self._set_up |= sign.kind is not LaunchKind.LAUNCHER
        return another

    def restart(self) -> None:
        """Begin anew: what follows belongs to another launch."""
        self.progress = self.ended = self._set_up = False
        self._once.clear()

    def _is_another(self, sign: LaunchSign) -> bool:
        match sign.kind:
            case LaunchKind.ONCE:
                return self.progress or sign.anchor in self._once
            case LaunchKind.LAUNCHER | LaunchKind.START:
                return self.progress or (self.ended and self._set_up)
            case LaunchKind.RESUMED:
                return self.progress
            case LaunchKind.SET_UP:
                return False
