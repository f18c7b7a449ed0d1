"""Parse logs published by BigScience, and compare the results with numbers counted by hand.

The logs are not in this repository. The tests need a copy of the logs next to it.
"""

import statistics
from pathlib import Path

import pytest

from parsers.records import OutcomeKind
from parsers.runs.reading import read

LOGS = Path(__file__).parents[3] / "shared" / "logs"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not here")

CANCELLED, TRUNCATED = OutcomeKind.CANCELLED, OutcomeKind.TRUNCATED

# Reports, their mean in ms with and without the first, memory reports, GPUs, outcome.
FIGURES = {
    "gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out": (
        20,
        1426.845,
        1388.668,
        16,
        "16",
        CANCELLED,
    ),
    "gpt2-meg/meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out": (
        9,
        3089.244,
        2745.662,
        64,
        "64",
        CANCELLED,
    ),
    "gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655.out": (
        6,
        8923.633,
        6721.880,
        256,
        "256",
        OutcomeKind.TIME_LIMIT,
    ),
    "gpt2-meg/meg_gpt2_perf_n16.out": (3, 137801.367, 128960.150, 0, "64", TRUNCATED),
    "gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16.out": (
        2,
        147839.150,
        145207.0,
        1,
        "64",
        TRUNCATED,
    ),
    "gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48.out": (
        3,
        123906.667,
        124910.100,
        6,
        "64",
        TRUNCATED,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_are_those_counted_by_hand(name: str) -> None:
    """The numbers of a published log equal those counted by hand, and no report is unparsed."""
    reports, mean, mean_without_first, memory_reports, world_size, kind = FIGURES[name]
    (run,) = read(LOGS / name)
    times = [1000 * step.step_seconds for step in run.steps if step.step_seconds is not None]
    assert len(times) == len(run.steps) == reports
    assert statistics.fmean(times) == pytest.approx(mean, abs=6e-4)
    assert statistics.fmean(times[1:]) == pytest.approx(mean_without_first, abs=6e-4)
    assert len(run.memory_reports) == memory_reports
    assert run.config["world_size"] == world_size
    assert run.outcome is not None
    assert run.outcome.kind is kind
    assert run.not_understood == ()


def test_a_result_printed_by_four_nodes_counts_once() -> None:
    """The result counts once, although four nodes print it, and the first node prints it twice."""
    (run,) = read(LOGS / "gpt2-hf-ds/hf_ds_gpt2_base_n4-1832555.out")
    (total,) = run.totals
    assert total.samples_per_second == 1.088
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.COMPLETED


def test_the_runs_of_one_file_are_distinguished() -> None:
    """If a script starts a training three times, its log has three runs.

    In this log, the micro-batches of the runs are 32, 16 and 8.
    """
    runs = read(LOGS / "gpt2-hf-ds/hf_ds_gpt2_perf_n16_bs4-mbs8.out")
    ends = [(run.config["micro_batch_size"], run.outcome and run.outcome.kind) for run in runs]
    assert ends == [
        ("32", OutcomeKind.KILLED),
        ("16", OutcomeKind.KILLED),
        ("8", OutcomeKind.COMPLETED),
    ]
    (total,) = runs[-1].totals
    assert total.samples_per_second == 3.663
    assert runs[0].totals == runs[1].totals == []
