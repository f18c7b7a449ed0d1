"""Ask Megatron's own code whether it accepts the arguments of a run, without a GPU.

`python ask_megatron.py ORDER.json` starts the user's own program, e.g. `pretrain_gpt.py`, up to the
call that trains. The program parses its arguments and validates them. Then its groups of ranks are
set up over a fake process group of the run's world size, and its TransformerConfig, OptimizerConfig
and DistributedDataParallelConfig are made. Whatever raises an error on the way is a problem.

ORDER.json contains one order or a list of orders, all of one program:

- `program`: the program's file.
- `arguments`: its arguments.
- `world_size`, `gpus_per_node`: numbers of ranks.
- `compute_capability`: that of the GPU, e.g. [9, 0]; null if it is not known.

The last line of stdout is the answer as JSON, one answer or a list: `asked` lists what answered;
`not_asked` has sentences about what needs a GPU or a missing package; `problems` are the program's
own words, each with the `argument` that caused it, or null; `error` says why nothing was asked.

A stand-alone program: it runs under whatever Python the training would run under, so it imports
nothing of teralog.
"""

import argparse
import ast
import contextlib
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
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

# Of Hopper: no option needs a later one, apart from those of MXFP8 and NVFP4.
_CAPABILITY = (9, 0)
_MOST_STAND_INS = 20
# Later than any version that an option of Megatron needs.
_NEWEST = "99.0"
_GLOBAL = "_GLOBAL_ARGS"
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
_NO_GPU = re.compile(
    r"NVIDIA driver|not compiled with CUDA|No CUDA GPUs|CUDA error|NCCL error|'ProcessGroupNCCL'"
)
# Likewise of a Python without Transformer Engine.
_NO_ENGINE = re.compile(r"install (TE|Transformer ?Engine)|transformer_engine", re.IGNORECASE)
_FSDP = {"--use-torch-fsdp2", "--use-megatron-fsdp"}
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


class _RefusedError(Exception):
    """The program's argument parser refuses the arguments."""


class _ReachedTraining(BaseException):
    """The program got as far as its call that trains."""

    def __init__(self, call: Mapping[str, Any]) -> None:
        super().__init__()
        self.call = call


@dataclasses.dataclass
class _Answer:
    asked: list[str] = dataclasses.field(default_factory=list)
    not_asked: list[str] = dataclasses.field(default_factory=list)
    problems: list[dict[str, str | None]] = dataclasses.field(default_factory=list)
    error: str | None = None


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import a stand-in for packages that this Python lacks and the program always imports."""

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


def ask_megatron_main() -> None:
    """Print the answers to the orders of the file that the command line names."""
    content = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    orders = content if isinstance(content, list) else [content]
    stdout = sys.stdout
    sys.dont_write_bytecode = True
    with contextlib.redirect_stdout(sys.stderr):
        answers = [dataclasses.asdict(answer) for answer in _answers(orders)]
    print(json.dumps(answers if isinstance(content, list) else answers[0]), file=stdout, flush=True)


def _answers(orders: Sequence[Mapping[str, Any]]) -> Iterator[_Answer]:
    """Yield the answer to each order, each from a process of its own that has all imports."""
    program = Path(orders[0]["program"])
    stand_ins = _StandIns()
    sys.meta_path.append(stand_ins)
    sys.path[0] = str(program.parent)
    problem = _imports(program, stand_ins)
    for order in orders:
        answer = _in_child(order, stand_ins, problem)
        if answer.problems and answer.problems[0]["argument"] is None:
            answer.problems[0]["argument"] = _found_by_leaving_out(order, stand_ins)
        yield answer


def _in_child(order: Mapping[str, Any], stand_ins: _StandIns, problem: str | None) -> _Answer:
    """Ask in a process of its own: what one order sets, another one must not find."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        answer = _Answer(error="the program ended by itself")
        try:
            answer = _ask(order, stand_ins, problem)
        except BaseException as error:  # noqa: BLE001  (an answer, whatever happens)
            answer = _Answer(error=_one_line(f"{type(error).__name__}: {error}"))
        finally:
            with os.fdopen(write_end, "w") as stream:
                json.dump(dataclasses.asdict(answer), stream)
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        return _Answer(error="the program ended by itself")
    return _Answer(**json.loads(text))


