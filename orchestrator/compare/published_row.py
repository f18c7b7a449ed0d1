"""Compare runs with a row of a published table, which counts as one run."""

import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.errors import MAX_LISTED, UserError
from orchestrator.common.text import counted, printable
from orchestrator.compare.measured_run import MeasuredRun
from orchestrator.compare.pairing import Kind, Pairing, kinds
from orchestrator.markdown.meaning.benchmark_pages import read_page
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow, RowNumber
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.units import Quantity

_WITH_LINE = re.compile(r"(?P<file>.+\.md):(?P<line>[0-9]+)")
# Pages round the number of parameters to a label such as 18B.
_SIZE_TOLERANCE = 0.1


def is_published(path: str) -> bool:
    """Return whether a path names a markdown page, or a row of a page in the form `page.md:14`."""
    return path.endswith(".md") or _WITH_LINE.fullmatch(path) is not None


def published_pairings(runs: Sequence[MeasuredRun], path: str) -> tuple[list[Pairing], list[str]]:
    """Pair the runs of each configuration with the row of a page that has the same sizes.

    Also returns the labels of the configurations for which the page has no such row. Raises
    UserError if the page cannot be read, if no configuration has such a row, or if a configuration
    has several such rows.
    """
    file, rows = _rows(path)
    pairings, alone, problems = [], [], []
    for kind in kinds(runs):
        fitting = [row for row in rows if not _differing(kind, row)]
        if len(fitting) > 1:
            lines = ", ".join(f"{file}:{row.line}" for row in fitting[:MAX_LISTED])
            problems.append(
                f"{kind.label}: {counted(len(fitting), 'row')} have the sizes of this run; "
                f"give one of these rows: {lines}"
            )
        elif fitting:
            pairings.append(_pairing(kind, file, fitting[0]))
        else:
            alone.append(kind.label)
    if not pairings and not problems:
        problems = [_nothing_fits(kind, file, rows) for kind in kinds(runs)]
    if problems:
        raise UserError(*problems)
    return pairings, alone


def _rows(path: str) -> tuple[str, list[BenchmarkRow]]:
    """Return the name of a page's file, and the rows of its tables that contain a speed.

    A speed is a time per iteration or a rate. If `path` names a row, only that row is returned.
    Raises UserError if the page cannot be read, if no row contains a speed, or if the named row
    does not exist.
    """
    with_line = _WITH_LINE.fullmatch(path)
    file = Path(with_line["file"] if with_line else path)
    try:
        tables = read_page(file.read_bytes()).tables
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    rows = [row for table in tables for row in table.rows if not row.has_extra_cells]
    if with_line:
        rows = [row for row in rows if row.line == int(with_line["line"])]
        if not rows:
            raise UserError(
                f"{path}: this line is not a row of a table; give the number of another line, "
                "or only the page"
            )
    rows_with_speed = [row for row in rows if _pace(row)]
    if not rows_with_speed:
        raise UserError(
            f"{path}: contains no time per iteration and no rate (e.g. samples/s); give a page or "
            "a row that contains a time or a rate"
        )
    return printable(str(file)), rows_with_speed


def _pace(row: BenchmarkRow) -> tuple[Quantity, RowNumber] | None:
    wanted = (
        Quantity.STEP_SECONDS,
        Quantity.SAMPLES_PER_SECOND,
        Quantity.TOKENS_PER_SECOND,
        Quantity.ITERATIONS_PER_SECOND,
    )
    paces = {quantity: number for quantity, number in reversed(row.paces) if number.printed.value}
    return next(((quantity, paces[quantity]) for quantity in wanted if quantity in paces), None)


def _differing(kind: Kind, row: BenchmarkRow) -> list[str]:
    """Return a text for each size that differs between a configuration and a published row.

    Numbers of parameters count as different if they are more than 10 % apart. A size that the
    configuration or the row lacks is ignored.
    """
    pairings = []
    for meaning, number in row.numbers.items():
        ours = kind.size(meaning.value)
        if not isinstance(ours, int) or isinstance(ours, bool):
            continue
        theirs = float(number.printed.value)
        tolerance = _SIZE_TOLERANCE * ours if meaning is Meaning.PARAMETERS else 0
        if abs(ours - theirs) > tolerance:
            pairings.append(f"{meaning.value} {theirs:,.0f} instead of {ours:,}")
    return pairings


def _nothing_fits(kind: Kind, file: str, rows: Sequence[BenchmarkRow]) -> str:
    nearest = min(rows, key=lambda row: len(_differing(kind, row)))
    differing = ", ".join(_differing(kind, nearest))
    return (
        f"{kind.label}: no row has the sizes of this run; {file}:{nearest.line} is nearest, "
        "but has " + differing
    )


def _pairing(kind: Kind, file: str, row: BenchmarkRow) -> Pairing:
    title = f"{file}:{row.line} {row.name}"
    seconds = _seconds(kind, row)
    published = MeasuredRun(
        run_id="",
        label=title,
        values=kind.runs[0].values,
        state="PUBLISHED",
        outcome=None if seconds is None else RunOutcome.COMPLETED,
        step_seconds=() if seconds is None else (seconds,),
    )
    numbers = tuple(
        number.value for number in row.numbers if isinstance(kind.size(number.value), int)
    )
    return Pairing(
        kind.label, title, kind.runs, (published,), repeatable=False, stated_sizes=numbers
    )


def _seconds(kind: Kind, row: BenchmarkRow) -> float | None:
    """Return the seconds per step of a published row; None if they are not known.

    A rate, e.g. tokens per second, is converted with the global batch of the runs. So the result is
    also None if the row has a rate, but the runs do not have the sizes to convert it.
    """
    quantity, number = _pace(row) or (None, None)
    if quantity is None or number is None:
        return None
    value = float(number.printed.value)
    if quantity is Quantity.STEP_SECONDS:
        return value
    run = kind.runs[0]
    done = {
        Quantity.SAMPLES_PER_SECOND: run.values.get("global_batch_size"),
        Quantity.TOKENS_PER_SECOND: run.tokens,
        Quantity.ITERATIONS_PER_SECOND: 1,
    }[quantity]
    gpus = run.values["world_size"] if number.per_gpu else 1
    return done / (value * gpus) if done else None
