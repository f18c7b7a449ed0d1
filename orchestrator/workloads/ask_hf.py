"""Check with Hugging Face's own classes whether they accept the arguments of a run.

The command is `python ask_hf.py ORDER.json`. ORDER.json describes the runs to check; the
last line of the output is JSON with the result for each run. If a program parses its
arguments with HfArgumentParser, the program is not run. Instead, this module reads the
dataclasses in the program's file, and HfArgumentParser parses the arguments with them. Any
other program is run until it has made its TrainingArguments. Then the Trainer fills in the
DeepSpeed configuration, and DeepSpeed checks the complete configuration as in
ask_deepspeed.py.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Union

if __package__:
    from . import ask_deepspeed, asking
else:
    import ask_deepspeed  # type: ignore[import-not-found, no-redef, unused-ignore]
    import asking  # type: ignore[import-not-found, no-redef, unused-ignore]

_PARSER = "HfArgumentParser"
# The hidden size of a model that is not known. The Trainer computes sizes of buffers from it.
_SOME_WIDTH = 1024
_MISMATCH = "- ds "
_ENDS_EARLY = "{name} ends before it makes its TrainingArguments"
_CAN_BE_AUTO = ": both values must be equal, or DeepSpeed's value must be 'auto'"
# Without these options, a program makes another model or none. So a refusal may disappear, although
# the removed option is not its cause.
_SELECTORS = ("--deepspeed", "--deepspeed-config", "--output_dir", "--model_type")

_LOADED_LATE = (
    "transformers.training_args",
    "transformers.trainer",
    "transformers.models.gpt2.modeling_gpt2",
    "transformers.integrations.deepspeed",
    "accelerate.utils.deepspeed",
)
_DECLARATIONS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)

# An option with its values, or a key of DeepSpeed's configuration with its path.
_Thing = Union["tuple[str, ...]", ask_deepspeed.Leaf]


class _MadeError(BaseException):
    """Raised to stop a program after it has made its TrainingArguments.

    arguments: these TrainingArguments.
    """

    def __init__(self, arguments: Any) -> None:
        super().__init__()
        self.arguments = arguments


class _RefusedError(Exception):
    """Raised if a parser refuses its arguments; contains the parser's message."""


def _load() -> None:
    """Import torch and DeepSpeed, and the modules of transformers and accelerate for the checks.

    A missing module of transformers or accelerate is not an error here.
    """
    ask_deepspeed.load()
    for module in _LOADED_LATE:
        with suppress(Exception):
            import_module(module)


def _ask(order: asking.ProgramOrder) -> asking.ProgramAnswer:
    """Return what transformers and DeepSpeed refuse in the arguments and configuration of a run."""
    ask_deepspeed.be_a_rank(order)
    try:
        import transformers
    except ImportError as error:
        raise asking.CannotAskError(
            f"{sys.executable} cannot import the packages of the program: {asking.words(error)}"
        ) from error
    _stand_for_gpus(transformers, order.world_size)
    program = None if order.program is None else Path(order.program)
    classes, remark = _dataclasses_of(program)
    version = f"transformers {transformers.__version__}"
    answer = asking.ProgramAnswer(asked=[f"{version}: TrainingArguments"], not_asked=list(remark))
    if classes:
        names = ", ".join(cls.__name__ for cls in classes)
        answer.asked = [f"{version}: HfArgumentParser of {names}"]
    elif program is None:
        answer.not_asked.append(
            "only the options of TrainingArguments were checked, because the program is not known"
        )

    config = {}
    if order.deepspeed_config is not None:
        config = ask_deepspeed.deepspeed_settings(order.deepspeed_config)

    def answered(things: Sequence[_Thing]) -> dict[str, Any]:
        def question() -> dict[str, Any]:
            return _answer_of(program, classes, things, order)

        reply: dict[str, Any] = asking.in_another_process(question)
        return reply

    def refused(things: Sequence[_Thing]) -> list[asking.ProgramRefusal]:
        return [asking.ProgramRefusal(*refusal) for refusal in answered(things)["refusals"]]

    things: list[_Thing] = [*asking.grouped(order.arguments), *ask_deepspeed.leaves_of(config)]
    answer.problems = list(asking.problems_of(things, refused, _name, last=_SELECTORS))
    if order.deepspeed_config is not None:
        filled = answered(list(_without(things, answer.problems)))["config"]
        answer.asked.append(f"{version}: HfTrainerDeepSpeedConfig")
        if filled is None:
            answer.not_asked.append(
                "DeepSpeed's configuration was not checked, because the Trainer could not complete "
                "it"
            )
        else:
            own = ask_deepspeed.config_answer(filled, order)
            answer.asked += own.asked
            answer.not_asked += own.not_asked
            answer.problems += own.problems
    return answer


def _without(
    things: Sequence[_Thing], problems: Sequence[asking.ProgramRefusal]
) -> Iterator[_Thing]:
    """Yield the options and keys that were not refused.

    things: all options of the command line and all keys of the DeepSpeed configuration, with
    their values. problems: the refusals. A refused key is yielded, too, if the Trainer can fill
    it in; its value is then `auto`.
    """
    messages = {problem.argument: problem.message for problem in problems}
    for thing in things:
        message = messages.get(_name(thing))
        if message is None:
            yield thing
        elif message.endswith(_CAN_BE_AUTO):
            yield (thing[0], "auto")  # type: ignore[misc]