def _present_as_rank(order: Mapping[str, Any]) -> None:
    world = int(order["world_size"])
    per_node = int(order.get("gpus_per_node") or 1)
    os.environ.update(
        RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(per_node),
        MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
    )  # fmt: skip
    # As the job script sets it, unless the environment of a rehearsal has it already.
    if _CONNECTIONS not in os.environ and _FSDP.isdisjoint(order["arguments"]):
        os.environ[_CONNECTIONS] = "1"


def _imports(program: Path, stand_ins: _StandIns) -> str | None:
    """Import what the program imports, with stand-ins for missing packages.

    Return why that is impossible, or None.
    """
    _show_gpus(1, None)
    for _ in range(_MOST_STAND_INS):
        try:
            importlib.import_module("torch")
            _show_transformer_engine()
            runpy.run_path(str(program), run_name="asked")
        except ImportError as error:
            if _supplies_to_typing(str(error)):
                continue
            name = error.name if isinstance(error, ModuleNotFoundError) else None
            if name is None or _is_own(name, program) or name in stand_ins.names:
                return _one_line(f"{type(error).__name__}: {error}")
            stand_ins.names.append(name)
        except SystemExit as error:
            return f"the program ends as it is imported (exit code {error.code})"
        except Exception as error:  # noqa: BLE001  (old code under a new Python fails in many ways)
            return _one_line(f"{type(error).__name__}: {error}")
        else:
            return None
    return f"too many packages are missing, e.g. {', '.join(stand_ins.names[:3])}"


def _supplies_to_typing(message: str) -> bool:
    """Add a name of a later Python's `typing` that the program imports; return whether it could."""
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
    """Let torch show GPUs of a compute capability that are not there."""
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
    """Let Megatron see the newest Transformer Engine if this Python has none."""
    if importlib.util.find_spec("transformer_engine") is None:
        with contextlib.suppress(ImportError):
            from packaging.version import Version

            utils: Any = importlib.import_module("megatron.core.utils")
            utils.get_te_version = lambda: Version(_NEWEST)


def _ask(order: Mapping[str, Any], stand_ins: _StandIns, problem: str | None) -> _Answer:
    answer = _Answer(not_asked=list(_not_asked(order, stand_ins)))
    if problem is not None:
        answer.error = f"{order['program']}: cannot be imported here: {problem}"
        return answer
    _show_gpus(int(order.get("gpus_per_node") or 1), order.get("compute_capability"))
    _present_as_rank(order)
    sys.argv = [str(order["program"]), *order["arguments"]]
    try:
        with _without_training(), _argparse_raises():
            for step, name in _steps(str(order["program"])):
                step()
                answer.asked.append(name)
    except ImportError as error:
        answer.not_asked.append(_one_line(f"what comes after: {type(error).__name__}: {error}"))
    except SystemExit as error:
        answer.problems.append({"argument": None, "message": f"exit code {error.code}"})
    except Exception as error:  # noqa: BLE001  (any error of the program is its refusal)
        message = _words_of(error)
        if _is_of_this_machine(error):
            answer.not_asked.append(f"what comes after: {message}")
        else:
            cause = _named(f"{message} {_source_of(error)}", order["arguments"])
            answer.problems.append({"argument": cause, "message": message})
    return answer


def _is_of_this_machine(error: BaseException) -> bool:
    """Return whether an error only shows that this Python lacks a package, or a GPU."""
    if isinstance(error, _RefusedError):
        return False
    if isinstance(error.__cause__ or error.__context__, ImportError):
        return True
    lacks_engine = importlib.util.find_spec("transformer_engine") is None
    return bool(_NO_GPU.search(str(error)) or (lacks_engine and _NO_ENGINE.search(str(error))))


