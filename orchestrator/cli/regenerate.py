"""The command that computes the TFLOPs of people's tables again."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from orchestrator.cli.shared.formats import print_objects
from orchestrator.cli.shared.options import Positive, json_option
from orchestrator.cli.shared.terminal import complain
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.text import printable

if TYPE_CHECKING:
    from orchestrator.markdown.regenerate.page import Regenerated


@click.command("regenerate-tflops")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--in-place",
    is_flag=True,
    help="Write the changed pages into their files instead of printing them.",
)
@click.option("--diff", is_flag=True, help="Print the changes in the form of a unified diff.")
@click.option(
    "--check", is_flag=True, help="Print the cells that would change; exit with 1 if there are any."
)
@click.option("--seq-length", type=click.IntRange(min=1), help="Tokens per sequence.")
@click.option(
    "--factor",
    type=click.Choice(["3", "4"]),
    default="4",
    show_default=True,
    help="Factor in the formula: 4 if activations are recomputed, otherwise 3.",
)
@click.option(
    "--formula",
    type=click.Choice(["bigscience", "narayanan"]),
    default="bigscience",
    show_default=True,
    help="Convention for the FLOPs of an iteration.",
)
@click.option(
    "--attention",
    type=click.Choice(["causal", "window", "full"]),
    help="Attention keys to count in the FLOPs of published models.  [default: those that the "
    "numbers of the page imply]",
)
@click.option(
    "--decimals",
    type=click.IntRange(0, 6),
    help="Decimals of TFLOPs.  [default: as many as the cell has]",
)
@click.option("--gpu", help="GPU model, for MFU and HFU, e.g. V100-SXM2.")
@click.option(
    "--gpu-peak-tflops", type=Positive(), help="Peak of the GPU in TFLOP/s; replaces that of --gpu."
)
@click.option(
    "--add",
    metavar="mfu,hfu,...",
    default="",
    help="Columns to add: tflops, model_tflops, mfu, hfu, tokens_per_second, samples_per_second.",
)
@click.option(
    "--column",
    "column_names",
    multiple=True,
    metavar="TITLE=NAME",
    help=(
        "The column with the title TITLE contains the quantity NAME, e.g. "
        "'Bsz=micro_batch_size' or 'Dur=step_seconds'."
    ),
)
@json_option("the cells that --check finds")
def regenerate_tflops(
    files: tuple[str, ...],
    *,
    in_place: bool,
    diff: bool,
    check: bool,
    seq_length: int | None,
    factor: str,
    formula: str,
    attention: Literal["causal", "window", "full"] | None,
    decimals: int | None,
    gpu: str | None,
    gpu_peak_tflops: float | None,
    add: str,
    column_names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compute the TFLOPs column of the markdown tables in FILE again.

    The command finds columns by their titles. It changes only the cells that it computes; all
    other bytes stay the same. A line <!-- teralog: seq_length=2048 factor=4 --> in FILE
    overrides the options. The command lists rows that look like results, but that it cannot
    understand. FILE may be - for standard input.
    """
    from orchestrator.markdown.meaning.columns import Meaning, title_key
    from orchestrator.markdown.meaning.settings import Formula, PageSettings
    from orchestrator.markdown.regenerate.page import regenerate, title_keys

    if in_place and (diff or check):
        raise click.UsageError(
            "--in-place: cannot be used with --diff or --check; remove one of them"
        )
    if in_place and "-" in files:
        raise click.UsageError(
            "--in-place: cannot write to standard input; remove --in-place, or name a file"
        )
    if as_json and not check:
        raise click.UsageError("--json prints what would change; add --check")
    given = dict(map(_column_name, column_names))
    settings = PageSettings(
        formula=Formula(formula),
        factor=int(factor),
        attention=attention,
        decimals=decimals,
        gpu=gpu,
        gpu_peak_tflops=gpu_peak_tflops,
        constants={} if seq_length is None else {Meaning.SEQ_LENGTH: seq_length},
        columns={title_key(title): name for title, name in given.items()},
    )
    read: dict[str, tuple[bytes, Regenerated]] = {}
    columns = _columns(add)
    exit_code = 0
    for file in files:
        try:
            data = _read(file)
            made = regenerate(data, settings, columns)
            _tell(file, made)
            read[file] = data, made
            _write(file, data, made, in_place=in_place, diff=diff, check=check, lines=not as_json)
            if not made.tables:
                complain(f"teralog: {file}: has no table")
        except UserError as error:
            exit_code = 1
            for problem in error.problems:
                complain(f"teralog: {file}:{problem}")
        except OSError as error:
            exit_code = 1
            complain(f"teralog: {file}: {error.strerror or error}")
        else:
            if check and made.data != data:
                exit_code = 1
    if as_json:
        print_objects(
            [change for file, (_, made) in read.items() for change in _changes(file, made)]
        )
    titles = {key for data, _ in read.values() for key in title_keys(data)} if given else set()
    unused = [title for title in given if title_key(title) not in titles]
    for title in unused:
        complain(f"teralog: --column: no table has a column {title!r}")
    sys.exit(1 if unused else exit_code)


