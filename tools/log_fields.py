"""Build the page that lists the fields of log formats.

The fields of declared formats come from their declarations. The tool `record_reference` calls this
module.
"""

import re

from parsers.formats.declared.declaration import Declaration, DeclarationReader, Field
from parsers.formats.table import ALL_FORMATS, DECLARED

_HEAD = """# Fields of log formats

<!-- Do not edit: `make record` writes this page from the declarations of the formats. -->

This page shows how `teralog parse` reads each format. [Log formats](log-formats.md) lists all
programs.

`parse` searches a log for the words in the second column. A line with one of these words is a
report if it has all fields that the format needs. For each field, the table shows the words before
its value, the field's name, and the number by which `parse` divides the value. For example,
`time` step_seconds / 1,000 means that the value after `time` is in milliseconds. If the words
before a value are not enough to find it, `…` is the place of the value between two texts.

| format | searched for | fields |
|---|---|---|
"""


def log_fields() -> str:
    """Return a page with each declared format and its fields, and the names of other formats."""
    declared = [
        log_format.parse.declaration
        for log_format in DECLARED
        if isinstance(log_format.parse, DeclarationReader)
    ]
    names = {declaration.name for declaration in declared}
    others = sorted(log_format.name for log_format in ALL_FORMATS if log_format.name not in names)
    rows = "".join(map(_row, declared))
    return f"{_HEAD}{rows}\nEach of these formats has its own code:\n\n" + "".join(
        f"- {other}\n" for other in others
    )


def _row(declaration: Declaration) -> str:
    words = ", ".join(f"`{_escaped(anchor.decode().strip())}`" for anchor in declaration.anchors)
    fields = ", ".join(
        f"{_label(field)} {field.name}{_factor(field)}{' (needed)' if field.needed else ''}"
        for field in declaration.fields
    )
    return f"| {declaration.name} | {words} | {fields} |\n"


def _label(field: Field) -> str:
    """Return the text that precedes a field's value in a log, as markdown code for a table.

    If this text has no letters, the text after the value is added. Then the result has the
    form

        `before` … `after`
    """
    look_behind = re.sub(r"\(\?(?:<?[!=])(?:[^()]|\([^()]*\))*\)", "", field.before)
    before = _words(look_behind)
    if any(map(str.isalpha, before)):
        return before
    after = (
        field.after.removeprefix("(?=").removesuffix(")") if "(?=" in field.after else field.after
    )
    return f"{before} … {_words(after)}"


def _words(pattern: str) -> str:
    r"""Convert a regular expression to readable text, as markdown code for a table.

    For example, `\.` becomes `.`.
    """
    text = re.sub(r"\\(.)", r"\1", pattern.replace(" +", " ").replace("(?:", "("))
    return "`" + _escaped(text).strip(" ,") + "`"


def _escaped(text: str) -> str:
    """Return a text with each `|` escaped, because a `|` would end a cell of a markdown table."""
    return text.replace("|", r"\|")


def _factor(field: Field) -> str:
    if 0 < field.scale < 1:
        return f" / {round(1 / field.scale):,}"
    return "" if field.scale == 1 else f" * {field.scale:g}"
