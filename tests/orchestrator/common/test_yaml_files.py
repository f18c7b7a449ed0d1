"""Read YAML values as users expect them, and report invalid YAML in a sentence."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.common.errors import UserError
from orchestrator.common.yaml_files import read_yaml


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all files of a test session, because Hypothesis tries many texts."""
    return tmp_path_factory.mktemp("yaml")


def read(folder: Path, text: str) -> dict[str, Any]:
    """Return what teralog reads from a file with this text."""
    path = folder / "some.yaml"
    path.write_text(text, encoding="utf-8", newline="")
    return read_yaml(path, "a campaign file")


# Values by the core schema of YAML 1.2; each comment has the value by YAML 1.1.
SCALARS: dict[str, Any] = {
    "6:00:00": "6:00:00",  # 21600
    "1-00:00:00": "1-00:00:00",
    "on": "on",  # true
    "off": "off",  # false
    "yes": "yes",  # true
    "no": "no",  # false, Norway's too
    "y": "y",
    "true": True,
    "False": False,
    "1e-4": 1e-4,  # text
    "1E9": 1e9,  # text
    "1.5e-4": 1.5e-4,
    ".5": 0.5,
    "5.": 5.0,
    "0123": 123,  # 83
    "08": 8,  # text
    "0o17": 15,  # text
    "0x1F": 31,
    "0b11": "0b11",  # 3
    "-7": -7,
    "+7": 7,
    "1_000": "1_000",  # 1000
    "2021-03-04": "2021-03-04",  # a date
    "1.2.3": "1.2.3",
    "~": None,
    "null": None,
    "": None,
    "'8'": "8",
    '"6:00"': "6:00",
    "xl": "xl",
    "7.5B": "7.5B",
    "=": "=",
    "!!str 5": "5",
    "!!float 5": 5.0,
    "9223372036854775807": 2**63 - 1,
}


@pytest.mark.parametrize("text", SCALARS)
def test_a_plain_value_is_what_it_looks_like(folder: Path, text: str):
    """6:00:00 stays text, 1e-4 is a number, and 0123 is the number 123, not octal."""
    value = read(folder, f"key: {text}\n")["key"]
    assert value == SCALARS[text]
    assert type(value) is type(SCALARS[text])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "arguments: [--steps, 30, --lr, 1e-5, 0x1F, 1.50]",
            ["--steps", "30", "--lr", "1e-5", "0x1F", "1.50"],
        ),
        ("arguments:\n- [--steps, 30]\n- [--steps, 40]", [["--steps", "30"], ["--steps", "40"]]),
        ("arguments: [99999999999999999999]", ["99999999999999999999"]),
        ("arguments: [true, null, '30']", [True, None, "30"]),
        ("arguments: 30", 30),
        ("common: &a {arguments: [30]}\n<<: *a", ["30"]),
    ],
)
def test_a_number_among_arguments_stays_as_it_is_written(
    folder: Path, text: str, arguments: object
):
    """A number among the arguments of a program becomes text, exactly as the file spells it.

    The values true and null stay as they are; a later check refuses them.
    """
    path = folder / "some.yaml"
    path.write_text(f"{text}\nother: [30]\n")
    data = read_yaml(path, "a campaign file", arguments=frozenset({"arguments"}))
    assert data["arguments"] == arguments
    assert data["other"] == [30]


