"""Decide whether a step report can be of the same launch as those before it."""

from dataclasses import replace

from parsers.records import LossReport, Step
from parsers.steps.blocks import StepBlock


class Reported:
    """The steps of one format that a launch has reported so far."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_iteration: dict[int, Step] = {}
        self._later: list[Step | StepBlock] = []
        self._highest = -1

    def add(self, step: Step) -> None:
        """Take a step."""
        self._later.append(step)
        self._highest = max(self._highest, step.iteration)

    def add_block(self, block: StepBlock) -> bool:
        """Take steps whose iterations rise; not if any may have been reported before."""
        iterations = block.columns["iteration"]
        if iterations[0] <= self._highest:
            return False
        self._later.append(block)
        self._highest = iterations[-1]
        return True

    def begins_anew(self, step: Step) -> bool:
        """Return whether a step is not of the launch that has reported these."""
        if step.iteration >= self._highest:
            return False
        reported = self._known()
        if step.iteration >= next(reversed(reported)):
            return False
        known = reported.get(step.iteration)
        if known is None:  # ranks may overtake each other
            return len(reported) > 1 and step.iteration < next(iter(reported))
        return not is_copy(step, known)

    def _known(self) -> dict[int, Step]:
        for part in self._later:
            steps = (part,) if isinstance(part, Step) else part.steps()
            self._by_iteration.update((step.iteration, step) for step in steps)
        self._later.clear()
        return self._by_iteration


def is_copy(one: Step | LossReport, other: Step | LossReport) -> bool:
    """Return whether another rank has printed the same: only the place differs."""
    return repr(replace(one, offset=other.offset)) == repr(other)  # a nan equals no other
