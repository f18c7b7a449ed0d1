"""An empty file gets one sentence from every command that reads such a file."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main

COMMANDS: dict[str, tuple[str, str, int, str]] = {
    "plan": ("plan {}", "", 1, "{}: is empty; a campaign file must be a mapping"),
    "plan of a comment": ("plan {}", "# to do\n", 1, "{}: is empty; a campaign file"),
    "submit": ("submit {}", "", 1, "{}: is empty; a campaign file must be a mapping"),
    "estimate": ("estimate params {}", "", 1, "{}: is empty; a campaign file must be a mapping"),
    "check-tables": ("check-tables {}", "", 0, "{}: has no table"),
    "check-tables of text": ("check-tables {}", "# Text\n", 0, "{}: has no table"),
    "regenerate-tflops": ("regenerate-tflops {}", "", 0, "{}: has no table"),
    "regenerate-tflops of text": ("regenerate-tflops {}", "a | b\n", 0, "{}: has no table"),
    "parse": ("parse {}", "", 1, "{}: is empty"),
}


@pytest.mark.parametrize(("command", "text", "code", "sentence"), COMMANDS.values(), ids=COMMANDS)
def test_empty_input_is_reported(
    tmp_path: Path, command: str, text: str, code: int, sentence: str
) -> None:
    """The sentence about an empty file appears once, on stderr."""
    path = tmp_path / "empty.md"
    path.write_text(text)
    done = CliRunner().invoke(main, command.format(path).split())
    assert done.exit_code == code
    assert done.stderr.count(sentence.format(path)) == 1