def _not_asked(order: Mapping[str, Any], stand_ins: _StandIns) -> Iterator[str]:
    if importlib.util.find_spec("transformer_engine") is None:
        yield "the limits of the version of Transformer Engine, which this Python lacks"
    if not order.get("compute_capability"):
        yield "what depends on the type of GPU: Hopper (9.0) was assumed"
    if stand_ins.names:
        yield f"what needs {', '.join(stand_ins.names)}, which this Python lacks"


def _steps(program: str) -> Iterator[tuple[Callable[[], None], str]]:
    """Yield what is asked in turn, each with its name."""
    root = next((root for root in _ROOTS if f"{root}.arguments" in sys.modules), None)
    if root is None:
        raise ImportError(f"the program imports none of {', '.join(_ROOTS)}.arguments")
    module = sys.modules[f"{root}.arguments"]
    held: dict[str, Any] = {}

    def start() -> None:
        try:
            runpy.run_path(program, run_name="__main__")
        except _ReachedTraining as reached:
            held.update(reached.call)

    def parse() -> None:
        held["args"] = _parsed(root, module, held)

    yield start, f"{Path(program).name}: its start"
    yield parse, "parse_args and validate_args"
    yield (lambda: _set_up_groups(root, held["args"])), "the set-up of model-parallel groups"
    if hasattr(module, "core_transformer_config_from_args"):
        yield (
            lambda: module.core_transformer_config_from_args(held["args"]),
            "TransformerConfig",
        )
        yield (lambda: _make_configs(root, held["args"])), "OptimizerConfig"


def _parsed(root: str, module: types.ModuleType, call: Mapping[str, Any]) -> argparse.Namespace:
    """Return the arguments as the program's own start parses and validates them.

    Later releases parse them before they call `pretrain`; earlier ones in `pretrain`, with the
    further options and the defaults that the program gives it.
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
    """Set up the groups of ranks over a process group that sends nothing."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group(
        backend="fake", rank=0, world_size=args.world_size, store=FakeStore()
    )
    # Groups of gloo would connect; those of the fake process group do not.
    made = torch.distributed.new_group

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
    """Stop where the program would begin to train, and open none of the files it logs to."""
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
    """Return an error's own words on one line; of an assertion without words its condition."""
    text = str(error)
    if isinstance(error, _RefusedError):
        return _one_line(text)
    if not text.strip():
        return _one_line(_source_of(error) or type(error).__name__)
    if isinstance(error, AssertionError | ValueError):
        return _one_line(text)
    return _one_line(f"{type(error).__name__}: {text}")


def _source_of(error: BaseException) -> str:
    """Return the condition of the statement that raised the error, as far as it can be read."""
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


def _given(arguments: Sequence[str]) -> dict[str, str]:
    """Return the options of a command line by the name under which a program holds them."""
    options = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    return {option.removeprefix("--").replace("-", "_"): option for option in options}


def _named(text: str, arguments: Sequence[str]) -> str | None:
    """Return the option of a command line that a message names, by its option or its name."""
    options = _given(arguments)
    for word in _OPTION.findall(text):
        if word in options.values():
            return str(word)
    for name in _NAME.findall(text):
        if name in options:
            return options[name]
        if f"no_{name}" in options:
            return options[f"no_{name}"]
    return None


def _found_by_leaving_out(order: Mapping[str, Any], stand_ins: _StandIns) -> str | None:
    """Return the option without which the program accepts the others; None if there is none."""
    groups: list[list[str]] = []
    for word in order["arguments"]:
        if word.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(word)
    for index in reversed(range(len(groups))):
        rest = [word for group in (*groups[:index], *groups[index + 1 :]) for word in group]
        again = _in_child({**order, "arguments": rest}, stand_ins, None)
        if again.error is None and not again.problems:
            first: str = groups[index][0]
            return first.partition("=")[0]
    return None


if __name__ == "__main__":
    ask_megatron_main()
