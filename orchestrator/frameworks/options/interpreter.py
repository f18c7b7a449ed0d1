"""Find the options that a program adds to its parser, by following its code without running it.

The interpreter computes only the expressions that such code needs: calls that pass on a parser,
literals, operations on literals, loops over literals, and classes that are enumerations or
dataclasses. The value of any other expression is `UNKNOWN`. If the condition of an `if` is unknown,
the interpreter follows both branches, because another machine may take the other branch.
"""

import ast
import builtins
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from orchestrator.frameworks.options.modules import Module, Modules
from orchestrator.frameworks.options.values import (
    PARSER,
    UNKNOWN,
    Class,
    External,
    Factory,
    Function,
    Member,
    ModuleName,
)

Names = dict[str, Any]
# The largest depth of calls, and the largest number of rounds of a loop, that are followed.
_DEPTH, _ROUNDS = 40, 1000
_BUILTINS = ("list", "tuple", "set", "frozenset", "dict", "range", "sorted", "str", "int", "float",
             "bool", "len", "min", "max", "enumerate", "zip", "reversed", "sum", "abs")  # fmt: skip
_PURE_METHODS: Mapping[Any, tuple[str, ...]] = {
    str: ("replace", "lower", "upper", "format", "split", "strip", "join", "removeprefix",
          "removesuffix", "lstrip", "rstrip", "capitalize", "title", "startswith", "endswith"),
    list: ("append", "extend", "insert", "remove", "copy", "index"),
    tuple: ("index",),
    set: ("add", "update", "union", "discard", "copy"),
    dict: ("keys", "values", "items", "get", "update", "copy", "pop"),
}  # fmt: skip
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitOr: operator.or_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
_BIGGEST = 10_000


