"""The command that reads any log."""

import glob
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.estimate import model_options
from orchestrator.cli.shared.formats import FOR_PEOPLE, format_option, print_table
from orchestrator.cli.shared.options import Positive, results_option, slurm_timeout_option
from orchestrator.cli.shared.terminal import complain, interruptible
from orchestrator.common.errors import UserError
from orchestrator.common.fitted import wrapped
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import printable
from orchestrator.workloads.precision import PRECISIONS

if TYPE_CHECKING:
    from rich.progress import Progress

    from orchestrator.logs.archive.shards import Reader
    from orchestrator.logs.figures import Given
    from orchestrator.logs.find import FoundLogs, Log
    from orchestrator.logs.read import LogContent
    from parsers.summary.launches import Configured
    from parsers.summary.warmup import Warmup

_SHARDS = 16


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--steps", is_flag=True, help="Print a row per step report instead of a row per run.")
@format_option
@click.option(
    "--warmup",
    metavar="N|N%|first|auto",
    help="Iterations to leave out at the beginning of each launch: N, N%, first (up to the first "
    "report) or auto (before the steady state, by the rule MSER-5).  [default: for a "
    "log in a folder of results, the warm-up of its campaign; else first]",
)
@click.option(
    "--skipped",
    type=click.Choice(["drop", "keep"]),
    default="drop",
    show_default=True,
    help="Drop or keep reports that contain an iteration with a skipped update.",
)
@click.option(
    "--unparsed",
    is_flag=True,
    help="Print only the lines that look like step reports and could not be parsed.",
)
@click.option(
    "--global-batch-size",
    type=click.IntRange(min=1),
    help="Sequences per iteration, if the log does not state this number. Values in the log "
    "override this option and the options below, up to --gpu-peak-tflops.",
)
@click.option("--world-size", type=click.IntRange(min=1), help="Number of GPUs.")
@model_options
@click.option(
    "--activation-checkpointing/--no-activation-checkpointing",
    default=None,
    help="Layers run forward twice, to save memory.",
)
@click.option("--gpu", help="GPU model, for MFU.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), help="Precision of the matrix products, for MFU."
)
@click.option(
    "--gpu-peak-tflops",
    type=Positive(),
    help="Dense peak in TFLOP/s of a GPU that teralog does not know.",
)
@click.option(
    "--on-slurm",
    metavar="PROFILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read the logs in shards, with jobs on the cluster of this profile; to continue, run the "
    "same command again.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    help="Slurm: number of shards of about equal size.  [default: 16]",
)
@slurm_timeout_option
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Slurm: folder for the results of shards.  [default: .parse in the folder of results]",
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
    unparsed: bool,
    **options: Any,
) -> None:
    """Read training logs: step times, TFLOPs, memory, and how each run ended.

    PATH is a file, a folder, a tar archive, a glob, or - for standard input; all may be compressed
    with gzip, Zstandard, xz or bzip2. Two logs whose names differ only in .out and .err, or in
    stdout and stderr, are the logs of one run. Exits with 1 if a log cannot be read or contains no
    training output; the others are read nevertheless.

    With --on-slurm, Ctrl-C leaves the jobs running.
    """
    from orchestrator.logs.closing import closing_lines
    from orchestrator.logs.find import find_logs
    from orchestrator.logs.read import gather_logs, read_logs
    from orchestrator.logs.tables import human_table, json_objects, rows_table
    from orchestrator.store.results_folder import results_folder

    chosen = None if warmup is None else _warmup(warmup)
    unpack_into = click.get_current_context().with_resource(_temporary_folder())
    with _progress_of_archives() as tell_archive:
        logs = find_logs(paths, unpack_into, tell_archive)
    if on_slurm is None and (shards or work):
        raise click.UsageError("--shards and --work need --on-slurm PROFILE; add it")
    if unparsed:
        if on_slurm is not None:
            raise click.UsageError("--unparsed cannot be used with --on-slurm; remove one of them")
        _print_unparsed(logs, layout)
        return
    given = _given(options)
    keep_skipped, configured = skipped == "keep", given.configured
    if on_slurm is not None and logs.logs:
        _refuse_unreadable(paths)
        folder = work or (results or results_folder(Path.cwd())) / ".parse"
        reader = _reader(chosen, keep_skipped=keep_skipped, configured=configured)
        contents = _read_on_slurm(logs.logs, reader, on_slurm, folder, count=shards)
        read = gather_logs(logs.logs, contents)
    else:
        with _progress(logs.logs) as tell:
            read = read_logs(
                logs.logs, chosen, keep_skipped=keep_skipped, configured=configured, tell=tell
            )
    if read.summaries or layout not in FOR_PEOPLE:
        print_table(
            layout,
            lambda: human_table(read.summaries, given, steps=steps),
            lambda: json_objects(read.summaries, given, steps=steps),
            values=lambda: rows_table(read.summaries, given, steps=steps),
        )
    if read.summaries:
        width = terminal_width(sys.stderr)
        for sentence in closing_lines(read, given, keep_skipped=keep_skipped):
            click.echo("\n".join(wrapped(printable(sentence), width)), err=True)
    problems = (*logs.problems, *read.problems)
    for problem in problems:
        complain(f"teralog: {problem}")
    if problems:
        sys.exit(1)


