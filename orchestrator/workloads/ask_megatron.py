"""Check with Megatron's own code whether it accepts the arguments of a run, without a GPU.

The command is `python ask_megatron.py ORDER.json`. ORDER.json describes the runs to check;
the last line of the output is JSON with the result for each run. The user's own program,
e.g. `pretrain_gpt.py`, is run up to the call that trains. The program parses and validates
its arguments, sets up its groups of ranks, and makes its TransformerConfig, OptimizerConfig
and DistributedDataParallelConfig. The process group of the ranks is fake, with the run's
world size. An error in these steps is reported as a problem of the run, except if its cause
is this machine, e.g. a missing package or GPU.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import re
import runpy
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

if __package__:
    from . import asking
else:
    import asking  # type: ignore[import-not-found, no-redef, unused-ignore]

# The compute capability of Hopper: only the options of MXFP8 and NVFP4 need newer GPUs.
_CAPABILITY = (9, 0)
_MOST_STAND_INS = 20
# Later than any version that an option of Megatron needs.
_NEWEST = "99.0"
_GLOBAL = "_GLOBAL_ARGS"
_ADD_OPTIONS = "add_megatron_arguments"
_INITIALIZE = "_initialize_distributed"
_ROOTS = ("megatron.training", "megatron")
_SETUP_OF_GLOBALS = (
    "_build_tokenizer", "_set_tensorboard_writer", "_set_wandb_writer", "_set_one_logger",
    "_set_adlr_autoresume", "_set_timers", "_set_energy_monitor", "_set_telemetry",
    "_set_signal_handler",
)  # fmt: skip
_OPTION = re.compile(r"--[A-Za-z0-9][\w-]*")
_NAME = re.compile(r"[A-Za-z_]\w+")
# Messages that only show that this machine has no GPU, or no build for one.
_NO_GPU = re.compile(r"NVIDIA driver|not compiled with CUDA|No CUDA GPUs|CUDA error|NCCL error")
# Messages that only show that this Python has no Transformer Engine.
_NO_ENGINE = re.compile(r"install (TE|Transformer ?Engine)|transformer_engine", re.IGNORECASE)
_PACKAGE = re.compile(r"(?<![\w-])[a-z]\w*(?:-\w+)+")
_FSDP = {"--use-torch-fsdp2", "--use-megatron-fsdp"}
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class _RefusedError(Exception):
    """Raised if the program's argument parser refuses the arguments."""


