"""Size labels of models, e.g. 7B, in units of 10**9, or of 2**30 in older labels."""

import pytest

from orchestrator.estimate.size_labels import LabelUnit, label_sentence, label_unit
from orchestrator.run.presets import V100_PAGE

LABELS = [
    ("52B", 51_974_922_240, LabelUnit.BILLION),
    ("48B", 51_974_922_240, LabelUnit.GIBI),
    ("40B", 51_974_922_240, LabelUnit.NEITHER),
    ("7.5B", 7_459_729_408, LabelUnit.BILLION),
    ("7B", 7_459_729_408, LabelUnit.GIBI),
    ("opt-1.3b", 1_315_725_312, LabelUnit.BILLION),
    ("104B", 104_000_000_000, LabelUnit.BILLION),
    ("96.9B", 104_000_000_000, LabelUnit.GIBI),
    ("0B", 1_000, LabelUnit.NEITHER),
    ("xl", 1_557_611_200, None),
    ("350m", 354_823_168, None),
    ("52B model", 51_974_922_240, None),
    ("", 1, None),
]


@pytest.mark.parametrize(("label", "parameters", "unit"), LABELS)
def test_a_label_agrees_in_one_unit_or_in_neither(
    label: str, parameters: int, unit: LabelUnit | None
):
    """A size label agrees with a model's number of parameters in one unit, or in neither.

    The units are 10**9 and 2**30; the one with the smaller difference is chosen. The result is
    None if this difference is too large, or if the label is not a number with B, e.g. xl.
    """
    assert label_unit(label, parameters) == unit
    assert (label_sentence(label, parameters) is None) == (unit is None)


def test_the_old_figure_is_reported_as_old():
    """For a label in units of 2**30, the message also gives the size in units of 10**9."""
    sentence = label_sentence("7B", 7_459_729_408)
    assert (
        sentence == "7B agrees with 6.947 * 2**30 parameters, an older convention; the model has "
        "7.46 * 10**9"
    )


def test_the_v100_page_counts_in_billions_except_for_two_old_names():
    """On the published V100 page, all size labels are in units of 10**9, except 7B and 14B."""
    units = {
        label: label_unit(label, shape.parameters(shape.vocab_size))
        for label, shape in V100_PAGE.items()
    }
    old = [label for label, unit in units.items() if unit == LabelUnit.GIBI]
    assert old == ["7B", "14B"]
    assert set(units.values()) == {LabelUnit.BILLION, LabelUnit.GIBI}
