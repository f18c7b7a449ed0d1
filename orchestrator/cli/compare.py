"""The commands that test whether one group of runs is faster, and show the sources of noise."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.shared.arguments import campaign_argument
from orchestrator.cli.shared.formats import format_option, print_table
from orchestrator.cli.shared.opened_campaign import open_campaign, refresh_records
from orchestrator.cli.shared.options import results_option, slurm_timeout_option
from orchestrator.cli.shared.terminal import complain
from orchestrator.common.errors import UserError

if TYPE_CHECKING:
    from orchestrator.compare.measured_run import MeasuredRun
    from orchestrator.compare.pairing import Pairing
    from orchestrator.compare.text import Compared
    from parsers.summary.warmup import Warmup


class Percent(click.ParamType[float]):
    """The type of options whose value is a percentage from 0 to below 100, e.g. 5%."""

    name = "percent"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the user's text to a fraction of 1, e.g. 5% to 0.05."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(?P<percent>[0-9]{1,2}(?:\.[0-9]+)?)%", str(value))
        if match is None:
            self.fail(f"{value!r} is not a percentage below 100; write e.g. 5%", param, ctx)
        return float(match["percent"]) / 100


@click.command()
@click.argument("a", metavar="[A]", required=False)
@click.argument("b", metavar="[B]", required=False)
@click.option(
    "--by",
    metavar="PARAMETER",
    help="Compare runs of A that differ only in this parameter, e.g. micro_batch_size.",
)
@click.option(
    "--a",
    "expression_a",
    metavar="EXPRESSION",
    help="Expression that chooses the runs of A, e.g. 'world_size > 8'.",
)
@click.option(
    "--b",
    "expression_b",
    metavar="EXPRESSION",
    help="Expression that chooses the runs of B, the baseline.",
)
@click.option(
    "--fail-if-slower",
    type=Percent(),
    metavar="PERCENT",
    help="Exit with 1 if A is certainly slower than B by more than this percentage, e.g. 5%.",
)
@results_option
@slurm_timeout_option
@format_option
def compare(
    a: str | None,
    b: str | None,
    *,
    by: str | None,
    expression_a: str | None,
    expression_b: str | None,
    fail_if_slower: float | None,
    results: Path | None,
    layout: str,
) -> None:
    """Test whether A is faster or slower than B, the baseline.

    A and B are campaign files or folders of results; B may also be a published table (page.md) or a
    row of it (page.md:14). If B is not given, choose which runs of A to compare: use --by, or --a
    and --b. A run counts once, however many steps it has. Runs that share an allocation are
    compared within the allocation.
    """
    from orchestrator.compare.pairing import by_parameter
    from orchestrator.compare.published_row import is_published, published_pairings
    from orchestrator.compare.text import (
        all_sentences,
        compared,
        comparison_record,
        verdict_table,
    )
    from orchestrator.store.campaign_files import only_campaign_file

    if a is None:
        found_here = only_campaign_file()
        click.echo(f"campaign: {found_here}", err=True)
        a = str(found_here)
    _refuse_misuse(a, b, by, expression_a, expression_b)
    side = _side(a, results)
    runs = side.runs
    if by:
        pairings, alone = by_parameter(runs, _known(by, runs))
    else:
        chosen = _holding("--a", expression_a, runs)
        if b and is_published(b):
            pairings, alone = published_pairings(chosen, b)
        else:
            other = _side(b, results, side.warmup) if b else side
            if b and other.folder == side.folder and not (expression_a or expression_b):
                raise UserError(
                    f"{a} and {b} have the same runs, in {side.folder}: "
                    "give --by, or both --a and --b"
                )
            others = _holding("--b", expression_b, other.runs)
            pairings, alone = _matched(chosen, others, _names(a, b) if b else None)
    comparisons = [compared(pairing) for pairing in pairings]
    print_table(
        layout,
        lambda: verdict_table(comparisons),
        lambda: [comparison_record(compared) for compared in comparisons],
        sentences=all_sentences(comparisons),
    )
    if alone:
        reason = (
            "no row of B has the same sizes"
            if b and is_published(b)
            else "the other side has no run that differs only in the compared parameters"
        )
        complain(f"not compared: {', '.join(alone)}; {reason}")
    if fail_if_slower is not None:
        _fail_if_slower(comparisons, fail_if_slower)


@click.command()
@campaign_argument
@results_option
@slurm_timeout_option
@format_option
def noise(campaign: Path, results: Path | None, layout: str) -> None:
    """Show how much the runs of CAMPAIGN vary in speed, and what causes the variation."""
    from orchestrator.compare.measured_run import measured_runs
    from orchestrator.compare.noise import noise_page, noise_record, noise_sentences, noise_table

    loaded, store = open_campaign(campaign, results)
    refresh_records(loaded, store)
    page = noise_page(measured_runs(loaded, store))
    record = noise_record(page)
    print_table(
        layout,
        lambda: noise_table(page),
        lambda: record["sources"],
        whole=record,
        sentences=noise_sentences(page),
    )


def _refuse_misuse(
    a: str, b: str | None, by: str | None, expression_a: str | None, expression_b: str | None
) -> None:
    """Raise UsageError if the arguments of `compare` choose no runs, or contradict each other."""
    from orchestrator.compare.published_row import is_published

    if is_published(a):
        raise click.UsageError(
            "A must be a campaign or a folder of results; give the published table as B"
        )
    if b and is_published(b) and expression_b:
        raise click.UsageError(
            "--b: cannot be used with a published table; remove it, or choose a row of the table, "
            "e.g. page.md:14"
        )
    if by and (b or expression_a or expression_b):
        raise click.UsageError("--by compares the runs of A with each other; remove B, --a and --b")
    if not (by or b or (expression_a and expression_b)):
        raise click.UsageError(
            "nothing to compare with; give B, or --by PARAMETER, or both --a and --b"
        )


def _matched(
    chosen: "Sequence[MeasuredRun]",
    others: "Sequence[MeasuredRun]",
    names: tuple[str, str] | None,
) -> "tuple[list[Pairing], list[str]]":
    """Return pairings of runs of A with runs of B, and labels of configurations without a partner.

    chosen, others: the runs of A and of B. names: the names of their two campaigns; None if all
    runs are of one campaign. Raises UserError if a run is on both sides, or if no runs can be
    paired.
    """
    from orchestrator.compare.pairing import matched

    both = [run.label for run in chosen if any(run is other for other in others)]
    if both:
        raise UserError(
            f"--a and --b: both choose the same run, e.g. {both[0]}; change one expression so "
            "that it does not match this run"
        )
    pairings, alone = matched(chosen, others)
    if not pairings:
        raise UserError(
            "no run of A can be compared with a run of B, because other parameters differ, "
            "too; compare the parameters that `teralog plan` shows for both"
        )
    return [_named(pairing, names) for pairing in pairings], alone


def _named(pairing: "Pairing", names: tuple[str, str] | None) -> "Pairing":
    """Return the pairing with different names for its sides A and B.

    names: the names of the two campaigns, which are put before the names of the sides, e.g.
    `before: zero3` and `after: zero3`. None if both sides are of one campaign. Then, if A and B
    have the same name, they become e.g. `A: zero3` and `B: zero3`.
    """
    from dataclasses import replace

    if names is None and pairing.title != pairing.baseline:
        return pairing
    a, b = names or ("A", "B")
    return replace(pairing, title=f"{a}: {pairing.title}", baseline=f"{b}: {pairing.baseline}")


def _names(a: str, b: str) -> tuple[str, str]:
    """Return the names of two campaigns; if the names are equal, return the two paths as given."""
    return (a, b) if _name(a) == _name(b) else (_name(a), _name(b))


def _name(path: str) -> str:
    """Return the name of a campaign, given the path of its campaign file or of its results folder.

    The result is the name of the file without its suffix, or the whole name of the folder.
    """
    return Path(path).absolute().name if Path(path).is_dir() else Path(path).stem


@dataclass(frozen=True, slots=True)
class _Side:
    """A or B of a comparison: its runs, their warm-up, and their results folder."""

    runs: "list[MeasuredRun]"
    warmup: "Warmup"
    folder: Path


def _side(path: str, results: Path | None, warmup: "Warmup | None" = None) -> _Side:
    """Return the runs of a campaign file or of a results folder as A or B of a comparison.

    path: the file or the folder. results: the value of `--results`, or None. warmup: the warm-up
    to leave out of the runs; None for the warm-up of their own campaign.
    """
    from dataclasses import replace

    from orchestrator.compare.measured_run import measured_runs, recorded_runs
    from orchestrator.store.campaign_store import CampaignStore
    from orchestrator.store.recorded_runs import warmup_of

    if Path(path).is_dir():
        store = CampaignStore(Path(path).resolve())
        used_warmup = warmup or warmup_of(store)
        return _Side(recorded_runs(store.path, used_warmup), used_warmup, store.path)
    loaded, store = open_campaign(Path(path), results)
    refresh_records(loaded, store)
    used_warmup = warmup or loaded.warmup
    runs = measured_runs(replace(loaded, warmup=used_warmup), store)
    return _Side(runs, used_warmup, store.path.resolve())


def _known(name: str, runs: "Sequence[MeasuredRun]") -> str:
    from orchestrator.common.errors import did_you_mean

    names = {name for run in runs for name in run.values}
    if name not in names:
        raise UserError(f"--by: unknown parameter {name!r}{did_you_mean(name, names)}")
    return name


def _holding(
    option: str, expression: str | None, runs: "Sequence[MeasuredRun]"
) -> "list[MeasuredRun]":
    """Return the runs that match the user's expression; all runs if the user gave no expression.

    option: the option of the expression, `--a` or `--b`, for error messages.
    """
    from orchestrator.common.expressions import places_where

    if expression is None:
        return list(runs)
    return [runs[place] for place in places_where(option, expression, [run.values for run in runs])]


def _fail_if_slower(comparisons: "Sequence[Compared]", part: float) -> None:
    """Exit with 1 if A is too slow in a comparison, or if the speed of A or B is unknown.

    A is too slow if it is certainly slower than B by more than `part`, a fraction of B's speed,
    e.g. 0.05 for 5 %. The reasons are printed first.
    """
    slower = [compared for compared in comparisons if compared.comparison.is_slower_by(part)]
    missing = [compared for compared in comparisons if not compared.is_measured]
    for compared in slower:
        a, b = compared.pairing.title, compared.pairing.baseline
        complain(f"{a}: is slower than {b} by more than {100 * part:.3g}%")
    for compared in missing:
        complain(
            f"{compared.pairing.title}: has no speed to compare with {compared.pairing.baseline}"
        )
    if slower or missing:
        sys.exit(1)
