"""Which of a run's first iterations are left out of its numbers."""

import re
from dataclasses import dataclass
from fractions import Fraction

# Of a campaign that says nothing of it.
DEFAULT = "10%"

_PERCENT = re.compile(r"\s*(?P<percent>[0-9]{1,2})%\s*")


@dataclass(frozen=True, slots=True)
class Warmup:
    """So many iterations, or such a part of all of them, are warm-up."""

    iterations: int = 0
    fraction: Fraction = Fraction(0)

    @classmethod
    def parse(cls, value: int | str) -> "Warmup":
        """Read a number of iterations, or a percentage as `10%`.

        Raises ValueError where it is neither.
        """
        if isinstance(value, int):
            if value < 0:
                raise ValueError(f"{value} is too small; the least is 0")
            return cls(iterations=value)
        match = _PERCENT.fullmatch(value)
        if match is None:
            raise ValueError(f"{value!r} is no warm-up; write iterations, as 5, or a part, as 10%")
        return cls(fraction=Fraction(int(match["percent"]), 100))

    @property
    def written(self) -> int | str:
        """As `parse` reads it."""
        return f"{int(self.fraction * 100)}%" if self.fraction else self.iterations

    def last_iteration(self, train_iters: int) -> int:
        """Return the last iteration, counted from 1, that is left out; 0 where none is."""
        return max(self.iterations, int(self.fraction * train_iters))

    def __str__(self) -> str:
        if self.fraction:
            return f"the first {int(self.fraction * 100)}% of the iterations"
        return f"the first {self.iterations} iterations" if self.iterations else "none"
