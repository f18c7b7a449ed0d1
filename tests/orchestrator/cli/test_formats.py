"""Every command that prints a table prints the same values in every output format."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from made_up_runs import Folder, by_layers

from orchestrator.cli.main import main
from orchestrator.cli.shared import formats

CAMPAIGN = "made-up.yaml"
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", CAMPAIGN),
    "status": ("status", CAMPAIGN),
    "report": ("report", CAMPAIGN),
    "report by node": ("report", CAMPAIGN, "--by-node"),
    "compare": ("compare", CAMPAIGN, "--by", "num_layers"),
    "noise": ("noise", CAMPAIGN),
    "history": ("history", CAMPAIGN, "num_layers=1 r1"),
    "parse": ("parse", "results"),
    "parse steps": ("parse", "results", "--steps"),
    "estimate params": ("estimate", "params", "--model", "xl"),
    "estimate params of a campaign": ("estimate", "params", CAMPAIGN),
    "estimate flops": ("estimate", "flops", "--model", "xl", "--global-batch-size", "8"),
    "estimate memory": ("estimate", "memory", "--model", "xl"),
    "estimate memory of a campaign": ("estimate", "memory", CAMPAIGN),
    "estimate time": ("estimate", "time", "--train-iters", "7", "--step-seconds", "2"),
    "models": ("models",),
    "models of one": ("models", "llama3-8b"),
    "check-tables": ("check-tables", "page.md"),
    "doctor": ("doctor", "--all"),
    "list": ("list",),
}
# nodes times GPUs/node contradicts GPUs; the text has special characters of every format.
PAGE = """\
| a_b & `c` | GPUs | nodes | GPUs/node |
|---|---|---|---|
| 50% \\| #1, "x" | 9 | 2 | 4 |
"""


def teralog(*arguments: str) -> Result:
    """Run a command and return its result; it must succeed."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code in (0, 1), result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a campaign that ran, and a published page."""
    path = tmp_path_factory.mktemp("formats")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        Folder(path).campaign("matrix: {num_layers: [1, 2, 9]}\nrepeats: 2\n", by_layers)
        (path / "page.md").write_text(PAGE)
        yield path


def records(printed: str) -> list[dict[str, Any]]:
    """Return the objects of a command's JSON, one per row."""
    value = json.loads(printed)
    if isinstance(value, dict):
        value = value.get("sources") or value.get("runs") or [value]
    return value


def agree(text: str, value: Any) -> bool:
    """Return whether the text of a CSV cell equals a value of the JSON output."""
    if value is None:
        return text == ""
    if isinstance(value, list | dict):
        return bool(json.loads(text) == value)
    if isinstance(value, float) and not isinstance(value, bool):
        return float(text) == value or (math.isnan(value) and text == "nan")
    return text == str(value)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("folder")
def test_csv_json_and_parquet_have_the_same_cells(command: tuple[str, ...]) -> None:
    """CSV, JSON and Parquet have the same rows and values.

    The option `--json` prints the same as `--format json`.
    """
    parquet = pytest.importorskip("pyarrow.parquet")
    printed = teralog(*command, "--format", "json").stdout
    assert teralog(*command, "--json").stdout == printed
    objects = records(printed)
    rows = list(csv.DictReader(io.StringIO(teralog(*command, "--format", "csv").stdout)))
    file = parquet.read_table(io.BytesIO(teralog(*command, "--format", "parquet").stdout_bytes))
    assert len(rows) == len(objects) == file.num_rows > 0
    shared = [name for name in rows[0] if name in objects[0]]
    assert len(shared) >= 3
    for row, value, stored in zip(rows, objects, file.to_pylist(), strict=True):
        assert list(row) == list(stored)
        assert [name for name in row if not agree(row[name], stored[name])] == []
        # The CSV of reports and logs is flat. A report has the outcome as its table shows it.
        own = command[0] in ("report", "parse")
        same = [name for name in shared if not (own and isinstance(value[name], list | dict))]
        if command == COMMANDS["report"]:
            same.remove("outcome")
        assert [name for name in same if not agree(row[name], value[name])] == []


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("folder")
def test_people_are_shown_the_same_rows_in_every_format(command: tuple[str, ...]) -> None:
    """A table has the same numbers of rows and columns in Markdown and LaTeX.

    Without `--format`, a command prints the format `text`.
    """
    assert teralog(*command, "--format", "text").stdout == teralog(*command).stdout
    markdown = teralog(*command, "--format", "markdown").stdout.splitlines()
    latex = teralog(*command, "--format", "latex").stdout.splitlines()
    header, rule, *rows = [line for line in markdown if line.startswith("|")]
    assert set(rule) <= set("|:- ")
    rows = [row for row in rows if row.strip("| ")]  # other formats separate groups
    lines = [line for line in latex if line.endswith(r" \\")]
    assert latex[0].startswith(r"\begin{tabular}{")
    assert len(lines) == len(rows) + 1
    columns = len(latex[0].removeprefix(r"\begin{tabular}{").removesuffix("}"))
    for row in (header, *rows):
        assert row.replace(r"\|", "").count("|") == columns + 1
    for line in lines:
        assert line.replace(r"\&", "").count("&") == columns - 1


