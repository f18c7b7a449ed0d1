"""What the programs `ask_*.py` share: their input, their answer, and the search for a cause.

To ask a program about a run means to let the program's own classes check the run's arguments,
before the run needs a GPU. Each `ask_*.py` does this for some training programs. It is started by
the Python of the run, as `python ask_NAME.py ORDER.json`. ORDER.json contains one JSON object per
run to check, called an order (see `ProgramOrder`): the run's command line, and facts about the run.
The last line of the output is JSON, too: the answer about each run (see `ProgramAnswer`). An
`ask_*.py` does not train, use the network, or write into the source of the training program.

This module uses only the standard library, like each `ask_*.py` itself.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

# The time limit for one question; the import of torch is not part of a question.
SECONDS = 120
# The time limit for all questions about a run.
SECONDS_OF_ALL = 900
# A run with more problems than this is wrong in some other way.
_MOST_PROBLEMS = 20
_OWN_MODULE = "-m teralog."
# Shorter words, e.g. `no`, are in many messages by chance.
_WORD = re.compile(r"[A-Za-z]\w{2,}")
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")
_WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")
# Which arguments of these events are paths that change; of all other events, it is the first.
_CHANGED = {"os.rename": slice(2), "os.link": slice(1, 2), "os.symlink": slice(1, 2)}
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True)
class ProgramOrder:
    """A request to check a run: the command line of the run's program, and facts about the run.

    program: the file of the training program; None if it cannot be read on this machine.
    arguments: the words of the command line after the program.
    deepspeed_config: the path of DeepSpeed's JSON file; None if the run has none.
    compute_capability: the compute capability of the GPUs, e.g. (9, 0); None if it is unknown.
    has_gpus: whether the run uses GPUs; otherwise it trains on cores.
    """

    program: str | None
    arguments: tuple[str, ...]
    world_size: int
    gpus_per_node: int
    deepspeed_config: str | None
    compute_capability: tuple[int, ...] | None = None
    has_gpus: bool = False


@dataclass(frozen=True)
class ProgramRefusal:
    """A reason why a program would not start, in the program's own words, on one line.

    argument: the option, or the dotted key of a configuration, that is the cause; None if unknown.
    """

    message: str
    argument: str | None = None


@dataclass
class ProgramAnswer:
    """The result of checking a run with its program's own classes.

    asked: what was checked. not_asked: what was not checked, e.g. because that needs a GPU.
    problems: what the program refuses. error: why nothing could be checked, or None.
    """

    asked: list[str] = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)
    problems: list[ProgramRefusal] = field(default_factory=list)
    error: str | None = None


class CannotAskError(Exception):
    """Raised if a program cannot check a run; the message is a sentence with the reason."""


def answer_orders(
    ask: Callable[[ProgramOrder], ProgramAnswer],
    load: Callable[[Sequence[ProgramOrder]], None] = lambda orders: None,
) -> NoReturn:
    """Check the runs in the file that the command line names, print the answers, and exit.

    The file contains one order (a `ProgramOrder` as JSON) or a list of orders. The last line of the
    output is one answer (a `ProgramAnswer` as JSON) or a list of answers.

    ask: a function that returns the answer to an order.
    load: a function that imports modules that all orders need. It is called once; then each order
        is handled in a copy of this process. An exception in `load` is ignored: if an order needs
        the missing module, `ask` fails, too, and reports the reason.

    Texts that libraries print go to stderr.
    """
    answers = os.dup(1)
    os.dup2(2, 1)
    os.environ.update(_OFFLINE)
    sys.dont_write_bytecode = True
    # Modules in this folder have general names. The user's program must not import them by mistake.
    sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]
    content = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    orders = [read_order(order) for order in (content if isinstance(content, list) else [content])]
    with suppress(Exception):
        load(orders)
    given = [_answer(ask, order) for order in orders]
    sys.stdout.flush()
    text = json.dumps(given if isinstance(content, list) else given[0])
    os.write(answers, (text + "\n").encode())
    os._exit(0)


def _answer(ask: Callable[[ProgramOrder], ProgramAnswer], order: ProgramOrder) -> dict[str, Any]:
    """Check a run in a separate process; return the answer as a JSON object."""

    def question() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as scratch:
            _be_harmless(order, scratch)
            try:
                answer = ask(order)
            except CannotAskError as error:
                answer = ProgramAnswer(error=str(error))
            except Exception as error:  # noqa: BLE001  (an answer is due, whatever happens)
                answer = ProgramAnswer(error=f"the check of the arguments failed: {words(error)}")
            os.chdir(os.sep)
        return asdict(answer)

    try:
        answer: dict[str, Any] = in_another_process(question, SECONDS_OF_ALL)
    except CannotAskError as error:
        return asdict(ProgramAnswer(error=str(error)))
    return answer


def read_order(values: Mapping[str, Any]) -> ProgramOrder:
    """Return the `ProgramOrder` (the request to check a run) that a JSON object describes.

    If the program in the JSON object is `-m teralog.NAME`, the program's file is NAME.py next to
    this file.
    """
    program = values.get("program")
    if program is not None and program.startswith(_OWN_MODULE):
        program = str(Path(__file__).with_name(f"{program.removeprefix(_OWN_MODULE)}.py"))
    return ProgramOrder(
        program=program,
        arguments=tuple(map(str, values.get("arguments") or ())),
        world_size=values["world_size"],
        gpus_per_node=values["gpus_per_node"],
        deepspeed_config=values.get("deepspeed_config"),
        compute_capability=tuple(values.get("compute_capability") or ()) or None,
        has_gpus=bool(values.get("has_gpus")),
    )


def _be_harmless(order: ProgramOrder, scratch: str) -> None:
    """Make this process unable to use the network and to change files in the program's folder.

    scratch: a folder that becomes the working folder, and into which caches are written.
    """
    for name in ("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = scratch
    os.chdir(scratch)
    source = None if order.program is None else str(Path(order.program).resolve().parent)

    def guard(event: str, values: tuple[Any, ...]) -> None:
        if event in _NETWORK and not (event == "socket.connect" and isinstance(values[1], str)):
            raise PermissionError("while a program checks its arguments, it cannot use the network")
        changes = event in _WRITES or (event == "open" and _is_writing(values))
        if source is None or not changes:
            return
        for given in values[_CHANGED.get(event, slice(1))]:
            if isinstance(given, str | bytes):
                path = os.path.realpath(os.fsdecode(given))
                if path == source or path.startswith(source + os.sep):
                    raise PermissionError(
                        f"{path}: cannot be changed while a program checks its arguments"
                    )

    sys.addaudithook(guard)


def _is_writing(values: tuple[Any, ...]) -> bool:
    flags = values[2] if len(values) > 2 and isinstance(values[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def folder_of_imports(program: Path) -> Path:
    """Return the folder from which Python imports a program.

    This is the program's folder, or the folder that contains its outermost package if the program
    is in a package.
    """
    folder = program.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def start_program(program: Path, arguments: Sequence[str]) -> None:
    """Run a program in this process as its main program.

    arguments: the program's command line. If the program's file is in a package, it is run as a
    module of that package.
    """
    folder = folder_of_imports(program)
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(folder))
    if folder == program.parent:
        runpy.run_path(str(program), run_name="__main__")
    else:
        module = ".".join(program.relative_to(folder).with_suffix("").parts)
        runpy.run_module(module, run_name="__main__")


def words(error: BaseException) -> str:
    """Return the message of an exception on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines) or type(error).__name__


