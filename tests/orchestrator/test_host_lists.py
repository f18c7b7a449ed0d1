"""Lists of nodes as Slurm writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.host_lists import MAX_HOSTS, host_names

LISTS = {
    "": (),
    "login": ("login",),
    "a,b": ("a", "b"),
    "node[1-3]": ("node1", "node2", "node3"),
    "node[08-11]": ("node08", "node09", "node10", "node11"),
    "node[01,07-08],login": ("node01", "node07", "node08", "login"),
    "r[1-2]n[1-2]": ("r1n1", "r1n2", "r2n1", "r2n2"),
    "n[1-2]-ib": ("n1-ib", "n2-ib"),
    "n1,n1": ("n1",),
    "n[2-1]": (),
    "n[a-b]": ("na-b",),
}


@pytest.mark.parametrize(("hosts", "names"), LISTS.items(), ids=LISTS)
def test_a_list_of_nodes_is_its_names(hosts: str, names: tuple[str, ...]):
    """Ranges keep their leading zeros."""
    assert host_names(hosts) == names


@given(st.text(alphabet="an019[],-", max_size=30))
def test_no_text_is_too_much_of_a_list(text: str):
    """What looks like a list of more nodes than there can be ends somewhere."""
    assert len(host_names(text)) <= MAX_HOSTS
