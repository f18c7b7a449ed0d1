"""Write the generated pages of docs/reference: keys, parameters, frameworks, commands.

Part of `make record`. The pages are made from the types that validate files, and from click's
commands.
"""

import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from log_fields import log_fields
from pydantic import TypeAdapter

from orchestrator.campaign.file import CampaignFile
from orchestrator.campaign.parameters import CommonParameters
from orchestrator.cli.main import SECTIONS
from orchestrator.common.validation import field_types
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.container import Container
from orchestrator.run.presets import PRESETS

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"

_WIDTH = 100
_TYPE_NAMES = {
    "array": "list",
    "boolean": "`true`, `false`",
    "integer": "integer",
    "number": "number",
    "object": "mapping",
    "string": "text",
}
_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def pages() -> dict[Path, str]:
    """Return the text of every generated page."""
    written = {
        REFERENCE / "campaign-keys.md": campaign_keys(),
        REFERENCE / "cluster-profile-keys.md": cluster_profile_keys(),
        REFERENCE / "frameworks.md": frameworks(),
        REFERENCE / "log-fields.md": log_fields(),
    }
    for title, commands in SECTIONS.items():
        name = title.lower().replace(" ", "-")
        page = REFERENCE / "commands" / f"{name}.md"
        written[page] = commands_page(title, commands)
    return written


def campaign_keys() -> str:
    """Return a page with the keys of a campaign file, its presets, and the common parameters.

    Common parameters are those that runs of every framework have.
    """
    return (
        "# Keys of a campaign file\n\n"
        "<!-- Do not edit: `make record` writes this page from the types of the keys. -->\n\n"
        "[The campaign file](campaign-file.md) explains these keys and shows a complete file.\n\n"
        f"## Keys\n\n{_table('key', CampaignFile)}\n"
        "## Parameters of all frameworks\n\n"
        "These go into `defaults`, `matrix` and `include`. Each framework adds its own:\n"
        "[frameworks](frameworks.md). [Parameters](parameters.md) explains how batch sizes fit\n"
        f"together.\n\n{_table('parameter', CommonParameters)}\n"
        "## Presets\n\n"
        "Values of the parameter `model`. Upper and lower case are equal, except that `18b` and\n"
        "`18B` are different models.\n\n" + _presets()
    )


def cluster_profile_keys() -> str:
    """Return a page with the keys of a cluster profile."""
    return (
        "# Keys of a cluster profile\n\n"
        "<!-- Do not edit: `make record` writes this page from the types of the keys. -->\n\n"
        "[The cluster profile](cluster-profile.md) shows a profile with all these keys.\n\n"
        + _table("key", Cluster)
        + "\nThe mapping `container` has these keys:\n\n"
        + _table("key", Container)
    )


def frameworks() -> str:
    """Return a page with every framework and the parameters that only it has."""
    head = (
        "# Frameworks and their parameters\n\n"
        "<!-- Do not edit: `make record` writes this page from the types of the keys. -->\n\n"
        "This page lists the parameters that only one framework has. [Keys of a campaign\n"
        "file](campaign-keys.md) lists the parameters that all frameworks have. [Notes on\n"
        "frameworks](framework-notes.md) explains what is special about each framework.\n\n"
        "| framework | what it runs |\n|---|---|\n"
    )
    rows = (f"| `{name}` | {framework.description} |\n" for name, framework in FRAMEWORKS.items())
    sections = (_framework_section(framework) for framework in FRAMEWORKS.values())
    return head + "".join(rows) + "\n" + "\n".join(sections)


def commands_page(title: str, commands: Sequence[click.Command]) -> str:
    """Return a page about some commands, without the commands' help.

    sphinx-click inserts the help when the site is built.
    """
    *most, last = (f"`{command.name}`" for command in commands)
    listed = f"{', '.join(most)} and {last}" if most else last
    directives = "\n".join(
        f".. click:: {_place(command)}\n   :prog: teralog {command.name}\n   :nested: full\n"
        for command in commands
    )
    return (
        f"# Commands: {title}\n\n{_wrapped(f'This page describes the commands {listed}.')}\n"
        "The site shows the text of `--help` here.\n\n"
        f"```{{eval-rst}}\n{directives}```\n"
    )


def _place(command: click.Command) -> str:
    """Return the name by which sphinx-click finds a command: `module:variable`."""
    module = command.callback.__module__
    names = (name for name, value in vars(sys.modules[module]).items() if value is command)
    return f"{module}:{next(names)}"


def _framework_section(framework: Framework) -> str:
    description = framework.description[0].upper() + framework.description[1:]
    table = _table("parameter", framework.options)
    return f"## {framework.name}\n\n{_wrapped(f'{description}.')}\n{table}"


def _presets() -> str:
    head = (
        "| key | layers | hidden size | heads | vocabulary | sequence | 10\\*\\*9 parameters |\n"
        "|---|--:|--:|--:|--:|--:|--:|\n"
    )
    rows = (
        f"| `{key}` | {shape.num_layers} | {shape.hidden_size} | {shape.num_attention_heads} "
        f"| {shape.vocab_size} | {shape.seq_length} "
        f"| {shape.parameters(shape.vocab_size) / 1e9:.4g} |\n"
        for key, shape in PRESETS.items()
    )
    return head + "".join(rows)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def _table(title: str, kind: type) -> str:
    """Return a markdown table with a row per field of a dataclass.

    The columns are the field's name, the values that it accepts, its default, and its meaning.
    title: the title of the first column.
    """
    head = f"| {title} | values | default | meaning |\n|---|---|---|---|\n"
    return head + "".join(_rows(kind))


def _rows(kind: type) -> Iterator[str]:
    for field in dataclasses.fields(kind):
        schema = TypeAdapter(field_types(kind)[field.name]).json_schema()
        required = field.default is field.default_factory is dataclasses.MISSING
        if required:
            default = "" if schema.get("optional") else "required"
        else:
            default = _text(field.default)
        meaning = schema["description"].replace("|", "\\|")
        yield f"| `{field.name}` | {_values(schema)} | {default} | {meaning} |\n"


def _values(schema: dict[str, Any]) -> str:
    """Return a text that lists the values that a key accepts, or their type and limits.

    schema: the JSON schema of the key.
    """
    if "anyOf" in schema:
        accepted = [option for option in schema["anyOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(_values(option) for option in accepted))
    if "enum" in schema:
        return ", ".join(map(_text, schema["enum"]))
    if "const" in schema:
        return _text(schema["const"])
    if "$ref" in schema:
        return "mapping"
    limits = [f"{words} {schema[name]}" for name, words in _LIMITS.items() if name in schema]
    return ", ".join([_TYPE_NAMES[schema["type"]], *limits])


def _text(value: Any) -> str:
    """Return a value as a campaign file contains it, marked as code; an empty text for None."""
    if value is None or value is dataclasses.MISSING:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def main() -> None:
    """Rewrite all generated pages."""
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
