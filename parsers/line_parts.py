"""The parts of a line that stand for themselves, and what may stand in front of them."""

import re
from collections.abc import Iterator

# 0: of srun, [rank0]: of torch, [default7]: of torchrun, node2: of pdsh, [1,3]<stderr>: of mpirun,
# > of a mail
LABELS = r"^(?:> ?| {0,8}\[?[\w,.-]{1,60}\]?(?:<std(?:out|err)>)?: ?){0,4}"
# A comment, or a command of a script, as `set -x` prints it.
_QUOTED = re.compile(LABELS + r"\s*(?:#|\++ )")


def is_quoted(text: str) -> bool:
    """Return whether a text only quotes what it says, as a script does: `# iteration 1/ 10 | …`."""
    return ("#" in text or "+ " in text) and _QUOTED.match(text) is not None


def line_parts(line: str) -> Iterator[str]:
    """Yield what stands between carriage returns, as progress bars write them.

    What is quoted is left out.
    """
    for part in line.split("\r"):
        if part and not is_quoted(part):
            yield part
