"""`teralog compare` on simulated runs."""

from dataclasses import replace

import pytest
from made_up_runs import LINE, Folder, by_layers, log

from orchestrator.campaign.campaign import PlannedRun, load_campaign
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.compare.measured_run import MeasuredRun, measured_runs, recorded_runs
from orchestrator.compare.pairing import Pairing
from orchestrator.compare.text import compared, comparison_sentences
from orchestrator.store.campaign_store import campaign_store
from orchestrator.store.folders import write_ended, write_job_state
from orchestrator.store.job_state import JobState
from orchestrator.store.record_files import utc_now
from orchestrator.store.recorded_runs import warmup_of
from orchestrator.store.records import Ended, Intent, Position


def test_the_table_has_a_row_and_a_sentence_for_each_pair(layers: Folder) -> None:
    """The output has a row and a sentence for each pair of configurations, and names failed runs.

    Although the runs become 24 % slower over time, the ratio of speeds is right: 1.1/1.2 = 0.917.
    """
    done = layers.teralog("compare", "made-up.yaml", "--by", "num_layers")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    row = lines[2].split()
    assert row[:6] == ["num_layers=2", "num_layers=1", "12", "12", "6", "1"]
    assert row[9:] == ["slower", "—"]
    sentence = lines[5]
    assert sentence.startswith("num_layers=2 is slower than num_layers=1: 0.91")
    assert sentence.endswith("computed from 6 blocks in 1 allocation.")
    assert "Blocks make the variance" in done.stdout
    assert (
        "All runs shared one allocation; another allocation may give a different result." in lines
    )
    assert (
        "num_layers=9 cannot be compared with num_layers=1: no run of num_layers=9 has a step time."
    ) in lines
    assert "Left out because OOM: num_layers=9 r1, num_layers=9 r2" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--a num_layers==2 --b num_layers==1 --fail-if-slower 5%", 1, "by more than 5%"),
        ("--a num_layers==2 --b num_layers==1 --fail-if-slower 12%", 0, ""),
        ("--a num_layers==1 --b num_layers==2 --fail-if-slower 0%", 0, ""),
        ("--by num_layers --fail-if-slower 12%", 1, "num_layers=9: has no speed to compare"),
        ("--by num_layers", 0, ""),
        ("--by num_layers --fail-if-slower 0.05", 2, "not a percentage below 100; write e.g. 5%"),
        ("", 2, "nothing to compare with; give B"),
        ("--a num_layers==1", 2, "nothing to compare with; give B"),
        ("--by num_layers --a num_layers==1", 2, "remove B, --a and --b"),
        ("--by nmu_layers", 1, "did you mean 'num_layers'?"),
        ("--by hidden_size", 1, "all runs have the same"),
        ("--a num_layers>=1 --b num_layers==2", 1, "both choose the same run"),
        ("--a num_layers==1 --b num_layers==7", 1, "matches no run"),
        ("--a ddp --b zero1", 1, "no parameter 'ddp'; did you mean \"strategy == 'ddp'\"?"),
        ("--a num_layers==1 --b num_layers=2", 1, "--b: 'num_layers=2' is not an expression"),
        ("--a num_layers==1 --b num_layers>1", 1, "can be compared with several configurations: "),
    ],
)
def test_the_exit_code_answers_the_question(
    layers: Folder, arguments: str, code: int, message: str
) -> None:
    """Exit code 0 means success, 1 a user's mistake, and 2 wrong usage.

    With --fail-if-slower, 1 also means that A is certainly slower, or that a side has no speed.
    """
    done = layers.teralog("compare", "made-up.yaml", *arguments.split())
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert bool(done.stderr) == bool(message)


def test_json_has_the_content_of_the_table_and_the_sentences(layers: Folder) -> None:
    """The JSON has the table's values by name, with full precision, and the sentences."""
    slower, failed = layers.compared("made-up.yaml", "--by", "num_layers")
    assert slower["ratio"] == pytest.approx(1.1 / 1.2, rel=0.01)
    assert slower["low"] < slower["ratio"] < slower["high"]
    assert (slower["runs_a"], slower["units_a"], slower["paired"]) == (12, 6, True)
    assert (slower["verdict"], slower["more"], slower["allocations"]) == ("slower", None, 1)
    assert slower["gain"] > 10
    assert len(failed["not_measured"]) == 12
    assert {run["why"] for run in failed["not_measured"]} == {"OOM"}
    assert (failed["ratio"], failed["verdict"]) == (None, "cannot tell")


