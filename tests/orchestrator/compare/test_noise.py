"""`teralog noise`: how much each source of noise, e.g. the allocation, makes speeds vary.

The expected numbers are computed by hand or known from a simulation.
"""

import json
import math
import random
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance

import made_up_runs
import pytest
from made_up_runs import CAMPAIGN, Folder

from orchestrator.campaign.campaign import PlannedRun, load_campaign
from orchestrator.common.tables import as_text
from orchestrator.compare.measured_run import MeasuredRun
from orchestrator.compare.noise import (
    NoisePage,
    noise_page,
    noise_record,
    noise_sentences,
    noise_table,
)
from orchestrator.compare.variance_components import Component, components, pooled
from orchestrator.store.records import Attempt, Position, Started

PLAN_RUNS = Path(__file__).parents[3] / "docs" / "how-to" / "plan-runs.md"


def test_a_balanced_nested_design_gives_the_classic_mean_squares() -> None:
    """Two allocations of two runs give the textbook result.

    The variance of runs is MSW, and that of allocations is (MSB - MSW) / 2. MSW is the mean square
    within allocations, and MSB the mean square between them.
    """
    values = [1.0, 3.0, 10.0, 14.0]
    (between,), within = components(values, ["k"] * 4, ["a", "a", "b", "b"])
    assert within == Component(pytest.approx(5.0), 2)
    of_means = 2 * variance([2.0, 12.0])
    assert between == Component(pytest.approx((of_means - 5.0) / 2), 1)


def test_differences_between_configurations_are_not_noise() -> None:
    """Two configurations with different speeds give the same noise as one configuration."""
    values = [0.1, 0.2, 0.15, 0.12]
    plain = components(values, ["k"] * 4, ["a", "a", "b", "b"])
    shifted = [*values, *(value + 3 for value in values)]
    both = components(shifted, ["k"] * 4 + ["l"] * 4, ["a", "a", "b", "b"] * 2)
    assert plain[1].variance == pytest.approx(0.00272, abs=1e-4)
    # The same allocations and runs again: the variances differ only by degrees of freedom.
    assert both[1].variance == pytest.approx(plain[1].variance * 2 * 2 / 5)


@pytest.mark.parametrize(
    ("values", "allocations"),
    [([], []), ([1.0], ["a"]), ([1.0, 2.0], ["a", "b"]), ([1.0, 2.0], ["a", "a"])],
)
def test_what_cannot_be_estimated_is_absent(
    values: list[float], allocations: list[Hashable]
) -> None:
    """The variance between allocations is None if the runs cannot show it.

    This holds if all runs are in one allocation, or if each allocation has only one run.
    """
    (between,), _ = components(values, ["k"] * len(values), allocations)
    assert between.variance is None


def test_steps_vary_about_the_mean_of_their_own_run() -> None:
    """A difference in speed between runs adds nothing to the variation of steps."""
    assert pooled([[1.0, 3.0], [101.0, 103.0], [7.0], []]) == Component(2.0, 2)
    assert pooled([[1.0], []]) == Component(None, 0)


def test_the_components_of_made_up_runs_are_found_on_the_average() -> None:
    """On average, the estimated variances of hours, allocations and runs equal the simulated ones.

    The simulated speeds vary by 20 % between hours, by 10 % between the allocations of an hour, and
    by 3 % between the runs of an allocation. Hours and allocations contain different numbers of
    runs.
    """
    chance = random.Random(1)
    collected: list[tuple[float, float, float]] = []
    for _ in range(200):
        values, kinds, hours, allocations = [], [], [], []
        for hour in range(8):
            of_hour = chance.gauss(0, 0.2)
            for allocation in range(chance.randint(1, 4)):
                of_allocation = chance.gauss(0, 0.1)
                for place in range(chance.randint(2, 4)):
                    values.append(place % 2 + of_hour + of_allocation + chance.gauss(0, 0.03))
                    kinds.append(place % 2)
                    hours.append(hour)
                    allocations.append((hour, allocation))
        (of_hours, of_allocations), of_runs = components(values, kinds, hours, allocations)
        collected.append(
            tuple(component.variance or 0.0 for component in (of_hours, of_allocations, of_runs))
        )
    means = [fmean(column) for column in zip(*collected, strict=True)]
    assert means == [
        pytest.approx(0.04, rel=0.15),
        pytest.approx(0.01, rel=0.1),
        pytest.approx(0.0009, rel=0.05),
    ]