def in_another_process(question: Callable[[], Any], seconds: int = SECONDS) -> Any:
    """Call the function `question` in a separate process, and return its result, a JSON value.

    A separate process is used because libraries keep state between two calls, and may end the
    process. Raises CannotAskError if the process ends without a result, or takes longer than
    `seconds`.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(question(), pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not text:
        ended = os.waitstatus_to_exitcode(status)
        raise CannotAskError(f"the check of the arguments gave no answer (exit code {ended})")
    return json.loads(text)


def problems_of(
    things: Sequence[Any],
    ask: Callable[[Sequence[Any]], list[ProgramRefusal]],
    name: Callable[[Any], str],
    last: Collection[str] = (),
) -> Iterator[ProgramRefusal]:
    """Yield each refusal of options or keys, with the option or key that causes the refusal.

    things: the options of a command line, or the keys of a configuration, with their values.
    ask: a function that returns what the program refuses in a list of options or keys. Programs
    often report only their first problem.
    name: a function that returns the name of an option or key.
    last: names of options or keys that are tried last in the search for a cause.

    After each refusal, its cause is removed from `things`, and the program is asked again about the
    remaining things. If no cause of the first refusal is found, the refusal is yielded without a
    cause. A later refusal without a cause is not yielded, because the removals may have caused it.
    """
    left, first = list(things), True
    for _ in range(_MOST_PROBLEMS):
        refused = ask(left)
        if not refused:
            return
        named = [refusal for refusal in refused if refusal.argument is not None]
        names = {name(thing) for thing in left}
        if named and all(refusal.argument in names for refusal in named):
            yield from named
            blamed = {refusal.argument for refusal in named}
            left = [thing for thing in left if name(thing) not in blamed]
        else:
            cause = _cause(left, refused[0], ask, name, last)
            if cause is None:
                if first:
                    yield from refused
                return
            yield ProgramRefusal(refused[0].message, name(cause))
            left = [thing for thing in left if thing is not cause]
        first = False


def _cause(
    things: Sequence[Any],
    refusal: ProgramRefusal,
    ask: Callable[[Sequence[Any]], list[ProgramRefusal]],
    name: Callable[[Any], str],
    last: Collection[str],
) -> Any | None:
    """Return the option or key that causes a refusal; None if the search finds none.

    A cause is an option or key whose removal makes the refusal disappear. Options and keys that the
    message mentions are tried first. Those in `last` are tried last, except if the message contains
    one of their values.
    """

    def likely(thing: Any) -> tuple[bool, int]:
        named = names_argument(name(thing), refusal.message)
        common = _common_words(name(thing), refusal.message)
        return named or _has_value(thing, refusal.message), common

    def comes_first(thing: Any) -> bool:
        return name(thing) not in last or _has_value(thing, refusal.message)

    suspects = [thing for thing in things if comes_first(thing)]
    for some in (suspects, [thing for thing in things if not comes_first(thing)]):
        other = None
        for thing in sorted(some, key=likely, reverse=True):
            rest = ask([item for item in things if item is not thing])
            if not rest:
                return thing
            messages = [item.message for item in rest]
            if (
                other is None
                and refusal.message not in messages
                and not _lacks(name(thing), refusal, messages)
            ):
                other = thing
        if other is not None:
            return other
    return None


def _has_value(thing: Sequence[Any], message: str) -> bool:
    """Return whether a message contains one of an option's or key's values as a whole word.

    thing: the name of the option or key, followed by its values. Numbers and words of fewer than
    three characters are ignored, because a message may contain them by chance.
    """
    values = (value for value in thing[1:] if isinstance(value, str) and _WORD.fullmatch(value))
    return any(re.search(rf"\b{re.escape(value)}\b", message) for value in values)


def _lacks(name: str, refusal: ProgramRefusal, messages: Sequence[str]) -> bool:
    """Return whether a program's new refusals only mean that a removed option is missing.

    For example, after `--lr` was removed, the program may print `--lr is required`. Then the
    removal does not show that `--lr` caused the earlier refusal.

    name: the name of the removed option. refusal: the refusal before the option was removed.
    messages: the program's refusals after that.
    """
    if any("arguments are required" in message for message in messages):
        return True
    missed = any(names_argument(name, message) for message in messages)
    return missed and not names_argument(name, refusal.message)


def _common_words(name: str, message: str) -> int:
    """Return how many words the name of an argument and a message have in common."""
    words_of_name, words_of_message = (
        set(re.findall(r"[a-z]+", text.lower())) for text in (name, message)
    )
    return len(words_of_name & words_of_message)


def names_argument(name: str, message: str) -> bool:
    """Return whether a message contains the name of an option, or the last part of a dotted key."""
    word = name.lstrip("-").rpartition(".")[2].replace("-", "_")
    pattern = rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])"
    return re.search(pattern, message.replace("-", "_"), re.IGNORECASE) is not None


def grouped(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each option of a command line with its values, e.g. ("--lr", "0.1").

    Values before the first option form a group without an option.
    """
    groups: list[list[str]] = []
    for argument in arguments:
        if _is_option(argument) or not groups:
            groups.append([argument])
        else:
            groups[-1].append(argument)
    return [tuple(group) for group in groups]


def option_name(group: Sequence[str]) -> str:
    """Return the name of an option, without `=` and a value.

    group: an option and its values, in the form that `grouped` returns.
    """
    return group[0].partition("=")[0]


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and not re.fullmatch(r"-\d*\.?\d*([eE][-+]?\d+)?", argument)


def argparse_refusals(message: str) -> list[ProgramRefusal]:
    """Return the refusals in an error message of argparse, e.g. `argument --lr: expected …`."""
    message = message.strip()
    if match := re.match(r"argument (\S+?)(?:/\S+)*: ", message):
        return [ProgramRefusal(message, match[1])]
    head, colon, rest = message.partition("unrecognized arguments: ")
    if colon and not head:
        options = [word for word in rest.split() if _is_option(word)]
        return [
            ProgramRefusal(f"{colon}{option}", option_name([option])) for option in options
        ] or [ProgramRefusal(message)]
    return [ProgramRefusal(message)]
