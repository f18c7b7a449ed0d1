"""The formats of printed tables: the options that choose one, and the printing."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.options import options
from orchestrator.common.errors import UserError
from orchestrator.common.fitted import fitted_text, wrapped
from orchestrator.common.terminal import show_wide, terminal_width

if TYPE_CHECKING:
    from orchestrator.common.tables import Table

FORMATS = ("text", "markdown", "csv", "json", "latex", "parquet")
FOR_PEOPLE = ("text", "markdown", "latex")
# The names of formats in earlier versions of `parse`.
_EARLIER_NAMES = {"table": "text", "md": "markdown"}


class Format(click.Choice[str]):
    """The type of `--format`: a name in FORMATS, or an earlier name of such a format.

    For example, `md` is an earlier name of `markdown`.
    """

    def __init__(self) -> None:
        """Accept the names in FORMATS."""
        super().__init__(FORMATS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format's name in FORMATS; the user may have typed an earlier name."""
        return str(super().convert(_EARLIER_NAMES.get(value, value), param, ctx))


def check_format(layout: str, *, to_terminal: bool) -> str:
    """Return `layout`, the name of a format in FORMATS, if a table can be written in this format.

    Raises UserError for Parquet if the output is a terminal or if pyarrow is not installed.
    """
    if layout != "parquet":
        return layout
    if to_terminal:
        raise UserError("--format parquet: is not for a terminal; add `> table.parquet`")
    if find_spec("pyarrow") is None:
        raise UserError("--format parquet: needs pyarrow; type: pip install 'teralog[parquet]'")
    return layout


def _format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the value of `--format`; click calls this function before the command starts.

    Raises UserError if the output cannot be written in this format.
    """
    return check_format(value, to_terminal=sys.stdout is not None and sys.stdout.isatty())


def _json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    other = ctx.params["layout"]
    if other not in ("text", "json"):
        raise click.UsageError(f"--json means --format json; remove --json or --format {other}")
    ctx.params["layout"] = "json"


def _wide(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        show_wide()


# `--format` is eager, so that `--json` can read its value.
format_option = options(
    click.option(
        "--format",
        "layout",
        type=Format(),
        default="text",
        show_default=True,
        is_eager=True,
        callback=_format,
        help="Print the table in this format.",
    ),
    click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_json,
        help="The same as --format json.",
    ),
    click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_wide,
        help="Show all columns on a terminal, however narrow it is.",
    ),
)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(_indented(value))


def _indented(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _objects(values: Sequence[dict[str, Any]]) -> str:
    """Return a list as JSON text, with one object per line."""
    lines = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    return f"[\n{lines}\n]" if lines else "[]"


def print_objects(values: Sequence[dict[str, Any]]) -> None:
    """Print a list as JSON, with one object per line."""
    click.echo(_objects(values))


def print_table(
    layout: str,
    table: "Callable[[], Table]",
    records: Callable[[], Sequence[dict[str, Any]]],
    *,
    values: "Callable[[], Table] | None" = None,
    whole: object = None,
    sentences: Iterable[str] = (),
    text: Callable[[], str] | None = None,
) -> None:
    """Print a table in the format `layout`; the arguments are those of `table_text`."""
    made = table_text(
        layout, table, records, values=values, whole=whole, sentences=sentences, text=text
    )
    click.echo(made, nl=False)


def table_text(
    layout: str,
    table: "Callable[[], Table]",
    records: Callable[[], Sequence[dict[str, Any]]],
    *,
    values: "Callable[[], Table] | None" = None,
    whole: object = None,
    sentences: Iterable[str] = (),
    text: Callable[[], str] | None = None,
) -> str | bytes:
    """Return a table as text, or as bytes for Parquet, in the format `layout`, one of FORMATS.

    Several arguments are functions; only those that the format needs are called.

    table: a function that returns the table for people.
    sentences: the lines below the table for people.
    text: a function that returns what the format `text` shows instead of `table` and `sentences`.
    records: a function that returns one object per row, for JSON.
    whole: the JSON value to return instead of `records`.
    values: a function that returns the table for CSV and Parquet; if None, the table is made from
        `records`.
    """
    from orchestrator.common.latex import as_latex, latex_comment
    from orchestrator.common.parquet import as_parquet
    from orchestrator.common.tables import (
        as_csv,
        as_markdown,
        escape_markdown,
        records_table,
    )

    all_values = values or (lambda: records_table(records()))
    match layout:
        case "csv":
            return as_csv(all_values())
        case "parquet":
            return as_parquet(all_values())
        case "markdown":
            paragraphs = (escape_markdown(sentence) for sentence in sentences if sentence)
            lines = "\n\n".join((as_markdown(table()), *paragraphs))
        case "latex":
            comments = (latex_comment(sentence) for sentence in sentences if sentence)
            lines = "\n".join((as_latex(table()), *comments))
        case "json":
            lines = _objects(records()) if whole is None else _indented(whole)
        case _ if text is not None:
            lines = text()
        case _:
            width = terminal_width()
            folded = (line for sentence in sentences for line in wrapped(sentence, width))
            lines = "\n".join((fitted_text(table(), width), *folded))
    return f"{lines}\n"
