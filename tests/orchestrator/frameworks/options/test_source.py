"""The options of a program are read from its source, which is never imported."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.errors import UserError
from orchestrator.frameworks.options.source import read_options

Takes = dict[str, Any]


def options_of(tmp_path: Path, **files: str) -> dict[str, Takes]:
    """Write Python files, and return the options that `train.py` defines.

    files: the texts of the files by name, without `.py`; `a__b` is the file b.py in the folder a.
    """
    for name, text in files.items():
        path = tmp_path / f"{name.replace('__', '/').replace('/init', '/__init__')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return read_options(tmp_path / "train.py").options


HEAD = "import argparse, enum, os\nparser = argparse.ArgumentParser()\n"
LINES: dict[str, tuple[str, dict[str, Takes]]] = {
    "plain": ("parser.add_argument('--a')", {"--a": {}}),
    "two names": ("parser.add_argument('-a', '--all', type=int)", {
        "-a": {"type": "int"}, "--all": {"type": "int"}}),
    "positional": ("parser.add_argument('file'); parser.add_argument('--a')", {"--a": {}}),
    "a flag": ("parser.add_argument('--a', action='store_true')", {
        "--a": {"values": 0, "action": "store_true"}}),
    "a negatable flag": (
        "parser.add_argument('--a', action=argparse.BooleanOptionalAction)",
        {"--a": {"values": 0, "action": "boolean"}, "--no-a": {"values": 0, "action": "boolean"}},
    ),
    "several values": ("parser.add_argument('--a', nargs='+', default=['x'])", {
        "--a": {"values": "+", "default": ["x"]}}),
    "the rest": ("parser.add_argument('--a', nargs=argparse.REMAINDER)", {"--a": {"values": "*"}}),
    "a number of values that is computed": ("parser.add_argument('--a', nargs=os.getpid())", {
        "--a": {"values": "*"}}),
    "required": ("parser.add_argument('--a', required=True)", {"--a": {"required": True}}),
    "a computed default": ("parser.add_argument('--a', default=2**32)", {
        "--a": {"default": 2**32}}),
    "choices in a range": ("parser.add_argument('--a', type=int, choices=range(2))", {
        "--a": {"type": "int", "choices": [0, 1]}}),
    "choices of a list above": (
        "C = ['x', 'y']\nparser.add_argument('--a', choices=C + ['z'])",
        {"--a": {"choices": ["x", "y", "z"]}},
    ),
    "names of an enumeration": (
        ("class E(enum.Enum):\n  x = 1\n  y = 2\n"
        "parser.add_argument('--a', type=lambda t: E[t], choices=list(E), default=E.y)"),
        {"--a": {"choices": ["x", "y"], "default": "y"}},
    ),
    "values of an enumeration": (
        ("class E(enum.Enum):\n  x = 'ex'\n"
        "parser.add_argument('--a', choices=[e.value for e in E])"),
        {"--a": {"choices": ["ex"]}},
    ),
    "a type of the program's own": (
        ("def low(text): return text.lower()\n"
        "parser.add_argument('--a', type=low, choices=['x'])"),
        {"--a": {}},
    ),
    "a loop": (
        "for n in ('a', 'b'):\n  parser.add_argument(f'--{n}-size', type=int)",
        {"--a-size": {"type": "int"}, "--b-size": {"type": "int"}},
    ),
    "a group": (
        "g = parser.add_argument_group('x').add_mutually_exclusive_group()\ng.add_argument('--a')",
        {"--a": {}},
    ),
    "keywords in a dictionary": (
        "K = {'type': int}\nparser.add_argument('--a', **K, default=3)",
        {"--a": {"type": "int", "default": 3}},
    ),
    "both ways of a condition that only the machine knows": (
        ("if os.environ.get('X'):\n  parser.add_argument('--a')\n"
        "else:\n  parser.add_argument('--b')"),
        {"--a": {}, "--b": {}},
    ),
    "one way of a condition that is known": (
        "if False:\n  parser.add_argument('--a')\nelse:\n  parser.add_argument('--b')",
        {"--b": {}},
    ),
    "a package that may be there": (
        ("try:\n  import x\n  HAVE = True\nexcept ImportError:\n  HAVE = False\n"
        "if HAVE:\n  parser.add_argument('--a')\nparser.add_argument('--b')"),
        {"--a": {}, "--b": {}},
    ),
    "DeepSpeed's": (
        "import deepspeed\nparser = deepspeed.add_config_arguments(parser)",
        {
            "--deepscale": {"values": 0}, "--deepscale_config": {}, "--deepspeed": {"values": 0},
            "--deepspeed_config": {}, "--deepspeed_mpi": {"values": 0},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), LINES.values(), ids=LINES)
def test_each_way_to_add_an_option_is_understood(
    tmp_path: Path, lines: str, expected: dict[str, Takes]
):
    assert options_of(tmp_path, train=HEAD + lines) == dict(sorted(expected.items()))


def test_functions_of_other_modules_are_followed(tmp_path: Path):
    options = options_of(
        tmp_path,
        train="""
            from pack import pretrain
            from pack.more import add_more
            pretrain(extra_args_provider=add_more if HAVE_IT else None)
            """,
        pack__init="from .parse import parse_args as pretrain",
        pack__parse="""
            import argparse
            from . import sizes
            def parse_args(extra_args_provider=None):
                parser = argparse.ArgumentParser()
                parser = sizes.add_sizes(parser)
                return parser.parse_args()
            """,
        pack__sizes="""
            def add_sizes(parser):
                group = parser.add_argument_group(title='sizes')
                group.add_argument('--layers', type=int)
                return parser
            """,
        pack__more="def add_more(parser):\n  parser.add_argument('--more')\n  return parser",
    )
    assert options == {"--layers": {"type": "int"}, "--more": {}}


FACTORY = """
class ArgumentGroupFactory:
    def __init__(self, src_cfg_class, exclude=None): ...
    def build_group(self, parser, title=None): ...
