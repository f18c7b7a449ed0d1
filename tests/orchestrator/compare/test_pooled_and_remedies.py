"""What `compare` prints about pooled seeds, too few runs, and sides that do not overlap."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import Folder

from orchestrator.campaign.campaign import PlannedRun

SEEDS = "matrix: {num_layers: [1, 2], seed: [1, 2]}\nrepeats: 2\n"
REPEATS = "matrix: {num_layers: [1, 2]}\nrepeats: %d\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return Folder(tmp_path)


def sentences(folder: Folder, lines: str, first: tuple[float, ...], two: tuple[float, ...]) -> str:
    """Return the sentences that `compare` prints about separate runs, as one text.

    lines: further lines of the campaign file. first, two: the step times in seconds of the runs
    with 1 and with 2 layers.
    """
    seconds: dict[int, Iterator[float]] = {1: iter(first), 2: iter(two)}

    def speeds(planned: PlannedRun) -> float:
        assert planned.run.model is not None
        return next(seconds[planned.run.model.num_layers])

    folder.campaign(lines, speeds)
    [comparison] = folder.compared("made-up.yaml", "--by", "num_layers")
    return " ".join(comparison["said"])


def test_seeds_that_were_pooled_are_named(folder: Folder) -> None:
    """If runs with different seeds are pooled, a sentence lists the seeds.

    The names of A and B contain no seed.
    """
    text = sentences(folder, SEEDS, (1, 1.1, 1, 1.1), (1, 1.1, 1, 1.1))
    assert (
        "num_layers=2 against num_layers=1: runs with the seeds 1 and 2 count as one "
        "configuration, 4 runs each." in text
    )
    assert "seed=1" not in text


def test_one_seed_is_not_pooled(folder: Folder) -> None:
    """If all runs have the same seed, no note about pooled seeds appears."""
    assert "the seeds" not in sentences(folder, REPEATS % 3, (1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("first", "two", "expected"),
    [
        ((1.0, 1.1, 1.2), (1.3, 1.4, 1.9), "All 3 runs of num_layers=2 are slower than all 3 of"),
        ((1.3, 1.4, 1.9), (1.0, 1.1, 1.2), "All 3 runs of num_layers=2 are faster than all 3 of"),
        ((1.0, 1.1, 1.5), (1.3, 1.4, 1.9), None),
        ((1.0, 1.1), (1.3, 1.4), None),
    ],
)
def test_sides_that_do_not_overlap_are_named(
    folder: Folder, first: tuple[float, ...], two: tuple[float, ...], expected: str | None
) -> None:
    """If all runs of one side are slower than all of the other, a sentence reports that.

    With only two runs per side, the output does not contain this sentence.
    """
    text = sentences(folder, REPEATS % len(first), first, two)
    assert "are not enough to tell" in text
    assert ("All " in text) == (expected is not None)
    assert expected is None or expected in text


@pytest.mark.parametrize(
    ("first", "two", "blocks"),
    [
        # A large difference and little noise: the smallest possible number of blocks.
        ((1.0, 1.01, 0.99), (1.5, 1.51, 1.49), 6),
        # More noise: 15 runs each, as the sentence before suggests, are fewer than blocks need.
        ((1.0, 1.1, 0.9), (1.1, 1.2, 1.0), None),
        # No difference is visible, so no number of runs can be planned.
        ((1.0, 1.1, 0.9), (1.0, 1.1, 0.9), None),
    ],
)
def test_the_cheapest_remedy_is_named(
    folder: Folder, first: tuple[float, ...], two: tuple[float, ...], blocks: int | None
) -> None:
    """If blocks need fewer runs for a verdict than separate runs do, the output suggests blocks.

    The suggestion has the keys for the campaign file: `order: interleaved` and `repeats`.
    """
    text = sentences(folder, REPEATS % len(first), first, two)
    assert ("The cheapest way" in text) == (blocks is not None)
    if blocks is not None:
        line = f"`order: interleaved` with `repeats: {2 * blocks}` ({blocks} blocks)"
        assert line in text


def test_notes_about_all_comparisons_are_printed_once(folder: Folder) -> None:
    """A note that applies to all comparisons is printed once, below their sentences."""

    def speeds(planned: PlannedRun) -> float:
        assert planned.run.model is not None
        return planned.run.model.num_layers**2

    folder.campaign("matrix: {num_layers: [1, 2, 3]}\n", speeds)
    done = folder.teralog("compare", "made-up.yaml", "--by", "num_layers")
    each, _, shared = done.stdout.partition("\n\nFor each of these comparisons:\n")
    assert each.count("to tell whether num_layers=") == 2
    assert shared.splitlines()
    assert all(done.stdout.count(line) == 1 for line in shared.splitlines())