def _print_unparsed(search: "FoundLogs", layout: str) -> None:
    """Print the lines of logs that look like step reports but cannot be parsed.

    In the format `text`, a line is printed as `log:line number: text of the line`. Exits with 1 if
    a path does not exist or a log cannot be read.
    """
    from orchestrator.logs.unparsed import unparsed_records

    problems = list(search.problems)
    records = unparsed_records(search.logs, problems)
    if layout == "text":
        printed = False
        for record in records:
            printed = True
            click.echo(printable(f"{record['path']}:{record['line']}: {record['text']}"))
        if not printed and search.logs:
            click.echo("all lines that look like step reports were parsed", err=True)
    else:
        from orchestrator.common.tables import records_table

        listed = list(records)
        print_table(layout, lambda: records_table(listed), lambda: listed)
    for problem in problems:
        complain(f"teralog: {problem}")
    if problems:
        sys.exit(1)


def _given(options: dict[str, Any]) -> "Given":
    """Return the values of the user's options, to use if a log does not contain these values.

    Raises UserError if the preset of a model is not known.
    """
    from dataclasses import fields

    from orchestrator.estimate.case import given_shape
    from orchestrator.logs.figures import Given
    from orchestrator.run.shape import ModelShape

    names = {field.name for field in fields(ModelShape)}
    return Given(
        global_batch_size=options["global_batch_size"],
        world_size=options["world_size"],
        model=options["model"] or (options["config"] and str(options["config"])),
        shape=given_shape(options),
        sizes={name: size for name, size in options.items() if name in names and size is not None},
        vocab_size_multiple=options["vocab_size_multiple"],
        recomputed=options["activation_checkpointing"],
        gpu=options["gpu"],
        precision=options["precision"],
        peak_tflops=options["gpu_peak_tflops"],
    )


def _refuse_unreadable(paths: tuple[str, ...]) -> None:
    """Raise UserError if paths do not exist, before a job is submitted to read them."""
    names = [path for path in paths if path != "-" and not glob.has_magic(path)]
    missing = [path for path in names if not Path(path).exists()]
    if missing:
        raise UserError(*(f"{path}: does not exist" for path in missing))


def _warmup(text: str) -> "Warmup":
    from parsers.summary.warmup import Warmup

    try:
        return Warmup.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--warmup") from error


def _reader(warmup: "Warmup | None", *, keep_skipped: bool, configured: "Configured") -> "Reader":
    from orchestrator.logs.archive.shards import Reader, code_fingerprint

    return Reader(
        folder=Path.cwd(),
        warmup=warmup,
        keep_skipped=keep_skipped,
        configured=configured,
        code=code_fingerprint(),
    )


def _read_on_slurm(
    logs: "Sequence[Log]", reader: "Reader", profile: Path, work: Path, *, count: int | None
) -> "list[LogContent]":
    from orchestrator.hardware.cluster import load_cluster
    from orchestrator.logs.archive.on_slurm import read_on_slurm

    cluster = load_cluster(str(profile), Path())
    if cluster.scheduler != "slurm":
        raise UserError(
            f"--on-slurm: the cluster {cluster.name!r} is this machine; give the profile of a "
            "Slurm cluster, or remove --on-slurm"
        )

    def tell(sentence: str) -> None:
        click.echo(sentence, err=True)

    stopped = (
        "stopped waiting; the jobs continue. Run the same command to wait for them again, or end "
        "them with scancel"
    )
    with interruptible(stopped):
        return read_on_slurm(logs, reader, cluster, work, count=count or _SHARDS, tell=tell)


def _bytes_of(log: "Log") -> int:
    """Return the size of a log; a file that cannot be read has size 0."""
    return sum(_size(part) if isinstance(part, Path) else part.size for part in log.files)


def _size(path: Path) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202


@contextmanager
def _temporary_folder() -> "Iterator[Path]":
    """Yield a temporary folder for the logs of compressed archives; remove it after the block."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="teralog-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def _progress_of_archives() -> "Iterator[Callable[[Path], Callable[[int], None]]]":
    """Show on a terminal how many bytes of a compressed archive have been unpacked.

    Yields a function. Before you read an archive, call this function with the archive's path. It
    returns a function for the number of bytes that were read, to be called after each read.
    """
    with _progress_bar() as display:
        if display is None:
            yield lambda path: lambda count: None
            return
        task = display.add_task("", visible=False)

        def tell(path: Path) -> "Callable[[int], None]":
            text = printable(f"unpacking {path.name}")
            display.reset(task, description=text, total=_size(path) or None, visible=True)
            return advance

        def advance(count: int) -> None:
            if count:  # most reads take bytes that were read from the disk before
                display.advance(task, count)

        yield tell


@contextmanager
def _progress(logs: "Sequence[Log]") -> "Iterator[Callable[[int], None]]":
    """Show on a terminal how many bytes of the logs have been read, and the remaining time.

    Yields a function. After each read from a log, call this function with the number of bytes
    that were read.
    """
    with _progress_bar() as display:
        if display is None:
            yield lambda count: None
            return
        text = "reading 1 log" if len(logs) == 1 else f"reading {len(logs):,} logs"
        task = display.add_task(text, total=sum(map(_bytes_of, logs)) or None)
        yield lambda count: display.advance(task, count)


@contextmanager
def _progress_bar() -> "Iterator[Progress | None]":
    """Show a bar with the bytes that were read; yield None if there is no terminal for it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    with Progress(
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", max_width=30),
        ),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        yield display
