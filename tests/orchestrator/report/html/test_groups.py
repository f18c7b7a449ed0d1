"""Group runs that are equal in all sizes except one."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.report.html.groups import efficiencies, groups
from orchestrator.report.html.size_plots import TFLOPS, size_plots
from orchestrator.run.model import Run, sizes

# The parameters of each run, the size that varies, the expected groups and the named way.
CASES: dict[str, tuple[list[dict[str, Any]], str, list[int | None], str]] = {
    "more GPUs, a growing batch": (
        [{"gpus_per_node": 1}, {"gpus_per_node": 2}, {"gpus_per_node": 4}],
        "world_size",
        [0, 0, 0],
        "weak",
    ),
    "more GPUs, the same batch": (
        [
            {"gpus_per_node": 1, "global_batch_size": 8},
            {"gpus_per_node": 2, "global_batch_size": 8},
        ],
        "world_size",
        [0, 0],
        "strong",
    ),
    "nodes instead of GPUs of a node": (
        [{"gpus_per_node": 4}, {"gpus_per_node": 4, "nodes": 2}],
        "world_size",
        [0, 0],
        "weak",
    ),
    "another strategy is another group": (
        [
            {"gpus_per_node": 1, "strategy": "zero1"},
            {"gpus_per_node": 1, "strategy": "zero2"},
            {"gpus_per_node": 2, "strategy": "zero1"},
            {"gpus_per_node": 2, "strategy": "zero2"},
        ],
        "world_size",
        [0, 1, 0, 1],
        "weak",
    ),
    "a run without a partner is in no group": (
        [{"gpus_per_node": 1}, {"gpus_per_node": 2}, {"gpus_per_node": 2, "seed": 7}],
        "world_size",
        [0, 0, None],
        "weak",
    ),
    "repeats are equal": (
        [{"gpus_per_node": 1}, {"gpus_per_node": 1, "repeat": 2}, {"gpus_per_node": 2}],
        "world_size",
        [0, 0, 0],
        "weak",
    ),
    "repeats alone have nothing to be compared by": (
        [{}, {"repeat": 2}],
        "world_size",
        [None, None],
        "weak",
    ),
    "more micro-batches": (
        [{"num_microbatches": 1}, {"num_microbatches": 4}],
        "num_microbatches",
        [0, 0],
        "grows",
    ),
    "more micro-batches of a smaller size": (
        [
            {"num_microbatches": 1, "micro_batch_size": 4},
            {"num_microbatches": 4, "micro_batch_size": 1},
        ],
        "num_microbatches",
        [0, 0],
        "the global batch stays the same",
    ),
    "larger micro-batches": (
        [{"micro_batch_size": 1}, {"micro_batch_size": 2}],
        "global_batch_size",
        [0, 0],
        "larger micro-batches",
    ),
}


@pytest.mark.parametrize(("given", "size", "expected", "way"), CASES.values(), ids=CASES)
def test_runs_are_grouped_if_all_other_sizes_are_equal(
    run_of: Callable[..., Run],
    given: list[dict[str, Any]],
    size: str,
    expected: list[int | None],
    way: str,
):
    """Runs form a group if they are equal in all sizes except the given one.

    Sizes that follow from the given size, e.g. the global batch, may differ too. The group's `way`
    describes how the sizes differ, e.g. as in weak or in strong scaling.
    """
    grouping = groups([sizes(run_of(**values)) for values in given], size)
    assert list(grouping.of) == expected
    assert way in grouping.way


def test_efficiency_is_relative_to_the_fewest_gpus(run_of: Callable[..., Run]):
    """The median of the TFLOPs of the runs with the fewest GPUs counts as an efficiency of 100 %.

    A run has no efficiency if it has no TFLOPs, or if its group has no run to compare it with.
    """
    runs = [sizes(run_of(gpus_per_node=gpus, repeat=n)) for n, gpus in enumerate((1, 1, 2, 4), 1)]
    assert efficiencies(runs, [0, 0, 0, 0], [9.0, 11.0, 8.0, None]) == (90.0, 110.0, 80.0, None)
    assert efficiencies(runs, [0, 0, 0, 0], [9.0, 11.0, None, None]) == (None,) * 4
    assert efficiencies(runs, [None] * 4, [9.0, 11.0, 8.0, 7.0]) == (None,) * 4


def test_the_fewest_gpus_that_have_a_number_are_the_base(run_of: Callable[..., Run]):
    """If the runs with the fewest GPUs have no TFLOPs, the next number of GPUs counts as 100 %."""
    runs = [sizes(run_of(gpus_per_node=gpus)) for gpus in (1, 2, 4)]
    assert efficiencies(runs, [0, 0, 0], [None, 10.0, 9.0]) == (None, 100.0, 90.0)


def test_crowded_runs_are_left_out_of_scaling_efficiency(run_of: Callable[..., Run]):
    """The plot of scaling efficiency leaves out crowded runs, and a note reports that.

    Crowded runs are slow, so efficiencies relative to them would be too high.
    """
    rows = [sizes(run_of(gpus_per_node=ranks)) for ranks in (1, 2, 4)]
    reached = {TFLOPS: ("TFLOPs/GPU", (2.0, 10.0, 9.0))}
    shown = {
        crowded: next(
            plot
            for plot in size_plots(rows, reached, "runs", crowded=crowded)
            if plot.title == "Scaling efficiency"
        )
        for crowded in ((), (True, False, False))
    }
    assert shown[()].y == (100.0, 500.0, 450.0)
    assert shown[True, False, False].y == (None, 100.0, 90.0)
    assert "crowded" not in shown[()].note
    assert "Crowded runs are left out: " in shown[True, False, False].note