class Interpreter:
    """Follows the functions of a checkout, and calls `on_option` for each option that they add."""

    def __init__(
        self,
        modules: Modules,
        on_option: Callable[[list[Any], Names, "Interpreter", Module], None],
        on_call: Callable[[str, list[Any], Names], None],
        options_of: Callable[["Interpreter", Factory], Iterable[tuple[list[str], Names]]],
    ) -> None:
        """Prepare to follow the code of the modules.

        on_option: is called for each `add_argument` call, with its names and keywords.
        on_call: is called if the code calls a function from outside of the checkout, and this
            function returns a parser or has one as argument. Its arguments are the function's
            name and the function's arguments.
        options_of: returns the options that an ArgumentGroupFactory of Megatron makes: for each
            option, its names and keywords.
        """
        self.modules = modules
        self._on_option, self._on_call, self._options_of = on_option, on_call, options_of
        self._stack: list[ast.AST] = []
        self._looked_up: dict[tuple[int, str], Any] = {}

    # --- names -----------------------------------------------------------------------------

    def name_in(self, module: Module, name: str) -> Any:
        """Return the value of a name in a module; UNKNOWN if it has several values or none."""
        key = (id(module), name)
        if key not in self._looked_up:
            self._looked_up[key] = UNKNOWN  # at first: a name that depends on itself has no value
            self._looked_up[key] = self._computed_name(module, name)
        return self._looked_up[key]

    def _computed_name(self, module: Module, name: str) -> Any:
        values = [
            self._binding(module, name, statement) for statement in module.bindings.get(name, ())
        ]
        certain = [value for value in values if not isinstance(value, External)] or values
        if not values:
            for statement in module.bindings.get("*", ()):
                if isinstance(statement, ast.ImportFrom):
                    source = self.modules.find(self._imported_module(module, statement))
                    if source is not None and (value := self.name_in(source, name)) is not UNKNOWN:
                        return value
            return getattr(builtins, name, UNKNOWN) if name in _BUILTINS else UNKNOWN
        first = certain[0]
        return first if all(_same(first, value) for value in certain[1:]) else UNKNOWN

    def _binding(self, module: Module, name: str, statement: ast.stmt) -> Any:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(module, statement)
            case ast.ClassDef():
                return Class(module, statement)
            case ast.Import() | ast.ImportFrom():
                return dict(self._imports(module, statement)).get(name, UNKNOWN)
            case ast.Assign() | ast.AnnAssign():
                names: Names = {}
                self._assign_statement(statement, names, module)
                return names.get(name, UNKNOWN)
        return UNKNOWN

    def _imported_module(self, module: Module, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = module.package.split(".") if module.package else []
        above = parts[: len(parts) - (statement.level - 1)]
        return ".".join([*above, *([statement.module] if statement.module else [])])

    def _imports(
        self, module: Module, statement: ast.Import | ast.ImportFrom
    ) -> Iterator[tuple[str, Any]]:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or whole, self._module_value(whole)
            return
        source = self._imported_module(module, statement)
        for alias in statement.names:
            if alias.name != "*":
                yield alias.asname or alias.name, self._member(source, alias.name)

    def _module_value(self, name: str) -> Any:
        return ModuleName(name) if self.modules.is_package(name) else External(name)

    def _member(self, module_name: str, name: str) -> Any:
        if not self.modules.is_package(module_name):
            return External(f"{module_name}.{name}")
        source = self.modules.find(module_name)
        if source is not None and name in source.bindings:
            return self.name_in(source, name)
        if self.modules.is_package(f"{module_name}.{name}"):
            return ModuleName(f"{module_name}.{name}")
        return UNKNOWN if source is None else self.name_in(source, name)

    # --- statements ------------------------------------------------------------------------

    def run(self, body: list[ast.stmt], names: Names, module: Module) -> tuple[bool, Any]:
        """Follow statements. Return whether they always end the function, and the returned value.

        A `return` or a `raise` ends the function. The value is UNKNOWN if it cannot be computed.
        """
        value: Any = UNKNOWN
        for statement in body:
            ended, returned = self._statement(statement, names, module)
            if returned is not UNKNOWN:
                value = returned
            if ended:
                return True, value
        return False, value

    def _statement(  # noqa: PLR0912
        self, statement: ast.stmt, names: Names, module: Module
    ) -> tuple[bool, Any]:
        match statement:
            case ast.Return():
                value = statement.value
                return True, None if value is None else self.value(value, names, module)
            case ast.Expr():
                self.value(statement.value, names, module)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign_statement(statement, names, module)
            case ast.Import() | ast.ImportFrom():
                names.update(self._imports(module, statement))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names[statement.name] = Function(module, statement, names)
            case ast.ClassDef():
                names[statement.name] = Class(module, statement)
            case ast.If():
                test = self.value(statement.test, names, module)
                if isinstance(test, bool | int | str | list | tuple | dict | type(None)):
                    return self.run(statement.body if test else statement.orelse, names, module)
                return self._branches([statement.body, statement.orelse], names, module)
            case ast.Try():
                handlers = [handler.body for handler in statement.handlers]
                ended, value = self._branches(
                    [[*statement.body, *statement.orelse], *handlers], names, module
                )
                after = self.run(statement.finalbody, names, module)
                return (True, value) if ended else after if after[0] else (False, value)
            case ast.With() | ast.AsyncWith():
                return self.run(statement.body, names, module)
            case ast.For():
                return self._loop(statement, names, module)
            case ast.While():
                return False, self.run(statement.body, names, module)[1]
            case ast.Raise():
                return True, UNKNOWN
        return False, UNKNOWN

    def _branches(
        self, bodies: list[list[ast.stmt]], names: Names, module: Module
    ) -> tuple[bool, Any]:
        """Follow each of several branches with its own copy of the variables.

        Afterwards, merge the copies: a variable keeps its value if it is the same after all
        branches; otherwise it becomes UNKNOWN. The copies of branches that end the function are
        left out. Return whether all branches end the function, and the returned value.
        """
        before, results, ends, value = dict(names), [], [], UNKNOWN
        for body in bodies:
            own = {
                name: list(kept) if isinstance(kept, list) else kept
                for name, kept in before.items()
            }
            ended, returned = self.run(body, own, module)
            ends.append(ended)
            value = value if returned is UNKNOWN or returned is None else returned
            if not ended:
                results.append(own)
        names.clear()
        for name in dict.fromkeys(itertools.chain.from_iterable(results)):
            held = [own.get(name, UNKNOWN) for own in results]
            names[name] = held[0] if all(_same(held[0], other) for other in held) else UNKNOWN
        if not results:
            names.update(before)
        return all(ends), value

    def _loop(self, loop: ast.For, names: Names, module: Module) -> tuple[bool, Any]:
        values = self._items(self.value(loop.iter, names, module))
        for value in [UNKNOWN] if values is None else values[:_ROUNDS]:
            self._assign(loop.target, value, names)
            self.run(loop.body, names, module)
        return False, UNKNOWN

    def _assign_statement(
        self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, names: Names, module: Module
    ) -> None:
        if isinstance(statement, ast.AugAssign):
            left = self.value(_loaded(statement.target), names, module)
            right = self.value(statement.value, names, module)
            value = _operated(statement.op, left, right)
            self._assign(statement.target, value, names)
        elif statement.value is not None:
            value = self.value(statement.value, names, module)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                self._assign(target, value, names)

    def _assign(self, target: ast.expr, value: Any, names: Names) -> None:
        match target:
            case ast.Name():
                names[target.id] = value
            case ast.Attribute():
                names[ast.unparse(target)] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = self._items(value)
                if items is None or len(items) != len(parts):
                    items = [UNKNOWN] * len(parts)
                for part, item in zip(parts, items, strict=True):
                    self._assign(part, item, names)

    # --- expressions -----------------------------------------------------------------------

    def value(self, node: ast.expr, names: Names, module: Module) -> Any:  # noqa: PLR0912
        """Return the value of an expression; UNKNOWN if it cannot be computed."""

        def of(part: ast.expr) -> Any:
            return self.value(part, names, module)

        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return names[node.id] if node.id in names else self.name_in(module, node.id)
            case ast.Attribute():
                text = ast.unparse(node)
                return names[text] if text in names else self.attribute(of(node.value), node.attr)
            case ast.Call():
                return self._call(node, names, module)
            case ast.List() | ast.Tuple() | ast.Set():
                items = list(self._elements(node.elts, names, module))
                return tuple(items) if isinstance(node, ast.Tuple) else items
            case ast.Dict():
                return self._dictionary(node, names, module)
            case ast.JoinedStr():
                parts = [of(part) for part in node.values]
                return UNKNOWN if UNKNOWN in parts else "".join(map(str, parts))
            case ast.FormattedValue():
                value = of(node.value)
                return str(value) if isinstance(value, str | int | float) else UNKNOWN
            case ast.BinOp():
                return _operated(node.op, of(node.left), of(node.right))
            case ast.UnaryOp():
                value = of(node.operand)
                if isinstance(node.op, ast.Not):
                    return not value if _is_plain(value) else UNKNOWN
                if isinstance(node.op, ast.USub) and isinstance(value, int | float):
                    return -value
            case ast.Compare(ops=[only], comparators=[right]):
                return _operated(only, of(node.left), of(right))
            case ast.BoolOp():
                return self._and_or(node, of)
            case ast.IfExp():
                return self._either(node, of)
            case ast.Lambda():
                return Function(module, node, names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, names, module)
            case ast.Subscript():
                return self._item(of(node.value), of(node.slice))
            case ast.Starred():
                return of(node.value)
        return UNKNOWN

    @staticmethod
    def _and_or(node: ast.BoolOp, of: Callable[[ast.expr], Any]) -> Any:
        value: Any = UNKNOWN
        for part in node.values:
            value = of(part)
            if not _is_plain(value):
                return UNKNOWN
            if bool(value) == isinstance(node.op, ast.Or):
                return value
        return value

    @staticmethod
    def _either(node: ast.IfExp, of: Callable[[ast.expr], Any]) -> Any:
        test = of(node.test)
        if _is_plain(test):
            return of(node.body if test else node.orelse)
        branches = [of(node.body), of(node.orelse)]
        callables = [branch for branch in branches if isinstance(branch, Function)]
        # e.g. `add_modelopt_args if has_nvidia_modelopt else None`
        return callables[0] if len(callables) == 1 and None in branches else UNKNOWN

    def _elements(self, parts: list[ast.expr], names: Names, module: Module) -> Iterator[Any]:
        for part in parts:
            value = self.value(part, names, module)
            if isinstance(part, ast.Starred):
                items = self._items(value)
                yield from [UNKNOWN] if items is None else items
            else:
                yield value

    def _dictionary(self, node: ast.Dict, names: Names, module: Module) -> Any:
        made: dict[Any, Any] = {}
        for key, part in zip(node.keys, node.values, strict=True):
            value = self.value(part, names, module)
            if key is None:
                if not isinstance(value, dict):
                    return UNKNOWN
                made.update(value)
                continue
            name = self.value(key, names, module)
            if not _is_plain(name) or isinstance(name, list | dict):
                return UNKNOWN
            made[name] = value
        return made

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: Names, module: Module
    ) -> Any:
        if len(node.generators) != 1:
            return UNKNOWN
        (generator,) = node.generators
        items = self._items(self.value(generator.iter, names, module))
        if items is None:
            # The result is unknown, but evaluating an element may add options to a parser.
            own = dict(names)
            self._assign(generator.target, UNKNOWN, own)
            self.value(node.elt, own, module)
            return UNKNOWN
        made = []
        for item in items[:_ROUNDS]:
            own = dict(names)
            self._assign(generator.target, item, own)
            tests = [self.value(test, own, module) for test in generator.ifs]
            if not all(map(_is_plain, tests)):
                return UNKNOWN
            if all(tests):
                made.append(self.value(node.elt, own, module))
        return made

    def _items(self, value: Any) -> list[Any] | None:
        """Return the items that a loop over a value would visit; None if they are unknown."""
        if isinstance(value, Class):
            return [*self.members(value).values()] if self.is_enumeration(value) else None
        if isinstance(value, list | tuple | set | frozenset | dict | range | str) or (
            hasattr(value, "__next__") or type(value).__name__.startswith("dict_")
        ):
            return list(itertools.islice(value, _BIGGEST))
        return None

    def _item(self, value: Any, key: Any) -> Any:
        if isinstance(value, Class) and isinstance(key, str):
            return self.members(value).get(key, UNKNOWN)
        if isinstance(value, dict | list | tuple | str) and _is_plain(key):
            with suppress(LookupError, TypeError):
                return value[key]
        return UNKNOWN

    def attribute(self, value: Any, name: str) -> Any:
        """Return the attribute `name` of a value; UNKNOWN if it cannot be computed."""
        match value:
            case ModuleName():
                return self._member(value.name, name)
            case External():
                return External(f"{value.name}.{name}")
            case Member():
                return {"name": value.name, "value": value.value}.get(name, UNKNOWN)
            case Class():
                if self.is_enumeration(value):
                    members = self.members(value)
                    return members if name == "__members__" else members.get(name, UNKNOWN)
                if name == "__name__":
                    return value.node.name
                for statement in value.node.body:
                    if name in dict.fromkeys(_class_names(statement)):
                        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                            return self.value(statement.value, {}, value.module)
                        if isinstance(statement, ast.FunctionDef):
                            return Function(value.module, statement)
        return UNKNOWN

    # --- classes ---------------------------------------------------------------------------

    def bases(self, of: Class) -> list[Any]:
        """Return the base classes of a class; UNKNOWN in place of each that cannot be found."""
        return [self.value(base, {}, of.module) for base in of.node.bases]

    def is_enumeration(self, cls: Class, depth: int = 5) -> bool:
        """Return whether a class inherits from a class of the module `enum`, e.g. `enum.Enum`."""
        return depth > 0 and any(
            (isinstance(base, External) and base.name.startswith("enum."))
            or (isinstance(base, Class) and self.is_enumeration(base, depth - 1))
            for base in self.bases(cls)
        )

    def members(self, of: Class) -> dict[str, Member]:
        """Return the members of an enumeration, by name."""
        members: dict[str, Member] = {}
        numbers = itertools.count(1)
        for statement in of.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=written) if name[:1] != "_":
                    value = self.value(written, {}, of.module)
                    members[name] = Member(name, next(numbers) if value is UNKNOWN else value)
        return members

    def is_a(self, cls: Class, method: str, depth: int = 5) -> bool:
        """Return whether a class, or one of its base classes, defines a method called `method`."""
        return depth > 0 and (
            any(isinstance(part, ast.FunctionDef) and part.name == method for part in cls.node.body)
            or any(
                isinstance(base, Class) and self.is_a(base, method, depth - 1)
                for base in self.bases(cls)
            )
        )

    # --- calls -----------------------------------------------------------------------------

    def _call(self, node: ast.Call, names: Names, module: Module) -> Any:
        base: Any = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, names, module)
        arguments = list(self._elements(node.args, names, module))
        keywords: Names = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, names, module)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords.update(value)
        if base is PARSER and isinstance(node.func, ast.Attribute):
            return self._parser_call(node.func.attr, arguments, keywords, module)
        if isinstance(base, Factory) and isinstance(node.func, ast.Attribute):
            return self._factory_call(base, arguments, keywords)
        if isinstance(node.func, ast.Attribute) and type(base) in _PURE_METHODS:
            return _method(base, node.func.attr, arguments, keywords)
        function = self.value(node.func, names, module)
        return self.called(function, arguments, keywords)

    def called(self, function: Any, arguments: list[Any], keywords: Names) -> Any:
        """Return the value of a call; UNKNOWN if it cannot be computed.

        Functions that add options usually return their parser. So if the value cannot be computed
        and the call gets a parser, the result is the parser.
        """
        match function:
            case External():
                last = function.name.rpartition(".")[2]
                if last.endswith("ArgumentParser"):
                    self._on_call(function.name, arguments, keywords)
                    return PARSER
                if last == "partial" and arguments:
                    return arguments[0]
                if PARSER in arguments or PARSER in keywords.values():
                    self._on_call(function.name, arguments, keywords)
                    return PARSER
                for name, value in keywords.items():
                    self._provider(name, value)
                return UNKNOWN
            case Class():
                if self.is_a(function, "build_group"):
                    return _factory(arguments, keywords)
                parsers = any(
                    isinstance(base, External) and base.name.endswith("ArgumentParser")
                    for base in self.bases(function)
                )
                if parsers:
                    return PARSER
                if self.is_enumeration(function) and arguments:
                    by_value = {member.value: member for member in self.members(function).values()}
                    with suppress(TypeError):
                        return by_value.get(arguments[0], UNKNOWN)
            case Function():
                return self.call(function, arguments, keywords)
            case type() if function.__name__ in _BUILTINS:
                return self._builtin(function, arguments, keywords)
        if callable(function) and getattr(function, "__name__", "") in _BUILTINS:
            return self._builtin(function, arguments, keywords)
        # A function that adds options returns the parser, e.g. one that the caller passes on.
        return PARSER if PARSER in arguments else UNKNOWN

    def _provider(self, name: str, value: Any) -> None:
        """Follow a function that a program passes as `extra_args_provider` to add its own options.

        Arguments with another name are ignored.
        name, value: the name and the value of the argument.
        """
        if name == "extra_args_provider" and isinstance(value, Function):
            self.call(value, [PARSER], {})

    def call(self, function: Function, arguments: list[Any], keywords: Names) -> Any:
        """Follow a call of a function of the checkout, and return the value of the call.

        A call is followed if the function gets a parser, may add options, or is short. Otherwise
        the result is UNKNOWN. Functions that add options usually return their parser. So if the
        function gets a parser and the call's value cannot be computed, the result is the parser.
        """
        for name, value in keywords.items():
            self._provider(name, value)
        node = function.node
        if node in self._stack or len(self._stack) >= _DEPTH:
            return UNKNOWN
        names = dict(function.around or {}) | self._parameters(function, arguments, keywords)
        self._stack.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, names, function.module)
            if not _concerns_options(node, [*arguments, *keywords.values()]):
                return UNKNOWN
            _, value = self.run(node.body, names, function.module)
        finally:
            self._stack.pop()
        handed = PARSER in arguments or PARSER in keywords.values()
        return PARSER if handed and value is UNKNOWN else value

    def _parameters(self, function: Function, arguments: list[Any], keywords: Names) -> Names:
        signature = function.node.args
        parameters = [*signature.posonlyargs, *signature.args]
        names: Names = {
            parameter.arg: UNKNOWN for parameter in (*parameters, *signature.kwonlyargs)
        }
        with_default = parameters[len(parameters) - len(signature.defaults) :]
        for parameter, default in zip(with_default, signature.defaults, strict=True):
            names[parameter.arg] = self.value(default, {}, function.module)
        for only, written in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
            if written is not None:
                names[only.arg] = self.value(written, {}, function.module)
        names.update(
            (parameter.arg, value) for parameter, value in zip(parameters, arguments, strict=False)
        )
        parameter_names = {parameter.arg for parameter in (*parameters, *signature.kwonlyargs)}
        names.update((name, value) for name, value in keywords.items() if name in parameter_names)
        return names

    def _parser_call(
        self, method: str, arguments: list[Any], keywords: Names, module: Module
    ) -> Any:
        if method == "add_argument":
            self._on_option(arguments, keywords, self, module)
            return UNKNOWN
        if method in ("parse_args", "parse_known_args", "parse_args_into_dataclasses"):
            return UNKNOWN
        # Groups, and parsers of subcommands.
        return PARSER

    def _factory_call(self, factory: Factory, arguments: list[Any], keywords: Names) -> Any:
        if PARSER in arguments or PARSER in keywords.values():
            for names, takes in self._options_of(self, factory):
                self._on_option(list(names), takes, self, factory.fields_of.module)
        return PARSER

    def _builtin(self, function: Callable[..., Any], arguments: list[Any], keywords: Names) -> Any:
        given: list[Any] = [
            self._items(argument) if isinstance(argument, Class) else argument
            for argument in arguments
        ]
        if not all(map(_is_known, given)) or keywords:
            return UNKNOWN
        if function is range and len(range(*given)) > _BIGGEST:
            return UNKNOWN
        with suppress(TypeError, ValueError, LookupError):
            return function(*given)
        return UNKNOWN


