"""Check in a rehearsal everything that a rank of a training program would use.

First, the job script starts `python rehearsal.py REHEARSAL.json` once, before the launcher.
This call looks for the modules that the launcher and the program import. It must come
first, because a launcher without torch starts no ranks, and then no rank can report the
missing module.

Then the launcher starts `python rehearsal.py REHEARSAL.json FOLDER PROGRAM ARGUMENT…` on
every rank. This call checks the rank's environment, its options, and the files that the rank
would open. The ranks write their reports into FOLDER, which is new for each start. The first
rank prints which ranks are on which node, and the problems of all ranks.

The exit code is 2 if an option is refused, as with argparse. It is 1 after any other
problem, and otherwise 0. The file uses only the standard library, because it runs under the
Python of the training.
"""

import argparse
import importlib.util
import json
import os
import pkgutil
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ORDER_FILE = "rehearsal.json"
# Printed if all ranks have reported and all checks have passed.
LAST_WORD = "would start: nothing was trained"
# Ranks start within seconds of each other, unless they share a small machine.
MEETING_SECONDS = 120.0
CONNECT_SECONDS = 30.0
_POLL_SECONDS = 0.2
# Only argparse knows which negative numbers its version takes for values.
_NEGATIVE_NUMBER = argparse.ArgumentParser()._negative_number_matcher  # noqa: SLF001
_LAST_PORT = 65535
_VERDICT = "verdict"
_MODULE = "-m "
_OF_ARGPARSE = ("argument ", "unrecognized arguments", "ambiguous option", "the following arg")
_TRACEBACK = 'Traceback (most recent call last):\n  File "rehearsal.py", nothing was started'
_CONVERT = {"int": int, "float": float, "str": str}
# DeepSpeed's launcher, and torch's launcher before torchrun, pass this option to every rank.
_OF_LAUNCHERS = ("--local_rank", "--local-rank")


