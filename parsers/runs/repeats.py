"""Decide whether a step report can belong to the same launch as the reports before it."""

from bisect import bisect_left
from dataclasses import replace
from operator import attrgetter

from parsers.records import LossReport, Step
from parsers.steps.blocks import STEP_FIELDS, StepBlock, joined_steps

_comparable = attrgetter(*(name for name in STEP_FIELDS if name != "offset"))


class Reported:
    """The step reports of one launch, in one format, that were read so far.

    highest: the highest iteration that they report; -1 if there are none.
    """

    def __init__(self) -> None:
        """Start without step reports."""
        self._by_iteration: dict[int, Step] = {}
        self._later: list[Step | StepBlock] = []
        self._rising: list[Step | StepBlock] = []
        self._joined: StepBlock | None = None
        self.highest = -1

    def add(self, step: Step) -> None:
        """Add a step report."""
        self._later.append(step)
        if step.iteration > self.highest:
            self._add_rising(step)
            self.highest = step.iteration

    def add_block(self, block: StepBlock) -> bool:
        """Add a block of step reports at once; return False if the caller must add them one by one.

        The iterations within the block must rise. The block can be added at once in two cases. In
        the first, its iterations are all higher than those added before. In the second, each of its
        reports is a copy of an earlier report, e.g. by another rank.
        """
        iterations = block.columns["iteration"]
        if iterations[0] > self.highest:
            self._later.append(block)
            self._add_rising(block)
            self.highest = iterations[-1]
            return True
        return self._holds_copies(block)

    def _add_rising(self, part: Step | StepBlock) -> None:
        self._rising.append(part)
        self._joined = None

    def _holds_copies(self, block: StepBlock) -> bool:
        """Return whether each report of a block copies an earlier one, e.g. by another rank."""
        if self._joined is None:
            self._joined = joined_steps(self._rising)
            self._rising = [self._joined]
        joined = self._joined
        begin = bisect_left(joined.columns["iteration"], block.columns["iteration"][0])
        end = begin + len(block)
        return end <= len(joined) and all(
            [*block.column(name)] == [*joined.column(name)[begin:end]]
            for name in {*block.columns, *joined.columns} - {"offset"}
        )

    def begins_anew(self, step: Step) -> bool:
        """Return whether a step report belongs to another launch, because iterations start over.

        A copy of an earlier report, e.g. by another rank, does not belong to another launch.
        """
        if step.iteration >= self.highest:
            return False
        reported = self._known()
        if step.iteration >= next(reversed(reported)):
            return False
        earlier = reported.get(step.iteration)
        if earlier is None:  # ranks may overtake each other
            return len(reported) > 1 and step.iteration < next(iter(reported))
        return not is_copy(step, earlier)

    def _known(self) -> dict[int, Step]:
        for part in self._later:
            steps = (part,) if isinstance(part, Step) else part.steps()
            for step in steps:  # the first report about an iteration counts, as in `_rising`
                self._by_iteration.setdefault(step.iteration, step)
        self._later.clear()
        return self._by_iteration


def is_copy(report: Step | LossReport, other: Step | LossReport) -> bool:
    """Return whether two reports are equal except for their offset, e.g. reports of two ranks."""
    if (
        isinstance(report, Step)
        and isinstance(other, Step)
        and _comparable(report) == _comparable(other)
    ):
        return True
    return repr(replace(report, offset=other.offset)) == repr(other)  # nan is not equal to nan