def _factory(arguments: list[Any], keywords: Names) -> Any:
    fields_of = arguments[0] if arguments else keywords.get("src_cfg_class")
    exclude = arguments[1] if len(arguments) > 1 else keywords.get("exclude")
    if not isinstance(fields_of, Class):
        return UNKNOWN
    names = exclude if isinstance(exclude, list | tuple | set) else ()
    return Factory(fields_of, frozenset(name for name in names if isinstance(name, str)))


def _concerns_options(node: ast.FunctionDef | ast.AsyncFunctionDef, values: list[Any]) -> bool:
    """Return whether the interpreter must follow a call of a function.

    The interpreter must follow functions that may add options to a parser. It also follows
    functions of at most 5 statements, because an option may use their result.

    values: the arguments of the call.
    """
    if any(value is PARSER for value in values):
        return True
    text = {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    return "add_argument" in text or "ArgumentParser" in text or len(node.body) <= 5


def _class_names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef():
            yield statement.name
        case ast.Assign():
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Function | Class) and isinstance(right, Function | Class):
        return left.node is right.node
    return type(left) is type(right) and bool(left == right)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple | dict)


def _is_known(value: Any) -> bool:
    return value is not UNKNOWN and value is not None and not isinstance(value, External)


def _operated(kind: ast.AST, left: Any, right: Any) -> Any:
    operation = _OPERATORS.get(type(kind))
    if operation is None or left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    types = (*map(type, (left, right)),)
    if External in types or ModuleName in types or PARSER in (left, right):
        return UNKNOWN
    numbers = all(isinstance(operand, int | float) for operand in (left, right))
    if isinstance(kind, ast.Pow) and (not numbers or abs(right) > 1000):
        return UNKNOWN
    if isinstance(kind, ast.Mult) and not numbers and max(
        operand for operand in (left, right, 0) if isinstance(operand, int)
    ) > _BIGGEST:  # fmt: skip
        return UNKNOWN
    with suppress(Exception):
        return operation(left, right)
    return UNKNOWN


def _method(base: Any, name: str, arguments: list[Any], keywords: Names) -> Any:
    if name not in _PURE_METHODS[type(base)]:
        return UNKNOWN
    with suppress(Exception):
        return getattr(base, name)(*arguments, **keywords)
    return UNKNOWN
