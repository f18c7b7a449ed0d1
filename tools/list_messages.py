"""List every sentence that a user of teralog can see, with its file and line.

    python tools/list_messages.py                 list all sentences
    python tools/list_messages.py orchestrator    list those of the files under a path

The list contains the help of commands and options. From the packages it contains every text of two
or more words: errors, warnings, descriptions of keys, titles and legends of tables, lines that job
scripts print, and the texts of the HTML page. Placeholders are shown: `{path}: no such file`.
Docstrings, comments and most regular expressions are left out.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import click

from orchestrator.cli.main import main as command_line

ROOT = Path(__file__).parent.parent
PACKAGES = ("orchestrator", "parsers", "slurm_templates", "teralog")

_WORD = re.compile(r"[A-Za-z]{3}")
# Two words next to each other; a key, a path or an option has no blank.
_SENTENCE = re.compile(r"[A-Za-z}\)\d,;:.'\"]\s+[\w{('\"]*[a-z]{2}")
_SHELL_TEXT = re.compile(r"(?:echo|printf)\s+(?:-\w+\s+)*(?P<quote>[\"'])(?P<text>.*?)(?P=quote)")
_SCRIPT_TEXT = re.compile(r"(?P<quote>[\"`])(?P<text>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)")
# Signs that a string is a regular expression. Formats of logs contain many such strings.
_PATTERN = re.compile(r"\(\?|\\[bdsSw.|(\[{+*]|\[0-9|\[\^")
# Texts of other programs' logs and of other people's tables, except for the names of formats.
_OF_OTHERS = (
    "parsers/formats/",
    "parsers/runs/launches.py",
    "parsers/runs/outcome_signs.py",
    "parsers/runs/tracebacks.py",
    "orchestrator/markdown/meaning/columns.py",
)
# A text that begins with a comma or a lower-case verb continues another text.
_GOES_ON = re.compile(
    r"[,;:.)]|(?:also|and|are|because|but|by|can(?:not)?|contains?|does|ends?|for|has|have|in|is"
    r"|leaves|lists|must|needs?|of|on|or|so|than|that|to|was|were|which|with|without)\b"
)
_UNFINISHED = re.compile(
    r"(?:[^\s.;!?]\s+|\(|\b(?:and|are|by|has|have|is|of|or|the|to|was|were|with))$"
)
# A literal of so many lines is a file that teralog writes.
_LINES_OF_A_FILE = 4


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """A text that a user can see.

    line: the line of the file in which the text begins, the first being 1; 0 for help texts.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = " ".join(self.text.split())
        before = "… " if _GOES_ON.match(text) else ""
        after = " …" if _UNFINISHED.search(self.text.rstrip("\n")) else ""
        return f"{place}: {before}{text}{after}"


def messages() -> Iterator[Message]:
    """Yield every message: first the help of the commands, then file by file.

    An option that several commands share is listed once, with the first command.
    """
    helps: dict[str, Message] = {}
    for message in help_messages(command_line, "teralog"):
        helps.setdefault(message.text, message)
    yield from helps.values()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            read = _READERS.get(path.suffix)
            if read is not None:
                name = path.relative_to(ROOT).as_posix()
                read = log_format_names if name.startswith(_OF_OTHERS) else read
                for line, text in read(path.read_text(encoding="utf-8")):
                    if text not in helps:
                        yield Message(name, line, text)


def help_messages(command: click.Command, name: str) -> Iterator[Message]:
    """Yield the help texts of a command, of its options and of its subcommands."""
    yield Message(name, 0, command.help or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            yield Message(f"{name} {parameter.opts[0]}", 0, parameter.help)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from help_messages(below, f"{name} {below.name}")


def python_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield each string literal of Python source that is a sentence: its line and its text."""
    tree = ast.parse(source)
    left_out = {id(node) for node in (*_docstrings(tree), *_types(tree), *_forms(tree))}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in left_out or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        text = _text(node)
        if text is None:
            continue
        if text.count("\n") >= _LINES_OF_A_FILE:
            yield from _comments(node.lineno, text)
        elif (
            _WORD.search(_own_words(node)) and _SENTENCE.search(text) and not _PATTERN.search(text)
        ):
            yield node.lineno, text


def log_format_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the names of the log formats in Python source: the line and the text of each."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.keyword(arg="name", value=ast.Constant(value=str(text)) as value):
                if _SENTENCE.search(text):
                    yield value.lineno, text


def template_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the messages that a job script prints: the line and the text of each."""
    for number, line in enumerate(source.splitlines(), 1):
        for match in _SHELL_TEXT.finditer(line):
            if _SENTENCE.search(match["text"]):
                yield number, match["text"]


def script_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield each string literal of JavaScript that is a sentence: its line and its text."""
    for number, line in enumerate(source.splitlines(), 1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            for match in _SCRIPT_TEXT.finditer(line):
                if _SENTENCE.search(match["text"]):
                    yield number, match["text"]


def page_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of an HTML page and of its scripts: the line and the text of each."""
    reader = _PageReader()
    reader.feed(source)
    yield from reader.texts


class _PageReader(HTMLParser):
    """A reader of an HTML page that collects its text nodes, labels and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[int, str]] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style"}:
            self._inside.append(tag)
        for name, value in attrs:
            if name in {"aria-label", "placeholder", "title"} and value:
                self.texts.append((self.getpos()[0], value))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        line = self.getpos()[0]
        if not self._inside:
            if data.strip():
                self.texts.append((line, data.strip()))
        elif self._inside[-1] == "script":
            self.texts.extend((line + at - 1, text) for at, text in script_messages(data))


_READERS = {
    ".py": python_messages,
    ".j2": template_messages,
    ".js": script_messages,
    ".html": page_messages,
}


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _types(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of type annotations; strings within them are not messages."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=kind) | ast.FunctionDef(returns=kind) if kind is not None:
                yield kind


def _comments(first: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments in a string literal that is a whole file: a script or a campaign file.

    Each comment is yielded with its line in the source.
    first: the line of the source in which the literal begins.
    """
    for number, line in enumerate(text.splitlines(), first):
        _, mark, comment = line.partition("# ")
        if mark and _SENTENCE.search(comment):
            yield number, comment


def _forms(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of words that follow a number, in singular and plural.

    For example, `counted(number, "run is", "runs are")` contains two such nodes.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="counted"), args=[_, *words]):
                yield from words


def _text(node: ast.Constant | ast.JoinedStr) -> str | None:
    """Return the text of a string literal; None for a literal that is not a string.

    In an f-string, each value is shown as a placeholder, e.g. `{path}`.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    return "".join(_placeholder(part) for part in node.values)


def _own_words(node: ast.Constant | ast.JoinedStr) -> str:
    """Return the text of a string literal without its placeholders."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))


def _placeholder(part: ast.expr) -> str:
    if not isinstance(part, ast.FormattedValue):
        return str(part.value) if isinstance(part, ast.Constant) else ""
    conversion = f"!{chr(part.conversion)}" if part.conversion >= 0 else ""
    spec = f":{_text(part.format_spec)}" if isinstance(part.format_spec, ast.JoinedStr) else ""
    return f"{{{ast.unparse(part.value)}{conversion}{spec}}}"


def main() -> None:
    """Print all messages, or only those of files under the paths on the command line."""
    prefixes = tuple(path.rstrip("/") for path in sys.argv[1:])
    for message in messages():
        if not prefixes or message.file.startswith(prefixes):
            print(message)


if __name__ == "__main__":
    main()
