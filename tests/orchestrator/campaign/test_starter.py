"""The campaign file that `teralog init` writes."""

import json
import re
import shlex
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import load_campaign
from orchestrator.campaign.schema import campaign_schema
from orchestrator.campaign.starter import write_starter
from orchestrator.common.errors import UserError


def test_the_starter_file_is_a_valid_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The user can submit the file that `teralog init` writes without a change."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "mine.yaml"
    write_starter(path, force=False)
    campaign = load_campaign(path)
    assert [planned.label for planned in campaign.runs] == [
        "ddp",
        "zero1",
        "zero2",
        "zero3",
        "zero3 offload_optimizer=cpu offload_param=cpu",
    ]
    assert not [problem for planned in campaign.runs for problem in planned.problems]


def test_the_starter_explains_itself(tmp_path: Path):
    """In the file that `teralog init` writes, every key has a comment.

    Its comments contain commands for this file, e.g. `teralog plan mine.yaml`.
    """
    path = tmp_path / "mine.yaml"
    write_starter(path, force=False)
    text = path.read_text()
    for command in ("plan", "submit", "report"):
        assert f"teralog {command} {path}" in text
    for key in re.findall(r"^([a-z]+):", text, re.MULTILINE):
        before = text[: text.index(f"\n{key}:")].splitlines()[-1]
        line = re.search(rf"^{key}:.*$", text, re.MULTILINE)
        assert line
        assert "#" in line[0] or before.startswith("#")


def test_a_comment_that_is_taken_out_is_a_parameter(tmp_path: Path):
    """If the user removes the `#` before a starter file's parameter, runs have its value."""
    path = tmp_path / "mine.yaml"
    write_starter(path, force=False)
    path.write_text(path.read_text().replace("# num_microbatches", "num_microbatches"))
    assert {planned.run.num_microbatches for planned in load_campaign(path).runs} == {2}


@pytest.mark.parametrize("name", ["two words.yaml", "it's {mine}.yaml", "$(touch x).yaml"])
def test_the_commands_can_be_pasted_for_any_file_name(tmp_path: Path, name: str):
    """In the starter file's `teralog plan` command, a shell reads the file's path as one word."""
    path = tmp_path / name
    write_starter(path, force=False)
    line = next(line for line in path.read_text().splitlines() if "teralog plan" in line)
    assert shlex.split(line.removeprefix("#"))[:3] == ["teralog", "plan", str(path)]
    assert load_campaign(path).runs


def test_an_existing_file_is_not_overwritten(tmp_path: Path):
    """`teralog init` keeps an existing file unless the user asks to overwrite it."""
    path = tmp_path / "mine.yaml"
    path.write_text("name: precious\n")
    with pytest.raises(UserError, match="exists; give another name, or --force"):
        write_starter(path, force=False)
    assert path.read_text() == "name: precious\n"
    write_starter(path, force=True)
    assert "name: my-campaign" in path.read_text()


def test_a_missing_folder_is_a_users_mistake(tmp_path: Path):
    """A missing folder gives a message, and no file is written."""
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        write_starter(tmp_path / "missing" / "mine.yaml", force=False)
    assert not (tmp_path / "missing").exists()


def test_the_starter_names_the_schema_for_editors(tmp_path: Path):
    """The file's first line tells editors which file has the JSON schema of campaign files.

    `teralog init` writes that file too.
    """
    write_starter(tmp_path / "mine.yaml", force=False)
    first = (tmp_path / "mine.yaml").read_text().splitlines()[0]
    name = first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads((tmp_path / name).read_text()) == campaign_schema()
