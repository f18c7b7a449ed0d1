"""Define the values that the interpreter computes for a program's expressions."""

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orchestrator.frameworks.options.modules import Module


class _Unknown:
    """The value of an expression that only the program itself can compute."""

    def __repr__(self) -> str:
        return "UNKNOWN"


class _Parser:
    """An argument parser of the program, or a group of its options."""

    def __repr__(self) -> str:
        return "PARSER"


UNKNOWN: Final = _Unknown()
PARSER: Final = _Parser()


@dataclass(frozen=True, slots=True)
class External:
    """A name from a package outside of the checkout, e.g. `argparse.BooleanOptionalAction`."""

    name: str


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module or package by its dotted name, e.g. `megatron.core`."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function or lambda of the checkout, with the variables of the code that contains it."""

    module: "Module"
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    around: Any = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the checkout."""

    module: "Module"
    node: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enumeration."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Factory:
    """An ArgumentGroupFactory of Megatron, which adds one option for each field of a dataclass.

    fields_of: the dataclass.
    exclude: the names of the fields for which it adds no option.
    """

    fields_of: Class
    exclude: frozenset[str]
