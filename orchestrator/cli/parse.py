"""The command that reads any log."""

import glob
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.common import (
    FOR_PEOPLE,
    complain,
    format_option,
    interruptible,
    print_table,
    results_option,
    slurm_timeout_option,
)
from orchestrator.common.errors import UserError

if TYPE_CHECKING:
    from orchestrator.logs.find import Log
    from orchestrator.logs.read import Found
    from parsers.summary.warmup import Warmup

_SHARDS = 16


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--steps", is_flag=True, help="Give every step report instead of a row per run.")
@format_option
@click.option(
    "--warmup",
    metavar="N|N%|first|auto",
    help="Leave out the first N or N% iterations of each launch, those up to its first report, or "
    "those before the steady state (auto, by the rule MSER-5).  [default: that of the campaign for "
    "a log in its results, else first]",
)
@click.option(
    "--skipped",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    show_default=True,
    help="What becomes of reports with an iteration whose update was skipped.",
)
@click.option(
    "--on-slurm",
    metavar="PROFILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Have jobs of this cluster read the logs, in shards; the same command goes on with them.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    help="Slurm: into how many parts of the same size logs are divided.  [default: 16]",
)
@slurm_timeout_option
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Slurm: where what shards say is kept.  [default: .parse in the folder of results]",
)
@results_option
def parse(
    paths: tuple[str, ...],
    *,
    steps: bool,
    layout: str,
    warmup: str | None,
    skipped: str,
    on_slurm: Path | None,
    shards: int | None,
    work: Path | None,
    results: Path | None,
) -> None:
    """Say what training logs tell: step times, memory, and how each run ended.

    PATH is a file, a folder, a glob, or - for standard input; logs may be compressed. Two logs
    whose names differ in .out and .err only, or in stdout and stderr, are those of one run. Exits
    with 1 where a log cannot be read or says nothing; the others are read nevertheless.

    With --on-slurm what is printed is the same. Ctrl-C leaves the jobs.
    """
    from orchestrator.logs.find import find_logs
    from orchestrator.logs.read import closing_lines, gather_logs, read_logs
    from orchestrator.logs.tables import human_table, json_objects, rows_table
    from orchestrator.store.results_folder import results_folder

    chosen = None if warmup is None else _warmup(warmup)
    found = find_logs(paths)
    if on_slurm is None and (shards or work):
        raise click.UsageError("--shards and --work are for --on-slurm PROFILE")
    keep_skipped = skipped == "keep"
    if on_slurm is not None and found.logs:
        _refuse_unreadable(paths)
        folder = work or (results or results_folder(Path.cwd())) / ".parse"
        said = _read_on_slurm(
            found.logs, chosen, on_slurm, folder, keep_skipped=keep_skipped, count=shards
        )
        read = gather_logs(found.logs, said)
    else:
        with _progress(found.logs) as tell:
            read = read_logs(found.logs, chosen, keep_skipped=keep_skipped, tell=tell)
    if read.summaries or layout not in FOR_PEOPLE:
        print_table(
            layout,
            lambda: human_table(read.summaries, steps=steps),
            lambda: json_objects(read.summaries, steps=steps),
            values=lambda: rows_table(read.summaries, steps=steps),
        )
    if read.summaries:
        for line in closing_lines(read, keep_skipped=keep_skipped):
            click.echo(line, err=True)
    problems = (*found.problems, *read.problems)
    for problem in problems:
        complain(f"teralog: {problem}")
    if problems:
        sys.exit(1)


def _refuse_unreadable(paths: tuple[str, ...]) -> None:
    """Raise UserError for names that lead nowhere: no job is to wait in a queue for that."""
    names = [path for path in paths if path != "-" and not glob.has_magic(path)]
    missing = [path for path in names if not Path(path).exists()]
    if missing:
        raise UserError(*(f"{path}: is not there" for path in missing))


def _warmup(text: str) -> "Warmup":
    from parsers.summary.warmup import Warmup

    try:
        return Warmup.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--warmup") from error


def _read_on_slurm(
    logs: "Sequence[Log]",
    warmup: "Warmup | None",
    profile: Path,
    work: Path,
    *,
    keep_skipped: bool,
    count: int | None,
) -> "list[Found]":
    from orchestrator.hardware.cluster import load_cluster
    from orchestrator.logs.archive.on_slurm import read_on_slurm
    from orchestrator.logs.archive.shards import Reader, code_fingerprint

    cluster = load_cluster(str(profile), Path())
    if cluster.scheduler != "slurm":
        raise UserError(f"--on-slurm: the cluster {cluster.name!r} is this machine")
    reader = Reader(
        folder=Path.cwd(), warmup=warmup, keep_skipped=keep_skipped, code=code_fingerprint()
    )

    def tell(sentence: str) -> None:
        click.echo(sentence, err=True)

    stopped = (
        "stopped; the jobs go on, and the same command waits for them again: scancel ends them"
    )
    with interruptible(stopped):
        return read_on_slurm(logs, reader, cluster, work, count=count or _SHARDS, tell=tell)


@contextmanager
def _progress(logs: "Sequence[Log]") -> "Iterator[Callable[[Log], None]]":
    """Show on a terminal how many logs have been read, of how many bytes, and for how long."""
    if not sys.stderr.isatty():
        yield lambda log: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

    size = sum(log.path.stat().st_size for log in logs if log.path.is_file())
    columns = (SpinnerColumn(), *Progress.get_default_columns()[:2])
    with Progress(
        *columns,
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        task = display.add_task(f"reading {decimal(size)} of logs", total=len(logs))
        yield lambda log: display.advance(task)
