"""Explain size labels of models, such as `52B`, next to the exact size.

Early scripts divided the number of parameters by 2**30 and called the result B. Such labels are 7 %
too low and still appear in names. For example, BigScience's scripts call a model 7B, but
BigScience's page calls the same model 7.5B.
"""

import re
from enum import StrEnum

_LABEL = re.compile(r"(?:.*[-_ ])?(?P<billions>[0-9]+(?:\.[0-9]+)?)B", re.IGNORECASE)
# Labels are cut and rounded, and some leave embeddings out. The two units are 7.4 % apart.
_TOLERANCE = 0.035


class LabelUnit(StrEnum):
    """The unit of a size label, inferred from the model's number of parameters."""

    BILLION = "10**9"
    GIBI = "2**30"
    NEITHER = "neither"


def label_unit(label: str, parameters: int) -> LabelUnit | None:
    """Return the unit in which the size in a model's label agrees with its number of parameters.

    The unit is 10**9 or, in older labels, 2**30. The function converts the number of parameters to
    both units, and chooses the unit in which the label is closer. If the label differs by more than
    3.5 % even in this unit, the result is `LabelUnit.NEITHER`. Returns None if `label` contains no
    size.
    """
    match = _LABEL.fullmatch(label)
    if match is None:
        return None
    billions = float(match["billions"])
    away = {
        unit: abs(parameters / size - billions) / billions if billions else float("inf")
        for unit, size in ((LabelUnit.BILLION, 10**9), (LabelUnit.GIBI, 2**30))
    }
    nearest = min(away, key=away.__getitem__)
    return nearest if away[nearest] <= _TOLERANCE else LabelUnit.NEITHER


def label_sentence(label: str, parameters: int) -> str | None:
    """Return a sentence that explains a size label; None if the label contains no size."""
    billions, gibi = f"{parameters / 1e9:.4g}", f"{parameters / 2**30:.4g}"
    match label_unit(label, parameters):
        case LabelUnit.BILLION:
            return f"{label} agrees with {billions} * 10**9 parameters"
        case LabelUnit.GIBI:
            return (
                f"{label} agrees with {gibi} * 2**30 parameters, an older convention; the model "
                f"has {billions} * 10**9"
            )
        case LabelUnit.NEITHER:
            return (
                f"{label} agrees with neither {billions} * 10**9 parameters nor {gibi} * 2**30, "
                "an older convention"
            )
    return None