def run(speed: float, allocation: str | None = None, **more: object) -> MeasuredRun:
    """Return a measured run of two steps.

    speed: the seconds of the first step; the second takes 2 % more. more: further fields of the
    run.
    """
    values = {"framework": "gpt", "num_layers": 2, "global_batch_size": 8}
    plain = MeasuredRun(
        run_id=f"{random.Random(speed).getrandbits(40)}",
        label="r",
        values=values,
        state="COMPLETED",
        outcome="completed",
        step_seconds=(speed, speed * 1.02),
        allocation=allocation,
    )
    return replace(plain, **more)


def percents(page: NoisePage) -> dict[str, float | None]:
    """Return how much each source of noise makes speeds vary, in percent, by the source's name."""
    return {source.name: source.percent for source in page.sources}


def test_runs_in_one_allocation_show_nothing_about_other_allocations() -> None:
    """Runs in one allocation give no number for other allocations, hours and nodes."""
    page = noise_page([run(1.0, "a"), run(1.1, "a"), run(1.05, "a")])
    by_source = percents(page)
    assert by_source["runs"] == pytest.approx(5, abs=0.3)
    assert by_source["steps"] == pytest.approx(1.4, abs=0.1)
    assert [by_source[name] for name in ("allocations", "repeats", "hours", "nodes")] == [None] * 4
    assert "—" in as_text(noise_table(page))
    assert "To find a difference" not in " ".join(noise_sentences(page))


def test_an_absent_component_has_no_degrees_of_freedom() -> None:
    """If no two allocations started in the same hour, the variation of hours is absent.

    An absent variation has 0 degrees of freedom.
    """
    runs = [run(1.0 + hour / 8, f"{hour}", started_at=f"2026-01-01T0{hour}:05") for hour in (1, 2)]
    page = noise_page([*runs, run(1.1, "1", started_at="2026-01-01T01:06")])
    absent = {
        source.name: source.component.degrees for source in page.sources if source.percent is None
    }
    assert absent == {"hours": 0, "nodes": 0}


def test_runs_in_allocations_of_their_own_show_what_a_single_run_is_worth() -> None:
    """If each run is in a separate allocation, only the total variation of runs is known.

    It is unknown how much of it comes from the allocations and how much from the runs themselves.
    """
    by_source = percents(noise_page([run(1.0, "a"), run(1.4, "b"), run(1.2), run(1.3)]))
    spread = math.sqrt(variance([math.log(speed) for speed in (1.0, 1.4, 1.2, 1.3)]))
    assert by_source["repeats"] == pytest.approx(100 * math.expm1(spread))
    assert (by_source["runs"], by_source["allocations"]) == (None, None)


def test_the_variance_of_a_new_run_depends_on_allocations_not_on_runs() -> None:
    """The degrees of freedom of a new run's variance follow from the number of allocations.

    A new run is a repeat in any allocation. Here, two allocations differ much in speed, and the
    twenty runs within each hardly differ. So the variance has one degree of freedom, not 38.
    """
    runs = [
        run(level * (1 + 0.001 * turn), name)
        for level, name in ((1, "a"), (2, "b"))
        for turn in range(20)
    ]
    degrees = {source.name: source.component.degrees for source in noise_page(runs).sources}
    assert (degrees["runs"], degrees["allocations"], degrees["repeats"]) == (38, 1, 1)


def test_no_visible_difference_is_not_reported_as_0_percent() -> None:
    """If two allocations happen to be equally fast, their noise is not reported as 0 %."""
    page = noise_page([run(1.0, "a"), run(1.1, "a"), run(1.05, "b"), run(1.06, "b")])
    assert percents(page)["allocations"] == 0
    (sentence,) = (line for line in noise_sentences(page) if line.startswith("Allocations"))
    assert sentence == (
        "Allocations: too small to measure next to the other sources, with 1 degree of freedom."
    )