def _name(thing: _Thing) -> str:
    """Return the name of an option, or the dotted path of a key of the DeepSpeed configuration.

    thing: the option or the key, with its values.
    """
    if isinstance(thing[0], tuple):
        return ask_deepspeed.dotted(thing)
    return asking.option_name(thing)


def _stand_for_gpus(transformers: Any, world_size: int) -> None:
    """Make TrainingArguments behave as if this process had the GPUs of the run.

    All TrainingArguments that are made later have the run's world size, and accept bf16 and
    tf32.
    """
    from transformers import training_args

    for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
        if hasattr(training_args, name):
            setattr(training_args, name, lambda *values: True)
    if hasattr(training_args, "enable_tf32"):
        training_args.enable_tf32 = lambda *values: None
    # Without GPUs, the world size would be 1.
    transformers.TrainingArguments.world_size = property(lambda made: world_size)


def _dataclasses_of(program: Path | None) -> tuple[list[Any], Iterator[str]]:
    """Return the dataclasses that a program gives to HfArgumentParser, and remarks.

    A remark is a phrase about options that cannot be checked, with the reason. The list of
    dataclasses is empty if the program does not use HfArgumentParser, or if the dataclasses cannot
    be read.
    """
    tree = None
    with suppress(OSError, SyntaxError, TypeError):
        tree = ast.parse(Path(program).read_bytes())  # type: ignore[arg-type]
    given = None if tree is None else _given_to_parser(tree)
    if tree is None or given is None:
        return [], iter(())
    space: dict[str, Any] = {"__name__": "_program"}
    # `dataclass` looks up the annotations in the module of the class.
    module = SimpleNamespace(__dict__=space)
    sys.modules["_program"] = module  # type: ignore[assignment]
    missing = set()
    for statement in tree.body:
        decorated = isinstance(statement, ast.ClassDef) and statement.decorator_list
        if not decorated and not isinstance(statement, _DECLARATIONS):
            continue
        code = compile(ast.Module([statement], []), str(program), "exec")
        try:
            exec(code, space)  # noqa: S102  (the declarations of the user's own program)
        except ImportError as error:
            missing.add(asking.words(error))
        except Exception as error:  # noqa: BLE001  (what is missing shows when it is needed)
            missing.add(f"line {statement.lineno}: {asking.words(error)}")
    try:
        value = eval(compile(ast.Expression(given), str(program), "eval"), space)  # noqa: S307
    except Exception as error:  # noqa: BLE001
        causes = "; ".join([asking.words(error), *sorted(missing)])
        remark = (
            f"the options that {program} adds were not checked, because their definitions fail "
            f"here: {causes}"
        )
        return [], iter([remark])
    return list(value) if isinstance(value, list | tuple) else [value], iter(())


def _given_to_parser(tree: ast.Module) -> ast.expr | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name == _PARSER:
                return node.args[0] if node.args else node.keywords[0].value
    return None


