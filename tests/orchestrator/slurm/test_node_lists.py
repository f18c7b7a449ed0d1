"""Expand Slurm's lists of nodes to the exact names."""

from itertools import groupby, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.slurm.lists import expand_nodes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("gpu001", ["gpu001"]),
        ("gpu[001-003,007]", ["gpu001", "gpu002", "gpu003", "gpu007"]),
        ("gpu[001-002],login,r1i0n[3-4]", ["gpu001", "gpu002", "login", "r1i0n3", "r1i0n4"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[0-1]-ib", ["r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib"]),
    ],
)
def test_a_list_is_all_its_names_in_order(text: str, names: list[str]) -> None:
    """A list of nodes is expanded to all its names, in order.

    Numbers keep their leading zeros. A name with several brackets stands for all combinations.
    """
    assert list(expand_nodes(text)) == names


@pytest.mark.parametrize("text", ["g[001", "g]1[", "g[]", "g[a-b]", "g[3-1]", "a,,b", ","])
def test_text_that_is_not_a_node_list_is_unchanged(text: str) -> None:
    """Text that is not a node list is returned unchanged."""
    assert expand_nodes(text) == (text,)


letters = st.text("abcxyz-_.", min_size=1, max_size=4)
numbers = st.sets(st.integers(0, 200), min_size=1, max_size=9)


def bracket(chosen: set[int], width: int) -> str:
    """Return numbers in Slurm's form, e.g. [001-003,007], with at least `width` digits each.

    A range contains only numbers with equally many digits.
    """
    texts = [f"{number:0{width}}" for number in sorted(chosen)]
    spans = []
    for _, same_width in groupby(texts, key=len):
        places = enumerate(same_width)
        for _, run in groupby(places, key=lambda pair: int(pair[1]) - pair[0]):
            span = [text for _, text in run]
            spans.append(span[0] if len(span) == 1 else f"{span[0]}-{span[-1]}")
    return f"[{','.join(spans)}]"


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a list of nodes; return it as Slurm writes it, and the names of all its nodes."""
    texts, names = [], []
    for _ in range(draw(st.integers(1, 4))):
        written, choices = "", []
        for _ in range(draw(st.integers(1, 2))):
            prefix, chosen, width = draw(letters), draw(numbers), draw(st.integers(1, 4))
            written += prefix + bracket(chosen, width)
            choices += [[prefix], [f"{number:0{width}}" for number in sorted(chosen)]]
        suffix = draw(st.just("") | letters)
        texts.append(written + suffix)
        names += ["".join(parts) for parts in product(*choices, [suffix])]
    return ",".join(texts), names


@given(made=lists())
def test_names_put_into_a_list_come_out_of_it(made: tuple[str, list[str]]) -> None:
    """A list of nodes is expanded to exactly the names from which the test has made it.

    The numbers in the names have any width and may have gaps. A name may have several brackets.
    """
    text, names = made
    assert list(expand_nodes(text)) == names


@given(text=st.text("gpu[]01,-", max_size=12))
def test_any_text_gives_names_without_an_error(text: str) -> None:
    """Any text is expanded to names without an exception, and no name is empty."""
    assert all(expand_nodes(text))
