"""Combine the ids of jobs and tasks into Slurm's compact form, and expand that form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.slurm.lists import compact, compact_ids, expand


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("7", ["7"]),
        ("7_3", ["7_3"]),
        ("7_[3]", ["7_3"]),
        ("7_[0-2]", ["7_0", "7_1", "7_2"]),
        ("7_[0-2%2]", ["7_0", "7_1", "7_2"]),
        ("7_[0,2-3,9%1]", ["7_0", "7_2", "7_3", "7_9"]),
        ("7_[0-6:3]", ["7_0", "7_3", "7_6"]),
        ("7.batch", []),
        ("7_3.0", []),
        ("7+0", []),
        ("", []),
        # Slurm shortens long lists unless an option forbids it; the missing part is not guessed.
        ("7_[0-2,...]", []),
    ],
)
def test_compact_ids_of_slurm_are_expanded(text: str, ids: list[str]) -> None:
    """Slurm's compact id, e.g. `7_[0-2]`, gives the id of each task; other text gives no id."""
    assert list(expand(text)) == ids


@given(st.sets(st.integers(0, 5000), min_size=1), st.integers(1, 10**9))
def test_compacting_and_expanding_returns_the_same_ids(indices: set[int], job: int) -> None:
    """If the indices of an array are combined and expanded again, the ids are the same."""
    assert list(expand(f"{job}_[{compact(indices)}]")) == [
        f"{job}_{index}" for index in sorted(indices)
    ]


@pytest.mark.parametrize(
    ("ids", "put_into_one"),
    [
        ([], []),
        (["7"], ["7"]),
        (["7_0", "7_1", "7_5", "8", "7_2"], ["7_[0-2,5]", "8"]),
        (["7_3"], ["7_[3]"]),
    ],
)
def test_ids_of_one_array_are_compacted(ids: list[str], put_into_one: list[str]) -> None:
    """The ids of an array's tasks become one compact id, in the form that scancel accepts."""
    assert compact_ids(ids) == put_into_one
