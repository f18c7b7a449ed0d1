"""Record what a program accepts on its command line, from the source of its argument parser.

For programs that cannot be imported here, as those of 2021: record_options_of_parsers.py asks the
parsers of those that can.

    python tools/record_options_of_source.py NAME --program TEXT --source URL ARGUMENTS.py…

writes orchestrator/frameworks/known_options/NAME.json. Nothing of the program is run or imported:
every call of `add_argument` is read from the syntax tree. A value that is computed there (choices
from an enumeration, a type that is a function) is left open: such an option takes any text. Options
made from the fields of a dataclass are not found.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent.parent / "orchestrator" / "frameworks" / "known_options"
TYPES = ("int", "float", "str")
# What deepspeed.add_config_arguments adds to a parser, in every version since 0.3.
DEEPSPEED: dict[str, dict[str, Any]] = {
    "--deepspeed": {"values": 0},
    "--deepspeed_config": {},
    "--deepscale": {"values": 0},
    "--deepscale_config": {},
    "--deepspeed_mpi": {"values": 0},
}


def options(source: str) -> dict[str, dict[str, Any]]:
    """Return what each option takes that the Python text `source` adds to a parser, sorted."""
    found: dict[str, dict[str, Any]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "add_argument":
                found.update(_added(node))
            elif node.func.attr == "add_config_arguments":
                found.update(DEEPSPEED)
    return dict(sorted(found.items()))


def _added(call: ast.Call) -> Iterator[tuple[str, dict[str, Any]]]:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    takes: dict[str, Any] = {}
    action = ast.unparse(given["action"]).strip("'\"") if "action" in given else "store"
    negatable = action.endswith("BooleanOptionalAction")
    if action.startswith("store_") or negatable:
        takes["values"] = 0
    elif (values := _literal(given.get("nargs"))) is not None:
        takes["values"] = values
    kind = ast.unparse(given["type"]) if "type" in given else None
    if kind in TYPES and takes.get("values") != 0:
        takes["type"] = kind
    if choices := [one for one in _literal(given.get("choices")) or () if one is not None]:
        takes["choices"] = choices
    if _literal(given.get("required")):
        takes["required"] = True
    for name in map(_literal, call.args):
        if isinstance(name, str) and name.startswith("-"):
            yield name, takes
            if negatable:
                yield f"--no-{name.removeprefix('--')}", takes


def _literal(node: ast.expr | None) -> Any:
    """Return the value of a literal, or of a range of literals; None where it is computed."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
        return list(range(*map(ast.literal_eval, node.args)))
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def main() -> None:
    """Write the record that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--program", required=True, help="the program and its version, for people")
    parser.add_argument("--source", required=True, help="the address of the parser's source")
    parser.add_argument(
        "--note", help="how it was read, where that is not from the source as it is"
    )
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    for path in asked.files:
        found.update(options(path.read_text()))
    record: dict[str, Any] = {"program": asked.program, "source": asked.source}
    if asked.note:
        record["note"] = asked.note
    record["options"] = found
    RECORDS.joinpath(f"{asked.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {len(found)} options", file=sys.stderr)


if __name__ == "__main__":
    main()