def rehearsal_main() -> None:
    """Check the modules or this rank, as the command line requests, and exit.

    To check a rank, this process also exchanges reports with the other ranks. The exit code is 0 if
    all checks passed.
    """
    if len(sys.argv) == 2:
        raise SystemExit(_imports_exit_code(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
    # A launcher's own argument comes before the program's.
    handed = [word for word in sys.argv[1:2] if word.partition("=")[0] in _OF_LAUNCHERS]
    order_file, folder, program, *arguments = _program(sys.argv[1 + len(handed) :])
    order = json.loads(Path(order_file).read_text(encoding="utf-8"))
    answer = _asked(order, program, [*handed, *arguments])
    name = Path(program.removeprefix(_MODULE)).name
    problems = sorted({*_problems(order, program, [*handed, *arguments]), *_refusals(answer, name)})
    exit_code = 2 if any(" error: " in problem for problem in problems) else 1 if problems else 0
    meeting = Path(folder)
    rank = _rank(order)
    if rank is None:
        print(*problems, sep="\n", flush=True)
        raise SystemExit(1)
    listening = _listen(rank)
    report = {
        "node": _node(),
        "problems": problems,
        "master": _master(),
        "answers": list(_answer_lines(answer)),
    }
    if not _register(meeting, rank, report):
        print(
            (f"[rehearsal] rank {rank} was started twice, the second time on {_node()}"), flush=True
        )
        raise SystemExit(1)
    if rank == 0:
        passed = _verdict(meeting, order)
        (meeting / _VERDICT).write_text("passed" if passed else "failed")
        exit_code = exit_code or int(not passed)
    else:
        _wait(meeting / _VERDICT)
    if listening is not None:
        listening.close()
    raise SystemExit(exit_code)


def _problems(order: Mapping[str, Any], program: str, arguments: Sequence[str]) -> Iterator[str]:
    if program.startswith(_MODULE):
        yield from _module_problems([program.removeprefix(_MODULE)])
    else:
        yield from _program_problems(program)
    yield from _module_problems(order["imports"])
    for path in order["files"]:
        try:
            if not Path(path).is_dir():
                Path(path).open("rb").close()
        except OSError as error:
            yield f"{type(error).__name__}: {error}"
    if order["accepted"] is not None and order["refuses"]:
        # The form of the last line that argparse prints before it ends with exit code 2.
        name = Path(program.removeprefix(_MODULE)).name
        yield from (
            f"{name}: error: {problem}" for problem in option_problems(arguments, order["accepted"])
        )
    if order["accepted"] is not None:
        yield from _launcher_remarks(arguments, order["accepted"])
    yield from rank_problems(os.environ, order)
    if order["launcher"] != "node" and os.environ.get("RANK") != "0":
        yield from _master_problems()


def _asked(
    order: Mapping[str, Any], program: str, arguments: Sequence[str]
) -> Mapping[str, Any] | None:
    """Return the program's own answer about its arguments; None if the program is not asked.

    To ask the program, rank 0 starts the file `ask_*.py` for this program. This file lets the
    program's own code check the arguments. The program is not asked in three cases: there is no
    such file, this rank is not rank 0, or the launcher is "node".
    """
    if order.get("ask") is None or _rank(order) != 0 or order["launcher"] == "node":
        return None
    whole = {**order["order"], "program": program, "arguments": arguments}
    with tempfile.TemporaryDirectory(prefix="teralog-ask-") as folder:
        file = Path(folder) / "orders.json"
        file.write_text(json.dumps([whole]), encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, order["ask"], str(file)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MEETING_SECONDS / 2,
                check=False,
            )
            answer: Mapping[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])[0]
        except (OSError, subprocess.TimeoutExpired, IndexError, ValueError) as error:
            return {"asked": [], "not_asked": [], "problems": [], "error": str(error)}
    return answer


def _refusals(answer: Mapping[str, Any] | None, name: str) -> Iterator[str]:
    """Yield one line for each argument that the program refuses, in the form of argparse's errors.

    answer: the program's answer about its arguments. name: the program's name.
    """
    for problem in () if answer is None else answer["problems"]:
        message, cause = problem["message"], problem["argument"]
        if not message.startswith(_OF_ARGPARSE):
            # The form in which argparse prints it, so that readers of logs recognize it.
            cause = "arguments together" if cause is None else f"argument {cause}"
            message = f"{cause}: {message}"
        yield f"{name}: error: {message}"


def _answer_lines(answer: Mapping[str, Any] | None) -> Iterator[str]:
    if answer is None:
        return
    if answer["error"] is not None:
        yield f"[rehearsal] the program itself checked nothing: {answer['error']}"
        return
    if answer["asked"]:
        yield f"[rehearsal] checked by the program itself: {', '.join(answer['asked'])}"
    for text in answer["not_asked"]:
        yield f"[rehearsal] {text}"
    for problem in answer["problems"]:
        if problem["argument"] is not None:
            yield f"[rehearsal] the program refuses {problem['argument']}"


def _program_problems(program: str) -> Iterator[str]:
    """Yield the error message if Python cannot run `program`, which is a file or folder."""
    try:
        path, source = _program_source(program)
        if not source.startswith(importlib.util.MAGIC_NUMBER):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(source, path, "exec")
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        yield f"{type(error).__name__}: {error}"


def _program_source(program: str) -> tuple[str, bytes]:
    """Return the path of the file that Python runs for a program, and the file's content.

    If the program is a folder or a zip file, Python runs the file `__main__.py` in it. Raises
    OSError if a file cannot be read, and ImportError if there is no `__main__`.
    """
    finder: Any = pkgutil.get_importer(program)
    if finder is None:
        return program, Path(program).read_bytes()
    spec = finder.find_spec("__main__")
    if spec is None or spec.loader is None:
        message = f"can't find '__main__' module in {program!r}"
        raise ImportError(message)
    return spec.origin, spec.loader.get_data(spec.origin)


def _launcher_remarks(arguments: Sequence[str], accepted: Mapping[str, Any]) -> Iterator[str]:
    """Yield a remark if a launcher added `--local-rank`, but the program needs `--local_rank`."""
    words = {argument.partition("=")[0] for argument in arguments}
    if "--local-rank" in words and "--local-rank" not in accepted and "--local_rank" in accepted:
        yield (
            "[rehearsal] torch.distributed.launch passes --local-rank since torch 2.0, but this "
            "program needs --local_rank; use an older torch, or another launcher"
        )


def _program(words: Sequence[str]) -> list[str]:
    """Return the words of a command line, with `-m MODULE` joined into one word.

    words: the file with the instructions of the rehearsal, the folder of reports, the program,
    and the program's arguments, in this order. The program is a file (one word), or
    `-m MODULE` (two words).
    """
    order, folder, program, *arguments = words
    if program in ("-m", "--module"):
        return [order, folder, _MODULE + arguments[0], *arguments[1:]]
    return list(words)


def install_line(modules: Sequence[str], extras: Mapping[str, str], python: str | None) -> str:
    """Return the pip command that installs these modules.

    extras: a mapping from a module to the extra of teralog that installs it, as in teralog[EXTRA].
    python: the path of the Python that needs the modules; None for the Python to which the user's
    `pip` belongs.
    """
    pip = "pip" if python is None else f"{shlex.quote(python)} -m pip"
    chosen = sorted({extras[module] for module in modules if module in extras}, reverse=True)
    others = [module for module in modules if module not in extras and module != "teralog"]
    ours = f"teralog[{','.join(chosen)}]" if chosen else "teralog"
    words = [ours] if chosen or "teralog" in modules else []
    return f"{pip} install {shlex.join([*words, *others])}"


def _imports_exit_code(order: Mapping[str, Any]) -> int:
    """Check that this Python has the modules that the run needs; return the exit code.

    The exit code is 0, or 1 if a module is missing. If modules are missing, also prints the error
    messages, and the command that installs the modules.
    """
    problems = dict(zip(order["imports"], map(_module_problem, order["imports"]), strict=True))
    missing = [module for module, problem in problems.items() if problem]
    if not missing:
        return 0
    print(_TRACEBACK, *(problems[module] for module in missing), sep="\n")
    line = install_line(missing, order["extras"], sys.executable)
    print(f"[rehearsal] {_node()}: nothing was started; type: {line}", flush=True)
    return 1


def _module_problems(modules: Iterable[str]) -> Iterator[str]:
    """Yield an error message for each module that the run's Python does not find."""
    # The program would not look for modules in the folder of this file.
    sys.path = [path for path in sys.path if path != str(Path(__file__).parent)]
    yield from filter(None, map(_module_problem, modules))


def _module_problem(module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except ImportError as error:
        return f"{type(error).__name__}: {error}"
    return None if spec else f"ModuleNotFoundError: No module named {module!r}"


def rank_problems(environment: Mapping[str, str], order: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of the environment variables that identify a rank.

    order: the instructions of the rehearsal, with `ranks_per_node`, `nodes` and `launcher` of the
    run. Yields nothing for the launcher "node": it starts one process per node, which does not need
    these variables.
    """
    if order["launcher"] == "node":
        return
    per_node, nodes = order["ranks_per_node"], order["nodes"]
    numbers = {}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        text = environment.get(name)
        if text is None or not text.isdecimal():
            yield f"ValueError: {name} is {text!r}, but must be a number"
        else:
            numbers[name] = int(text)
    if len(numbers) < 3:
        return
    rank, local, world = numbers["RANK"], numbers["LOCAL_RANK"], numbers["WORLD_SIZE"]
    if world != nodes * per_node:
        yield f"ValueError: WORLD_SIZE is {world}, but the run has {nodes * per_node} ranks"
    if not rank < nodes * per_node:
        yield f"ValueError: RANK is {rank}, but the run has only {nodes * per_node} ranks"
    if local != rank % per_node:
        yield (
            f"ValueError: LOCAL_RANK is {local}, but must be {rank % per_node}: RANK is {rank}, "
            f"with {per_node} ranks per node"
        )
    node = environment.get("SLURM_NODEID", "")
    if node.isdecimal() and int(node) != rank // per_node:
        # Consecutive ranks must share a node: the groups of a split model consist of such ranks.
        yield (
            f"ValueError: RANK is {rank} on node {node}, but must be on node {rank // per_node}: "
            f"each node has {per_node} consecutive ranks"
        )
    devices = environment.get("CUDA_VISIBLE_DEVICES")
    if devices and local >= len(devices.split(",")):
        yield f"RuntimeError: CUDA error: invalid device ordinal: rank {rank} sees only {devices}"
    yield from _address_problems(environment)


def _address_problems(environment: Mapping[str, str]) -> Iterator[str]:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not environment.get(name):
            yield f"ValueError: {name} is not set"
    port = environment.get("MASTER_PORT")
    if port and _port(environment) is None:
        yield f"ValueError: MASTER_PORT is {port!r}, but must be a number from 1 to {_LAST_PORT}"


def option_problems(
    arguments: Sequence[str], accepted: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield one message of argparse for each argument that a program would refuse.

    accepted: a mapping from each option to its properties. `values` is how many values it has: a
        number, or argparse's "?", "*" or "+". Without `values`, the option has one value. `type` is
        "int", "float" or "str". `choices` are the allowed values. `required` is whether the option
        must be given.
    """
    options = given_options(arguments)
    for option, values in options:
        if option is None:
            yield f"unrecognized arguments: {' '.join(values)}"
        elif option not in accepted:
            yield f"unrecognized arguments: {' '.join((option, *values))}"
        else:
            yield from _value_problems(option, values, accepted[option])
    given = [option for option, _ in options if option is not None]
    for option, takes in accepted.items():
        if takes.get("required") and option not in given:
            yield f"the following arguments are required: {option}"


def given_options(arguments: Sequence[str]) -> list[tuple[str | None, list[str]]]:
    """Return each option of a command line with its values.

    A value before the first option is returned on its own, with None in place of an option.
    """
    options: list[tuple[str | None, list[str]]] = []
    for argument in arguments:
        if _is_option(argument):
            option, equals, value = argument.partition("=")
            options.append((option, [value] if equals else []))
        elif options:
            options[-1][1].append(argument)
        else:
            options.append((None, [argument]))
    return options


def _value_problems(option: str, values: list[str], takes: Mapping[str, Any]) -> Iterator[str]:
    wanted = takes.get("values", 1)
    least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(wanted, (wanted, wanted))
    if len(values) < least:
        words = {1: "one argument", "+": "at least one argument"}
        yield f"argument {option}: expected {words.get(wanted, f'{wanted} arguments')}"
    if most is not None and len(values) > most:
        yield f"unrecognized arguments: {' '.join(values[most:])}"
    convert, choices = _CONVERT[takes.get("type", "str")], takes.get("choices")
    for value in values[:most]:
        try:
            converted = convert(value)
        except ValueError:
            yield f"argument {option}: invalid {takes['type']} value: {value!r}"
            continue
        if choices is not None and converted not in choices:
            offered = ", ".join(map(repr, choices))
            yield f"argument {option}: invalid choice: {converted!r} (choose from {offered})"


def _is_option(argument: str) -> bool:
    """Return whether argparse takes an argument for an option, e.g. -1e-5, but not -1."""
    return (
        len(argument) > 1
        and argument.startswith("-")
        and " " not in argument.partition("=")[0]
        and not _NEGATIVE_NUMBER.match(argument)
    )


def _port(environment: Mapping[str, str]) -> int | None:
    text = environment.get("MASTER_PORT", "")
    return int(text) if text.isdecimal() and 0 < int(text) <= _LAST_PORT else None


def _rank(order: Mapping[str, Any]) -> int | None:
    alone = order["launcher"] == "node"
    text = os.environ.get("SLURM_NODEID", "0") if alone else os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else None


def _node() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _master() -> str:
    return f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"


def _listen(rank: int) -> socket.socket | None:
    """Return a socket on which rank 0 listens, so that the other ranks can try to connect to it.

    The port is MASTER_PORT, to which the ranks of a training would connect. Returns None on other
    ranks, and under torchrun, because torchrun itself listens on this port. Also returns None if
    rank 0 cannot listen; the other ranks then report that they cannot connect.
    """
    port = _port(os.environ)
    if rank or port is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    with suppress(OSError):
        return socket.create_server(("", port))
    return None


def _master_problems() -> Iterator[str]:
    host, port = os.environ.get("MASTER_ADDR"), _port(os.environ)
    if not host or port is None:
        return
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > deadline:
                yield f"torch.distributed.DistNetworkError: connect to {host}:{port}: {error}"
                return
            time.sleep(_POLL_SECONDS)
        else:
            return


def _register(meeting: Path, rank: int, report: Mapping[str, Any]) -> bool:
    """Write a rank's report into the folder `meeting`; return True if that worked.

    Returns False if the folder already contains a report of this rank. The report appears in the
    folder as a whole, so that no other rank reads half of it.
    """
    draft = meeting / f".{rank}-{_node()}-{os.getpid()}"
    draft.write_text(json.dumps(report), encoding="utf-8")
    try:
        (meeting / f"{rank}.json").hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _verdict(meeting: Path, order: Mapping[str, Any]) -> bool:
    """Wait for the reports of all ranks, print them together, and return whether all checks passed.

    Prints which ranks are on which node, and then the problems. If only some nodes have a
    problem, the problem is printed with the names of these nodes. If no report arrives for
    `MEETING_SECONDS`, the missing ranks are a problem, too.
    """
    per_node = 1 if order["launcher"] == "node" else order["ranks_per_node"]
    expected = order["nodes"] * per_node
    ranks = _gather(meeting, expected)
    nodes: dict[str, list[int]] = {}
    problems: dict[str, list[str]] = {}
    for rank, report in sorted(ranks.items()):
        nodes.setdefault(report["node"], []).append(rank)
        for problem in report["problems"]:
            places = problems.setdefault(problem, [])
            if report["node"] not in places:
                places.append(report["node"])
    masters = {report["master"] for report in ranks.values()}
    if len(ranks) < expected:
        missing = sorted(set(range(expected)) - ranks.keys())
        problems[f"only {len(ranks)} of {expected} ranks started; missing: {missing}"] = []
    if order["launcher"] != "node" and len(masters) > 1:
        problems[f"ranks have different masters: {sorted(masters)}"] = []
    if len(nodes) != order["nodes"]:
        problems[
            f"ranks are on {_counted(len(nodes), 'node')}, but the run has {order['nodes']}"
        ] = []
    for node, there in nodes.items():
        print(f"[rehearsal] {node}: rank {', '.join(map(str, there))}")
    master = "" if order["launcher"] == "node" else f", master {', '.join(sorted(masters))}"
    together = f"{_counted(len(ranks), 'rank')} on {_counted(len(nodes), 'node')}"
    print(f"[rehearsal] {together}{master}")
    for line in ranks.get(0, {}).get("answers", ()):
        print(line)
    if any(" error: " not in problem for problem in problems):
        # The same form as Python's own message, so that readers of logs recognize it.
        print(_TRACEBACK)
    for problem, places in sorted(problems.items(), key=lambda item: " error: " in item[0]):
        where = f" (on {', '.join(places)})" if places and len(places) < len(nodes) else ""
        print(f"{problem}{where}")
    if not problems:
        print(f"[rehearsal] {order['program']} {LAST_WORD}")
    sys.stdout.flush()
    return not problems


def _gather(meeting: Path, expected: int) -> dict[int, dict[str, Any]]:
    ranks: dict[int, dict[str, Any]] = {}
    last_arrival = time.monotonic()
    while len(ranks) < expected and time.monotonic() - last_arrival < MEETING_SECONDS:
        for path in meeting.glob("*.json"):
            if int(path.stem) not in ranks:
                ranks[int(path.stem)] = json.loads(path.read_text(encoding="utf-8"))
                last_arrival = time.monotonic()
        time.sleep(_POLL_SECONDS)
    return ranks


def _wait(path: Path) -> None:
    deadline = time.monotonic() + 2 * MEETING_SECONDS
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    rehearsal_main()