def test_attempts_without_a_recorded_allocation_are_not_paired(folder: Folder) -> None:
    """Runs without a recorded allocation are not paired, so a drift counts as noise.

    Earlier versions of teralog did not record the allocation.
    """
    folder.campaign("matrix: {num_layers: [1, 2]}\nrepeats: 12\n", by_layers)
    (comparison,) = folder.compared("made-up.yaml", "--by", "num_layers")
    assert (comparison["paired"], comparison["units_a"], comparison["units_b"]) == (False, 12, 12)
    assert (comparison["gain"], comparison["verdict"]) == (None, "slower")


def test_runs_of_one_submit_in_the_file_s_order_are_one_block(folder: Folder) -> None:
    """Runs in the file's order, first all of A and then all of B, count as one block.

    A single block gives no verdict, because a drift would look like a difference.
    """
    lines = "matrix: {num_layers: [1, 2]}\nrepeats: 12\n"
    folder.campaign(lines, by_layers, name="first")
    ids = [planned.run_id for planned in load_campaign(folder.path / "first.yaml").runs]
    positions = {run_id: Position("submit-1", place) for place, run_id in enumerate(ids, 1)}
    folder.campaign(lines, by_layers, positions, name="second")
    (comparison,) = folder.compared("second.yaml", "--by", "num_layers")
    assert (comparison["paired"], comparison["units_a"], comparison["balanced"]) == (True, 1, 0)
    assert (comparison["verdict"], comparison["more"], comparison["least"]) == (
        "cannot tell",
        5,
        True,
    )
    assert any("A and B did not take turns evenly" in sentence for sentence in comparison["said"])


def test_the_allocation_of_a_slurm_run_is_its_job(folder: Folder) -> None:
    """On Slurm, the allocation of a run is its job, and each task of a job array is a separate job.

    So runs of one array are not paired.
    """
    lines = "matrix: {num_layers: [1, 2]}\nrepeats: 4\n"
    folder.campaign(lines, by_layers)
    campaign = load_campaign(folder.path / "made-up.yaml")
    store = campaign_store(folder.path / "results", "made-up")
    for index, planned in enumerate(campaign.runs):
        run = store.run(planned.run_id)
        assert run.claim(2, Intent("b", "h", utc_now()))
        attempt = run.attempt_folder(2)
        (attempt / "output.log").write_text(log(by_layers(planned) or 0))
        start = "2026-01-02T03:04:05"
        job = JobState(f"7_{index}", "COMPLETED", "sacct", nodes="n1", started_at=start)
        write_job_state(attempt, job)
        write_ended(attempt, Ended("COMPLETED", utc_now(), 1.0))
    (comparison,) = folder.compared("made-up.yaml", "--by", "num_layers")
    assert (comparison["paired"], comparison["units_a"], comparison["allocations"]) == (False, 4, 8)


def test_two_campaigns_are_compared_run_by_run(folder: Folder) -> None:
    """Runs of A and B with equal configurations are compared; runs without a partner are named."""
    lines = "matrix: {{num_layers: {layers}, strategy: [ddp, zero1]}}\nrepeats: 6\n"

    def faster(planned: PlannedRun) -> float:
        return (by_layers(planned) or 0) / 1.5

    folder.campaign(lines.format(layers="[1, 2]"), by_layers, name="before")
    folder.campaign(lines.format(layers="[1, 3]"), faster, name="after")
    done = folder.teralog("compare", "after.yaml", "before.yaml")
    assert done.exit_code == 0
    comparison = folder.compared("after.yaml", str(folder.path / "results" / "before"))
    assert [(pair["a"], pair["b"]) for pair in comparison] == [
        ("after: num_layers=1 ddp", "before: num_layers=1 ddp"),
        ("after: num_layers=1 zero1", "before: num_layers=1 zero1"),
    ]
    assert {pair["verdict"] for pair in comparison} == {"faster"}
    for label in ("num_layers=2 ddp", "num_layers=3 ddp", "num_layers=2 zero1"):
        assert label in done.stderr


def test_campaigns_that_differ_in_one_choice_are_compared_across_it(folder: Folder) -> None:
    """If two campaigns differ in one setting, runs that are equal in all else are compared."""
    lines = "matrix: {{num_layers: [1, 2], strategy: [{strategy}]}}\nrepeats: 4\n"
    folder.campaign(lines.format(strategy="zero1"), by_layers, name="one")
    folder.campaign(lines.format(strategy="zero2"), by_layers, name="two")
    comparison = folder.compared("two.yaml", "one.yaml")
    assert [(pair["a"], pair["b"]) for pair in comparison] == [
        ("two: num_layers=1", "one: num_layers=1"),
        ("two: num_layers=2", "one: num_layers=2"),
    ]


