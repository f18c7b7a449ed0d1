"""The type of claims: numbers in a log, each with the same quantity computed from other values."""

from dataclasses import asdict, dataclass
from typing import Any

# Numbers that differ by less are equal, except for rounding and the moment of reading the clock.
TOLERANCE = 0.02
# From here on, a number is printed without decimals.
_LARGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A number that a log claims, and the same quantity computed from the log's other values.

    quantity: `samples_per_second`, `steps_per_second`, `tokens_per_second`,
        `tokens_per_second_per_gpu`, `tflops_per_gpu` or `mfu`; an MFU is a fraction of 1.
    stated: the number in the log.
    computed: the same quantity, computed by teralog.
    formula: how `computed` was computed, with numbers.
    contradicted: whether the two numbers differ by more than rounding can explain.
    note: a likely reason for the difference; None if unknown.
    """

    quantity: str
    stated: float
    computed: float
    formula: str
    contradicted: bool
    note: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the claim as a JSON object."""
        return asdict(self)

    def sentence(self) -> str:
        """Return a sentence for users, with the number in the log and the computed number."""
        unit = _UNITS[self.quantity]
        factor = 100 if self.quantity == "mfu" else 1
        stated, computed = (
            f"{rounded(value * factor)}{unit}" for value in (self.stated, self.computed)
        )
        note = f"; {self.note}" if self.note else ""
        return f"the log states {stated}, but {self.formula} is {computed}{note}"


_UNITS = {
    "samples_per_second": " samples/s",
    "steps_per_second": " steps/s",
    "tokens_per_second": " tokens/s",
    "tokens_per_second_per_gpu": " tokens/s/GPU",
    "tflops_per_gpu": " TFLOP/s per GPU",
    "mfu": " % MFU",
}


def rounded(value: float) -> str:
    """Return a number with four significant digits, or a large number without decimals."""
    return f"{value:,.0f}" if value >= _LARGE else f"{value:.4g}"


def claim_of(
    name: str,
    stated: float,
    computed: float,
    formula: str,
    *,
    rounding: float,
    note: str | None = None,
    relative: float = 0.0,
) -> Claim:
    """Return a claim; it is contradicted if its numbers differ by more than rounding can explain.

    name: the name of the number in step reports, e.g. `reported_mfu`. rounding: the absolute error
    of `stated`. relative: the relative error of `computed`. Both errors come from the rounding of
    values in the log.
    """
    allowed = rounding + (max(TOLERANCE, relative)) * computed
    contradicted = abs(stated - computed) > allowed
    return Claim(
        quantity=name.removeprefix("reported_"),
        stated=stated,
        computed=computed,
        formula=formula,
        contradicted=contradicted,
        note=note if contradicted else None,
    )
