"""Read a program's accepted options from its source, without importing it."""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.frameworks.options.dataclass_fields import factory_options
from orchestrator.frameworks.options.interpreter import Interpreter
from orchestrator.frameworks.options.modules import Module, Modules
from orchestrator.frameworks.options.values import (
    PARSER,
    UNKNOWN,
    Class,
    External,
    Function,
    Member,
)

Takes = dict[str, Any]
# Modules of a checkout that make the parser of its programs. The programs call them indirectly,
# through many other functions.
ARGUMENT_MODULES = ("megatron.training.arguments", "megatron.arguments", "arguments")
# Options that deepspeed.add_config_arguments adds to a parser, in every version since 0.3.
DEEPSPEED: Mapping[str, Takes] = {
    "--deepspeed": {"values": 0},
    "--deepspeed_config": {},
    "--deepscale": {"values": 0},
    "--deepscale_config": {},
    "--deepspeed_mpi": {"values": 0},
}
_FLAGS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_NUMBERS_OF_VALUES = {
    "argparse.REMAINDER": "*",
    "argparse.PARSER": "+",
    "argparse.ONE_OR_MORE": "+",
    "argparse.ZERO_OR_MORE": "*",
    "argparse.OPTIONAL": "?",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a program, and the files from which they were read.

    options: the known properties of each option: `values`, `type`, `choices`, `required`,
    `default` and `action`. `values` is how many values the option takes: a number, "?", "*" or
    "+". `values` is 0 for a flag, and is absent if the option takes one value.
    files: SHA-256 of each file that was read, by absolute path.
    complete: whether the name of each option is known. False if the program computes some names
    when it runs, or if a package outside the checkout adds options.
    """

    options: dict[str, Takes]
    files: dict[str, str]
    complete: bool = True


def read_options(program: Path, checkout: Path | None = None) -> SourceOptions:
    """Return the options of the script `program` in a checkout.

    checkout: a further folder in which imported modules are searched; the script's folder is always
    searched. Raises UserError if the script cannot be read or has no options.
    """
    folder = program.parent
    modules = Modules(tuple(dict.fromkeys(filter(None, (folder, checkout)))))
    collected = _Collected()
    interpreter = Interpreter(modules, collected.add, collected.call, factory_options)
    try:
        script = modules.read(program, program.stem)
        for name in ARGUMENT_MODULES:
            if name != program.stem and (module := modules.find(name)):
                _interpret_makers(interpreter, module)
                break
        if script is not None:
            _interpret_script(interpreter, script)
    except OSError as error:
        raise UserError(f"{program}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise UserError(
            f"{program}: its source code is nested too deeply for teralog to read it"
        ) from None
    if not collected.options:
        raise UserError(f"{program}: no options found in its source")
    options = dict(sorted(collected.options.items()))
    return SourceOptions(options, modules.hashes, collected.complete)


def _interpret_makers(interpreter: Interpreter, module: Module) -> None:
    """Interpret each function in which a module creates an argument parser.

    If there is no such function, interpret `add_megatron_arguments`, which receives a parser.
    """
    functions = [node for node in module.tree.body if isinstance(node, ast.FunctionDef)]
    makers = [node for node in functions if _makes_parser(node)]
    if not makers:
        makers = [node for node in functions if node.name == "add_megatron_arguments"]
    for node in makers:
        interpreter.call(Function(module, node), [], {})


def _makes_parser(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call) and ast.unparse(part.func).endswith("ArgumentParser")
        for part in ast.walk(node)
    )


def _interpret_script(interpreter: Interpreter, script: Module) -> None:
    """Interpret the code in which a script creates an argument parser.

    Also interpret the functions that the script passes as `extra_args_provider` to add options.
    """
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef) and _makes_parser(node):
            interpreter.call(Function(script, node), [], {})
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "extra_args_provider":
                    provider = interpreter.value(keyword.value, {}, script)
                    if isinstance(provider, Function):
                        interpreter.call(provider, [PARSER], {})
            function = interpreter.value(node.func, {}, script)
            if isinstance(function, Function) and _makes_parser(function.node):
                interpreter.call(function, [], {})
    top = [node for node in script.tree.body if not isinstance(node, ast.FunctionDef)]
    if any(map(_makes_parser, top)):
        interpreter.run([node for node in top if not isinstance(node, ast.ClassDef)], {}, script)


class _Collected:
    """The options that were found so far in a program's source.

    `complete` becomes False if the program may have options that cannot be read.
    """

    def __init__(self) -> None:
        self.options: dict[str, Takes] = {}
        self.complete = True

    def call(self, function: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
        if function.endswith("add_config_arguments"):
            self.options.update((name, dict(takes)) for name, takes in DEEPSPEED.items())
        elif PARSER in arguments or PARSER in keywords.values():
            self.complete = False

    def add(
        self, names: list[Any], keywords: dict[str, Any], interpreter: Interpreter, module: Module
    ) -> None:
        takes = _takes(keywords, interpreter)
        options = [name for name in names if isinstance(name, str) and name.startswith("-")]
        self.complete &= all(isinstance(name, str) for name in names)
        for name in options:
            self.options[name] = takes
            if takes.get("action") == "boolean" and name.startswith("--"):
                self.options[f"--no-{name.removeprefix('--')}"] = takes


def _takes(keywords: Mapping[str, Any], interpreter: Interpreter) -> Takes:
    action = keywords.get("action", "store")
    takes: Takes = {}
    if isinstance(action, External) and action.name.endswith("BooleanOptionalAction"):
        takes = {"values": 0, "action": "boolean"}
    elif action in _FLAGS:
        takes = {"values": 0, "action": action}
    else:
        takes.update(_values(keywords, action, interpreter))
        takes.update(_converted(keywords, interpreter))
        if isinstance(action, str) and action != "store":
            takes["action"] = action
    if keywords.get("required") is True:
        takes["required"] = True
    default = _plain(keywords.get("default"))
    # The value of a flag that is not given follows from its action.
    implied = {"store_true": False, "store_false": True}.get(takes.get("action", ""))
    if default is not None and default not in ([], implied):
        takes["default"] = default
    return takes


def _values(keywords: Mapping[str, Any], action: Any, interpreter: Interpreter) -> Takes:
    """Return a mapping with the number of values of an option, e.g. {"values": 2}.

    The result is empty if the option takes one value. The number is "*" if it cannot be read.
    keywords: the arguments of the option's `add_argument` call.
    """
    wanted = keywords.get("nargs")
    if isinstance(wanted, External):
        wanted = _NUMBERS_OF_VALUES.get(wanted.name, UNKNOWN)
    if isinstance(wanted, int) or wanted in ("?", "*", "+"):
        return {} if wanted == 1 else {"values": wanted}
    if wanted is not None:
        return {"values": "*"}
    if isinstance(action, str):
        return {}
    # The action is a class of the program, which may itself set the number of values.
    defined = isinstance(action, Class) and not any(
        isinstance(part, ast.Name | ast.keyword | ast.arg)
        and (getattr(part, "id", None) or part.arg) == "nargs"  # type: ignore[union-attr]
        for part in ast.walk(action.node)
    )
    return {} if defined else {"values": "*"}


def _converted(keywords: Mapping[str, Any], interpreter: Interpreter) -> Takes:
    """Return the `type` and `choices` of an option's values, as far as they are known.

    teralog uses them to check the values that a user gives to the option.
    keywords: the arguments of the option's `add_argument` call.
    """
    kind, choices = keywords.get("type"), keywords.get("choices")
    takes: Takes = {}
    if kind in (int, float):
        takes["type"] = kind.__name__
    elif kind is str:
        takes["type"] = "str"
    if isinstance(choices, Class) and interpreter.is_enumeration(choices):
        choices = [*interpreter.members(choices).values()]
    if not isinstance(choices, list | tuple | set | range | dict) and not hasattr(choices, "keys"):
        return takes
    listed = [choice for choice in choices or () if choice is not None]
    members = [choice for choice in listed if isinstance(choice, Member)]
    if members:
        by_name = isinstance(kind, Function) and any(
            isinstance(part, ast.Subscript) for part in ast.walk(kind.node)
        )
        by_value = isinstance(kind, Class)
        if by_name:
            listed = [member.name for member in members]
        elif by_value and all(isinstance(member.value, str) for member in members):
            listed = [member.value for member in members]
        else:
            return takes
    elif not (kind is None or kind in (int, float, str)):
        # The program converts a value before it compares the value with the choices. So the texts
        # that it accepts are not known.
        return takes
    if listed and all(isinstance(choice, str | int | float) for choice in listed):
        takes["choices"] = listed
    return takes


def _plain(value: Any) -> Any:
    """Return an option's default as a JSON value; None if JSON cannot represent the default.

    The result is also None for an integer above 2**63.
    """
    if isinstance(value, Member):
        return value.name
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return None if None in items else items
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > 2**63:
        return None
    return value if isinstance(value, bool | int | float | str) else None
