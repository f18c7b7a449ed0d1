"""Find slow nodes: compare the step times of their runs with those of sibling runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.tables import as_text
from orchestrator.status.slow_nodes import NodeSpeed, node_speeds, node_table
from orchestrator.status.slow_runs import StepTimes, TimedRun

Placed = tuple[str, str | None, float | None]


def speeds(*runs: Placed, deviation: float = 0.0) -> dict[str, NodeSpeed]:
    """Return a dict from the name of each node to its speed.

    runs: configuration, list of nodes, and step time in seconds of each run. deviation: the median
    deviation of each run's steps, in seconds.
    """
    timed = {
        str(index): TimedRun(
            label="",
            kind=kind,
            node_list=nodes,
            times=None if seconds is None else StepTimes(seconds, deviation),
        )
        for index, (kind, nodes, seconds) in enumerate(runs)
    }
    return {speed.node: speed for speed in node_speeds(timed)}


def slow(by_node: dict[str, NodeSpeed]) -> list[str]:
    """Return the names of the slow nodes."""
    return [speed.node for speed in by_node.values() if speed.slow]


def test_a_node_is_slow_if_its_runs_are_slow() -> None:
    """A node is slow if its runs are slow, here one run of each of two configurations."""
    nodes = speeds(
        *(("a", node, 0.2) for node in ("n1", "n3", "n4", "n5")),
        ("a", "n2", 0.4),
        *(("b", node, 3.0) for node in ("n1", "n3", "n4")),
        ("b", "n2", 6.3),
    )
    assert slow(nodes) == ["n2"]
    assert next(iter(nodes)) == "n2"
    assert (nodes["n2"].runs, nodes["n2"].compared) == (2, 2)
    assert nodes["n2"].ratio == pytest.approx((2.0 + 2.1) / 2)


def test_a_node_without_a_slow_run_is_not_slow_compared_with_its_siblings() -> None:
    """Of three nodes with one sibling run each, only the node of the slow run is slow.

    The two other nodes look fast, because their runs are compared with the slow run, too.
    """
    nodes = speeds(
        ("a", "n1", 0.2), ("a", "n2", 0.4), ("a", "n3", 0.2), ("b", "n4", 0.2), ("b", "n4", 0.2)
    )
    assert nodes["n1"].ratio == pytest.approx(2 / 3)
    assert nodes["n4"].ratio == pytest.approx(1.0)
    assert slow(nodes) == ["n2"]


def test_a_run_on_several_nodes_counts_for_each() -> None:
    """A run on several nodes counts for each of these nodes.

    In the test, the node that all slow runs share is slow.
    """
    nodes = speeds(
        ("a", "n[1-2]", 0.4), ("a", "n[2-3]", 0.4), ("a", "n[3-4]", 0.2),
        ("a", "n[1,4]", 0.2), ("a", "n[1,3]", 0.2),
    )  # fmt: skip
    assert {node: speed.runs for node, speed in nodes.items()} == {
        "n1": 3, "n2": 2, "n3": 3, "n4": 2,
    }  # fmt: skip
    assert slow(nodes) == ["n2"]


@pytest.mark.parametrize(
    "runs",
    [
        [("a", "n1", 0.2), ("b", "n2", 0.8)],  # no siblings
        [("a", "n1", 0.2), ("a", "n1", 0.8)],  # no other node
        [("a", "n1", 0.2), ("a", "n2", None)],  # nothing measured yet
        [("a", None, None), ("a", None, None)],  # not started
        [],
    ],
)
def test_no_node_is_slow_if_nothing_can_be_compared(runs: list[Placed]) -> None:
    """If runs have no siblings on other nodes, no node is slow, but all nodes are still listed."""
    by_node = speeds(*runs)
    assert slow(by_node) == []
    assert set(by_node) == {nodes for _, nodes, _ in runs if nodes}


def test_a_machine_whose_steps_vary_much_makes_no_node_slow() -> None:
    """If the steps within each run vary much, a longer step time does not make a node slow.

    A slow node is slower than usual by several deviations. The deviation used is at least as large
    as that of the steps within a run.
    """
    runs: list[Placed] = [("a", "n1", 0.2), ("a", "n2", 0.2), ("a", "n3", 0.3), ("a", "n4", 0.2)]
    assert slow(speeds(*runs)) == ["n3"]
    assert slow(speeds(*runs, deviation=0.04)) == []


def test_the_table_marks_the_slow_node() -> None:
    """The table of nodes marks slow nodes; an unknown value is a dash."""
    rows = as_text(
        node_table(list(speeds(("a", "n1", 0.2), ("a", "n2", 0.4), ("b", "n3", 0.2)).values()))
    ).splitlines()
    assert [row.split() for row in (rows[0], *rows[2:])] == [
        ["node", "runs", "n", "ratio", "slow"],
        ["n2", "1", "1", "2.00", "slow"],
        ["n1", "1", "1", "0.500", "—"],
        ["n3", "1", "0", "—", "—"],
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["n1", "n2", "n[1-3]", "n[2,4]"]),
            st.none() | st.floats(0.1, 1.0),
        ),
        max_size=12,
    )
)
def test_no_node_and_no_run_is_lost(runs: list[Placed]) -> None:
    """A run on several nodes counts once for each of them; the slowest node comes first."""
    by_node = speeds(*runs)
    nodes = {"n1": ["n1"], "n2": ["n2"], "n[1-3]": ["n1", "n2", "n3"], "n[2,4]": ["n2", "n4"]}
    placed = sum(len(nodes[where or ""]) for _, where, _ in runs)
    assert sum(speed.runs for speed in by_node.values()) == placed
    ratios = [speed.ratio or 0.0 for speed in by_node.values()]
    assert ratios == sorted(ratios, reverse=True)
    assert all(speed.compared <= speed.runs for speed in by_node.values())
