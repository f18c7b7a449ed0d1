"""Check with a program's own argparse parser whether it accepts the arguments of a run.

The command is `python ask_argparse.py ORDER.json`. ORDER.json describes the runs to check; the last
line of the output is JSON with the result for each run. The program's file is run until it has
parsed its arguments. Packages that are neither in the standard library nor in the program's own
folder are replaced by empty packages: the programs of ColossalAI's and OneFlow's benchmarks can
parse their arguments without the real packages.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

if __package__:
    from . import asking
else:
    import asking  # type: ignore[import-not-found, no-redef, unused-ignore]


class _ParsedError(BaseException):
    """Raised to stop a program after it has parsed its arguments."""


class _RefusedError(BaseException):
    """Raised if the program's parser refuses its arguments; contains the parser's message."""


def _ask(order: asking.ProgramOrder) -> asking.ProgramAnswer:
    """Return which arguments of a run the program's parser refuses."""
    if order.program is None or not Path(order.program).is_file():
        raise asking.CannotAskError(f"{order.program}: the program's file cannot be read here")
    program = Path(order.program)

    def refused(groups: Sequence[tuple[str, ...]]) -> list[asking.ProgramRefusal]:
        arguments = [argument for group in groups for argument in group]
        reply = asking.in_another_process(lambda: _answer_of(program, arguments))
        if reply["unparsed"] is not None:
            raise asking.CannotAskError(f"{program}: {reply['unparsed']}")
        return [asking.ProgramRefusal(*refusal) for refusal in reply["refusals"]]

    groups = asking.grouped(order.arguments)
    problems = list(asking.problems_of(groups, refused, asking.option_name))
    return asking.ProgramAnswer(
        asked=[f"the argument parser of {program.name}"],
        not_asked=[f"{program.name} was not checked after the call of its argument parser"],
        problems=problems,
    )


def _answer_of(program: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Return what the program's parser refuses: a JSON object with two keys.

    refusals: for each refusal, its message and the refused argument.
    unparsed: the reason why the program never parsed its arguments; None if its parser accepted or
        refused them.
    """
    refusals: list[asking.ProgramRefusal] = []
    unparsed = None
    try:
        _run_until_parsed(program, arguments)
        unparsed = "the program ends without parsing its arguments with argparse"
    except _ParsedError:
        pass
    except _RefusedError as error:
        refusals = asking.argparse_refusals(str(error))
    except BaseException as error:  # noqa: BLE001  (the user's program may raise anything)
        unparsed = f"the program fails before it parses its arguments: {asking.words(error)}"
    return {
        "refusals": [(refusal.message, refusal.argument) for refusal in refusals],
        "unparsed": unparsed,
    }


def _run_until_parsed(program: Path, arguments: Sequence[str]) -> None:
    parse = argparse.ArgumentParser.parse_known_args
    parse_all = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        parse_all(parser, args, namespace)
        raise _ParsedError

    def parse_some(parser: Any, args: Any = None, namespace: Any = None) -> Any:
        parsed = parse(parser, args, namespace)
        # parse_args calls this function, too, and must itself check the remaining arguments.
        if sys._getframe(1).f_code is not parse_all.__code__:  # noqa: SLF001
            raise _ParsedError
        return parsed

    def refuse(parser: Any, message: str) -> NoReturn:
        raise _RefusedError(message)

    argparse.ArgumentParser.parse_args = parse_and_stop  # type: ignore[method-assign,assignment]
    argparse.ArgumentParser.parse_known_args = parse_some  # type: ignore[method-assign,assignment]
    argparse.ArgumentParser.error = refuse  # type: ignore[method-assign,assignment]
    sys.meta_path.insert(0, _EmptyPackages(asking.folder_of_imports(program)))
    asking.start_program(program, arguments)


class _Nothing:
    """Replaces any class, function or value that a program imports from a missing package."""

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Nothing()

    def __call__(self, *values: Any, **named: Any) -> Any:
        # Used as a decorator, this returns the function or class unchanged.
        if len(values) == 1 and not named and callable(values[0]):
            return values[0]
        return _Nothing()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, key: Any) -> _Nothing:
        return _Nothing()

    def __iter__(self) -> Any:
        return iter(())

    def __or__(self, other: Any) -> _Nothing:
        return _Nothing()

    __ror__ = __or__


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _EmptyPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets Python import an empty package instead of each package that may be missing.

    A package may be missing if it is neither in the standard library nor in the program's
    folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        top = fullname.partition(".")[0]
        own = (self._folder / top).is_dir() or (self._folder / f"{top}.py").is_file()
        if own or top in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, so that the module stays empty."""


if __name__ == "__main__":
    asking.answer_orders(_ask)