class _ReachedTraining(BaseException):
    """Raised to stop the program at the call of `pretrain`, which would train.

    call: the arguments of this call.
    """

    def __init__(self, call: Mapping[str, Any]) -> None:
        super().__init__()
        self.call = call


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets Python import a replacement for each package in `names`.

    `names` are the packages that this Python lacks. The functions and classes in a replacement do
    nothing.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(name == missing or name.startswith(f"{missing}.") for missing in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _StandIn(types.ModuleType):
    __version__ = _NEWEST

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Megatron:
    """The user's training program, which is imported once for the checks of all runs."""

    def __init__(self) -> None:
        self._stand_ins = _StandIns()
        self._problem: str | None = None

    def load(self, orders: Sequence[asking.ProgramOrder]) -> None:
        """Import the training program of the first run in `orders`, and the modules it imports.

        If an import fails, the reason is stored, and `ask` raises CannotAskError with this reason.
        """
        program = orders[0].program
        if program is None or not Path(program).is_file():
            self._problem = f"{program}: the program's file cannot be read here"
            return
        sys.meta_path.append(self._stand_ins)
        sys.path.insert(0, str(Path(program).parent))
        problem = _imports(Path(program), self._stand_ins)
        if problem is not None:
            self._problem = f"{program}: cannot be imported here: {problem}"

    def ask(self, order: asking.ProgramOrder) -> asking.ProgramAnswer:
        """Return which arguments of a run Megatron refuses, and what was checked.

        Raises CannotAskError if the program cannot be imported.
        """
        if self._problem is not None:
            raise asking.CannotAskError(self._problem)
        _show_gpus(order.gpus_per_node, order.compute_capability)
        answers: list[dict[str, Any]] = []

        def refused(groups: Sequence[Sequence[str]]) -> list[asking.ProgramRefusal]:
            arguments = [word for group in groups for word in group]
            answers.append(asking.in_another_process(lambda: _answer_to(order, arguments)))
            return [asking.ProgramRefusal(*problem) for problem in answers[-1]["problems"]]

        problems: list[asking.ProgramRefusal] = []
        groups = asking.grouped(order.arguments)
        for problem in asking.problems_of(groups, refused, asking.option_name):
            of_parser = any(problem.message in answer["of_parser"] for answer in answers)
            # Validation may fail only because an option was removed: this is not reported.
            if of_parser or not problems:
                problems.append(problem)
            if not of_parser:
                break
        return asking.ProgramAnswer(
            asked=answers[0]["asked"],
            not_asked=[*_not_asked(order, self._stand_ins), *answers[0]["not_asked"]],
            problems=problems,
        )


def _present_as_rank(order: asking.ProgramOrder, arguments: Sequence[str]) -> None:
    os.environ.update(
        RANK="0",
        LOCAL_RANK="0",
        WORLD_SIZE=str(order.world_size),
        LOCAL_WORLD_SIZE=str(order.gpus_per_node),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="1",
    )
    # As the job script sets it, unless the environment of a rehearsal has it already.
    if _CONNECTIONS not in os.environ and _FSDP.isdisjoint(arguments):
        os.environ[_CONNECTIONS] = "1"


def _imports(program: Path, stand_ins: _StandIns) -> str | None:
    """Import a program and the modules that it imports; replace packages that this Python lacks.

    Returns the reason if the program cannot be imported, otherwise None.
    """
    _show_gpus(1, None)
    for _ in range(_MOST_STAND_INS):
        try:
            importlib.import_module("torch")
            _show_transformer_engine()
            runpy.run_path(str(program), run_name="asked")
            _show_transformer_engine()
            _read_sources_once()
        except ImportError as error:
            if _supplies_to_typing(str(error)):
                continue
            name = error.name if isinstance(error, ModuleNotFoundError) else None
            if name is None or _is_own(name, program) or name in stand_ins.names:
                return _one_line(f"{type(error).__name__}: {error}")
            stand_ins.names.append(name)
        except SystemExit as error:
            return f"the program ends when teralog imports it (exit code {error.code})"
        except Exception as error:  # noqa: BLE001  (old code under a new Python fails in many ways)
            return _one_line(f"{type(error).__name__}: {error}")
        else:
            return None
    return f"too many packages are missing, e.g. {', '.join(stand_ins.names[:3])}"


def _read_sources_once() -> None:
    """Make Megatron parse its own source only once, not once for every run.

    Megatron reads its source to define its options. To repeat this for every run would take
    longer than all other checks.
    """
    for module, name in ((ast, "parse"), (inspect, "getsource")):
        setattr(module, name, functools.cache(getattr(module, name)))
    for root in _ROOTS:
        arguments = sys.modules.get(f"{root}.arguments")
        with contextlib.suppress(Exception):
            getattr(arguments, _ADD_OPTIONS)(argparse.ArgumentParser())


def _supplies_to_typing(message: str) -> bool:
    """Add a missing name to the module `typing`; return whether that worked.

    message: the error message of an import; it may report a name that only newer releases of Python
    have in `typing`. The name is taken from `typing_extensions`.
    """
    match = re.match(r"cannot import name '(\w+)' from 'typing'", message)
    if match is None:
        return False
    try:
        extensions = importlib.import_module("typing_extensions")
        setattr(typing, match[1], getattr(extensions, match[1]))
    except (ImportError, AttributeError):
        return False
    return True


def _is_own(name: str, program: Path) -> bool:
    top = name.partition(".")[0]
    return top in {"torch", "megatron"} or (program.parent / top).exists()


def _show_gpus(count: int, capability: Sequence[int] | None) -> None:
    """Make torch report `count` GPUs with a compute capability, although this machine has none."""
    import torch

    major, minor = capability or _CAPABILITY
    properties = types.SimpleNamespace(
        major=major, minor=minor, name="GPU", total_memory=0, multi_processor_count=1
    )
    for name, value in (
        ("device_count", count),
        ("is_available", True),
        ("current_device", 0),
        ("get_device_capability", (major, minor)),
        ("get_device_properties", properties),
        ("set_device", None),
        ("set_stream", None),
    ):
        setattr(torch.cuda, name, lambda *_, _value=value, **__: _value)


def _show_transformer_engine() -> None:
    """If this Python lacks Transformer Engine, make Megatron behave as with its newest release.

    Without Transformer Engine, Megatron sets its fused functions to None, and its TransformerConfig
    refuses options that need them. So these functions are replaced by stand-ins.
    """
    if importlib.util.find_spec("transformer_engine") is not None:
        return
    with contextlib.suppress(ImportError):
        from packaging.version import Version

        utils: Any = importlib.import_module("megatron.core.utils")
        utils.get_te_version = lambda: Version(_NEWEST)
    for name, module in list(sys.modules.items()):
        if name.startswith("megatron."):
            for function, value in list(vars(module).items()):
                if function.startswith("fused_") and value is None:
                    setattr(module, function, MagicMock(name=function))


def _answer_to(order: asking.ProgramOrder, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the result of checking a run: a JSON object with four keys.

    asked: the steps before the training that were checked.
    not_asked: what could not be checked, and why.
    problems: for each refusal, its message and the refused argument.
    of_parser: the messages in `problems` that are from the argument parser.
    """
    program = str(order.program)
    asked: list[str] = []
    not_asked: list[str] = []
    problems: list[asking.ProgramRefusal] = []
    of_parser: list[str] = []
    _present_as_rank(order, arguments)
    sys.argv = [program, *arguments]
    try:
        with _without_training(), _argparse_raises():
            for step, name in _steps(program):
                step()
                asked.append(name)
    except _RefusedError as error:
        problems = asking.argparse_refusals(_one_line(str(error)))
        of_parser = [problem.message for problem in problems]
    except SystemExit as error:
        problems = [asking.ProgramRefusal(f"exit code {error.code}")]
    except Exception as error:  # noqa: BLE001  (any error of the program is its refusal)
        message = _words_of(error)
        if _is_of_this_machine(error):
            not_asked.append(
                f"the rest of the program, because it stopped on this machine: {message}"
            )
        else:
            cause = _named(f"{message} {_source_of(error)}", arguments)
            problems = [asking.ProgramRefusal(message, cause)]
    return {
        "asked": asked,
        "not_asked": not_asked,
        "problems": [(problem.message, problem.argument) for problem in problems],
        "of_parser": of_parser,
    }


def _is_of_this_machine(error: BaseException) -> bool:
    """Return whether the cause of an error is this machine: it lacks a package or a GPU."""
    if isinstance(error, ImportError) or isinstance(
        error.__cause__ or error.__context__, ImportError
    ):
        return True
    lacks_engine = importlib.util.find_spec("transformer_engine") is None
    words = str(error)
    return bool(
        _NO_GPU.search(words)
        or (lacks_engine and _NO_ENGINE.search(words))
        or _asks_for_a_package(words)
    )


def _asks_for_a_package(message: str) -> bool:
    """Return whether an error message asks to install a package that this Python lacks."""
    return "install" in message and any(
        importlib.util.find_spec(name.replace("-", "_")) is None
        for name in _PACKAGE.findall(message)
    )


def _not_asked(order: asking.ProgramOrder, stand_ins: _StandIns) -> Iterator[str]:
    if importlib.util.find_spec("transformer_engine") is None:
        yield "Transformer Engine's limits were not checked, because this Python lacks that package"
    if order.compute_capability is None:
        yield "the type of the GPU is not known; the limits of Hopper (9.0) were checked"
    if stand_ins.names:
        packages = ", ".join(stand_ins.names)
        yield f"code that uses packages that this Python lacks was not checked: {packages}"


def _steps(program: str) -> Iterator[tuple[Callable[[], None], str]]:
    """Yield the steps of the program before the training.

    Each step is a pair: a function that runs the step, and the name of the step.
    """
    root = next((root for root in _ROOTS if f"{root}.arguments" in sys.modules), None)
    if root is None:
        modules = ", ".join(f"{root}.arguments" for root in _ROOTS)
        raise ImportError(f"the program imports none of these modules: {modules}")
    module = sys.modules[f"{root}.arguments"]
    held: dict[str, Any] = {}

    def start() -> None:
        try:
            runpy.run_path(program, run_name="__main__")
        except _ReachedTraining as reached:
            held.update(reached.call)

    def parse() -> None:
        held["args"] = _parsed(root, module, held)

    yield start, f"the start of {Path(program).name}"
    yield parse, "parse_args and validate_args"
    yield (lambda: _set_up_groups(root, held["args"])), "the set-up of model-parallel groups"
    if hasattr(module, "core_transformer_config_from_args"):
        yield (
            lambda: module.core_transformer_config_from_args(held["args"]),
            "TransformerConfig",
        )
        yield (lambda: _make_configs(root, held["args"])), "OptimizerConfig"


def _parsed(root: str, module: types.ModuleType, call: Mapping[str, Any]) -> argparse.Namespace:
    """Return a run's arguments, parsed and validated by the program's own code.

    Programs of newer Megatron releases parse the arguments before they call `pretrain`. For older
    releases, this function calls Megatron's parser.

    call: the values that the program gave to `pretrain`, e.g. its additional options and defaults.
    """
    variables: Any = importlib.import_module(f"{root}.global_vars")
    args: argparse.Namespace | None = getattr(variables, _GLOBAL)
    if args is not None:
        return args
    provider, defaults = call.get("extra_args_provider"), call.get("args_defaults") or {}
    if hasattr(module, "validate_args"):
        args = module.parse_args(provider, ignore_unknown_args=False)
        module.validate_args(args, defaults)
    else:
        args = module.parse_args(extra_args_provider=provider, defaults=defaults)
    for name in ("set_global_variables", "set_args"):
        if hasattr(variables, name):
            getattr(variables, name)(args)
            break
    else:
        setattr(variables, _GLOBAL, args)
    return args


def _set_up_groups(root: str, args: argparse.Namespace) -> None:
    """Let Megatron make its groups of ranks over a fake process group, which sends no data."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group(
        backend="fake", rank=0, world_size=args.world_size, store=FakeStore()
    )
    # Groups with the backend gloo would open connections; groups of the fake one do not.
    made = torch.distributed.new_group
    if not hasattr(torch.distributed, "ProcessGroupNCCL"):
        setattr(torch.distributed, "ProcessGroupNCCL", MagicMock())  # noqa: B010

    def new_group(*values: Any, **options: Any) -> Any:
        options.pop("backend", None)
        options.pop("pg_options", None)
        return made(*values, **options)

    torch.distributed.new_group = new_group
    initialize = getattr(importlib.import_module(f"{root}.initialize"), _INITIALIZE)
    needed = [
        parameter
        for parameter in inspect.signature(initialize).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    initialize(*(None for _ in needed))


def _make_configs(root: str, args: argparse.Namespace) -> None:
    training: Any = importlib.import_module(f"{root}.training")
    if hasattr(training, "get_megatron_optimizer_config"):
        training.get_megatron_optimizer_config(args)
    elif hasattr(training, "OptimizerConfig"):
        _made_of(training.OptimizerConfig, args)
    if hasattr(training, "get_megatron_ddp_config"):
        training.get_megatron_ddp_config(args)
    elif hasattr(training, "DistributedDataParallelConfig"):
        _made_of(training.DistributedDataParallelConfig, args)


def _made_of(kind: Any, args: argparse.Namespace) -> Any:
    return kind(
        **{
            field.name: getattr(args, field.name)
            for field in dataclasses.fields(kind)
            if hasattr(args, field.name)
        }
    )


@contextlib.contextmanager
def _without_training() -> Iterator[None]:
    """Within the `with` block, make `pretrain` raise _ReachedTraining, so that nothing is trained.

    Also make functions that set up global objects, e.g. a tokenizer or a log writer, do nothing.
    """
    for root in _ROOTS:
        training = sys.modules.get(f"{root}.training")
        if training is None:
            continue
        for holder in (training, sys.modules.get(f"{root}.training.training")):
            if holder is not None and hasattr(holder, "pretrain"):
                setattr(holder, "pretrain", _stop_at(holder.pretrain))  # noqa: B010
        variables = sys.modules.get(f"{root}.global_vars")
        for name in _SETUP_OF_GLOBALS:
            if variables is not None and hasattr(variables, name):
                setattr(variables, name, lambda *_, **__: None)
    yield


def _stop_at(pretrain: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(pretrain)

    def stop(*values: Any, **options: Any) -> None:
        try:
            call = dict(signature.bind_partial(*values, **options).arguments)
        except TypeError:
            call = options
        raise _ReachedTraining(call)

    return stop


@contextlib.contextmanager
def _argparse_raises() -> Iterator[None]:
    def error(_: argparse.ArgumentParser, message: str) -> None:
        raise _RefusedError(message)

    before = argparse.ArgumentParser.error
    argparse.ArgumentParser.error = error  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        argparse.ArgumentParser.error = before  # type: ignore[method-assign]


def _words_of(error: BaseException) -> str:
    """Return an error's message on one line.

    If the error has no message, return the statement that raised the error, e.g. an assertion. If
    this statement cannot be read, return the name of the error's class.
    """
    text = str(error)
    if not text.strip():
        return _one_line(_source_of(error) or type(error).__name__)
    if isinstance(error, AssertionError | ValueError):
        return _one_line(text)
    return _one_line(f"{type(error).__name__}: {text}")


def _source_of(error: BaseException) -> str:
    """Return the line of code that raised the error; an empty text if it cannot be read.

    For an assertion, return `assert` and its condition.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = frames[-1]
    first = frame.lineno or 1
    lines = [linecache.getline(frame.filename, first + more) for more in range(12)]
    for count in range(1, len(lines) + 1):
        try:
            statement = ast.parse("".join(lines[:count]).strip()).body[0]
        except (SyntaxError, IndexError):
            continue
        if isinstance(statement, ast.Assert):
            return f"assert {ast.unparse(statement.test)}"
        break
    return lines[0].strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _named(text: str, arguments: Sequence[str]) -> str | None:
    """Return the option in `arguments` that a text mentions; None if it mentions none.

    The text may contain the option itself, e.g. `--num-layers`, or its variable `num_layers`. A
    variable may also belong to a negative option, e.g. `bias_gelu_fusion` to
    `--no-bias-gelu-fusion`.
    """
    given = [asking.option_name(group) for group in asking.grouped(arguments)]
    options = {option.lstrip("-").replace("-", "_"): option for option in given}
    for word in _OPTION.findall(text):
        if word in options.values():
            return str(word)
    for name in _NAME.findall(text):
        if name in options:
            return options[name]
        if f"no_{name}" in options:
            return options[f"no_{name}"]
    return None


if __name__ == "__main__":
    megatron = _Megatron()
    asking.answer_orders(megatron.ask, megatron.load)
