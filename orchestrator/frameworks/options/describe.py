"""Write a record of a checkout's options, for use on a machine without the checkout."""

import ast
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError
from orchestrator.frameworks.options.source import read_options

# Programs that a checkout may contain; the first one that exists is read.
_PROGRAMS = ("pretrain_gpt.py", "pretrain_gpt2.py")


def make_record(source: Path) -> dict[str, Any]:
    """Return the record of a program's options as JSON values.

    source: a checkout of Megatron or of one of its forks, or a script.

    The record contains the program's name, the path of its source, and what each option accepts. It
    also contains `complete: false` if some options could not be read. Raises UserError if `source`
    does not exist or contains no program, or if no option of the program can be read.
    """
    program = source
    if source.is_dir():
        programs = [source / name for name in _PROGRAMS if (source / name).is_file()]
        if not programs:
            raise UserError(
                f"{source}: contains none of {', '.join(_PROGRAMS)}; give the path of the "
                "program's file"
            )
        program = programs[0]
    elif not source.is_file():
        raise UserError(f"{source}: does not exist; give a checkout or a program's file")
    read = read_options(program)
    return {
        "program": _name(program),
        "source": str(program.absolute()),
        **({} if read.complete else {"complete": False}),
        "options": read.options,
    }


def _name(program: Path) -> str:
    """Return the program's name and version as text, e.g. `Megatron core 0.17.1 (1a2b3c4d5e6f)`.

    The text in parentheses is the git commit. The name of a program other than Megatron core is its
    file and folder, e.g. `pretrain_gpt.py in Megatron-LM`.
    """
    folder = program.parent
    version = _core_version(folder / "megatron" / "core" / "package_info.py")
    name = f"{program.name} in {folder.absolute().name}"
    commit = _commit(folder)
    return f"{f'Megatron core {version}' if version else name}{f' ({commit})' if commit else ''}"


def _core_version(path: Path) -> str | None:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    numbers: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                numbers[name] = str(value)
    parts = [numbers.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    return None if None in parts else ".".join(filter(None, parts))


def _commit(folder: Path) -> str | None:
    if not (folder / ".git").exists() or shutil.which("git") is None:
        return None
    asked = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or None


def record_text(record: dict[str, Any]) -> str:
    """Return a record as JSON, one option per line."""
    options = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(takes)}" for name, takes in record["options"].items()
    )
    head = "".join(
        f" {json.dumps(key)}: {json.dumps(value)},\n"
        for key, value in record.items()
        if key != "options"
    )
    return f'{{\n{head} "options": {{\n{options}\n }}\n}}\n'
