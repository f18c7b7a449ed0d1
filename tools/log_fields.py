"""Build the page that lists the fields of log formats.

The fields of declared formats come from their declarations. The tool `record_reference` calls this
module.
"""

from collections import Counter
from collections.abc import Iterable
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from parsers.formats.declared.declaration import Declaration, Field
from parsers.formats.table import ALL_FORMATS, DECLARED

_HEAD = """# Fields of log formats

<!-- Do not edit: `make record` writes this page from the declarations of the formats. -->

This page shows how `teralog parse` reads each format. [Log formats](log-formats.md) lists all
programs.

`parse` searches a log for the words in the second column. A line with one of these words is a
report if it has all fields that the format needs. Each field is shown as `words` name: the value
follows the words in the log, and is read as the field with this name. For example, `loss:` loss
means that the loss follows `loss:`. If a program has several forms of the words, the table shows
one of them.

- **/ 1,000** means that `parse` divides the value by 1,000, e.g. because it is in milliseconds.
- **`dt:` … `ms`** means that the value is between the two texts.
- **(needed)** means that a line without this field is not a report.

| format | searched for | fields |
|---|---|---|
"""


def log_fields() -> str:
    """Return a page with each declared format and its fields, and the names of other formats."""
    declared = [
        log_format.parse for log_format in DECLARED if isinstance(log_format.parse, Declaration)
    ]
    names = {declaration.name for declaration in declared}
    others = sorted(log_format.name for log_format in ALL_FORMATS if log_format.name not in names)
    rows = "".join(map(_row, declared))
    return f"{_HEAD}{rows}\nEach of these formats has its own code:\n\n" + "".join(
        f"- {other}\n" for other in others
    )


def _row(declaration: Declaration) -> str:
    words = ", ".join(f"`{_escaped(anchor.decode().strip())}`" for anchor in declaration.anchors)
    begins = Counter(_example(field.before) for field in declaration.fields)
    fields = ", ".join(
        f"{_label(field, begins)} {field.name}{_factor(field)}{' (needed)' if field.needed else ''}"
        for field in declaration.fields
    )
    return f"| {declaration.name} | {words} | {fields} |\n"


def _label(field: Field, begins: Counter[str]) -> str:
    """Return the text before a field's value in a log, as markdown code for a table.

    begins: how many fields of the format have the same text before their value. If there are
    several, or if the text has no letters, the text after the value is added: `before` … `after`.
    """
    before = _example(field.before)
    label = f"`{_escaped(before).strip(' ,')}`"
    if begins[before] == 1 and any(map(str.isalpha, before)):
        return label
    after = field.after
    if after.startswith("(?="):
        after = after.removeprefix("(?=").removesuffix(")")
    shown = _escaped(_example(after)).strip(" ,")
    return f"{label} … `{shown}`" if shown else label


def _example(pattern: str) -> str:
    r"""Return a short text that matches a regular expression, e.g. `tps: ` for `[tw]ps: +`.

    It leaves out what is optional, and takes the first of several alternatives.
    """
    return _text_of(parser.parse(pattern))


def _text_of(parsed: Iterable[tuple[Any, Any]]) -> str:
    text = ""
    for kind, value in parsed:
        match str(kind), value:
            case "LITERAL", code:
                text += chr(code)
            case "IN", [first, *_]:
                text += _text_of([first])
            case "RANGE", (low, _):
                text += chr(low)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (least, _, inner):
                text += least * _text_of(inner)
            case "SUBPATTERN", (*_, inner):
                text += _text_of(inner)
            case "BRANCH", (_, [first, *_]):
                text += _text_of(first)
    return text


def _escaped(text: str) -> str:
    """Return a text with each `|` escaped, because a `|` would end a cell of a markdown table."""
    return text.replace("|", r"\|")


def _factor(field: Field) -> str:
    if 0 < field.scale < 1:
        return f" / {round(1 / field.scale):,}"
    return "" if field.scale == 1 else f" * {field.scale:g}"