def test_the_smallest_value_is_the_baseline_of_a_folder(folder: Folder) -> None:
    """In a results folder, runs with the smallest value of the `--by` parameter are the baseline.

    With a campaign file, the first value in the file is the baseline. The folder does not record
    the order of values in the file.
    """
    folder.campaign("matrix: {micro_batch_size: [16, 2, 8]}\n", lambda planned: 1.0)
    results = str(folder.path / "results" / "made-up")
    for what, baseline in (("made-up.yaml", 16), (results, 2)):
        comparison = folder.compared(what, "--by", "micro_batch_size")
        assert {pair["b"] for pair in comparison} == {f"mb{baseline}"}


def test_seeds_are_repeats_and_micro_batches_keep_one_batch(folder: Folder) -> None:
    """Runs that differ only in their seed count as repeats of one configuration.

    Runs with different global batches are compared in tokens per second.
    """
    folder.campaign("matrix: {micro_batch_size: [1, 2], seed: [1, 2, 3, 4]}\n", lambda planned: 1.0)
    (comparison,) = folder.compared("made-up.yaml", "--by", "micro_batch_size")
    assert (comparison["runs_a"], comparison["runs_b"]) == (4, 4)
    assert comparison["speed_in"] == "tokens per second"
    assert comparison["ratio"] == pytest.approx(2.0)


def test_a_folder_of_results_is_called_by_its_whole_name(folder: Folder) -> None:
    """The name of a results folder is shown in full: a dot in it does not begin a suffix."""
    for name in ("gpt-1.3b", "gpt-1.4b"):
        folder.campaign("matrix: {seed: [1, 2]}\n", lambda planned: 1.0, name=name)
    folders = [str(folder.path / "results" / name) for name in ("gpt-1.3b", "gpt-1.4b")]
    (comparison,) = folder.compared(*folders)
    assert (comparison["a"].split(":")[0], comparison["b"].split(":")[0]) == (
        "gpt-1.3b",
        "gpt-1.4b",
    )


def test_the_batch_size_itself_can_be_compared(folder: Folder) -> None:
    """With --by and the name of a batch size, different batches are compared in tokens per second.

    With another parameter, each pair has equal batches, and is compared in steps per second.
    """
    lines = "matrix: {strategy: [ddp, zero1], num_microbatches: [1, 2, 4]}\n"
    folder.campaign(lines, lambda planned: float(planned.run.num_microbatches or 0))
    for name in ("num_microbatches", "global_batch_size"):
        comparison = folder.compared("made-up.yaml", "--by", name)
        assert len(comparison) == 4
        assert {pair["speed_in"] for pair in comparison} == {"tokens per second"}
        assert [pair["ratio"] for pair in comparison] == [pytest.approx(1.0)] * 4
    comparison = folder.compared("made-up.yaml", "--by", "strategy")
    assert {pair["speed_in"] for pair in comparison} == {"steps per second"}


def test_the_batch_can_be_compared_if_both_sides_have_several(folder: Folder) -> None:
    """Batches can be compared even if a campaign varies `micro_batch_size` and `num_microbatches`.

    With `--by num_microbatches`, there is one comparison per micro-batch size. With
    `--by micro_batch_size`, only runs with equal global batches are compared.
    """
    lines = "matrix: {micro_batch_size: [2, 4], num_microbatches: [1, 2]}\n"
    folder.campaign(lines, lambda planned: 1.0)
    comparison = folder.compared("made-up.yaml", "--by", "num_microbatches")
    assert [(pair["a"], pair["b"]) for pair in comparison] == [
        (
            f"mb{size} gas2",
            f"mb{size} gas1",
        )
        for size in (2, 4)
    ]
    # Only one pair has equal global batches, and other pairs are not compared by another rule.
    (pair,) = folder.compared("made-up.yaml", "--by", "micro_batch_size")
    assert (pair["a"], pair["b"]) == (
        "mb4 gas1",
        "mb2 gas2",
    )


