"""Compile the expressions of `exclude` and `--filter`, without using `eval`.

    world_size > 64
    strategy in ["ddp", "zero0"] and precision == "bf16"
    num_microbatches % 4 != 0 or parameters_billions / world_size > 2

Python's own parser reads an expression. Each node of its syntax tree is translated into a closure,
and a node that is not in the tables below is refused. So an expression cannot contain calls,
attributes, subscripts or powers. An absent value is None. Comparisons of None by <, <=, > or >= are
false; None is equal only to None.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.common.errors import UserError, did_you_mean

Values = Mapping[str, Any]
Evaluate = Callable[[Values], Any]

MAX_LENGTH = 1000
# A single =, which is not part of ==, !=, <= or >=.
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITY: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: left in _as_list(right),
    ast.NotIn: lambda left, right: left not in _as_list(right),
}


def compile_expression(text: str, names: Iterable[str]) -> Callable[[Values], bool]:
    """Return a function that evaluates an expression for the values of a run.

    names: the parameters that the expression may contain. Raises UserError if the text contains
    another name, or anything else that is not allowed, e.g. a call. The returned function raises
    UserError if the expression mixes numbers and texts, divides by zero, or has an integer that
    is too large for a float.
    """
    if len(text) > MAX_LENGTH:
        raise UserError(f"the expression is too long; the maximum is {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        evaluate = _translate(tree.body, frozenset(names))
    except SyntaxError as error:
        hint = "; compare values with ==" if _ASSIGNMENT.search(text) else ""
        raise UserError(f"{text!r} is not an expression: {error.msg}{hint}") from None
    except (RecursionError, MemoryError, ValueError):
        raise UserError(f"{text!r} is not a valid expression") from None

    def holds(values: Values) -> bool:
        try:
            return bool(evaluate(values))
        except ZeroDivisionError:
            raise UserError(f"{text!r} divides by zero") from None
        except TypeError:
            raise UserError(f"{text!r} mixes numbers and texts") from None
        except OverflowError:
            raise UserError(f"{text!r} contains a number that is too large") from None

    return holds


def places_where(option: str, expression: str, rows: Sequence[Values]) -> list[int]:
    """Return the indices, from 0, of the rows for which the user's expression is true.

    option: the command-line option with this expression, e.g. `--filter`, for error messages. The
    expression may contain any name that is a key of some row. Raises UserError if the expression
    is not valid, cannot be computed for the values of a row, or is true for no row.
    """
    try:
        holds = compile_expression(expression, {name for row in rows for name in row})
        places = [place for place, row in enumerate(rows) if holds(row)]
    except UserError as error:
        value = expression.strip()
        name = next((name for row in rows for name in row if str(row[name]) == value), None)
        hint = f"; did you mean \"{name} == '{value}'\"?" if name else ""
        raise UserError(*(f"{option}: {problem}{hint}" for problem in error.problems)) from None
    if not places:
        raise UserError(f"{option}: {expression!r} matches no run")
    return places


def _translate(node: ast.expr, names: frozenset[str]) -> Evaluate:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            value = node.value
            return lambda values: value
        case ast.Name(id=name):
            if name not in names:
                raise UserError(f"there is no parameter {name!r}{did_you_mean(name, names)}")
            return lambda values: values.get(name)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = [_translate(element, names) for element in elements]
            return lambda values: [part(values) for part in parts]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _translate(operand, names)
            return lambda values: not inner(values)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _arithmetic(operator.sub, lambda values: 0, _translate(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _arithmetic(
                _ARITHMETIC[type(op)], _translate(left, names), _translate(right, names)
            )
        case ast.BoolOp(op=op, values=operands):
            parts = [_translate(operand, names) for operand in operands]
            combine = all if isinstance(op, ast.And) else any
            return lambda values: combine(part(values) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _comparison([_translate(part, names) for part in (left, *comparators)], ops)
    raise UserError(
        f"{ast.unparse(node)!r} is not allowed in an expression: write parameters, numbers, "
        "quoted texts, lists, + - * / // %, comparisons, in, and, or, not"
    )


def _arithmetic(apply: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(values: Values) -> Any:
        a, b = left(values), right(values)
        return None if a is None or b is None else apply(_number(a), _number(b))

    return evaluate


def _comparison(parts: list[Evaluate], ops: list[ast.cmpop]) -> Evaluate:
    def evaluate(values: Values) -> bool:
        left = parts[0](values)
        for op, part in zip(ops, parts[1:], strict=True):
            right = part(values)
            if not _compare(op, left, right):
                return False
            left = right
        return True

    for op in ops:
        if type(op) not in _ORDER and type(op) not in _EQUALITY:
            raise UserError("an expression can compare only with == != < <= > >= in and not in")
    return evaluate


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    if type(op) in _EQUALITY:
        return _EQUALITY[type(op)](left, right)
    return left is not None and right is not None and _ORDER[type(op)](left, right)


def _number(value: Any) -> Any:
    # Texts and lists would make `"a" * 10**9` a way to fill the memory.
    if not isinstance(value, (int, float)):
        raise TypeError
    return value


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value
