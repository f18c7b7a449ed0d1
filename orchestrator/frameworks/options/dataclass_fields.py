"""Find the options that Megatron's ArgumentGroupFactory makes from the fields of a dataclass.

This class of Megatron adds one option to a parser for each field, except for excluded fields.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.frameworks.options.interpreter import Interpreter
from orchestrator.frameworks.options.modules import Module
from orchestrator.frameworks.options.values import UNKNOWN, Class, Factory

Takes = dict[str, Any]
_DEPTH = 10


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of a dataclass in parsed source: its name, type, default and module."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    keywords: dict[str, ast.expr]
    module: Module


def fields_of(interpreter: Interpreter, cls: Class, depth: int = _DEPTH) -> dict[str, FieldOf]:
    """Return the fields of a dataclass by name: first those of its base classes, then its own."""
    fields: dict[str, FieldOf] = {}
    for base in reversed(interpreter.bases(cls) if depth else []):
        if isinstance(base, Class):
            fields.update(fields_of(interpreter, base, depth - 1))
    for statement in cls.node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if "ClassVar" in ast.unparse(statement.annotation):
            continue
        name, default, keywords = statement.target.id, statement.value, {}
        if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("field"):
            keywords = {part.arg: part.value for part in default.keywords if part.arg}
            default = keywords.get("default")
        fields[name] = FieldOf(name, statement.annotation, default, keywords, cls.module)
    return fields


def factory_options(
    interpreter: Interpreter, factory: Factory
) -> Iterator[tuple[list[str], Takes]]:
    """Yield the options that an ArgumentGroupFactory of Megatron makes from a dataclass.

    Each item is a pair: the names of an option, and the keywords of its `add_argument` call.
    """
    for field in fields_of(interpreter, factory.fields_of).values():
        init = field.keywords.get("init")
        if field.name in factory.exclude or (
            init is not None and interpreter.value(init, {}, field.module) is False
        ):
            continue
        yield _option(interpreter, field)


def _option(interpreter: Interpreter, field: FieldOf) -> tuple[list[str], Takes]:
    def of(node: ast.expr) -> Any:
        return interpreter.value(node, {}, field.module)

    default = UNKNOWN if field.default is None else of(field.default)
    factory = field.keywords.get("default_factory")
    if factory is not None:
        default = interpreter.called(of(factory), [], {})
    takes: Takes = {"default": default, **_type(interpreter, field.annotation, field.module)}
    names = [_name(field.name)]
    if takes.get("type") is bool:
        del takes["type"]
        takes["action"] = "store_true" if default is False else "store_false"
        if takes["action"] == "store_false":
            names = [_name(f"no_{field.name}"), _name(f"disable_{field.name}")]
    takes["dest"] = field.name
    metadata = of(field.keywords["metadata"]) if "metadata" in field.keywords else {}
    meta = metadata.get("argparse_meta", {}) if isinstance(metadata, dict) else {}
    takes.update(meta if isinstance(meta, dict) else {})
    return takes.pop("arg_names", names), takes


def _name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _type(interpreter: Interpreter, annotation: ast.expr, module: Module) -> Takes:
    """Return the keywords `type`, `nargs` and `choices` of `add_argument` for a field's annotation.

    The result is empty if the annotation's form is not supported.
    """
    match annotation:
        case ast.Constant(value=str(text)):
            return _type(interpreter, ast.parse(text, mode="eval").body, module)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _type(interpreter, left, module) if _is_none(right) else {}
        case ast.Subscript(value=base, slice=inside):
            return _generic(interpreter, ast.unparse(base), inside, module)
    value = interpreter.value(annotation, {}, module)
    if isinstance(value, Class) and interpreter.is_enumeration(value):
        # The values of an enumeration are given by their names.
        return {"choices": list(interpreter.members(value))}
    return {"type": value} if isinstance(value, type) else {}


def _generic(interpreter: Interpreter, base: str, inside: ast.expr, module: Module) -> Takes:
    parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    match base.rpartition(".")[2]:
        case "Optional":
            return _type(interpreter, inside, module)
        case "Union" if len(parts) > 1 and _is_none(parts[1]):
            return _type(interpreter, parts[0], module)
        case "List" | "list" if len(parts) == 1:
            return {**_type(interpreter, parts[0], module), "nargs": "+"}
        case "Literal":
            choices = [interpreter.value(part, {}, module) for part in parts]
            return {"type": type(choices[0]), "choices": choices}
    return {}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