def test_hours_and_nodes_are_reported_if_several_allocations_share_one() -> None:
    """The variation of hours is reported if several allocations started in one hour of the day.

    The variation of nodes is reported if several allocations used the same node. The simulated
    cluster is twice as slow in the morning, and equally fast on all nodes.
    """
    runs = [
        run(
            (1.0 + hour / 8) * (1 + 0.01 * turn),
            f"{hour}-{turn}",
            started_at=f"2026-01-0{turn + 1}T{hour:02}:05:00",
            nodes=f"n{turn}",
        )
        for hour in (0, 8)
        for turn in range(4)
    ]
    page = noise_page(runs)
    by_source = percents(page)
    assert by_source["hours"] == pytest.approx(63, abs=1)
    assert by_source["nodes"] == 0
    sentence = " ".join(noise_sentences(page))
    assert "runs at different hours of the day differ by 63%" in sentence
    assert {source["source"] for source in noise_record(page)["sources"]} == set(by_source)


def test_runs_that_show_nothing_are_named() -> None:
    """A message names the runs that the computation did not use, e.g. a run out of memory."""
    bad = run(1.0, label="r #3", step_seconds=(), outcome="oom", state="FAILED")
    page = noise_page([run(1.0), run(1.1), bad])
    assert "Left out because OOM: r #3." in list(noise_sentences(page))
    assert noise_page([]).runs == 0


@pytest.mark.parametrize(
    ("allocation", "devices", "nodes"),
    [
        ("submit-a1", ("0", "1"), "host"),
        (None, ("0",), "host"),
        ("17", ("n1/0", "n1/1", "n2/0"), "n1,n2"),
    ],
)
def test_the_nodes_of_a_run_are_those_of_its_allocation_or_this_machine(
    allocation: str | None, devices: tuple[str, ...], nodes: str
) -> None:
    """In a Slurm allocation, the nodes of a run are those whose GPUs or cores it used.

    Outside Slurm, the node is the machine that started the run. Which GPUs or cores of a node the
    run used does not matter.
    """
    started = Started(1, "host", "t", "2026-01-02T03:04:05+00:00", 60, devices, allocation)
    assert Attempt(1, Path("attempt-1"), started, None).nodes == nodes


def test_noise_is_reported_as_a_table_in_sentences_and_for_programs(layers: Folder) -> None:
    """`noise` prints a percentage for each source that the runs can show, and names failed runs.

    The simulated steps vary by about 0.1 %, and the runs of an allocation by 5 to 10 %.
    """
    done = layers.teralog("noise", "made-up.yaml")
    assert done.exit_code == 0
    assert "runs in an allocation" in done.stdout
    assert "Allocations: unknown; several allocations" in done.stdout
    assert "Left out because OOM: num_layers=9 r1" in done.stdout
    page = json.loads(layers.teralog("noise", "made-up.yaml", "--json").stdout)
    percents = {source["source"]: source["percent"] for source in page["sources"]}
    assert percents["steps"] == pytest.approx(0.09, abs=0.02)
    assert 5 < percents["runs"] < 10
    assert percents["allocations"] is None


def test_the_example_of_the_docs_is_what_noise_prints(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/how-to/plan-runs.md shows what `noise` prints for these simulated runs.

    Two configurations run twice in each of eight allocations. The speed of allocations varies by
    15 %, and that of runs by 2 %. Half of the allocations start at night, the others in the
    afternoon, which makes no difference.
    """
    now = ""

    def seconds(planned: PlannedRun) -> float:
        nonlocal now
        assert planned.run.model is not None
        repeat, layers = planned.run.repeat, planned.run.model.num_layers
        block = allocation(planned)
        now = f"2026-01-0{block}T{2 if block % 2 else 14:02}:10:00+00:00"
        level = random.Random(f"allocation {block}").gauss(0, 0.15)
        noise = random.Random(f"run {layers} {repeat}").gauss(0, 0.02)
        return layers * math.exp(level + noise)

    def allocation(planned: PlannedRun) -> int:
        return (planned.run.repeat + 1) // 2

    monkeypatch.setattr(made_up_runs, "utc_now", lambda: now)
    lines = "matrix: {num_layers: [1, 2]}\nrepeats: 16\n"
    file = folder.path / "repeats.yaml"
    file.write_text(CAMPAIGN.format(name="repeats") + lines)
    positions = {
        planned.run_id: Position(f"submit-{allocation(planned)}", place)
        for place, planned in enumerate(load_campaign(file).runs, 1)
    }
    folder.campaign(lines, seconds, positions, name="repeats")
    shown = PLAN_RUNS.read_text().partition("```console\n$ teralog noise repeats.yaml\n")[2]
    assert folder.teralog("noise", "repeats.yaml").stdout == shown.partition("```")[0]