def test_numbers_that_occur_once_are_numbers_elsewhere(folder: Path):
    """If a YAML alias repeats numbers, they become text only as the arguments of a program.

    As the values of other keys, the same numbers stay numbers.
    """
    path = folder / "some.yaml"
    path.write_text("seed: &n [1, 2]\narguments: *n\nagain: *n\n")
    data = read_yaml(path, "a campaign file", arguments=frozenset({"arguments"}))
    assert data == {"seed": [1, 2], "arguments": ["1", "2"], "again": [1, 2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [("[.inf]", "'.inf' is not a finite number"), ("&a [*a]", "found unconstructable recursive")],
)
def test_an_invalid_argument_is_refused(folder: Path, text: str, message: str):
    """An invalid argument is refused like an invalid value of any other key."""
    path = folder / "some.yaml"
    path.write_text(f"arguments: {text}\n")
    with pytest.raises(UserError, match=re.escape(message)):
        read_yaml(path, "a campaign file", arguments=frozenset({"arguments"}))


def test_what_occurs_once_can_be_used_twice(folder: Path):
    """YAML's anchors, aliases and merge keys (`<<`) work.

    A key of the mapping itself overrides a merged key.
    """
    text = "a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: [*a, *a]\n"
    mapping = {"x": 1, "y": 2}
    assert read(folder, text) == {
        "a": mapping,
        "b": mapping,
        "c": {"x": 1, "y": 3},
        "d": [mapping, mapping],
    }


REFUSED = {
    "no mapping": ("- a\n- b\n", ": a campaign file must be a mapping"),
    "empty": ("", ": is empty; a campaign file must be a mapping"),
    "only a comment": ("# nothing\n", ": is empty; a campaign file must be a mapping"),
    "one word": ("zero", ": a campaign file must be a mapping"),
    "two documents": ("a: 1\n---\nb: 2\n", ", line 2: but found another document"),
    "a tab": ("a:\n\tb: 1\n", ", line 2: found "),
    "an open bracket": ("a: [1, 2\nb: 3\n", ", line 2: "),
    "an open quote": ("a: 'b\n", ", line 2: "),
    "a key twice": ("a: 1\nb: 2\na: 3\n", ", line 3: the key 'a' occurs twice"),
    "a key twice, deep inside": ("a:\n- b: {c: 1, c: 2}\n", ", line 2: the key 'c' occurs twice"),
    "a number for a key": ("a: 1\n2: b\n", ", line 2: the key '2' is not text; put it in quotes"),
    "true for a key": ("true: 1\n", ", line 1: the key 'true' is not text; put it in quotes"),
    "nothing for a key": ("a: {~: 1}\n", ", line 1: the key '~' is not text; put it in quotes"),
    "a list for a key": ("a: 1\n? [b, c]\n: d\n", ", line 2: a key is not text"),
    "a mapping for a key": ("{a: 1}: 2\n", ", line 1: a key is not text"),
    "an unknown alias": ("a: *b\n", ", line 1: found undefined alias"),
    "a mapping within itself": ("a: &a {b: *a}\n", ", line 1: "),
    "a list within itself": ("a: 1\nb: &b [*b]\n", ", line 2: "),
    "a merge with no mapping": ("a: {<<: 1}\n", ", line 1: "),
    "Python's own tags": ("a: !!python/object/apply:os.getcwd []\n", ", line 1: "),
    "a tag": ("a: !mine 1\n", ", line 1: "),
    "a set": ("a: !!set {b, c}\n", ", line 1: "),
    "a date": ("a: !!timestamp 2020-01-01\n", ", line 1: "),
    "bytes": ("a: !!binary aGk=\n", ", line 1: "),
    "a truth that is none": ("a: !!bool maybe\n", ", line 1: 'maybe' is not a valid bool"),
    "a number that is none": ("a: 1\nb: !!int four\n", ", line 2: 'four' is not a valid int"),
    "a list for a number": ("a: !!int [1]\n", ", line 1: expected a scalar node"),
    "a list for a mapping": ("a: !!map [b, c]\n", ", line 1: expected a mapping node"),
    "a text for a list": ("a: !!seq b\n", ", line 1: expected a sequence node"),
    "infinity": ("a: 1\nb: .inf\n", ", line 2: '.inf' is not a finite number"),
    "minus infinity": ("a: [-.inf]\n", ", line 1: '-.inf' is not a finite number"),
    "no number": ("a: .nan\n", ", line 1: '.nan' is not a finite number"),
    "beyond what a float holds": ("a: 1e999\n", ", line 1: '1e999' is not a finite number"),
    "too many digits": ("a: 9223372036854775808\n", ", line 1: '9223372036854775808' is too large"),
    "far too many digits": (f"a: -{'9' * 5000}\n", ", line 1: '-9999"),
    "too many hexadecimal digits": (f"a: 0x{'f' * 5000}\n", ", line 1: '0xffff"),
    "a zero byte": ("a: b\0\n", ": unacceptable character #x0000"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_yaml_that_is_not_plain_data_is_refused_with_its_line(folder: Path, text: str, says: str):
    """Invalid YAML, and YAML that is not plain data, is refused with one sentence.

    The sentence names the file, and the line if there is one.
    """
    with pytest.raises(UserError) as caught:
        read(folder, text)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{folder / 'some.yaml'}{says}")
    assert "\n" not in problem


def test_control_characters_are_refused_with_their_key(folder: Path):
    """Control characters and line breaks in values and keys are all reported at once."""
    text = (
        'a: "b\\e[31mc"\nb: |\n  c\n  d\nc:\n- d: ["e", "\\x7f"]\n  "f\\tg": 1\n'
        '"h\\0": {i: j}\nk: ["\\u202e"]\n'
    )
    with pytest.raises(UserError) as caught:
        read(folder, text)
    problems = [
        problem.removeprefix(f"{folder / 'some.yaml'}: ") for problem in caught.value.problems
    ]
    assert problems == [
        f"{where} contains a control character or a line break"
        for where in (
            "a: 'b\\x1b[31mc'",
            "b: 'c\\nd\\n'",
            "c[0].d: '\\x7f'",
            "c[0]: the key 'f\\tg'",
            "the key 'h\\x00'",
            "k: '\\u202e'",
        )
    ]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    """The message about an unreadable file says what kind of file is needed, e.g. a profile."""
    with pytest.raises(UserError, match="No such file or directory; give the path of a profile"):
        read_yaml(tmp_path / "missing.yaml", "a profile")
    with pytest.raises(UserError, match="Is a directory; give the path of a profile"):
        read_yaml(tmp_path, "a profile")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4\n")
    with pytest.raises(UserError, match=r"latin\.yaml: not UTF-8 text"):
        read_yaml(tmp_path / "latin.yaml", "a profile")


plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=8).filter(
        str.isprintable
    )
)
keys = st.text("abc01.:-# '\"[]{}&*!|>%@`", min_size=1, max_size=4)
trees = st.dictionaries(
    keys,
    st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(trees)
def test_json_is_read_back_unchanged(folder: Path, tree: dict[str, Any]):
    """JSON is valid YAML, and every number, text and nesting is read back unchanged."""
    assert read(folder, json.dumps(tree, ensure_ascii=False)) == tree


@given(trees)
def test_output_of_pyyaml_is_read_back_unchanged(folder: Path, tree: dict[str, Any]):
    """Data that PyYAML writes is read back unchanged.

    PyYAML follows YAML 1.1, and teralog follows YAML 1.2. Some texts without quotes, e.g. `on`,
    have different meanings in the two versions. So the test lets PyYAML quote all texts.
    """
    text = yaml.safe_dump(tree, allow_unicode=True, default_style='"')
    assert read(folder, text) == tree


MARKS = (
    "a b 1 0x .nan 1e9 ~ true : ? - , [ ] { } & * &a *a ! !! !!int !!set !!map << | > ' \" # % --- "
    "... \t \x1b é"
)
BLANKS = (" ", "\n", "\n  ", ": ")
scraps = st.lists(st.sampled_from([*MARKS.split(" "), *BLANKS]), max_size=25).map("".join)


def is_plain(value: Any) -> bool:
    """Return whether a value can be written as JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int) or math.isfinite(value)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | scraps)
def test_any_text_is_plain_data_or_a_users_mistake(folder: Path, text: str):
    """Any text of a file gives either plain data that JSON can hold or a message."""
    try:
        data = read(folder, text)
    except UserError:
        return
    assert is_plain(data)


def test_brackets_nested_absurdly_deep_are_refused(tmp_path: Path) -> None:
    """Deeply nested brackets are refused, because libyaml's parser would crash on them."""
    path = tmp_path / "deep.yaml"
    path.write_text("name: " + "[" * 100_000)
    with pytest.raises(UserError, match="nested more than 200 levels deep"):
        read_yaml(path, "a campaign file")
