"""Read YAML files as plain data, in which `6:00:00` stays text."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from orchestrator.common.errors import UserError

_TAG = "tag:yaml.org,2002:"
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _refusal(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Loader(_Base):  # type: ignore[misc]
    """A loader for the core schema of YAML 1.2, and for merge keys (`<<`).

    A key that is not a text, or that occurs twice, is an error.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attributes)
    yaml_constructors: dict[str, Any] = {}  # noqa: RUF012
    arguments: frozenset[str] = frozenset()

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """Return a mapping; refuse a key that is not a text, or that occurs twice.

        PyYAML itself accepts any key, and uses the last of several equal keys.
        """
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal("a key is not text", key)
            if key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                raise _refusal(f"the key {key.value!r} is not text; put it in quotes", key)
            if key.value in seen and key.tag != f"{_TAG}merge":
                raise _refusal(f"the key {key.value!r} occurs twice", key)
            seen.add(key.value)
        if self.arguments and isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            node.value = [
                (key, _as_written(value) if key.value in self.arguments else value)
                for key, value in node.value
            ]
        mapping: dict[str, Any] = super().construct_mapping(node, deep)
        return mapping


def _as_written(node: Any, lists: int = 2) -> Any:
    """Return a YAML list in which each number is a text, exactly as the user wrote the number.

    node: the list; a node that is not a list is returned unchanged. lists: how many levels of
    nested lists to convert.
    """
    if not isinstance(node, yaml.SequenceNode) or not lists:
        return node
    # A copy, because an alias also occurs elsewhere.
    parts = [
        yaml.ScalarNode(f"{_TAG}str", part.value, part.start_mark, part.end_mark, part.style)
        if part.tag in _NUMBERS and not part.value.endswith((".inf", ".nan"))
        else _as_written(part, lists - 1)
        for part in node.value
    ]
    return yaml.SequenceNode(node.tag, parts, node.start_mark, node.end_mark, node.flow_style)


def _whole(text: str) -> int:
    value = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) < 100 else 2**63
    if abs(value) >= 2**63:
        raise ValueError(f"{text!r} is too large")
    return value


def _finite(text: str) -> float:
    value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


# YAML 1.1 reads 6:00:00 as 21600, 010 as 8, `on` as true and 1e-4 as text; 1.2's core schema does
# not. For each kind: the pattern, the characters it begins with ("" if it is empty), and its value.
_SCALARS: dict[str, tuple[str, list[str], Callable[[str], Any]]] = {
    "bool": (
        r"true|True|TRUE|false|False|FALSE",
        [*"tTfF"],
        lambda text: text.lower() == "true",
    ),
    "null": (r"~|null|Null|NULL|", [*"~nN", ""], lambda text: None),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+0123456789"], _whole),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        [*"-+.0123456789"],
        _finite,
    ),
    "str": (r"(?s:.*)", [], str),
}


def _scalar(kind: str, pattern: str, convert: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def construct(loader: Any, node: Any) -> Any:
        text = loader.construct_scalar(node)
        if not re.fullmatch(pattern, text):
            raise _refusal(f"{text!r} is not a valid {kind}", node)
        try:
            return convert(text)
        except ValueError as error:
            raise _refusal(str(error), node) from None

    return construct


for _kind, (_pattern, _first, _convert) in _SCALARS.items():
    _Loader.add_constructor(_TAG + _kind, _scalar(_kind, _pattern, _convert))
    if _first:
        _Loader.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"^<<$"), ["<"])
# Mappings and lists are built completely before use, so that one that contains itself is refused.
_Loader.add_constructor(f"{_TAG}map", lambda loader, node: loader.construct_mapping(node, True))
_Loader.add_constructor(f"{_TAG}seq", lambda loader, node: loader.construct_sequence(node, True))
_Loader.add_constructor(None, _Base.construct_undefined)


MAX_NESTING = 200


def read_yaml(path: Path, what: str, *, arguments: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the mapping in the YAML file at `path`.

    what: the kind of file, for error messages, e.g. "a campaign file". arguments: the keys whose
    values are lists of arguments for programs. Numbers in these lists become texts, exactly as they
    are written. All returned values can be written as JSON: printable texts, finite numbers of at
    most 64 bits, lists, mappings with texts as keys. Raises UserError if the file contains anything
    else, or cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of {what}") from None
    if _nesting(text) > MAX_NESTING:
        raise UserError(f"{path}: brackets are nested more than {MAX_NESTING} levels deep")
    try:
        data = _load(text, arguments)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from None
    if data is None:
        raise UserError(f"{path}: is empty; {what} must be a mapping, e.g. `name: my-campaign`")
    if not isinstance(data, dict):
        raise UserError(f"{path}: {what} must be a mapping, e.g. `name: my-campaign`")
    problems = [f"{path}: {problem}" for problem in _unprintable("", data, set())]
    if problems:
        raise UserError(*problems)
    return data


def _load(text: str, arguments: frozenset[str]) -> Any:
    loader = _Loader(text)
    loader.arguments = arguments
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _nesting(text: str) -> int:
    """Return the deepest nesting of brackets in a text; very deep nesting crashes libyaml."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[{\]}]", text))
    return max(itertools.accumulate(steps), default=0)


def _unprintable(where: str, value: Any, seen: set[int]) -> Iterator[str]:
    # A list or mapping that aliases repeat is checked once, or a few lines could take very long.
    if isinstance(value, dict | list):
        if id(value) in seen:
            return
        seen.add(id(value))
    # The content of a file is printed to terminals and written into scripts.
    fault = "contains a control character or a line break"
    if isinstance(value, str):
        if not value.isprintable():
            yield f"{where}: {value!r} {fault}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key.isprintable():
                yield from _unprintable(f"{where}.{key}" if where else key, inner, seen)
            else:
                yield f"{where}: the key {key!r} {fault}" if where else f"the key {key!r} {fault}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            place = where if isinstance(inner, str) else f"{where}[{index}]"
            yield from _unprintable(place, inner, seen)
