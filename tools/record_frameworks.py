"""Write docs/reference/frameworks.md and the README's table of frameworks, by `make record`."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from orchestrator.common.validation import field_types
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.table import FRAMEWORKS

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "reference" / "frameworks.md"
README = ROOT / "README.md"

_HEAD = "| framework | what it runs |\n|---|---|\n"
_TABLE = re.compile(rf"(?<={re.escape(_HEAD)})(\|.*\n)+")


def document() -> str:
    """Return a page with every framework and the parameters that only it has."""
    sections = [
        f"## {known.name}\n\n{known.description[0].upper()}{known.description[1:]}.\n\n"
        "| parameter | values | default | meaning |\n|---|---|---|---|\n" + "".join(_rows(known))
        for known in FRAMEWORKS.values()
    ]
    head = (
        "# Frameworks and their parameters\n\n"
        "`make record` writes this page from the types that check campaign files.\n"
        "[campaign-file.md](campaign-file.md) has the parameters of all frameworks.\n"
    )
    return "\n".join([head, *sections])


def with_table(readme: str) -> str:
    """Return the README with a row for each framework in its table."""
    rows = "".join(f"| `{known.name}` | {known.description} |\n" for known in FRAMEWORKS.values())
    return _TABLE.sub(lambda table: rows, readme, count=1)


def _rows(known: Framework) -> Iterator[str]:
    for field in dataclasses.fields(known.options):
        schema = TypeAdapter(field_types(known.options)[field.name]).json_schema()
        required = field.default is field.default_factory is dataclasses.MISSING
        default = "required" if required else _text(field.default)
        yield f"| `{field.name}` | {_values(schema)} | {default} | {schema['description']} |\n"


def _values(schema: dict[str, Any]) -> str:
    """Return the values that fit a parameter: each of a few, or their type."""
    if "anyOf" in schema:
        return _values(next(one for one in schema["anyOf"] if one["type"] != "null"))
    if "enum" in schema:
        return ", ".join(map(_text, schema["enum"]))
    names = {"array": "list", "boolean": "true, false", "object": "mapping", "string": "text"}
    return names.get(schema["type"], schema["type"])


def _text(value: Any) -> str:
    """Return a value as a campaign file has it; nothing if there is none."""
    if value is None or value is dataclasses.MISSING:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def main() -> None:
    """Rewrite both documents."""
    DOCUMENT.write_text(document(), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