def test_by_accepts_a_parameter_that_only_some_runs_set(folder: Folder) -> None:
    """`compare --by` accepts a parameter that only some runs set.

    In this test, the comparison is refused for another reason: no two runs differ only in.
    """
    folder.campaign(
        "include:\n  - {}\n  - {strategy: zero1, ffn_hidden_size: 128}\n"
        "  - {strategy: zero1, ffn_hidden_size: 128, num_layers: 3}\n",
        lambda planned: 1.0,
    )
    done = folder.teralog("compare", "made-up.yaml", "--by", "ffn_hidden_size")
    assert done.exit_code == 1
    assert "no two runs differ only in" in done.stderr


def test_runs_with_other_differences_are_not_compared(folder: Folder) -> None:
    """With `--by`, runs are not compared if they also differ in another parameter."""
    folder.campaign(
        "include:\n  - {strategy: zero1}\n  - {strategy: zero2, num_layers: 3}\n",
        lambda planned: 1.0,
    )
    done = folder.teralog("compare", "made-up.yaml", "--by", "strategy")
    assert done.exit_code == 1
    assert "no two runs differ only in" in done.stderr
    assert folder.compared("made-up.yaml", "--a", "num_layers == 3", "--b", "num_layers == 2")


def test_what_differs_between_two_campaigns_is_reported(folder: Folder) -> None:
    """The output lists the parameters in which two campaigns differ.

    The sides have the names of their campaigns, or their paths if the names are equal.
    """
    folder.campaign("repeats: 4\n", lambda planned: 1.0, name="old")
    folder.campaign(
        "repeats: 4\ninclude: [{precision: bf16, nodes: 2}]\n", lambda planned: 1.0, name="new"
    )
    (comparison,) = folder.compared("new.yaml", "old.yaml")
    assert comparison["differing"]["precision"] == ["bf16", "fp32"]
    assert any(
        line.startswith("A and B differ in ") and "precision (bf16, fp32)" in line
        for line in comparison["said"]
    )
    other = folder.path / "before" / "new"
    other.parent.mkdir()
    (folder.path / "results" / "old").rename(other)
    (comparison,) = folder.compared("results/new", "before/new")
    assert comparison["a"].startswith("results/new: ")
    assert comparison["b"].startswith("before/new: ")


def test_campaigns_may_be_called_a_and_b(folder: Folder) -> None:
    """If campaigns have the names A and B, the sides are named like all others, e.g. "B: fp32"."""
    folder.campaign("repeats: 4\n", lambda planned: 1.0, name="A")
    folder.campaign(
        "matrix: {precision: [fp32, bf16]}\nrepeats: 4\n", lambda planned: 1.0, name="B"
    )
    (comparison,) = folder.compared("A.yaml", "B.yaml")
    assert (comparison["a"], comparison["b"]) == ("A: gpt", "B: fp32")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--by repeat", ("{} repeat=2", "{} repeat=1")),
        ("--a repeat==2 --b repeat==1", ("A: {}", "B: {}")),
    ],
)
def test_equal_sides_get_different_names_and_a_note(
    folder: Folder, arguments: str, named: tuple[str, str]
) -> None:
    """If A and B have the same parameters, a note reports that, and their names still differ."""
    folder.campaign("repeats: 2\n", lambda planned: 1.0)
    (comparison,) = folder.compared("made-up.yaml", *arguments.split())
    kind = comparison["a"].removeprefix("A: ").removesuffix(" repeat=2")
    assert (comparison["a"], comparison["b"]) == tuple(name.format(kind) for name in named)
    assert comparison["differing"] == {}
    assert any(line.startswith("A and B have the same parameters") for line in comparison["said"])


@pytest.mark.parametrize(("framework", "is_choice"), [("gpt", False), ("deepspeed", True)])
def test_zero_stage_is_a_choice_if_the_framework_has_the_option(
    framework: str, is_choice: bool
) -> None:
    """The ZeRO stage is a setting to compare only if the framework has the option `zero_stage`.

    The framework `gpt` does not: its stage follows from the strategy, so the strategy is compared.
    """
    run = MeasuredRun(
        run_id="1",
        label="a",
        values={"framework": framework, "zero_stage": 1},
        state="COMPLETED",
        outcome="completed",
    )
    assert ("zero_stage" in run.choices) == is_choice


