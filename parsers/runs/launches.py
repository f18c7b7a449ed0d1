"""Find the lines that announce a program's start, and whether a new launch begins.

One launch can print many of these lines: the launcher on each node, the first process of
each node and rank 0 each print some. A slow node may print its lines when other nodes
already train or have failed. So a line begins another launch only in these cases:

* Training has made progress or is complete, because training begins only after all ranks
  have started and loaded their checkpoint.
* The line comes again, although a program prints it once per launch.
* A launcher reports that it starts failed processes again, and an earlier line shows an
  end.
* The line comes from a launcher, or from a node whose training starts. In addition, earlier
  lines show both the set-up of a program and the end of the current launch. The end alone is
  not enough, because one node may fail before another one has started.

A line that processes print during their set-up (`LaunchKind.SET_UP`) never begins another
launch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from parsers.scan.reader import decode
from parsers.scan.wanted import Candidate


class LaunchKind(Enum):
    """A kind of line that announces a launch: which program prints it, and at which moment."""

    ONCE = "once per launch"
    LAUNCHER = "by the launcher of each node"
    START = "by each node when its training starts"
    SET_UP = "by some processes while they set themselves up"
    RESUMED = "when a checkpoint has been loaded"
    RESTART = "by a launcher that starts failed processes again"

    @property
    def of_launcher(self) -> bool:
        """Whether the line comes from a launcher such as torchrun, which may start any program."""
        return self in (LaunchKind.LAUNCHER, LaunchKind.RESTART)


@dataclass(frozen=True, slots=True)
class LaunchSign:
    """A text on a line that announces a program's start.

    kind: which program prints it, and at which moment of the start.
    anchor: the anchor by which the line was found.
    iteration: the iteration of the checkpoint, for a line of kind RESUMED; otherwise None.
    """

    kind: LaunchKind
    anchor: bytes
    iteration: int | None = None


_SIGNS = (
    (b"[teralog] start ", LaunchKind.ONCE, r"\[teralog\] start \| "),
    # -------------------- arguments --------------------             Megatron and similar programs
    (b"-- arguments --", LaunchKind.ONCE, r"-{8,} arguments -{8,}"),
    # [INFO] [runner.py:568:main] cmd = /usr/bin/python -u -m deepspeed.launcher.launch …
    (b"[runner.py:", LaunchKind.ONCE, r"\[runner\.py:[0-9]+:main\] cmd = "),
    # Actor: 118.68 M                                         ColossalAI Chat's benchmark
    (b"Actor: ", LaunchKind.ONCE, r"(?<!\w)Actor: [0-9.]+ [KMB](?!\w)"),
    # step:0/3350 val_loss:10.82584 train_time:0.000s step_avg:nanms           modded-nanogpt
    (b" val_loss:", LaunchKind.ONCE, r"(?<!\w)step:0/[0-9]+ val_loss:[0-9]"),
    # torchrun and torch.distributed.launch, where the variable is not set
    (b"Setting OMP_NUM_THREADS", LaunchKind.LAUNCHER, r"Setting OMP_NUM_THREADS environment v"),
    # submitit, once per task; again if the job was requeued
    (b"Starting with JobEnv", LaunchKind.LAUNCHER, r"Starting with JobEnvironment\(job_id="),
    # torchrun with --max-restarts
    (b"will restart worker", LaunchKind.RESTART, r"Worker group FAILED\. .* will restart worker g"),
    (b"***** Running training", LaunchKind.START, r"\*{5} Running training \*{5}"),
    # torchtitan, once per process: its GPUs, its settings, and then where it starts
    (b" device mesh with ", LaunchKind.START, r"Building (?:[0-9]-D )?device mesh with "),
    (b"Trainer is initialized with ", LaunchKind.START, r"Trainer is initialized with local batch"),
    (b"Training starts at step ", LaunchKind.START, r"Training starts at step [0-9]+"),
    (b"using world size: ", LaunchKind.SET_UP, r"using world size: [0-9]+"),
    (b"DeepSpeed info: version=", LaunchKind.SET_UP, r"DeepSpeed info: version=\S"),
    # a training by MLPerf's rules, once per rank or node
    (b'"init_start"', LaunchKind.START, r':::MLLOG \{.*"key": "init_start"'),
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
    # MaxText, once per process
    (
        b"from this run's directory ",
        LaunchKind.RESUMED,
        r"restoring from this run's directory (?:latest )?step +(?P<iteration>[0-9]{1,18})",
    ),
)
_PATTERNS = {anchor: (kind, re.compile(pattern)) for anchor, kind, pattern in _SIGNS}

LAUNCH_ANCHORS = tuple(_PATTERNS)


def launch_signs(candidate: Candidate) -> Sequence[tuple[LaunchSign | None, Candidate]]:
    """Return the launch signs on a line, each with the text from this sign up to the next sign.

    The first item is the text before the first sign, with None instead of a sign. This text
    is needed if a newline between two runs is missing: it is then the end of the previous
    run. For a line without a sign, returns one item: None and the whole line.
    """
    if _PATTERNS.keys().isdisjoint(candidate.anchors):
        return [(None, candidate)]
    places = []
    for anchor in candidate.anchors:
        if anchor in _PATTERNS:
            kind, pattern = _PATTERNS[anchor]
            if match := pattern.search(decode(candidate.line)):
                iteration = match.groupdict().get("iteration")
                count = None if iteration is None else int(iteration)
                places.append((candidate.line.find(anchor), LaunchSign(kind, anchor, count)))
    signs: list[tuple[LaunchSign | None, Candidate]] = []
    begin, sign = 0, None
    for end, following in sorted(places, key=lambda place: place[0]):
        signs.append((sign, candidate._replace(line=candidate.line[begin:end], following=b"")))
        begin, sign = end, following
    rest = candidate._replace(line=candidate.line[begin:]) if begin else candidate
    return [*signs, (sign, rest)]


class LaunchDetector:
    """Decides which lines of one log begin another launch.

    progress: whether training has advanced since the current launch began.
    ended: whether a line has shown the end of the current launch.
    """

    def __init__(self) -> None:
        """Start at the beginning of a log."""
        self.progress = self.ended = False
        self._set_up = False
        self._once: set[bytes] = set()

    def begins_another(self, sign: LaunchSign) -> bool:
        """Return whether a sign begins another launch.

        If it does, the signs of the previous launch are forgotten. In either case, the detector
        remembers this sign.
        """
        another = self._is_another(sign)
        if another:
            self.restart()
        if sign.kind is LaunchKind.ONCE:
            self._once.add(sign.anchor)
        self._set_up |= not sign.kind.of_launcher
        return another

    def restart(self) -> None:
        """Forget the signs, progress and end of the current launch, because the next one begins."""
        self.progress = self.ended = self._set_up = False
        self._once.clear()

    def _is_another(self, sign: LaunchSign) -> bool:
        match sign.kind:
            case LaunchKind.ONCE:
                return self.progress or sign.anchor in self._once
            case LaunchKind.LAUNCHER | LaunchKind.START:
                return self.progress or (self.ended and self._set_up)
            case LaunchKind.RESTART:
                return self.progress or self.ended
            case LaunchKind.RESUMED:
                return self.progress
            case LaunchKind.SET_UP:
                return False