def _answer_of(
    program: Path | None,
    classes: Sequence[Any],
    things: Sequence[_Thing],
    order: asking.ProgramOrder,
) -> dict[str, Any]:
    """Return what is refused in arguments and configuration: a JSON object with two keys.

    refusals: for each refusal, its message and the refused option or key.
    config: the DeepSpeed configuration as the Trainer completes it; None if something is refused,
        or if the run has no DeepSpeed configuration.

    classes: the dataclasses that the program gives to HfArgumentParser.
    things: the options and keys to check, with their values.
    """
    refusals: list[asking.ProgramRefusal] = []
    filled = None
    leaves: list[Any] = [thing for thing in things if isinstance(thing[0], tuple)]
    words: list[Any] = [word for thing in things if thing not in leaves for word in thing]
    if order.deepspeed_config is not None:
        file = Path.cwd() / "ds_config.json"
        file.write_text(json.dumps(ask_deepspeed.with_leaves(leaves)), encoding="utf-8")
        words = [word.replace(order.deepspeed_config, str(file)) for word in words]
    try:
        filled = _completed(_parse(program, classes, words))
    except _RefusedError as error:
        refusals = asking.argparse_refusals(str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  (they raise anything)
        refusals = list(_refusals_in(error))
    return {
        "refusals": [(refusal.message, refusal.argument) for refusal in refusals],
        "config": filled,
    }


def _refusals_in(error: BaseException) -> Iterator[asking.ProgramRefusal]:
    lines = [line.strip() for line in str(error).splitlines()]
    mismatches = [line for line in lines if line.startswith(_MISMATCH)]
    for line in mismatches:
        words = line.removeprefix(_MISMATCH)
        yield asking.ProgramRefusal(f"DeepSpeed's {words}{_CAN_BE_AUTO}", words.partition("=")[0])
    if not mismatches:
        message = asking.words(error)
        if isinstance(error, TypeError | KeyError | AttributeError | SystemExit):
            message = f"{type(error).__name__}: {message}"
        yield asking.ProgramRefusal(message)


def _parse(program: Path | None, classes: Sequence[Any], arguments: Sequence[str]) -> list[Any]:
    """Return the dataclass instances that a program makes from its arguments.

    classes: the dataclasses that the program gives to HfArgumentParser. If there are none, the
    program is run until it has made its TrainingArguments, which are then the only instance. If
    `program` is None, too, only the options of TrainingArguments are parsed.

    Raises _RefusedError if an argument is refused.
    """
    import transformers

    library: Any = transformers

    def refuse(parser: Any, message: str) -> NoReturn:
        raise _RefusedError(message)

    argparse.ArgumentParser.error = refuse  # type: ignore[method-assign,assignment]
    argparse.ArgumentParser.exit = refuse  # type: ignore[method-assign, assignment]
    if program is not None and not classes:
        return [_made_by(program, arguments)]
    parser = library.HfArgumentParser(list(classes) or [library.TrainingArguments])
    *parsed, rest = parser.parse_args_into_dataclasses(
        list(arguments), return_remaining_strings=True, look_for_args_file=False
    )
    if rest and classes:
        raise _RefusedError(f"unrecognized arguments: {' '.join(rest)}")
    return list(parsed)


def _made_by(program: Path, arguments: Sequence[str]) -> Any:
    """Run a program until it has made its TrainingArguments; return these TrainingArguments.

    Raises _RefusedError if the program ends before it has made them.
    """
    import transformers

    kind: Any = transformers.TrainingArguments
    complete = kind.__post_init__

    def complete_and_stop(made: Any) -> None:
        complete(made)
        raise _MadeError(made)

    def leave(exit_code: int) -> NoReturn:
        raise SystemExit(exit_code)

    kind.__post_init__ = complete_and_stop
    if program.parent == Path(__file__).parent:
        _let_own_programs_see_a_gpu(asking.folder_of_imports(program))
    printed, leave_at_once = io.StringIO(), os._exit
    os._exit = leave  # type: ignore[assignment]
    try:
        with redirect_stderr(printed):
            asking.start_program(program, arguments)
    except _MadeError as made:
        return made.arguments
    except SystemExit:
        # The last line that the program prints contains the reason why it ends.
        last = [line.strip() for line in printed.getvalue().splitlines() if line.strip()][-1:]
        raise _RefusedError("".join(last) or _ENDS_EARLY.format(name=program.name)) from None
    finally:
        os._exit = leave_at_once
    raise _RefusedError(_ENDS_EARLY.format(name=program.name))


def _let_own_programs_see_a_gpu(folder: Path) -> None:
    """Let teralog's own training programs accept any precision on the CPU.

    The real run has GPUs, so the limits of the CPU do not matter. folder: the folder from which
    Python imports teralog's packages.
    """
    import torch

    sys.path.insert(0, str(folder))
    ranks: Any = import_module("orchestrator.workloads.rank_process")
    ranks.select_device = lambda settings: torch.device("cpu")


def _completed(parsed: Sequence[Any]) -> dict[str, Any] | None:
    """Return the DeepSpeed configuration as the Trainer completes it; None if the run has none.

    parsed: the dataclass instances made from the run's arguments. Raises the Trainer's exception if
    the configuration contradicts the arguments of the Trainer.
    """
    from transformers import TrainingArguments
    from transformers.integrations import deepspeed as integration

    training = next(
        (instance for instance in parsed if isinstance(instance, TrainingArguments)), None
    )
    held = getattr(training, "hf_deepspeed_config", None)
    if training is None or held is None:
        return None
    steps = training.max_steps
    if steps <= 0:
        # The number of steps depends on the data, which is not read here.
        given = held.get_value("scheduler.params.total_num_steps")
        steps = given if isinstance(given, int) else 1
    model = SimpleNamespace(config=_model_config(parsed))
    held.trainer_config_finalize(training, model, steps)
    trainer = SimpleNamespace(
        model=model,
        optimizer=None,
        lr_scheduler=None,
        create_optimizer=SimpleNamespace,
        create_scheduler=lambda **named: SimpleNamespace(),
        args=training,
        deepspeed=None,
    )
    optimize: Any = getattr(integration, "deepspeed_optim_sched", None)
    if optimize is not None:
        with suppress(AttributeError, TypeError):
            optimize(trainer, held, training, steps, [])
    return dict(held.config)


def _model_config(parsed: Sequence[Any]) -> Any:
    """Return the model's configuration, if the arguments contain a model type and its sizes.

    Otherwise return a configuration with an arbitrary hidden size. The Trainer computes buffer
    sizes from the hidden size, so the configuration must contain one.
    """
    import transformers

    configs: Any = transformers.CONFIG_MAPPING

    for instance in parsed:
        kind = getattr(instance, "model_type", None)
        changes = getattr(instance, "config_overrides", None)
        if kind in configs and changes:
            config = configs[kind]()
            config.update_from_string(changes)
            return config
    return SimpleNamespace(hidden_size=_SOME_WIDTH)


if __name__ == "__main__":
    asking.answer_orders(_ask, lambda _: _load())
