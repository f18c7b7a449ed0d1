"""Split the variation of runs into components of variance, by source.

The logarithm of a run's step time is modelled as a sum. One part is fixed by the configuration.
Each factor, e.g. the hour or the allocation, and the run itself add random parts, each with its own
variance.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Component:
    """A variance, and its degrees of freedom: the number of independent comparisons behind it.

    If the data do not determine the variance, it is None, and `degrees` is 0.
    """

    variance: float | None
    degrees: int


def components(
    values: Sequence[float], kinds: Sequence[Hashable], *factors: Sequence[Hashable]
) -> tuple[list[Component], Component]:
    """Return the component of each factor, outermost first, and the residual component.

    A factor divides the runs into groups, e.g. by hour or by allocation. values: one number per
    run. kinds: the configuration of each run. factors: for each factor, the group of each run.
    The outermost factor comes first, e.g. the hours before the allocations.

    This is Henderson's third method ("Estimation of variance and covariance components",
    Biometrics 9, 1953): the nested analysis of variance for groups of different sizes. The
    model has one column per configuration and one column per group of each factor. Let y be the
    values. Let Q_j be an orthonormal basis of the columns of the configurations and of factors
    1 to j. Let r_j be the number of columns in Q_j. In addition to the factors before it,
    factor j explains the sum of squares SS_j = |Q_j'y|² - |Q_(j-1)'y|². Its expected value is

        E SS_j = v_rest · (r_j - r_(j-1)) + Σ_(m >= j) v_m · (|Q_j'Z_m|² - |Q_(j-1)'Z_m|²).

    Here v_rest is the residual variance, v_m the variance of factor m, and Z_m its columns;
    |M|² is the sum of the squared entries of M. The equations are solved for the variances,
    starting with the innermost factor. A negative variance becomes 0. If r_j = r_(j-1), factor
    j and all factors outside it have no estimate. If the model explains as many dimensions as
    there are values, nothing can be estimated.
    """
    import numpy as np

    y = np.asarray(values, dtype=float)
    y = y - y.mean() if len(y) else y
    columns = [_columns(kinds), *(_columns(factor) for factor in factors)]
    bases = [_basis(np.hstack(columns[: count + 1])) for count in range(len(columns))]
    explained = [float(np.sum((basis.T @ y) ** 2)) for basis in bases]
    degrees = len(y) - bases[-1].shape[1]
    rest = max(float(y @ y) - explained[-1], 0.0) / degrees if degrees else None
    components: list[Component] = []
    for j in range(len(factors), 0, -1):
        beyond = bases[j].shape[1] - bases[j - 1].shape[1]
        if not beyond or rest is None or any(inner.variance is None for inner in components):
            components.insert(0, Component(None, 0))
            continue
        share = [_share(bases[j], bases[j - 1], columns[m]) for m in range(j, len(columns))]
        inner = sum(
            weight * (component.variance or 0.0)
            for weight, component in zip(share[1:], components, strict=True)
        )
        variance = (explained[j] - explained[j - 1] - rest * beyond - inner) / share[0]
        components.insert(0, Component(max(variance, 0.0), beyond))
    return components, Component(rest, degrees)


def pooled(groups: Sequence[Sequence[float]]) -> Component:
    """Return the variance within groups, i.e. of values around the mean of their own group."""
    kinds = [index for index, group in enumerate(groups) for _ in group]
    values = [value for group in groups for value in group]
    totals = [sum(group) / len(group) for group in groups if group]
    degrees = len(values) - len(totals)
    if not degrees:
        return Component(None, 0)
    squares = sum((value - totals[kind]) ** 2 for value, kind in zip(values, kinds, strict=True))
    return Component(squares / degrees, degrees)


def _columns(groups: Sequence[Hashable]) -> "np.ndarray":
    """Return a matrix of 0 and 1 with a row per run and a column per group.

    An entry is 1 if the run is in the group. groups: the group of each run.
    """
    import numpy as np

    places = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    columns = np.zeros((len(groups), len(places)))
    columns[range(len(groups)), [places[group] for group in groups]] = 1
    return columns


def _basis(columns: "np.ndarray") -> "np.ndarray":
    """Return an orthonormal basis of the space that the columns span."""
    import numpy as np

    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    basis: np.ndarray = left[:, singular > 1e-9 * max(singular, default=1.0)]
    return basis


def _share(outer: "np.ndarray", inner: "np.ndarray", columns: "np.ndarray") -> float:
    import numpy as np

    return float(np.sum((outer.T @ columns) ** 2) - np.sum((inner.T @ columns) ** 2))