"""
FIELDS: dict[str, tuple[str, dict[str, Takes]]] = {
    "a number": ("a_b: int = 3", {"--a-b": {"type": "int", "default": 3}}),
    "a text or nothing": ("a: str | None = None", {"--a": {"type": "str"}}),
    "Optional": ("a: Optional[float] = None", {"--a": {"type": "float"}}),
    "a switch that is off": ("a: bool = False", {"--a": {"values": 0, "action": "store_true"}}),
    "a switch that is on": (
        "a_b: bool = True",
        {
            "--disable-a-b": {"values": 0, "action": "store_false"},
            "--no-a-b": {"values": 0, "action": "store_false"},
        },
    ),
    "a list": ("a: list[int] = field(default_factory=list)", {
        "--a": {"type": "int", "values": "+"}}),
    "literals": ("a: Literal['x', 'y'] = 'x'", {
        "--a": {"type": "str", "choices": ["x", "y"], "default": "x"}}),
    "an enumeration": ("a: Color = Color.red", {"--a": {"choices": ["red"], "default": "red"}}),
    "names of its own": (
        "a: bool = field(default=True, metadata={'argparse_meta': {'arg_names': ['--off']}})",
        {"--off": {"values": 0, "action": "store_false"}},
    ),
    "a number of values of its own": (
        "a: list[int] | None = field(default=None, metadata={'argparse_meta': {'nargs': 3}})",
        {"--a": {"type": "int", "values": 3}},
    ),
    "excluded": ("a: int = 1\n    hidden: int = 2", {"--a": {"type": "int", "default": 1}}),
    "no parameter": ("a: int = 1\n    b: int = field(default=1, init=False)", {
        "--a": {"type": "int", "default": 1}}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), FIELDS.values(), ids=FIELDS)
def test_fields_of_a_dataclass_become_options(
    tmp_path: Path, fields: str, expected: dict[str, Takes]
):
    options = options_of(
        tmp_path,
        factory=FACTORY,
        config=(
            "import enum\nfrom dataclasses import dataclass, field\n"
            "from typing import Literal, Optional\n"
            "class Color(enum.Enum):\n    red = enum.auto()\n"
            f"@dataclass\nclass Base:\n    {fields}\n@dataclass\nclass Config(Base):\n    pass\n"
        ),
        train=HEAD
        + "from factory import ArgumentGroupFactory\nfrom config import Config\n"
        + "made = ArgumentGroupFactory(Config, exclude=['hidden'])\n"
        + "made.build_group(parser, 'x')\n",
    )
    assert options == dict(sorted(expected.items()))


def test_nothing_of_the_program_is_run(tmp_path: Path):
    """Teralog reads a program's options without running the program.

    Running or importing a program could delete files or take minutes.
    """
    trap = tmp_path / "ran"
    text = f"{HEAD}open({str(trap)!r}, 'w')\nparser.add_argument('--a')\nwhile True: pass\n"
    assert options_of(tmp_path, train=text) == {"--a": {}}
    assert not trap.exists()


def test_a_program_without_a_parser_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="no options found"):
        options_of(tmp_path, train="print('hello')")


names = st.sampled_from(["--alpha", "--beta-size", "-g", "--delta_x"])
keywords = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["int", "float", "str"]),
        "nargs": st.sampled_from(["'?'", "'*'", "'+'", "2", "3"]),
        "default": st.sampled_from(["None", "'text'", "7", "-1"]),
        "required": st.booleans().map(str),
    },
)


@given(st.dictionaries(names, keywords, min_size=1))
def test_options_are_read_as_argparse_defines_them(
    tmp_path_factory: pytest.TempPathFactory, added: dict[str, dict[str, str]]
):
    import argparse

    calls = "".join(
        f"parser.add_argument({', '.join([repr(name), *map('='.join, takes.items())])})\n"
        for name, takes in added.items()
    )
    parser = argparse.ArgumentParser(add_help=False)
    exec(calls, {"parser": parser})
    options = options_of(tmp_path_factory.mktemp("program"), train=HEAD + calls)
    assert options.keys() == {name for action in parser._actions for name in action.option_strings}
    for action in parser._actions:
        (name,) = action.option_strings
        takes = options[name]
        assert takes.get("values", 1) == (1 if action.nargs is None else action.nargs)
        assert takes.get("type") == getattr(action.type, "__name__", None)
        assert takes.get("default") == action.default
        assert takes.get("required", False) == action.required


def test_reading_imports_no_library_that_trains():
    """Reading a program's options does not import torch, transformers or deepspeed.

    Users plan runs on login nodes, which may lack these libraries.
    """
    code = (
        "import sys, orchestrator.frameworks.options.source; "
        "print([name for name in ('torch', 'transformers', 'deepspeed') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