def commands(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every command with `--format` or `--json`, as a tuple of the words that the user types.

    E.g. ("estimate", "memory") is one command.
    """
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*names, name))
            continue
        given = {option for parameter in command.params for option in parameter.opts}
        if given & {"--format", "--json"}:
            assert "--json" in given
            yield (*names, name)


def test_no_command_is_left_out() -> None:
    """A command with `--format` also has `--json`. This file tests every command with `--json`."""
    given = [" ".join(command) for command in (*COMMANDS.values(), *JSON_ONLY.values())]
    for words in commands(main):
        assert any(given_words.startswith(" ".join(words)) for given_words in given), words


# These print text, not tables.
JSON_ONLY: dict[str, tuple[str, ...]] = {
    "submit": ("submit", CAMPAIGN),
    "retry": ("retry", CAMPAIGN, "num_layers=1 r1", "--only", "oom"),
    "cancel": ("cancel", CAMPAIGN, "--all"),
    "collect": ("collect", CAMPAIGN),
    "salloc": ("salloc", "slurm.yaml"),
    "regenerate-tflops": ("regenerate-tflops", "page.md", "--check"),
}


@pytest.mark.parametrize("command", JSON_ONLY.values(), ids=JSON_ONLY)
def test_json_is_all_that_is_printed(folder: Path, command: tuple[str, ...]) -> None:
    """With `--json`, stdout has only JSON; messages for the user go to stderr."""
    (folder / "gpus.yaml").write_text("gpus_per_node: 4\n")
    text = (folder / CAMPAIGN).read_text()
    (folder / "slurm.yaml").write_text(f"cluster: gpus.yaml\n{text}".replace("made-up", "slurm"))
    value = json.loads(teralog(*command, "--json").stdout)
    match command[0]:
        case "submit":
            names = {"run_id", "label", "state", "outcome", "job_id"}
            assert [set(run) for run in value] == [names] * 6
            assert {run["state"] for run in value} == {"COMPLETED", "FAILED"}
        case "collect":
            assert [Path(file).name for file in value["files"]] == ["steps.csv", "runs.csv"]
            assert value["runs"] == 6
        case "salloc":
            assert value["command"][0] == "salloc"
        case _:
            assert value == []


@pytest.mark.usefixtures("folder")
def test_json_next_to_another_format_is_a_contradiction() -> None:
    """`--json` with another `--format` is refused, in either order."""
    for options in (("--json", "--format", "csv"), ("--format", "csv", "--json")):
        result = CliRunner().invoke(main, ["plan", CAMPAIGN, *options])
        assert result.exit_code == 2
        assert "--json means --format json; remove --json or --format csv" in result.stderr


@pytest.mark.usefixtures("folder")
def test_earlier_names_of_formats_are_understood() -> None:
    """`parse --format` accepts the earlier names `table` and `md`, because scripts use them."""
    for earlier, name in (("table", "text"), ("md", "markdown")):
        assert (
            teralog("parse", "results", "--format", earlier).stdout
            == teralog("parse", "results", "--format", name).stdout
        )


@pytest.mark.usefixtures("folder")
def test_parquet_needs_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow, `--format parquet` is refused, with the command that installs it.

    The check precedes all other work, even the search for the campaign file.
    """
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = teralog("report", "nosuch.yaml", "--format", "parquet")
    assert result.stderr == (
        "teralog: --format parquet: needs pyarrow; type: pip install 'teralog[parquet]'\n"
    )
    assert result.exit_code == 1


def test_parquet_is_not_written_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal cannot show Parquet, so the command refuses to write it there."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(formats.sys, "stdout", Terminal())
    with pytest.raises(formats.UserError, match=r"is not for a terminal; add `> table\.parquet`"):
        main.commands["plan"].make_context("plan", ["a.yaml", "--format", "parquet"])