def _column_name(text: str) -> tuple[str, str]:
    """Split the value of an option --column, TITLE=NAME, into the title and the name."""
    from orchestrator.markdown.meaning.columns import COLUMN_NAMES, title_key

    title, _, name = (part.strip() for part in text.rpartition("="))
    if not title_key(title):
        raise click.BadParameter(
            f"{text!r} is not TITLE=NAME; write e.g. 'Bsz=micro_batch_size'", param_hint="--column"
        )
    if name not in COLUMN_NAMES:
        raise click.BadParameter(
            f"{name!r} is not a quantity of a column{did_you_mean(name, COLUMN_NAMES)}; "
            f"choose one of {', '.join(COLUMN_NAMES)}",
            param_hint="--column",
        )
    return title, name


def _changes(file: str, made: "Regenerated") -> list[dict[str, Any]]:
    """Return the cells of a page whose text would change: one JSON object per cell."""
    return [
        {"file": file, "line": line, "column": title, "before": before or None, "after": after}
        for line, title, before, after in made.changes
    ]


def _columns(add: str) -> Sequence[str]:
    from orchestrator.markdown.regenerate.columns import COMPUTED

    names = [name.strip() for name in add.split(",") if name.strip()]
    for name in names:
        if name not in COMPUTED:
            raise click.BadParameter(
                f"{name!r} is not a column that can be added{did_you_mean(name, COMPUTED)}",
                param_hint="--add",
            )
    return names


def _read(file: str) -> bytes:
    if file != "-":
        return Path(file).read_bytes()
    # Python has no standard input if it was closed before the start.
    if sys.stdin is None:
        raise UserError(" standard input is closed")
    return sys.stdin.buffer.read()


def _tell(file: str, made: "Regenerated") -> None:
    for line, text in made.notes:
        click.echo(printable(f"{file}:{line}: {text}"), err=True)
    for line, text in made.unclear:
        complain(f"{file}:{line}: {text}")


def _write(
    file: str,
    old: bytes,
    made: "Regenerated",
    *,
    in_place: bool,
    diff: bool,
    check: bool,
    lines: bool = True,
) -> None:
    if sys.stdout is None and not in_place:
        raise UserError(" standard output is closed")
    if diff:
        from orchestrator.markdown.document.line_diff import line_diff

        sys.stdout.buffer.writelines(line_diff(old, made.data, file))
    elif check:
        for line, title, before, after in made.changes if lines else ():
            shown = f"{file}:{line}: {title} is {before or 'blank'}, should be {after}"
            click.echo(printable(shown))
    elif not in_place:
        sys.stdout.buffer.write(made.data)
    elif made.data != old:
        from orchestrator.markdown.document.write import overwrite

        overwrite(Path(file), made.data)
    if in_place or check:
        done = "to change" if check else "changed"
        counted = f"rows computed: {made.rows}, cells {done}: {len(made.changes)}"
        new = f", new columns: {made.new_columns}" if made.new_columns else ""
        click.echo(printable(f"{file}: {counted}{new}"), err=True)