def test_a_single_run_amid_others_gives_no_claim_of_no_difference() -> None:
    """If one side is a single run, the output never claims that both sides are equally fast."""
    runs = tuple(
        MeasuredRun(
            run_id=str(number),
            label="a" if number else "b",
            values={},
            state="COMPLETED",
            outcome="completed",
            step_seconds=(1 + number / 100,),
        )
        for number in range(51)
    )
    published = replace(runs[0], step_seconds=(1.495,))
    pairing = Pairing("a", "b", runs[1:], (published,), repeatable=False)
    verdict = next(comparison_sentences(compared(pairing)))
    assert "are not enough to tell whether a is faster than b" in verdict
    assert verdict.endswith(
        "the variation of a single run is unknown, so the number of runs needed is unknown."
    )


@pytest.mark.parametrize(
    ("allocations", "reason"),
    [
        ([*["AB"] * 6, "A", "B"], "their blocks contain no run of the other side."),
        (
            [*["A", "B"] * 6, "AB"],
            "they are in allocations with both A and B, but in too few blocks for a verdict.",
        ),
    ],
    ids=["paired", "not paired"],
)
def test_a_note_explains_why_runs_are_not_used(allocations: list[str], reason: str) -> None:
    """If one run of A and one of B are not used, a note contains the reason.

    In a comparison of pairs, these runs have no partner. In a comparison without pairs, they have
    partners, but there are too few pairs. allocations: the sides that ran in each allocation.
    """
    a, b = (
        tuple(
            MeasuredRun(
                run_id=f"{side}{job}",
                label=side,
                values={},
                state="COMPLETED",
                outcome=RunOutcome.COMPLETED,
                step_seconds=(1.0,),
                allocation=str(job),
            )
            for job, sides in enumerate(allocations)
            if side in sides
        )
        for side in "AB"
    )
    sentences = list(comparison_sentences(compared(Pairing("a", "b", a, b))))
    assert f"1 run of A and 1 of B are not used: {reason}" in sentences


def test_a_folder_without_runs_cannot_be_compared(folder: Folder) -> None:
    """The message about a folder without runs shows what to give instead."""
    (folder.path / "empty").mkdir()
    folder.campaign("", lambda planned: 1.0)
    done = folder.teralog("compare", "made-up.yaml", "empty")
    assert done.exit_code == 1
    assert "empty: contains no run that was started; give the folder of a campaign" in done.stderr


def test_a_folder_of_results_keeps_the_campaign_s_warm_up(folder: Folder) -> None:
    """A comparison of the results folder gives the same numbers as one of the campaign file."""
    folder.campaign("warmup: 0\nrepeats: 2\n", lambda planned: 1.0, name="cold")
    folder.campaign("warmup: 5\nrepeats: 2\n", lambda planned: 1.0, name="warm")
    for name, steps in (("cold", 10), ("warm", 5)):
        campaign = load_campaign(folder.path / f"{name}.yaml")
        store = campaign_store(folder.path / "results", name)
        runs = recorded_runs(store.path, warmup_of(store))
        assert {len(run.step_seconds) for run in runs} == {steps}
        again = measured_runs(campaign, store)
        assert [run.step_seconds for run in again] == [run.step_seconds for run in runs]
        assert [run.choices for run in again] == [run.choices for run in runs]


def test_the_warm_up_of_a_is_left_out_of_both(folder: Folder) -> None:
    """Both sides leave out the warm-up of A, whatever warm-up the campaign file of B sets.

    So runs with equal steps have equal speeds.
    """
    folder.campaign("warmup: 0\nrepeats: 2\n", lambda planned: 1.0, name="cold")
    folder.campaign("warmup: 8\nrepeats: 2\n", lambda planned: 1.0, name="warm")
    for path in (folder.path / "results").glob("*/*/attempt-1/output.log"):
        # The median with the first steps differs from the median without them.
        times = [9.0] * 7 + [1.0] * 3
        lines = (
            LINE.format(step=step, seconds=step_seconds)
            for step, step_seconds in enumerate(times, 1)
        )
        path.write_text("".join(lines))
    for pair in (("cold.yaml", "warm.yaml"), ("results/warm", "cold.yaml")):
        (comparison,) = folder.compared(*pair)
        assert comparison["ratio"] == pytest.approx(1.0)


def test_a_campaign_is_not_compared_with_itself(folder: Folder) -> None:
    """A campaign and its own results folder are refused, because both are always equal."""
    folder.campaign("repeats: 2\n", lambda planned: 1.0)
    for other in ("made-up.yaml", "results/made-up"):
        done = folder.teralog("compare", "made-up.yaml", other)
        assert done.exit_code == 1
        assert "have the same runs" in done.stderr
