"""Recognize labels: what launchers, loggers and collectors of logs write before each line.

Formats whose lines must begin in a certain way use these patterns, so a new label is added only
here. A line may have several labels, e.g. of a pod, a rank and a logger. A label ends with one
space at most, because the spaces after it may belong to the line.
"""

import re
from functools import cache

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_FRACTION = r"(?:[.,][0-9]{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})| [A-Z]{3,4}(?= ))?"
_DATE = r"(?:[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}|[0-9]{2}/[0-9]{2}/[0-9]{4})"

# 2024-08-23T21:52:39.473Z of kubectl, [2024-08-23 21:52:39] of others. In brackets, programs write
# fractions of a second.
COLLECTOR_TIME = (
    rf"(?:{_DATE}T{_CLOCK}{_FRACTION}{_ZONE}[ \t]|\[(?:{_DATE}[ T])?{_CLOCK}{_ZONE}\] )"
)
# 2024-08-23 21:52:39,473 of Python's logging, `Aug 23 21:52:39` of syslog, 1724449959.473 of `ts`
TIME = (
    rf"(?:{COLLECTOR_TIME}|(?:{_DATE} )?{_CLOCK}{_FRACTION}{_ZONE}:?[ \t]"
    rf"|[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}{_FRACTION} "
    r"|1[0-9]{9}(?:\.[0-9]{1,9}|[0-9]{3})?[ \t])"
)
# A pod's name ends with its number, or with five letters and digits of which none is a vowel.
_POD = r"[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){0,8}-(?:[0-9]{1,5}|[bcdfghjklmnpqrstvwxz2-9]{5})"
_CONTAINER = (
    # [trainer0|0]: of torchx, [pod/train-0/main] of kubectl, train/0 of torchx and NeMo-Run
    r"(?:\[[\w.-]{1,60}(?:[|/][\w.-]{1,60}){1,3}\]:?|[a-z][\w.-]{0,60}/[0-9]{1,5} "
    # main-1  | of docker compose, train.1.x7@node1  | of docker's swarm
    r"|[a-z0-9]{0,20}[a-z][\w.@-]{0,80} {1,40}\| "
    # train-worker-0 main of stern, [train-worker-0] of kubetail; not `train-0 exited with code 1`
    rf"|{_POD} (?:\u203a )?(?!exited )[a-z][a-z0-9-]{{0,60}} |\[{_POD}\] "
    # stdout F of a kubelet, {app="train"} of Loki, node-1 python[123]: of journald
    r'|std(?:out|err) [FP] |\{\w{1,60}="[^{}\r\n]{0,400}"\} '
    r"|[\w.-]{1,64} [\w./@()-]{1,60}\[[0-9]{1,9}\]: "
    # the name of a stream after the time, as in CloudWatch
    r"|(?<=[0-9Z][ \t])[\w.-]{1,80}(?:/[\w.-]{1,120}){1,4} "
    # (Worker pid=7, ip=10.0.0.2) of Ray, (head, rank=0, pid=7) of SkyPilot
    r"|\((?:\w[\w., =-]{0,100})?pid=[0-9]{1,9}(?:, ip=[0-9a-f.:]{1,45})?\))"
)
_LOGGER = (
    # I0823 21:52:39.473 123 train.py:7] of absl, I 08-23 21:52:39 train.py:7] of vLLM and SkyPilot
    rf"(?:[DIWEF][0-9]{{4}} {_CLOCK}{_FRACTION} {{1,8}}[0-9]{{1,18}} "
    rf"|[\w./-]{{1,80}}:[0-9]{{1,6}}\] "
    rf"|(?:[DIWEF] )?[0-9]{{2}}-[0-9]{{2}} {_CLOCK} "
    # INFO, trainer:7 - , Rank 0: , a word and a tab, 5d8b1b3d || of Determined
    r"|[A-Z]{3,9}(?: {1,8}(?=[|\[])| )|[\w.:-]{1,80} - |[Rr]ank [0-9]{1,6}: |[\w.-]{1,80}\t"
    r"|[0-9a-f]{8} (?=\|\||\[)|(?:[-|]|\|\||=>) "
    # rank0[123][MainThread]: of Composer
    r"|\w{1,60}(?:\[[^\[\]\r\n]{1,60}\]){1,3}:? "
    # [rank0]: of torch, [default7]: of torchrun, [1,3]<stderr>: of mpirun, [INFO] of many
    r"|\[[^\[\]\r\n]{1,80}\](?:<std(?:out|err)>)?:?"
    # 0: of srun, node2: of pdsh, INFO:root: of Python, train.log:7: of grep
    r"|[\w,./-]{1,80}(?:<std(?:out|err)>)?:)"
)
_SPACE = r"(?:(?<![ \t]) )?"
CONTAINER = _CONTAINER + _SPACE
# The atomic group (?>) keeps the time short for lines with many brackets, which match several ways.
LABELS = rf"^(?:(?:[ \t]{{0,8}}(?>>|{TIME}|{_CONTAINER}|{_LOGGER})){{1,8}}?{_SPACE})??"


@cache
def after_labels(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern of a line that begins with labels, if any, and then `pattern`.

    Patterns are compiled when they are needed, because to compile all of them takes longer than to
    read a small log.
    """
    return re.compile(LABELS + pattern)
