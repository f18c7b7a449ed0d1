"""Reading YAML files as people mean them: no duplicate keys, no `6:00:00` that becomes a number."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import UserError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """safe_load with YAML 1.2's plain scalars, and an error where a key stands twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attribute)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


# YAML 1.1 reads 6:00:00 as 21600, `on` as true and 1e-4 as text; 1.2's core schema does not.
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(f"^(?:{_pattern})$"),
        ["" if first == "\0" else first for first in _first],
    )


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """Return the mapping in the file at `path`; `what` names its kind ("a campaign file").

    Raises UserError where it cannot be read, is no YAML (with the line), or holds no mapping with
    text keys.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of {what}") from None
    try:
        data = yaml.load(text, _Loader)  # noqa: S506  (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: {what} is a mapping, as `name: my-campaign`")
    return data
