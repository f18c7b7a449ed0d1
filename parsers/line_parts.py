"""The parts of a line that stand for themselves, and what may stand in front of them."""

import re
from collections.abc import Iterator

# 0: of srun, [rank0]: of torch, [default7]: of torchrun, node2: of pdsh, [1,3]<stderr>: of mpirun,
# > of a mail
LABELS = r"^(?:> ?| {0,8}\[?[\w,.-]{1,60}\]?(?:<std(?:out|err)>)?: ?){0,4}"
_COMMENT = re.compile(LABELS + r"\s*#")


def line_parts(line: str) -> Iterator[str]:
    """Yield what stands between carriage returns, as progress bars write them.

    What is commented out, as in a script that quotes `# iteration 1/ 10 | …`, is left out.
    """
    for part in line.split("\r"):
        if part and ("#" not in part or not _COMMENT.match(part)):
            yield part
